//! A run with one falsely shared struct, one lock and one quiet line, built access by access.

use std::collections::BTreeMap;

use hitm_base::machine::{
    CacheShape, Caches, Contention, CoreModel, Dram, Machine, MachineCosts, Protocol, Transfer,
    UpgradeRatio,
};
use hitm_base::{
    Access, AccessOp, Clock, CodeAddr, CpuId, Cycles, DataSource, Distance, Numbering, Outcome,
    ThreadId, Topology, TopologyShape,
};
use hitm_coherence::stats::{Collector, LineTally, Statistics};
use hitm_recording::{CodeLabel, DataLabel, KnownAs, TypePlace};
use hitm_report::{Names, Report, ReportOptions, RunFacts, Selection, ThreadFacts};
use hitm_trace::Waits;

pub(crate) const PACKED: u64 = 0x4040c0;
pub(crate) const LOCK: u64 = 0x404100;
pub(crate) const SLOTS: u64 = 0x7f00_0010;

/// Four packages of two cores. The prices do not matter: outcomes are given.
pub(crate) fn machine() -> Machine {
    let cache = |size_bytes| CacheShape {
        size_bytes,
        ways: 8,
        latency: Cycles(4),
    };
    let transfer = Transfer {
        clean: Cycles(100),
        dirty: Cycles(100),
        occupancy: Cycles(50),
    };
    Machine {
        name: "toy-4s".to_owned(),
        description: "four packages of two cores".to_owned(),
        clock: Clock::from_khz(2_000_000),
        topology: Topology::from_shape(TopologyShape {
            halves: 1,
            packages: 4,
            dies: 1,
            nodes: 1,
            llcs: 1,
            clusters: 1,
            cores: 2,
            threads: 1,
            numbering: Numbering::ThreadsAdjacent,
        })
        .unwrap(),
        protocol: Protocol::Mesif,
        caches: Caches {
            l1: cache(32 << 10),
            l2: cache(256 << 10),
            llc: cache(16 << 20),
        },
        transfers: [transfer; Distance::COUNT],
        transfers_away_from_home: [transfer; Distance::COUNT],
        contention: Contention::NEAR_FIRST,
        upgrade: UpgradeRatio::ONE,
        adjacent_line_milli: 0,
        dram: Dram {
            local: Cycles(200),
            package: Cycles(200),
            remote: Cycles(300),
            far_remote: Cycles(300),
        },
        core: CoreModel {
            cpi_milli: 500,
            store_buffer_entries: 42,
            load_window_insns: 192,
            fill_buffers: 10,
            locked_hit: Cycles(20),
            retire_width: 4,
            ordering_clear: None,
        },
        costs: MachineCosts::defaults(Clock::from_khz(2_000_000)),
    }
}

/// Address, operation and instruction of an access.
pub(crate) struct Touch(pub(crate) u64, pub(crate) AccessOp, pub(crate) u64);

/// Feeds statistics with accesses of given outcome.
#[derive(Default)]
pub(crate) struct Run(Collector, LineTally);

impl Run {
    pub(crate) fn access(
        &mut self,
        thread: u32,
        Touch(addr, op, code): Touch,
        source: DataSource,
        cycles: u64,
    ) {
        let stall = if op == AccessOp::Store { 0 } else { cycles };
        let access = Access {
            thread: ThreadId(thread),
            cpu: CpuId(2 * (thread as u16 % 4)),
            time: Cycles::ZERO,
            addr,
            size: 4,
            op,
            code: CodeAddr(code),
        };
        let outcome = Outcome::by_source(source, Cycles(cycles), Cycles::ZERO, Cycles(stall));
        self.0.add(&access, &outcome);
        self.1.add(&access, &outcome);
    }

    /// Sums over all lines, without rows.
    pub(crate) fn tally(&self) -> LineTally {
        self.1.clone()
    }

    pub(crate) fn statistics(&self) -> Statistics {
        self.0.clone().finish()
    }

    /// One reader of `f.x`, writers of `f.w`, `f.y` and `f.z`.
    pub(crate) fn packed(&mut self, rounds: u64) {
        use AccessOp::{Load, Store};
        for round in 0..rounds {
            let cycles = 300 + round % 5 * 20;
            self.access(
                0,
                Touch(PACKED + 4, Load, 0x401100),
                DataSource::RemoteHitm,
                cycles,
            );
            for (thread, offset) in [(1, 0), (2, 8), (3, 12)] {
                let code = 0x401200 + u64::from(thread) * 0x40;
                let at = PACKED + offset;
                self.access(
                    thread,
                    Touch(at, Load, code),
                    DataSource::RemoteHitm,
                    cycles + 10,
                );
                self.access(
                    thread,
                    Touch(at, Store, code + 6),
                    DataSource::RemoteUpgrade,
                    120,
                );
                self.access(thread, Touch(at, Load, code), DataSource::L1, 4);
                self.access(thread, Touch(at, Store, code + 6), DataSource::L1, 4);
            }
        }
    }

    /// A spin lock at offset 0 with the count that it guards at offset 8.
    pub(crate) fn lock(&mut self, rounds: u64) {
        use AccessOp::{Load, LockedRmw, Store};
        for round in 0..rounds {
            let holder = (round % 4) as u32;
            self.access(
                holder,
                Touch(LOCK, LockedRmw, 0x401500),
                DataSource::RemoteHitm,
                350,
            );
            self.access(
                (holder + 1) % 4,
                Touch(LOCK, Load, 0x401510),
                DataSource::RemoteHitm,
                200,
            );
            self.access(holder, Touch(LOCK + 8, Load, 0x401520), DataSource::L1, 4);
            self.access(
                holder,
                Touch(LOCK + 8, Store, 0x401524),
                DataSource::RemoteUpgrade,
                90,
            );
            self.access(holder, Touch(LOCK, Store, 0x401530), DataSource::L1, 4);
        }
    }

    /// Elements of 48 bytes, one for each thread, from 16 bytes into a line.
    pub(crate) fn slots(&mut self, threads: u32, rounds: u64) {
        use AccessOp::{Load, Store};
        for _ in 0..rounds {
            for thread in 0..threads {
                for member in [0, 40] {
                    let at = SLOTS + 48 * u64::from(thread) + member;
                    self.access(thread, Touch(at, Load, 0x401600), DataSource::LocalHitm, 90);
                    self.access(thread, Touch(at, Store, 0x401604), DataSource::L1, 4);
                }
            }
        }
    }

    /// A line that is handed over once.
    pub(crate) fn quiet(&mut self) {
        use AccessOp::{Load, Store};
        self.access(
            0,
            Touch(0x500000, Store, 0x401000),
            DataSource::LocalDram,
            200,
        );
        self.access(
            1,
            Touch(0x500000, Load, 0x401700),
            DataSource::RemoteHitm,
            310,
        );
    }
}

/// Names as a symbol table and debug information would give them.
pub(crate) struct Symbols;

impl Names for Symbols {
    fn data(&self, addr: u64, _size: u8) -> Option<DataLabel> {
        let named = |object: &str, object_addr, object_size, member: &str| DataLabel {
            object: object.to_owned(),
            object_addr,
            object_size,
            member: member.to_owned(),
            element: None,
            origin: String::new(),
        };
        match addr {
            PACKED..0x4040d0 => {
                let member = [".w", ".x", ".y", ".z"][((addr - PACKED) / 4) as usize];
                Some(named("f", PACKED, 16, member))
            }
            LOCK => Some(named("account", LOCK, 16, ".lock")),
            0x404108 => Some(named("account", LOCK, 16, ".balance")),
            SLOTS.. => {
                let index = (addr - SLOTS) / 48;
                let member = if (addr - SLOTS).is_multiple_of(48) {
                    "count"
                } else {
                    "sum"
                };
                Some(DataLabel {
                    element: Some((SLOTS + 48 * index, 48)),
                    ..named("slots (heap)", SLOTS, 4096, &format!("[{index}].{member}"))
                })
            }
            _ => None,
        }
    }

    fn code(&self, code: CodeAddr) -> CodeLabel {
        let lines: BTreeMap<u64, (&str, u32)> = BTreeMap::from([
            (0x401100, ("read_x", 21)),
            (0x401200, ("bump", 30)),
            (0x401500, ("account_add", 50)),
            (0x401600, ("count_in_slot", 70)),
        ]);
        let Some((_, (function, line))) = lines.range(..=code.0).next_back() else {
            return CodeLabel::default();
        };
        CodeLabel {
            function: (*function).to_owned(),
            file: "examples/packed.c".to_owned(),
            line: *line,
        }
    }

    fn known_as(&self, addr: u64) -> Option<KnownAs> {
        match addr {
            PACKED..0x4040d0 => Some(KnownAs::Object),
            SLOTS.. => Some(KnownAs::Slab),
            _ => None,
        }
    }

    fn place_in_type(&self, addr: u64, _: u8, type_name: &str) -> Option<TypePlace> {
        let is_slot = type_name == "slot" && addr >= SLOTS;
        is_slot.then(|| {
            let offset = (addr - SLOTS) % 48;
            TypePlace {
                base: addr - offset,
                offset,
                is_moved: false,
            }
        })
    }

    fn type_of(&self, addr: u64, _: u8) -> Option<String> {
        match addr {
            PACKED..0x4040d0 => Some("packed".to_owned()),
            LOCK..0x404110 => Some("account".to_owned()),
            _ => None,
        }
    }

    fn process(&self, thread: ThreadId, code: CodeAddr) -> Option<String> {
        // As of samples: a kernel's code is any process's.
        let is_kernel = code.0 >> 63 == 1;
        (!is_kernel).then(|| format!("program-{}", thread.0 % 2))
    }

    fn thread(&self, thread: ThreadId) -> String {
        format!("worker-{} ({})", thread.0, 1000 + thread.0)
    }
}

/// The report over `statistics` with `threads` threads of a million cycles each.
pub(crate) fn report(statistics: &Statistics, threads: u32, options: ReportOptions) -> Report {
    select(statistics, threads, options, &Selection::default())
}

/// The same of a part of the run, with totals.
pub(crate) fn select(
    statistics: &Statistics,
    threads: u32,
    options: ReportOptions,
    selection: &Selection,
) -> Report {
    build(statistics, threads, options, selection, Vec::new())
}

/// The report with waits of the threads.
pub(crate) fn with_waits(statistics: &Statistics, threads: u32, waits: Vec<Waits>) -> Report {
    build(statistics, threads, OPTIONS, &Selection::default(), waits)
}

fn build(
    statistics: &Statistics,
    threads: u32,
    options: ReportOptions,
    selection: &Selection,
    waits: Vec<Waits>,
) -> Report {
    let machine = machine();
    let facts = facts(&machine, threads, waits);
    Report::build(statistics, &Symbols, &facts, &options, selection)
}

/// The report of a run on a machine that fetches pairs of lines.
pub(crate) fn with_pairs(statistics: &Statistics, threads: u32) -> Report {
    let machine = Machine {
        adjacent_line_milli: 1_000,
        ..machine()
    };
    let facts = facts(&machine, threads, Vec::new());
    Report::build(
        statistics,
        &Symbols,
        &facts,
        &OPTIONS,
        &Selection::default(),
    )
}

fn facts(machine: &Machine, threads: u32, waits: Vec<Waits>) -> RunFacts<'_> {
    let threads = (0..threads).map(|thread| ThreadFacts {
        thread: ThreadId(thread),
        tid: u64::from(1000 + thread),
        instruction_count: 400_000,
        cycles: Cycles(1_000_000),
    });
    RunFacts {
        sampled: None,
        command: vec!["./packed".to_owned(), "100000".to_owned()],
        machine,
        window: Cycles(10_000),
        placement: "spread".to_owned(),
        program_cpu_count: 16,
        seed: 1,
        threads: threads.collect(),
        waits,
        parked: Cycles(0),
        end: Cycles(1_000_000),
        private_access_count: 1_234_567,
        lost_access_count: 0,
        complete: true,
        diagnostics: Vec::new(),
    }
}

/// Everything at once.
pub(crate) fn everything() -> Statistics {
    let mut run = Run::default();
    run.packed(500);
    run.lock(200);
    run.slots(3, 60);
    run.quiet();
    run.statistics()
}

/// The report of everything.
pub(crate) fn example() -> Report {
    report(&everything(), 4, OPTIONS)
}

pub(crate) const OPTIONS: ReportOptions = ReportOptions {
    lines_max: ReportOptions::LINES_MAX_DEFAULT,
    rows_max: ReportOptions::ROWS_MAX_DEFAULT,
    call_paths_max: ReportOptions::CALL_PATHS_MAX_DEFAULT,
};
