//! Time for which tasks are ready to run without a CPU, by group and by who has the CPU meanwhile.

use std::collections::BTreeMap;

use aya::maps::{Array, HashMap, MapData};

use crate::object::{Hook, Object, image};
use crate::symbols::QuotaFunctions;
use crate::{Error, Filter, comm, halves, monotonic_ns};

/// Places for waiting groups on one CPU, as in neighbours.bpf.c.
const PLACES: usize = 64;
/// Words of `struct cpu` before its places.
const CPU_WORDS: usize = 12;
/// Words of `struct taker`.
const TAKER_WORDS: usize = 5;
/// Words of a place: those that ran last are four.
const PLACE_WORDS: usize = 5 + 4 * TAKER_WORDS;
/// BY_QUOTA of neighbours.bpf.c.
const QUOTA: u32 = 2;
/// Bits of the time in a place's sum.
const TIME_BITS: u32 = 54;

/// Holder of the CPU meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Taker {
    /// A process ran.
    Process {
        /// The inode number of its cgroup's folder; zero for a group without one.
        cgroup: u64,
        /// Its number.
        pid: u32,
    },
    /// Nobody: the CPU was idle and had to wake up first.
    Idle,
    /// The quota of the waiting group, or of one above, was used up.
    Quota,
    /// Interrupts, as the kernel counts them.
    Interrupt,
    /// The host of this virtual machine.
    Steal,
}

/// Time that the tasks of a group waited for one taker.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taking {
    /// The inode number of the waiting group's folder; zero for a group without one.
    pub victim: u64,
    /// Holder of the CPU meanwhile.
    pub taker: Taker,
    /// The name of a process's thread at the first time; empty for others.
    pub comm: String,
    /// The time, once for each waiting task.
    pub ns: u64,
}

/// Time waited up to now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NeighbourTable {
    /// Rows in the order of the waiting groups.
    pub takings: Vec<Taking>,
    /// True when this kernel counts the time of interrupts (CONFIG_IRQ_TIME_ACCOUNTING).
    pub knows_interrupts: bool,
    /// True when this kernel counts stolen time (CONFIG_PARAVIRT_TIME_ACCOUNTING).
    pub knows_steal: bool,
    /// Waits that are missing because the tasks of 64 groups waited on one CPU already.
    pub lost_places: u64,
    /// Waits that are missing because the kernel had no room for the task's state.
    pub lost_tasks: u64,
    /// Times that are missing because the table of takers was full (16,384 rows).
    pub lost_rows: u64,
    /// Waits that were cut short because their end was not seen.
    pub unseen_ends: u64,
}

/// Programs that observe who runs while others wait, until this is dropped.
#[derive(Debug)]
pub struct Neighbours {
    object: Object,
}

impl NeighbourTable {
    /// Returns what has come since `before` was read.
    #[must_use]
    pub fn since(mut self, before: &NeighbourTable) -> NeighbourTable {
        let earlier = before.takings.iter();
        let earlier: BTreeMap<_, u64> = earlier
            .map(|row| ((row.victim, &row.taker), row.ns))
            .collect();
        for row in &mut self.takings {
            let earlier = earlier.get(&(row.victim, &row.taker)).copied();
            row.ns = row.ns.saturating_sub(earlier.unwrap_or(0));
        }
        self.takings.retain(|row| row.ns > 0);
        for (now, earlier) in [
            (&mut self.lost_places, before.lost_places),
            (&mut self.lost_tasks, before.lost_tasks),
            (&mut self.lost_rows, before.lost_rows),
            (&mut self.unseen_ends, before.unseen_ends),
        ] {
            *now = now.saturating_sub(earlier);
        }
        self
    }
}

impl Neighbours {
    /// Starts to observe the waits of the tasks of `filter`. A task that waits already is seen once
    /// it has run.
    ///
    /// # Errors
    /// The programs cannot be loaded or attached here.
    pub fn attach(filter: &Filter) -> Result<Neighbours, Error> {
        let functions = QuotaFunctions::find()?;
        let mut object = Object::open_filtered(image::NEIGHBOURS, filter, &functions.constants())?;
        if functions.unthrottle_handler != 0 {
            object.attach("neighbours_handler", Hook::Raw("csd_function_exit"))?;
        }
        if functions.period_timer != 0 {
            object.attach("neighbours_timer", Hook::Typed("hrtimer_expire_exit"))?;
        }
        // Ends first, so that no beginning lacks its end.
        object.attach("neighbours_switch", Hook::Typed("sched_switch"))?;
        object.attach("neighbours_migrate", Hook::Typed("sched_migrate_task"))?;
        object.attach("neighbours_new", Hook::Typed("sched_wakeup_new"))?;
        object.attach("neighbours_wakeup", Hook::Typed("sched_wakeup"))?;
        Ok(Neighbours { object })
    }

    /// Returns all time waited since the start, that of waits which go on included. Observing
    /// continues.
    ///
    /// # Errors
    /// The tables cannot be read.
    pub fn read(&self) -> Result<NeighbourTable, Error> {
        let [lost_places, lost_tasks, lost_rows, unseen_ends] = self.object.counts()?;
        let mut table = NeighbourTable {
            lost_places,
            lost_tasks,
            lost_rows,
            unseen_ends,
            ..NeighbourTable::default()
        };
        let map: HashMap<&MapData, [u64; 3], [u64; 3]> =
            HashMap::try_from(self.object.map("rows")?)?;
        for row in map.iter() {
            let (key, value) = row?;
            table.takings.extend(taking(&key, &value));
        }
        let now = monotonic_ns();
        let map: Array<&MapData, [u64; CPU_WORDS + PLACES * PLACE_WORDS]> =
            Array::try_from(self.object.map("cpus")?)?;
        for cpu in map.iter() {
            let cpu = cpu?;
            let (head, places) = cpu.split_at(CPU_WORDS);
            let knows = halves(head[7]).0;
            table.knows_interrupts |= knows & 1 != 0;
            table.knows_steal |= knows & 2 != 0;
            // A CPU without a switch has no clock that is known.
            let now = match head[5] {
                0 => continue,
                offset => now.saturating_sub(offset),
            };
            let (places, _) = places.as_chunks::<PLACE_WORDS>();
            for place in places {
                table.takings.extend(unsettled(head, place, now));
            }
        }
        table.takings = merged(table.takings);
        Ok(table)
    }
}

/// Decodes `struct row_key` and `struct row` of neighbours.bpf.c.
fn taking(key: &[u64; 3], value: &[u64; 3]) -> Option<Taking> {
    let [victim, cgroup, who] = *key;
    let [ns, name @ ..] = *value;
    let (pid, by) = halves(who);
    let taker = match by {
        0 => Taker::Process { cgroup, pid },
        1 => Taker::Idle,
        QUOTA => Taker::Quota,
        3 => Taker::Interrupt,
        4 => Taker::Steal,
        _ => return None,
    };
    let comm = match taker {
        Taker::Process { .. } => comm(name),
        _ => String::new(),
    };
    Some(Taking {
        victim,
        taker,
        comm,
        ns,
    })
}

/// Time of a place that is in no row: that of those that ran last, and what no switch has charged yet, to the quota and
/// to whoever runs there.
fn unsettled<'a>(
    head: &'a [u64],
    place: &'a [u64; PLACE_WORDS],
    now: u64,
) -> impl Iterator<Item = Taking> + 'a {
    let [
        _queue,
        victim,
        waiting,
        throttled,
        takers @ ..,
        is_throttled,
    ] = place;
    let (takers, _) = takers.as_chunks::<TAKER_WORDS>();
    let last = takers.iter().map(|[cgroup, who, first, second, ns]| {
        let key = [*victim, *cgroup, *who];
        (key, [*ns, *first, *second])
    });
    let quota = [*victim, 0, u64::from(QUOTA) << 32];
    let running = match *is_throttled {
        0 => [*victim, head[8], head[9]],
        _ => quota,
    };
    let running = (running, [due_ns(*waiting, now), head[10], head[11]]);
    let quota = (quota, [due_ns(*throttled, now), 0, 0]);
    let all = last.chain([running, quota]);
    let all = all.filter_map(|(key, value)| taking(&key, &value));
    all.filter(|taking| taking.ns > 0)
}

/// Time that is due of a place's sum: see `take` of neighbours.bpf.c.
fn due_ns(word: u64, now: u64) -> u64 {
    let above = 64 - TIME_BITS;
    let starts = (word << above).cast_signed() >> above;
    let tasks = word.wrapping_sub(starts.cast_unsigned()) >> TIME_BITS;
    let due = starts.wrapping_add(tasks.wrapping_mul(now).cast_signed());
    u64::try_from(due).unwrap_or(0)
}

/// One row for each group and taker.
fn merged(takings: Vec<Taking>) -> Vec<Taking> {
    let mut rows: BTreeMap<(u64, Taker), Taking> = BTreeMap::new();
    for taking in takings {
        let key = (taking.victim, taking.taker.clone());
        match rows.get_mut(&key) {
            Some(row) => row.ns += taking.ns,
            None => {
                rows.insert(key, taking);
            }
        }
    }
    rows.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_TASK: u64 = 1 << TIME_BITS;

    #[test]
    fn a_sum_has_its_tasks_and_their_time() {
        assert_eq!(due_ns(0, 1000), 0);
        // Two tasks that came at 100 and at 300.
        let word = (2 * ONE_TASK).wrapping_sub(400);
        assert_eq!(due_ns(word, 1000), 1600);
        // One of them went at 500, and the sum has its time still.
        let word = word.wrapping_sub(ONE_TASK).wrapping_add(500);
        assert_eq!(due_ns(word, 1000), 1100);
        // A reader's clock may be behind.
        assert_eq!(due_ns(ONE_TASK.wrapping_sub(2000), 1000), 0);
    }

    /// Before Linux 6.18 all tasks of a throttled queue wait for its quota, whoever runs.
    #[test]
    fn who_waits_in_a_throttled_queue_waits_for_the_quota() {
        let head = [0; CPU_WORDS];
        let mut place = [0; PLACE_WORDS];
        (place[1], place[2]) = (7, ONE_TASK.wrapping_sub(400));
        let of = |place: &[u64; PLACE_WORDS]| -> Vec<(Taker, u64)> {
            let rows = unsettled(&head, place, 1000);
            rows.map(|row| (row.taker, row.ns)).collect()
        };
        let nobody = Taker::Process { cgroup: 0, pid: 0 };
        assert_eq!(of(&place), [(nobody, 600)]);
        place[PLACE_WORDS - 1] = 1;
        assert_eq!(of(&place), [(Taker::Quota, 600)]);
    }

    #[test]
    fn a_window_has_what_came_since_the_one_before() {
        let row = |taker, ns| Taking {
            victim: 7,
            taker,
            comm: String::new(),
            ns,
        };
        let table = |takings, lost_rows| NeighbourTable {
            takings,
            lost_rows,
            ..NeighbourTable::default()
        };
        let before = table(vec![row(Taker::Idle, 5), row(Taker::Quota, 4)], 2);
        let rows = vec![
            row(Taker::Idle, 5),
            row(Taker::Quota, 10),
            row(Taker::Steal, 1),
        ];
        let since = table(rows, 3).since(&before);
        let expected = vec![row(Taker::Quota, 6), row(Taker::Steal, 1)];
        assert_eq!(since, table(expected, 1));
    }

    #[test]
    fn time_that_is_due_joins_its_row() {
        let row = |ns| Taking {
            victim: 7,
            taker: Taker::Quota,
            comm: String::new(),
            ns,
        };
        let other = Taking {
            taker: Taker::Idle,
            ..row(1)
        };
        let rows = merged(vec![row(5), other.clone(), row(6)]);
        assert_eq!(rows, [other, row(11)]);
    }
}
