//! The recorded run: what ran, its sums, its threads.

use hitm_base::DataSource;

use super::{Field, Unit, Value};
use crate::model::{ProcessSummary, Quiet, RunHeader, ThreadSummary, Totals};

/// Fields of a run: command, machine model, settings, and completeness of the recording.
pub const RUN_FIELDS: &[Field<RunHeader>] = &[
    Field {
        id: "command",
        title: "command",
        unit: Unit::None,
        description: "Recorded command with its arguments",
        value: |run| Value::Texts(run.command.clone()),
    },
    Field {
        id: "machine",
        title: "machine",
        unit: Unit::None,
        description: "Name of the machine model that priced the accesses",
        value: |run| Value::text_or_missing(&run.machine),
    },
    Field {
        id: "machine_description",
        title: "",
        unit: Unit::None,
        description: "One line about the machine model",
        value: |run| Value::text_or_missing(&run.machine_description),
    },
    Field {
        id: "cpu_count",
        title: "CPUs",
        unit: Unit::Count,
        description: "Logical CPUs of the machine model",
        value: |run| Value::Whole(run.cpu_count),
    },
    Field {
        id: "node_count",
        title: "nodes",
        unit: Unit::Count,
        description: "NUMA nodes of the machine model",
        value: |run| Value::Whole(run.node_count),
    },
    Field {
        id: "clock_khz",
        title: "clock",
        unit: Unit::Kilohertz,
        description: "Clock of the machine model",
        value: |run| Value::Whole(run.clock_khz),
    },
    Field {
        id: "window_cycles",
        title: "window",
        unit: Unit::Cycles,
        description: "How far a thread may run ahead of the slowest one",
        value: |run| Value::Whole(run.window_cycles),
    },
    Field {
        id: "placement",
        title: "placement",
        unit: Unit::None,
        description: "How threads were placed on CPUs",
        value: |run| Value::text_or_missing(&run.placement),
    },
    Field {
        id: "program_cpu_count",
        title: "CPUs seen",
        unit: Unit::Count,
        description: "CPUs that the program saw, 0 when that is not recorded",
        value: |run| Value::Whole(run.program_cpu_count),
    },
    Field {
        id: "seed",
        title: "seed",
        unit: Unit::None,
        description: "Seed of the run",
        value: |run| Value::Whole(run.seed),
    },
    Field {
        id: "private_access_count",
        title: "private",
        unit: Unit::Count,
        description: "Accesses to lines that only one thread had touched, counted by the recorder and not stored; those of a process that was alone are not counted",
        value: |run| Value::Whole(run.private_access_count),
    },
    Field {
        id: "lost_access_count",
        title: "lost",
        unit: Unit::Count,
        description: "Accesses that the recorder had to drop",
        value: |run| Value::Whole(run.lost_access_count),
    },
    Field {
        id: "complete",
        title: "complete",
        unit: Unit::None,
        description: "Whether the recording was closed properly",
        value: |run| Value::Flag(run.complete),
    },
    Field {
        id: "sampled",
        title: "sampled",
        unit: Unit::None,
        description: "Whether the accesses are samples, taken by perf; then exact sums are left out",
        value: |run| Value::Flag(run.sampled.is_some()),
    },
];

/// Sums over all lines. JSON adds the counts by source.
pub const TOTALS_FIELDS: &[Field<Totals>] = &[
    Field {
        id: "access_count",
        title: "accesses",
        unit: Unit::Count,
        description: "Recorded accesses",
        value: |totals| Value::Whole(totals.counts.total()),
    },
    Field {
        id: "load_count",
        title: "loads",
        unit: Unit::Count,
        description: "Plain loads",
        value: |totals| Value::Whole(totals.counts.loads.total()),
    },
    Field {
        id: "store_count",
        title: "stores",
        unit: Unit::Count,
        description: "Plain stores",
        value: |totals| Value::Whole(totals.counts.stores.total()),
    },
    Field {
        id: "locked_count",
        title: "locked",
        unit: Unit::Count,
        description: "Locked operations",
        value: |totals| Value::Whole(totals.counts.locked.total()),
    },
    Field {
        id: "local_hitm_count",
        title: "local HITM",
        unit: Unit::Count,
        description: "Loads and locked operations that found the line modified in a cache of the same package",
        value: |totals| Value::Whole(totals.counts.loads_from(DataSource::LocalHitm)),
    },
    Field {
        id: "remote_hitm_count",
        title: "remote HITM",
        unit: Unit::Count,
        description: "Loads and locked operations that found the line modified in another package",
        value: |totals| Value::Whole(totals.counts.loads_from(DataSource::RemoteHitm)),
    },
    Field {
        id: "store_hit_count",
        title: "store hits",
        unit: Unit::Count,
        description: "Stores and locked operations completed in their core's store buffer or L1",
        value: |totals| Value::Whole(totals.counts.store_hits()),
    },
    Field {
        id: "store_miss_count",
        title: "store misses",
        unit: Unit::Count,
        description: "Stores and locked operations that had to leave the L1",
        value: |totals| Value::Whole(totals.counts.store_misses()),
    },
    Field {
        id: "line_count",
        title: "lines",
        unit: Unit::Count,
        description: "Lines with at least one recorded access",
        value: |totals| Value::Whole(totals.line_count),
    },
    Field {
        id: "flagged_line_count",
        title: "contended lines",
        unit: Unit::Count,
        description: "Lines with a verdict other than no-contention",
        value: |totals| Value::Whole(totals.flagged_line_count),
    },
    Field {
        id: "thread_cycles",
        title: "thread cycles",
        unit: Unit::Cycles,
        description: "Virtual time of all threads together",
        value: |totals| Value::Whole(totals.thread_cycles),
    },
    Field {
        id: "stall_cycles",
        title: "memory stall",
        unit: Unit::Cycles,
        description: "Time that threads waited for memory, whatever the source",
        value: |totals| Value::Whole(totals.stall_cycles),
    },
    Field {
        id: "lost_cycles",
        title: "lost to contention",
        unit: Unit::Cycles,
        description: "Part of stall_cycles whose source is another CPU's use of the line",
        value: |totals| Value::Whole(totals.lost_cycles),
    },
    Field {
        id: "run_share",
        title: "of the run",
        unit: Unit::Share,
        description: "lost_cycles as a part of thread_cycles",
        value: |totals| Value::Number(totals.run_share()),
    },
    Field {
        id: "tlb_known_count",
        title: "with TLB",
        unit: Unit::Count,
        description: "Samples that say whether the address was found in a TLB; only of samples",
        value: |totals| Value::Whole(totals.tlb_known_count),
    },
    Field {
        id: "tlb_miss_count",
        title: "TLB misses",
        unit: Unit::Count,
        description: "Those of tlb_known_count whose address was in no TLB; only of samples",
        value: |totals| Value::Whole(totals.tlb_miss_count),
    },
    Field {
        id: "tlb_miss_share",
        title: "TLB misses",
        unit: Unit::Share,
        description: "tlb_miss_count as a part of tlb_known_count; only of samples",
        value: |totals| Value::number_or_missing(totals.tlb_miss_share()),
    },
];

/// Lines that are counted only.
pub const QUIET_FIELDS: &[Field<Quiet>] = &[
    Field {
        id: "line_count",
        title: "quiet lines",
        unit: Unit::Count,
        description: "Lines with contended accesses, but too few for a verdict or to matter",
        value: |quiet| Value::Whole(quiet.line_count),
    },
    Field {
        id: "lost_cycles",
        title: "lost there",
        unit: Unit::Cycles,
        description: "Cycles lost on those lines",
        value: |quiet| Value::Whole(quiet.lost_cycles),
    },
    Field {
        id: "left_out_line_count",
        title: "lines left out",
        unit: Unit::Count,
        description: "Contended lines beyond the number of lines asked for",
        value: |quiet| Value::Whole(quiet.left_out_line_count),
    },
    Field {
        id: "left_out_lost_cycles",
        title: "lost there",
        unit: Unit::Cycles,
        description: "Cycles lost on the lines left out",
        value: |quiet| Value::Whole(quiet.left_out_lost_cycles),
    },
];

/// One thread's time.
pub const THREAD_FIELDS: &[Field<ThreadSummary>] = &[
    Field {
        id: "thread",
        title: "#",
        unit: Unit::None,
        description: "Number of the thread in the recording, by first appearance",
        value: |thread| Value::Whole(thread.thread.0.into()),
    },
    Field {
        id: "name",
        title: "thread",
        unit: Unit::None,
        description: "Name of the thread",
        value: |thread| Value::text_or_missing(&thread.name),
    },
    Field {
        id: "tid",
        title: "tid",
        unit: Unit::None,
        description: "Id of the thread in the operating system, 0 when unknown",
        value: |thread| Value::Whole(thread.tid),
    },
    Field {
        id: "instruction_count",
        title: "instructions",
        unit: Unit::Count,
        description: "Instructions executed",
        value: |thread| Value::Whole(thread.instruction_count),
    },
    Field {
        id: "cycles",
        title: "cycles",
        unit: Unit::Cycles,
        description: "Virtual time that passed while it ran",
        value: |thread| Value::Whole(thread.cycles),
    },
    Field {
        id: "lost_cycles",
        title: "lost cycles",
        unit: Unit::Cycles,
        description: "Cycles that it lost to other CPUs' use of the lines it needed",
        value: |thread| Value::Whole(thread.lost_cycles),
    },
    Field {
        id: "lost_share",
        title: "lost",
        unit: Unit::Share,
        description: "lost_cycles as a part of cycles",
        value: |thread| Value::Number(thread.lost_share()),
    },
];

/// One program of one process.
pub const PROCESS_FIELDS: &[Field<ProcessSummary>] = &[
    Field {
        id: "process",
        title: "#",
        unit: Unit::None,
        description: "Number of the process in the recording; a program that takes a process over has its own",
        value: |process| Value::Whole(process.process),
    },
    Field {
        id: "pid",
        title: "pid",
        unit: Unit::None,
        description: "Id of the process in the operating system",
        value: |process| Value::Whole(process.pid),
    },
    Field {
        id: "parent",
        title: "from",
        unit: Unit::None,
        description: "Number of the process that it was forked from, or that it was before; null of the first one",
        value: |process| process.parent.map_or(Value::Missing, Value::Whole),
    },
    Field {
        id: "program",
        title: "program",
        unit: Unit::None,
        description: "File of the program",
        value: |process| Value::text_or_missing(&process.program),
    },
    Field {
        id: "thread_count",
        title: "threads",
        unit: Unit::Count,
        description: "Threads of the process",
        value: |process| Value::Whole(process.thread_count),
    },
    Field {
        id: "instruction_count",
        title: "instructions",
        unit: Unit::Count,
        description: "Instructions executed",
        value: |process| Value::Whole(process.instruction_count),
    },
    Field {
        id: "lost_cycles",
        title: "lost cycles",
        unit: Unit::Cycles,
        description: "Cycles that its threads lost to other CPUs' use of the lines they needed",
        value: |process| Value::Whole(process.lost_cycles),
    },
    Field {
        id: "end",
        title: "end",
        unit: Unit::None,
        description: "How it ended: exit and its status, exec, stopped, signal and its number, or killed",
        value: |process| Value::text_or_missing(&process.end),
    },
];
