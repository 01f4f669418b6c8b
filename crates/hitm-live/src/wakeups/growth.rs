//! Growth of the table of wake-ups between readings.

use std::collections::BTreeMap;

use hitm_bpf::{Latencies, TaskLatencies, WakeupTable, slot_start_ns};

/// Returns the wake-ups of `now` without those of `before`. Tasks and CPUs without any are left
/// out.
pub(super) fn since(now: &WakeupTable, before: &WakeupTable) -> WakeupTable {
    let tasks: BTreeMap<u32, &Latencies> = before
        .tasks
        .iter()
        .map(|task| (task.tid, &task.latencies))
        .collect();
    let cpus: BTreeMap<u32, &Latencies> =
        before.cpus.iter().map(|(cpu, own)| (*cpu, own)).collect();
    let of_task = |task: &TaskLatencies| {
        let latencies = grown(&task.latencies, tasks.get(&task.tid).copied())?;
        Some(TaskLatencies {
            latencies,
            ..task.clone()
        })
    };
    let of_cpu = |(cpu, own): &(u32, Latencies)| Some((*cpu, grown(own, cpus.get(cpu).copied())?));
    WakeupTable {
        tasks: now.tasks.iter().filter_map(of_task).collect(),
        cpus: now.cpus.iter().filter_map(of_cpu).collect(),
        count: now.count.saturating_sub(before.count),
        lost_wakes: now.lost_wakes.saturating_sub(before.lost_wakes),
        lost_tasks: now.lost_tasks.saturating_sub(before.lost_tasks),
    }
}

/// None where nothing grew. The longest latency is exact if it is the longest so far, else the end
/// of its slot.
fn grown(now: &Latencies, before: Option<&Latencies>) -> Option<Latencies> {
    let Some(before) = before else {
        return (now.count > 0).then(|| now.clone());
    };
    let count = now.count.saturating_sub(before.count);
    if count == 0 {
        return None;
    }
    let slots = now.slots.iter().zip(&before.slots);
    // Counters of a slot wrap.
    let slots: Vec<u32> = slots
        .map(|(now, before)| now.wrapping_sub(*before))
        .collect();
    let last = slots.iter().rposition(|count| *count > 0).unwrap_or(0);
    let longest_ns = match now.longest_ns > before.longest_ns {
        true => now.longest_ns,
        false => now
            .longest_ns
            .min(slot_start_ns(last + 1).saturating_sub(1)),
    };
    Some(Latencies {
        count,
        sum_ns: now.sum_ns.saturating_sub(before.sum_ns),
        longest_ns,
        slots,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latencies(all: &[(usize, u32)], longest_ns: u64) -> Latencies {
        let mut slots = vec![0; hitm_bpf::SLOTS];
        for (slot, count) in all {
            slots[*slot] = *count;
        }
        Latencies {
            count: all.iter().map(|(_, count)| u64::from(*count)).sum(),
            sum_ns: 100,
            longest_ns,
            slots,
        }
    }

    fn table(latencies: Latencies) -> WakeupTable {
        WakeupTable {
            count: latencies.count,
            tasks: vec![TaskLatencies {
                tid: 7,
                pid: 7,
                comm: "a".into(),
                latencies,
            }],
            ..WakeupTable::default()
        }
    }

    #[test]
    fn a_window_has_its_own_wakeups() {
        // Slots 8 and 12 begin at 8 and at 16 ns.
        let first = table(latencies(&[(8, 2), (12, 1)], 18));
        let second = table(latencies(&[(8, 5), (12, 1)], 18));
        let third = table(latencies(&[(8, 5), (12, 2)], 19));
        let seen = since(&second, &first);
        let own = &seen.tasks[0].latencies;
        assert_eq!((seen.count, own.count, own.slots[8]), (3, 3, 3));
        // Not the 18 ns of the window before.
        assert_eq!((own.slots[12], own.longest_ns), (0, 9));
        assert_eq!(since(&third, &second).tasks[0].latencies.longest_ns, 19);
        assert_eq!(since(&third, &third).tasks, []);
        assert_eq!(since(&first, &WakeupTable::default()), first);
    }
}
