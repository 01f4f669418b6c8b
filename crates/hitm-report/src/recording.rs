//! The report of a recording: what the facade read, in the report's own terms.

use hitm::recording::{AddressNames, KnownAs, Recording};
use hitm_base::{CodeAddr, ThreadId};
use hitm_coherence::stats::LineStats;

use crate::{
    CodeName, DataName, LockKind, LockName, MachineSummary, Names, Report, ReportOptions, RunFacts,
    SampledEvent, SampledFacts, Selection, ThreadFacts, TypeReport,
};

impl Names for AddressNames<'_> {
    fn data(&self, addr: u64, size: u8) -> Option<DataName> {
        let label = AddressNames::data(self, addr, size)?;
        Some(DataName {
            object: label.object,
            object_addr: self.shown(label.object_addr),
            object_size: label.object_size,
            member: label.member,
            element: label.element,
        })
    }

    fn kind(&self, addr: u64) -> Option<String> {
        let of_many = AddressNames::kind(self, addr);
        of_many.or_else(|| Names::data(self, addr, 1).map(|name| name.kind()))
    }

    fn code(&self, code: CodeAddr) -> CodeName {
        let label = AddressNames::code(self, code);
        CodeName {
            function: label.function,
            file: label.file,
            line: label.line,
        }
    }

    fn thread(&self, thread: ThreadId) -> String {
        AddressNames::thread(self, thread)
    }

    fn lock(&self, addr: u64, size: u8) -> Option<LockName> {
        let lock = AddressNames::lock(self, addr, size)?;
        Some(LockName {
            name: lock.name,
            addr: lock.addr,
            size_bytes: lock.size_bytes,
            kind: match lock.is_condition_variable {
                true => LockKind::ConditionVariable,
                false => LockKind::Lock,
            },
        })
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

    fn place_in_type(&self, addr: u64, size: u8, type_name: &str) -> Option<(u64, u64)> {
        let place = AddressNames::place_in_type(self, addr, size, type_name)?;
        Some((place.base, place.offset))
    }

    fn type_of(&self, addr: u64, size: u8) -> Option<String> {
        let name = AddressNames::type_of(self, addr, size)?;
        Some(unqualified(&name).to_owned())
    }

    fn process(&self, _: ThreadId, code: CodeAddr) -> Option<String> {
        AddressNames::process(self, code)
    }

    fn member_of_type(&self, type_name: &str, offset: u64, size: u8) -> Option<String> {
        AddressNames::member_of_type(self, type_name, offset, size)
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
        let mut report = Report::select(statistics, &names, &facts, (options, selection));
        if names.is_machine() {
            let nameless = recording.nameless_hitms();
            report.of_machine = Some(MachineSummary {
                device_access_count: recording.counter("device_accesses_left_out"),
                user_access_count: recording.counter("user_accesses"),
                ..MachineSummary::build(&recording.statistics, &names, nameless)
            });
        }
        report.diagnostics.extend(names.diagnostics());
        report
    }
}

impl TypeReport {
    /// Builds the report of one type; none when the recording has no access to an object of it.
    pub fn of_recording(recording: &Recording, type_name: &str) -> Option<TypeReport> {
        let run = (
            recording.header.args.clone(),
            recording.machine.name.clone(),
        );
        let names = recording.names();
        TypeReport::build(&recording.statistics, &names, type_name, run)
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
        seed: recording.header.seed,
        threads: threads.collect(),
        private_access_count: totals.accesses.saturating_sub(totals.stored_accesses),
        // What the recorder says it wrote and the file does not have.
        lost_access_count: totals.stored_accesses.saturating_sub(read),
        complete: recording.recovery.is_complete() && recording.end.is_some(),
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
