//! The sentences about a run in which no line is worth a word: why it is not.

use hitm_base::{counted, grouped};

use crate::Report;
use crate::sentences::summary as say;

/// A run of fewer cycles than these, of all threads together, is mostly their start and end. Assumed: a thread of
/// glibc takes some 100,000 for both.
const SHORT_CYCLES: u64 = 1_000_000;

pub(super) fn reason(report: &Report) -> String {
    let totals = &report.totals;
    let contended = totals.counts.contended_count();
    let thread_count = report.threads.len() as u64;
    let hand_overs = counted(contended, "hand-over");
    if report
        .watched
        .as_ref()
        .is_some_and(|seen| seen.is_by_samples)
    {
        say::no_candidate()
    } else if let Some(seen) = &report.watched {
        say::nobody_else(grouped(seen.watched_count))
    } else if report.has_no_address() {
        say::not_known()
    } else if report.is_sampled() {
        say::no_fights()
    } else if thread_count < 2 {
        say::single_threaded()
    } else if !report.findings.is_empty() {
        say::only_runtimes()
    } else if contended == 0 {
        say::nothing_shared(report.who().counted(thread_count))
    } else if totals.thread_cycles < SHORT_CYCLES {
        say::too_short(grouped(totals.thread_cycles), hand_overs)
    } else {
        say::few_fights(hand_overs, report.who().counted(thread_count))
    }
}

pub(super) fn advice(report: &Report) -> String {
    match report.has_no_address() {
        true => say::record_addresses(),
        false => say::no_advice(),
    }
}
