//! `hitm report`: what the first finding's remedy gains, and what the run would lose on this host, by replays where
//! they take a moment.

use std::path::Path;

use anyhow::Result;
use hitm_advise::{Inputs, access_count, advise_recorded, pad_values};
use hitm_base::Machine;
use hitm_machine::{HOST, resolve};
use hitm_recording::{Recording, holds};
use hitm_report::pictures::Structure;
use hitm_report::summary::{self, SummaryLine, Tried, gain};
use hitm_report::{Finding, FindingKind, Report};
use hitm_weave::Placement;
use hitm_whatif::{Change, Took, WhatifConfig, trial};

use crate::progress::Bar;

/// Accesses of a recording that is replayed for its first screen: a fraction of a second of one core.
const REPLAYED_MAX: u64 = 5_000_000;

/// Gain of the remedy of a report's first finding; none where there is no finding, or no time to gain.
pub(super) fn of(
    report: &Report,
    structures: &[Structure],
    input: &Path,
    recording: Recording,
) -> Option<SummaryLine> {
    let finding = report.first_finding()?;
    if report.is_sampled() || report.totals.thread_cycles == 0 {
        return None;
    }
    let is_small = is_small(report, &recording);
    let structure = structures.iter().find(|one| one.is_of(report, finding));
    let tried = match (is_small, structure) {
        (false, _) => None,
        (true, Some(structure)) => layouts(finding, &structure.inputs, input, recording).ok().flatten(),
        (true, None) if finding.kind.is_curable_by_layout() => padded(report, finding, input, &recording),
        // Threads that wait for one another do so wherever they are.
        (true, None) if matches!(finding.kind, FindingKind::Waited(_)) => None,
        (true, None) => near(finding, input, &recording),
    };
    Some(tried.unwrap_or_else(|| gain(finding, &Tried::Nothing)))
}

/// True if a replay takes a moment.
fn is_small(report: &Report, recording: &Recording) -> bool {
    report.run.complete && access_count(recording) <= REPLAYED_MAX
}

/// Loss of the run on this host; none where nothing is lost on its own machine, that is this host, or CPUs are what
/// was recorded.
pub(super) fn here(report: &Report, input: &Path, recording: &Recording) -> Option<SummaryLine> {
    report.first_finding()?;
    let is_of_programs = !report.is_sampled() && report.of_machine.is_none();
    if !is_of_programs || report.run.machine == HOST || !is_small(report, recording) {
        return None;
    }
    let (machine, _) = resolve(HOST).ok()?;
    let cpu_count = machine.topology.cpu_count();
    let took = replayed(input, recording, Some(machine), Placement::Spread)?.after;
    Some(summary::here(report, took, cpu_count))
}

/// Time that the first finding's lock is held; none where it is no lock, or one of several.
pub(super) fn held(report: &Report, input: &Path, recording: &Recording) -> Option<SummaryLine> {
    let finding = report.first_finding()?;
    let [line] = finding.lines.as_slice() else {
        return None;
    };
    let mut lines = report.lines.iter();
    let plan = lines.find(|one| one.line == *line)?.lock.as_ref()?;
    if report.is_sampled() || !is_small(report, recording) {
        return None;
    }
    let bar = Bar::start("reading again");
    let holds = holds(input, plan, &mut |read, all| bar.set(read, all)).ok()?;
    bar.finish();
    summary::held(&holds)
}

/// Replays other layouts of a structure.
fn layouts(
    finding: &Finding,
    inputs: &Inputs,
    input: &Path,
    recording: Recording,
) -> Result<Option<SummaryLine>> {
    let bar = Bar::start("advising");
    let progress = &mut |read, all| bar.set(read, all);
    let advised = advise_recorded(input, recording, vec![inputs.clone()], progress)?;
    bar.finish();
    let advised = advised.into_iter().next().transpose()?;
    Ok(advised.map(|advice| gain(finding, &Tried::Layouts(&advice))))
}

/// Replays with an array's plain values padded; none for other objects, and after an error.
fn padded(
    report: &Report,
    finding: &Finding,
    input: &Path,
    recording: &Recording,
) -> Option<SummaryLine> {
    let variable = finding.identity.as_deref()?;
    let element = format!("{variable}[");
    let lines = report.lines.iter();
    let own = lines.filter(|line| finding.lines.contains(&line.line));
    let rows = own.flat_map(|line| &line.rows);
    let values = rows.filter(|row| row.member.starts_with(&element) && row.member.ends_with(']'));
    let size_bytes = values.map(|row| row.size_bytes).max()?;
    let bar = Bar::start("replaying");
    let progress = &mut |read, all| bar.set(read, all);
    let change = pad_values(input, recording, variable, size_bytes, progress).ok()?;
    bar.finish();
    Some(gain(finding, &Tried::Padded(change)))
}

/// Replays with the threads on CPUs that are near to each other; none after an error.
fn near(finding: &Finding, input: &Path, recording: &Recording) -> Option<SummaryLine> {
    let change = replayed(input, recording, None, Placement::Compact)?;
    Some(gain(finding, &Tried::Near(change)))
}

/// Replays with the threads placed anew, on another machine where one is named; none after an error.
fn replayed(
    input: &Path,
    recording: &Recording,
    machine: Option<Machine>,
    placement: Placement,
) -> Option<Change<Took>> {
    let config = WhatifConfig {
        input: input.to_owned(),
        layouts: Vec::new(),
        instances: Vec::new(),
        machine,
        placement: Some(placement),
    };
    let bar = Bar::start("replaying");
    let change = trial(recording, &config, &[], &mut |read, all| bar.set(read, all)).ok()?;
    bar.finish();
    Some(change)
}
