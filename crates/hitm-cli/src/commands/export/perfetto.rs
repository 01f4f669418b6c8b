//! `hitm export --perfetto`, and what `--perfetto` of any command says about its trace.

use std::path::Path;

use anyhow::{Result, bail};
use hitm::timeline::{self, LeftOut, Summary};
use hitm_recording::perf_data;

use crate::Terminal;
use crate::progress::Bar;

/// Writes the course of a recording.
pub(super) fn write(input: &Path, output: &Path, terminal: &mut Terminal) -> Result<()> {
    if perf_data::sample_format(input).is_some() {
        bail!(
            "{}: found samples, expected a recording: --perfetto shows every access in its order",
            input.display()
        );
    }
    let bar = Bar::start("exporting");
    let export = timeline::export(input, output, &mut |read, all| bar.set(read, all))?;
    bar.finish();
    note_trace(&export.summary, output, terminal);
    if export.without_thread > 0 {
        terminal.note(&format!(
            "{} accesses of threads without a start are not in it",
            export.without_thread
        ));
    }
    if export.without_wait > 0 {
        terminal.note(&format!(
            "{} waits of threads for the system are not in it: too many were under way at once",
            export.without_wait
        ));
    }
    for note in &export.notes {
        terminal.note(note);
    }
    Ok(())
}

/// Says what a trace holds, and what was left out of it.
pub(in crate::commands) fn note_trace(summary: &Summary, output: &Path, terminal: &mut Terminal) {
    terminal.note(&format!(
        "{} slices, {} instants, {} arrows and {} samples of counters, {} bytes, are in {}",
        summary.slices,
        summary.instants,
        summary.line_arrows + summary.lock_arrows,
        summary.counter_samples,
        summary.bytes,
        output.display()
    ));
    note_left_out(&summary.stalls, "stalls on contended lines", terminal);
    note_left_out(&summary.runs, "runs of threads", terminal);
    note_left_out(&summary.uses, "uses of locks", terminal);
    note_left_out(&summary.waits, "waits for locks", terminal);
    let counts = [
        (
            summary.hidden,
            "contended accesses held nobody up and are no slices",
        ),
        (
            summary.unknown_givers,
            "stalls have no arrow: nobody is known to have had the line before",
        ),
        (
            summary.forgotten,
            "accesses are to lines beyond those whose users are kept: hand-overs of these have no arrow",
        ),
        (
            summary.line_arrows_missing,
            "hand-overs of lines have no arrow: the giver's access does not end before the taker's",
        ),
        (
            summary.lock_arrows_missing,
            "hand-overs of locks have no arrow: the holder before is not shown",
        ),
        (
            summary.cut,
            "runs and waits overlap others of their thread and are cut",
        ),
    ];
    for (count, text) in counts {
        if count > 0 {
            terminal.note(&format!("{count} {text}"));
        }
    }
}

fn note_left_out(left_out: &LeftOut, name: &str, terminal: &mut Terminal) {
    if left_out.count > 0 {
        terminal.note(&format!(
            "{} of {} {name} are not in it, {} cycles together: none is longer than {} cycles",
            left_out.count,
            left_out.count + left_out.shown,
            left_out.cycles.0,
            left_out.longest.0
        ));
    }
}
