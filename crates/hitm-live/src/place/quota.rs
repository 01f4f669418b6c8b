//! CPUs that the quotas of a group of tasks are worth: `cpu.max`, and version 1's `cpu.cfs_quota_us`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::system::System;
use super::task::{Mounts, Task};

/// CPUs that all the tasks' quotas together are worth, rounded up; `None` when a task has none.
///
/// The tightest quota on a task's way to the root bounds it. Tasks below one quota share it.
pub(super) fn quota_cpus(system: &dyn System, mounts: &Mounts, tasks: &[Task]) -> Option<usize> {
    let mut bounds = BTreeMap::new();
    let mut known: BTreeMap<PathBuf, Option<u64>> = BTreeMap::new();
    for task in tasks {
        let (folder, thousandths) = tightest(system, mounts, task, &mut known)?;
        bounds.insert(folder, thousandths);
    }
    let sum = bounds
        .values()
        .fold(0u64, |sum, worth| sum.saturating_add(*worth));
    (!bounds.is_empty()).then(|| {
        usize::try_from(sum.div_ceil(1000))
            .unwrap_or(usize::MAX)
            .max(1)
    })
}

fn tightest(
    system: &dyn System,
    mounts: &Mounts,
    task: &Task,
    known: &mut BTreeMap<PathBuf, Option<u64>>,
) -> Option<(PathBuf, u64)> {
    let hierarchies = [
        (&mounts.unified, &task.cgroups.unified),
        (&mounts.cpu, &task.cgroups.cpu),
    ];
    let mut found: Vec<(u64, PathBuf)> = Vec::new();
    for (mount, folder) in hierarchies {
        let (Some(mount), Some(folder)) = (mount, folder) else {
            continue;
        };
        let way = folder
            .ancestors()
            .take_while(|folder| folder.starts_with(&mount.point));
        for folder in way {
            let entry = known.entry(folder.to_owned());
            let worth = entry.or_insert_with(|| thousandths(system, folder));
            found.extend(worth.map(|worth| (worth, folder.to_owned())));
        }
    }
    found
        .into_iter()
        .min()
        .map(|(worth, folder)| (folder, worth))
}

/// Thousandths of a CPU that one cgroup's quota is worth.
fn thousandths(system: &dyn System, folder: &Path) -> Option<u64> {
    let text = |name: &str| system.read(&folder.join(name)).ok();
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let (quota, period) = match text("cpu.max") {
        Some(line) => {
            let (quota, period) = line.trim().split_once(' ')?;
            (number(quota)?, number(period)?)
        }
        // Without a quota it is -1.
        None => (
            number(&text("cpu.cfs_quota_us")?)?,
            number(&text("cpu.cfs_period_us")?)?,
        ),
    };
    (period > 0).then(|| quota.saturating_mul(1000) / period)
}
