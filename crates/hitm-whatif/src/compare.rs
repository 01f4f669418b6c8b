//! Both runs side by side: threads, lines, members.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use hitm_base::{Access, AccessOp, Cycles, DataSource, LINE_SIZE, LineAddr, Outcome};
use hitm_coherence::stats::{LineStats, RowKey, RowStats, SourceCounts, Statistics};
use hitm_recording::{AddressNames, Recording};
use hitm_weave::ThreadTotals;

use super::moves::{MovedObject, Moves};
use super::second_run::SecondRun;
use super::{Change, LineChange, MemberChange, Sums, ThreadChange, WhatifConfig, WhatifReport};

impl Sums {
    fn of_sources(sources: &SourceCounts) -> Sums {
        Sums {
            accesses: sources.total(),
            local_hitm: sources.get(DataSource::LocalHitm),
            remote_hitm: sources.get(DataSource::RemoteHitm),
            ..Sums::default()
        }
    }

    fn of_line(stats: &LineStats) -> Sums {
        // As in the report, stores that found the line modified elsewhere are not HITM.
        let stores = Sums {
            accesses: stats.stores.total(),
            ..Sums::default()
        };
        let mut sums = Sums {
            stall: stats.stall,
            lost: stats.contention_stall,
            ..stores
        };
        sums += &Sums::of_sources(&stats.loads);
        sums += &Sums::of_sources(&stats.rmws);
        sums
    }

    /// Sums of one access.
    pub(super) fn of_access(access: &Access, outcome: &Outcome) -> Sums {
        let is_load = access.op != AccessOp::Store;
        let is = |source| u64::from(is_load && outcome.source == source);
        Sums {
            accesses: 1,
            local_hitm: is(DataSource::LocalHitm),
            remote_hitm: is(DataSource::RemoteHitm),
            stall: outcome.stall,
            lost: outcome.lost,
        }
    }

    /// Sums of all lines, with rows and without.
    pub(super) fn of_lines(statistics: &Statistics) -> Sums {
        let rest = &statistics.rest;
        let mut sums = Sums {
            accesses: rest.stores.total(),
            stall: rest.stall,
            lost: rest.contention_stall(),
            ..Sums::default()
        };
        sums += &Sums::of_sources(&rest.loads);
        sums += &Sums::of_sources(&rest.rmws);
        for stats in statistics.lines.values() {
            sums += &Sums::of_line(stats);
        }
        sums
    }

    fn of_row(key: &RowKey, stats: &RowStats) -> Sums {
        let counts = Sums::of_sources(&stats.sources);
        let is_store = key.op == AccessOp::Store;
        let hitm = |count| if is_store { 0 } else { count };
        Sums {
            local_hitm: hitm(counts.local_hitm),
            remote_hitm: hitm(counts.remote_hitm),
            stall: stats.stall,
            lost: stats.contention_stall,
            ..counts
        }
    }
}

impl AddAssign<&Sums> for Sums {
    fn add_assign(&mut self, other: &Sums) {
        self.accesses += other.accesses;
        self.local_hitm += other.local_hitm;
        self.remote_hitm += other.remote_hitm;
        self.stall = Cycles(self.stall.0.saturating_add(other.stall.0));
        self.lost = Cycles(self.lost.0.saturating_add(other.lost.0));
    }
}

pub(super) struct Compared<'a> {
    pub(super) config: &'a WhatifConfig,
    pub(super) recording: &'a Recording,
    pub(super) before: &'a SecondRun<'a>,
    pub(super) after: &'a SecondRun<'a>,
}

impl Compared<'_> {
    pub(super) fn report(&self, notes: Vec<String>) -> WhatifReport {
        let names = self.recording.names();
        let moves = &self.after.moves;
        WhatifReport {
            command: self.recording.header.args.clone(),
            run: Change {
                before: self.before.run.clone(),
                after: self.after.run.clone(),
            },
            layouts: self
                .config
                .layouts
                .iter()
                .map(|layout| layout.name.clone())
                .collect(),
            threads: self.threads(&names),
            lines: self.lines(&names),
            members: self.members(),
            objects: most_accessed_first(moves.objects()),
            moves: moves.counts,
            notes,
        }
    }

    fn threads(&self, names: &AddressNames<'_>) -> Vec<ThreadChange> {
        let before: BTreeMap<_, _> = self.before.threads.iter().copied().collect();
        let mut threads: Vec<ThreadChange> = Vec::new();
        for (thread, after) in &self.after.threads {
            let before = before.get(thread).copied().unwrap_or_default();
            threads.push(ThreadChange {
                thread: *thread,
                name: names.thread(*thread),
                insns: after.insns,
                cycles: Change {
                    before: busy(&before, self.before.cpi_milli),
                    after: busy(after, self.after.cpi_milli),
                },
                stall: Change {
                    before: before.stall,
                    after: after.stall,
                },
                lost: Change {
                    before: before.contention_stall,
                    after: after.contention_stall,
                },
            });
        }
        threads.sort_by_key(|thread| thread.thread);
        threads
    }

    /// Lines at which a thread lost time in either run.
    fn lines(&self, names: &AddressNames<'_>) -> Vec<LineChange> {
        let moves = &self.after.moves;
        let none = LineStats::default();
        let mut both: BTreeMap<LineAddr, Change<&LineStats>> = BTreeMap::new();
        let unseen = Change {
            before: &none,
            after: &none,
        };
        for (line, stats) in &self.before.statistics.lines {
            both.entry(*line).or_insert(unseen).before = stats;
        }
        for (line, stats) in &self.after.statistics.lines {
            both.entry(*line).or_insert(unseen).after = stats;
        }
        // A name takes far longer than a sum, and most lines of a large program lose nothing.
        both.retain(|_, stats| {
            let Change { before, after } = stats;
            before.contention_stall.max(after.contention_stall) > Cycles::ZERO
        });
        let change = |(line, stats): (LineAddr, Change<&LineStats>)| {
            let first = line.first_byte();
            let moved = moves.object_after(first);
            LineChange {
                name: match stats.before.rows.is_empty() {
                    true => place_after(moves, names, line, stats.after),
                    false => place_before(names, line, stats.before),
                },
                address: moved.is_none().then_some(first),
                line_of_object: moved.map(|(object, _)| (first - object.fresh) / LINE_SIZE),
                sums: Change {
                    before: Sums::of_line(stats.before),
                    after: Sums::of_line(stats.after),
                },
            }
        };
        let mut lines: Vec<LineChange> = both.into_iter().map(change).collect();
        lines.sort_by_key(|line| {
            let Change { before, after } = line.sums;
            std::cmp::Reverse((before.lost.max(after.lost), before.stall.max(after.stall)))
        });
        lines
    }

    fn members(&self) -> Vec<MemberChange> {
        let moves = &self.after.moves;
        let mut sums: BTreeMap<(usize, usize), Change<Sums>> = BTreeMap::new();
        each_row(&self.before.statistics, &mut |addr, row| {
            if let Some((object, offset)) = moves.object_before(addr)
                && let Some(member) = moves.maps[object.map].member_before(offset)
            {
                sums.entry((object.map, member)).or_default().before += &row;
            }
        });
        each_row(&self.after.statistics, &mut |addr, row| {
            if let Some((object, offset)) = moves.object_after(addr)
                && let Some(member) = moves.maps[object.map].member_after(offset)
            {
                sums.entry((object.map, member)).or_default().after += &row;
            }
        });
        let maps = moves.maps.iter().enumerate();
        let members = maps.flat_map(|(number, map)| {
            let members = map.members.iter().enumerate();
            members.map(move |(index, member)| ((number, index), map, member))
        });
        let change =
            |(key, map, member): ((usize, usize), &hitm_layout::member_map::MemberMap, _)| {
                let member: &hitm_layout::member_map::MappedMember = member;
                MemberChange {
                    type_name: map.type_name.clone(),
                    member: member.name.clone(),
                    offset: Change {
                        before: member.from,
                        after: member.to,
                    },
                    sums: sums.get(&key).copied().unwrap_or_default(),
                }
            };
        members.map(change).collect()
    }
}

fn most_accessed_first(objects: &[MovedObject]) -> Vec<MovedObject> {
    let mut objects = objects.to_vec();
    // A stable sort: of equal ones by address.
    objects.sort_by_key(|object| std::cmp::Reverse(object.access_count));
    objects
}

/// Cycles of running and of waiting for memory. Time in system calls is left out: memory does not
/// cause it.
pub(super) fn busy(totals: &ThreadTotals, cpi_milli: u64) -> Cycles {
    let own = u128::from(totals.insns) * u128::from(cpi_milli) / 1000;
    let own = u64::try_from(own).unwrap_or(u64::MAX);
    Cycles(own.saturating_add(totals.stall.0))
}

/// Returns the costliest row of a line, by contention stall first; of equal ones the first.
fn costliest(stats: &LineStats) -> Option<&RowKey> {
    let rows = stats.rows.iter();
    let cost = |row: &RowStats| (row.contention_stall, row.stall, row.sources.total());
    let first_of_most = rows.rev().max_by_key(|(_, row)| cost(row));
    first_of_most.map(|(key, _)| key)
}

fn place_before(names: &AddressNames<'_>, line: LineAddr, stats: &LineStats) -> String {
    let label = costliest(stats)
        .and_then(|key| names.data(line.first_byte() + u64::from(key.offset), key.size));
    match label {
        Some(label) => format!("{}{}", label.object, label.member),
        None => format!("{:#x}", line.first_byte()),
    }
}

fn place_after(
    moves: &Moves,
    names: &AddressNames<'_>,
    line: LineAddr,
    stats: &LineStats,
) -> String {
    let addr = costliest(stats).map(|key| line.first_byte() + u64::from(key.offset));
    match addr.and_then(|addr| Some((addr, moves.object_after(addr)?))) {
        Some((addr, (object, offset))) => member_text(moves, object, addr - object.fresh, offset),
        None => place_before(names, line, stats),
    }
}

/// Name of the byte `into` an object, at `offset` in its element.
fn member_text(moves: &Moves, object: &MovedObject, into: u64, offset: u64) -> String {
    let map = &moves.maps[object.map];
    let member = map
        .member_after(offset)
        .map(|member| &map.members[member].name);
    let member = member.map_or_else(|| format!("+{offset:#x}"), |name| format!(".{name}"));
    if object.element_count == 1 {
        return format!("{}{member}", object.name);
    }
    format!("{}[{}]{member}", object.name, into / map.sizes.after)
}

fn each_row(statistics: &Statistics, row: &mut impl FnMut(u64, Sums)) {
    for (line, stats) in &statistics.lines {
        for (key, counts) in &stats.rows {
            row(
                line.first_byte() + u64::from(key.offset),
                Sums::of_row(key, counts),
            );
        }
    }
}
