//! The sentences about a run in which no line is worth a word: why it is not.

use hitm_base::{counted, grouped};

use crate::Report;

/// A run of fewer cycles than these, of all threads together, is mostly their start and end. Assumed: a thread of
/// glibc takes some 100,000 for both.
const SHORT_CYCLES: u64 = 1_000_000;

pub(super) fn reason(report: &Report) -> String {
    let totals = &report.totals;
    let contended = totals.counts.contended_count();
    if report.has_no_address() {
        return "No sample has a data address: what was used where is not known.".to_owned();
    }
    if report.run.sampled.is_some() {
        return "No line has fights worth a verdict.".to_owned();
    }
    let thread_count = report.threads.len() as u64;
    if thread_count < 2 {
        return "Single-threaded: there is nobody to share a line with.".to_owned();
    }
    if !report.flagged.is_empty() {
        return "Only the C library or a language's runtime contends, for something of its own."
            .to_owned();
    }
    if contended == 0 {
        let threads = grouped(thread_count);
        return format!(
            "Nothing is shared: none of {threads} threads took a line from another one."
        );
    }
    let handovers = counted(contended, "hand-over");
    if totals.thread_cycles < SHORT_CYCLES {
        let cycles = grouped(totals.thread_cycles);
        return format!(
            "Too short to tell: all threads together ran for {cycles} cycles, most of them to start and to end; \
             {handovers} of lines."
        );
    }
    format!("No line has fights worth a verdict: {handovers} between {thread_count} threads.")
}

pub(super) fn advice(report: &Report) -> &'static str {
    match report.has_no_address() {
        true => "Record with addresses: `perf c2c record`, `perf mem record`, or `hitm record`.",
        false => "Nothing about cache lines.",
    }
}
