//! The report of a recording: what the facade read, in the report's own terms.

use std::collections::BTreeMap;

use hitm_base::{CodeAddr, Cycles, ThreadId};
use hitm_coherence::stats::LineStats;
use hitm_recording::{
    AddressNames, CodeLabel, DataLabel, KnownAs, Recording, SyncObject, TypePlace,
};
use hitm_trace::{EndReason, PARKED_CYCLES};

use crate::{
    MachineSummary, Names, ProcessSummary, Report, ReportOptions, RunFacts, SampledEvent,
    SampledFacts, Selection, ThreadFacts, ThreadSummary, TypeReport,
};

impl Names for AddressNames<'_> {
    fn data(&self, addr: u64, size: u8) -> Option<DataLabel> {
        let label = AddressNames::data(self, addr, size)?;
        Some(DataLabel {
            object_addr: self.shown(label.object_addr),
            ..label
        })
    }

    fn kind(&self, addr: u64) -> Option<String> {
        let of_many = AddressNames::kind(self, addr);
        of_many.or_else(|| Names::data(self, addr, 1).map(|name| name.kind()))
    }

    fn code(&self, code: CodeAddr) -> CodeLabel {
        AddressNames::code(self, code)
    }

    fn code_frames(&self, code: CodeAddr) -> Vec<CodeLabel> {
        AddressNames::code_frames(self, code)
    }

    fn thread(&self, thread: ThreadId) -> String {
        AddressNames::thread(self, thread)
    }

    fn sync_object(&self, addr: u64, size: u8) -> Option<SyncObject> {
        AddressNames::sync_object(self, addr, size)
    }

    fn is_of_runtime(&self, addr: u64, code: CodeAddr) -> bool {
        AddressNames::is_of_runtime(self, addr, code)
    }

    fn is_of_library(&self, code: CodeAddr) -> bool {
        AddressNames::is_of_library(self, code)
    }

    fn has_type(&self, addr: u64, size: u8) -> bool {
        AddressNames::has_type(self, addr, size)
    }

    fn shown(&self, addr: u64) -> u64 {
        AddressNames::shown(self, addr)
    }

    fn known_as(&self, addr: u64) -> Option<KnownAs> {
        AddressNames::known_as(self, addr)
    }

    fn place_in_type(&self, addr: u64, size: u8, type_name: &str) -> Option<TypePlace> {
        AddressNames::place_in_type(self, addr, size, type_name)
    }

    fn type_of(&self, addr: u64, size: u8) -> Option<String> {
        let name = AddressNames::type_of(self, addr, size)?;
        Some(unqualified(&name).to_owned())
    }

    fn process(&self, _: ThreadId, code: CodeAddr) -> Option<String> {
        AddressNames::process(self, code)
    }

    fn member_of_type(&self, type_name: &str, place: TypePlace, size: u8) -> Option<String> {
        AddressNames::member_of_type(self, type_name, place, size)
    }
}

/// A type's name without the qualifiers before it: objects of one type are one row.
fn unqualified(mut name: &str) -> &str {
    while let Some(rest) = ["const ", "volatile ", "struct "]
        .iter()
        .find_map(|word| name.strip_prefix(word))
    {
        name = rest;
    }
    name
}

impl Report {
    /// Builds the report of a recording.
    pub fn of_recording(recording: &Recording, options: &ReportOptions) -> Report {
        Report::of_selection(recording, options, &Selection::default())
    }

    /// Builds the report of a part of a recording, with totals by name.
    pub fn of_selection(
        recording: &Recording,
        options: &ReportOptions,
        selection: &Selection,
    ) -> Report {
        let names = recording.names();
        let statistics = &recording.statistics;
        let facts = facts(recording);
        let mut report = Report::build(statistics, &names, &facts, options, selection);
        if names.is_machine() {
            let nameless = recording.nameless_hitms();
            report.of_machine = Some(MachineSummary {
                device_access_count: recording.counter("device_accesses_left_out"),
                user_access_count: recording.counter("user_accesses"),
                ..MachineSummary::build(&recording.statistics, &names, nameless)
            });
        }
        if recording.processes.len() > 1 {
            report.processes = processes(recording, &report.threads);
        }
        report.diagnostics.extend(names.diagnostics());
        report
    }
}

impl TypeReport {
    /// Builds the report of one type; none when the recording has no access to an object of it.
    pub fn of_recording(recording: &Recording, type_name: &str) -> Option<TypeReport> {
        let names = recording.names();
        let (command, machine) = (
            recording.header.args.clone(),
            recording.machine.name.clone(),
        );
        TypeReport::build(&recording.statistics, &names, type_name, command, machine)
    }
}

/// Sums over the threads of each process.
fn processes(recording: &Recording, threads: &[ThreadSummary]) -> Vec<ProcessSummary> {
    let all = recording.processes.iter();
    let mut summaries: Vec<ProcessSummary> = all
        .map(|process| ProcessSummary {
            process: process.start.process.into(),
            pid: process.start.pid.into(),
            parent: (process.start.parent != process.start.process)
                .then_some(process.start.parent.into()),
            program: process.start.program.clone(),
            thread_count: 0,
            instruction_count: 0,
            lost_cycles: 0,
            end: process
                .exit
                .map_or(String::new(), |exit| end_text(exit.reason)),
        })
        .collect();
    let places: BTreeMap<u64, usize> = (0..summaries.len())
        .map(|place| (summaries[place].process, place))
        .collect();
    for (thread, known) in threads.iter().zip(&recording.threads) {
        if let Some(place) = places.get(&known.start.process.into()) {
            let summary = &mut summaries[*place];
            summary.thread_count += 1;
            summary.instruction_count = summary
                .instruction_count
                .saturating_add(thread.instruction_count);
            summary.lost_cycles = summary.lost_cycles.saturating_add(thread.lost_cycles);
        }
    }
    summaries
}

fn end_text(reason: EndReason) -> String {
    match reason {
        EndReason::Exited { status } => format!("exit {status}"),
        EndReason::Signalled { signal } => format!("signal {signal}"),
        EndReason::Stopped => "stopped".into(),
        EndReason::Exec => "exec".into(),
        EndReason::Killed => "killed".into(),
        EndReason::Lost { loss } => format!("not recorded to its end: {loss}"),
        EndReason::Other { code, .. } => format!("reason {code} of a later version"),
    }
}

fn sampled(sampled: &hitm_trace::Sampled) -> SampledFacts {
    let events = sampled.events.iter().map(|event| SampledEvent {
        name: event.name.clone(),
        sample_count: event.sample_count,
        event_count: event.period_sum,
    });
    SampledFacts {
        events: events.collect(),
        tlb_known_count: sampled.tlb_known_count,
        tlb_miss_count: sampled.tlb_miss_count,
        watched: sampled.watched.clone(),
    }
}

fn facts(recording: &Recording) -> RunFacts<'_> {
    let threads = recording.threads.iter().map(|thread| {
        let insns = thread.exit.map_or(0, |exit| exit.insns);
        let cycles = recording.cycles_of(thread);
        let tid = thread.start.tid.into();
        ThreadFacts {
            thread: thread.start.thread,
            tid,
            instruction_count: insns,
            cycles,
        }
    });
    let lines = recording.statistics.lines.values();
    let listed: u64 = lines.map(LineStats::access_count).sum();
    let read = listed + recording.statistics.rest.access_count();
    let totals = recording.end.map(|end| end.totals).unwrap_or_default();
    RunFacts {
        sampled: recording.header.sampled.as_ref().map(sampled),
        command: recording.header.args.clone(),
        machine: &recording.machine,
        window: recording.header.window,
        placement: recording.header.placement.clone(),
        program_cpu_count: recording.counter("program_cpus"),
        seed: recording.header.seed,
        threads: threads.collect(),
        waits: recording.waits().copied().collect(),
        parked: Cycles(recording.counter(PARKED_CYCLES)),
        end: recording.end_time(),
        private_access_count: totals.accesses.saturating_sub(totals.stored_accesses),
        // What the recorder says it wrote and the file does not have.
        lost_access_count: totals.stored_accesses.saturating_sub(read),
        complete: recording.is_complete(),
        diagnostics: recording.diagnostics(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_one_whatever_qualifies_it() {
        assert_eq!(unqualified("volatile uint64_t"), "uint64_t");
        assert_eq!(unqualified("const volatile struct rq"), "rq");
        assert_eq!(unqualified("constant"), "constant");
    }
}
