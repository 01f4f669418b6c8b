//! Wake-up latency: the time from waking a sleeping task until it runs.

use aya::maps::{Array, HashMap, MapData};

use crate::object::{Hook, Object, image};
use crate::{Error, Filter, comm, halves};

/// Slots of a histogram: four for each power of two of nanoseconds.
pub const SLOTS: usize = 160;

/// Words of `struct latencies` of wakeups.bpf.c.
const WORDS: usize = 6 + SLOTS / 2;

/// Latencies as a histogram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Latencies {
    /// Number of latencies.
    pub count: u64,
    /// Sum of latencies.
    pub sum_ns: u64,
    /// Longest latency.
    pub longest_ns: u64,
    /// Number in each slot; [`slot_start_ns`] has the bounds.
    pub slots: Vec<u32>,
}

/// Shortest latency of slot `slot`. The last slot takes all longer ones too.
pub fn slot_start_ns(slot: usize) -> u64 {
    match slot {
        0..4 => slot as u64,
        _ => (4 + slot as u64 % 4) << (slot / 4 - 1),
    }
}

/// Wake-ups of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskLatencies {
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its name at the first wake-up.
    pub comm: String,
    /// From waking to running.
    pub latencies: Latencies,
}

/// Wake-ups up to now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WakeupTable {
    /// By thread, in the order of their numbers.
    pub tasks: Vec<TaskLatencies>,
    /// By the CPU on which they ran; CPUs without wake-ups are left out.
    pub cpus: Vec<(u32, Latencies)>,
    /// All wake-ups that ended.
    pub count: u64,
    /// Wake-ups that are missing because 16,384 tasks waited for a CPU already.
    pub lost_wakes: u64,
    /// Wake-ups that are in the rows of CPUs alone, because 4,096 tasks have rows.
    pub lost_tasks: u64,
}

/// Programs that measure wake-ups until this is dropped.
#[derive(Debug)]
pub struct Wakeups {
    object: Object,
}

impl Wakeups {
    /// Starts to measure the wake-ups of the tasks of `filter`.
    ///
    /// # Errors
    /// The programs cannot be loaded or attached here.
    pub fn attach(filter: &Filter) -> Result<Wakeups, Error> {
        let mut object = Object::open_filtered(image::WAKEUPS, filter, &[])?;
        object.attach("wakeups_switch", Hook::Typed("sched_switch"))?;
        object.attach("wakeups_new", Hook::Typed("sched_wakeup_new"))?;
        object.attach("wakeups_wakeup", Hook::Typed("sched_wakeup"))?;
        object.attach("wakeups_waking", Hook::Typed("sched_waking"))?;
        Ok(Wakeups { object })
    }

    /// Returns all wake-ups since the start. Measuring continues.
    ///
    /// # Errors
    /// The tables cannot be read.
    pub fn read(&self) -> Result<WakeupTable, Error> {
        let map: HashMap<&MapData, u32, [u64; WORDS]> =
            HashMap::try_from(self.object.map("tasks")?)?;
        let mut tasks = Vec::new();
        for row in map.iter() {
            let (tid, words) = row?;
            tasks.push(task(tid, &words));
        }
        tasks.sort_by_key(|task| task.tid);
        let map: Array<&MapData, [u64; WORDS]> = Array::try_from(self.object.map("cpus")?)?;
        let mut cpus = Vec::new();
        for (cpu, row) in (0..).zip(map.iter()) {
            let latencies = latencies(&row?);
            cpus.extend((latencies.count > 0).then_some((cpu, latencies)));
        }
        let [count, lost_wakes, lost_tasks] = self.object.counts()?;
        Ok(WakeupTable {
            tasks,
            cpus,
            count,
            lost_wakes,
            lost_tasks,
        })
    }
}

fn task(tid: u32, words: &[u64; WORDS]) -> TaskLatencies {
    TaskLatencies {
        tid,
        pid: halves(words[3]).0,
        comm: comm([words[4], words[5]]),
        latencies: latencies(words),
    }
}

/// Decodes `struct latencies` of wakeups.bpf.c.
fn latencies(words: &[u64; WORDS]) -> Latencies {
    let [count, sum_ns, longest_ns, _pid, _name, _rest, slots @ ..] = words;
    let slots = slots.iter().map(|word| halves(*word));
    Latencies {
        count: *count,
        sum_ns: *sum_ns,
        longest_ns: *longest_ns,
        slots: slots.flat_map(|(low, high)| [low, high]).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule of wakeups.bpf.c, written another way.
    fn slot_of(ns: u64) -> usize {
        (0..SLOTS)
            .rev()
            .find(|&slot| slot_start_ns(slot) <= ns)
            .unwrap()
    }

    #[test]
    fn slots_are_quarters_of_powers_of_two() {
        let starts: Vec<u64> = (0..13).map(slot_start_ns).collect();
        assert_eq!(starts, [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16]);
        assert_eq!(slot_start_ns(SLOTS - 1), 7 << 38);
        assert_eq!(
            (slot_of(9), slot_of(10), slot_of(1 << 50)),
            (8, 9, SLOTS - 1)
        );
    }
}
