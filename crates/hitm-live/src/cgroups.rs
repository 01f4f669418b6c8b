//! Groups with quotas of CPU time: the cpu controller's hierarchy, of cgroup version 1 or 2.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::procfs::{self, Mounted, parse_mounts, tids};

/// Groups that a scan keeps; those beyond are counted.
const GROUPS_MAX: usize = 65_536;

/// A hierarchy with the cpu controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    root: PathBuf,
    version: Version,
}

/// The interface of a hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// cpu.cfs_quota_us and its like.
    One,
    /// cpu.max.
    Two,
}

/// CPU time that a group may use in each period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bandwidth {
    /// CPU time in each period.
    pub quota_us: u64,
    /// The length of a period.
    pub period_us: u64,
    /// Unused time of earlier periods that one period may use in addition.
    pub burst_us: u64,
}

impl Bandwidth {
    /// The CPUs that the quota is worth.
    pub fn cpus(self) -> f64 {
        self.quota_us as f64 / self.period_us.max(1) as f64
    }
}

/// Counters of cpu.stat about throttling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuStat {
    /// Periods in which the group ran.
    pub periods: u64,
    /// Periods in which it used up its quota.
    pub throttled_periods: u64,
    /// Time for which its queues were throttled, summed over CPUs.
    pub throttled_ns: u64,
    /// Periods in which it used time left over from earlier ones.
    pub bursts: u64,
}

/// A cgroup with its place in the hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its folder below the root, `/` for the root.
    pub path: String,
    /// Parent group; none for the root.
    pub parent: Option<u64>,
    /// Its quota, if it has one.
    pub bandwidth: Option<Bandwidth>,
    /// Groups in its subtree, itself included.
    pub subtree: u64,
}

/// All groups of a hierarchy by the inode number of their folder, which is the kernel's number of the group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tree {
    groups: BTreeMap<u64, Group>,
    /// Groups beyond the limit.
    pub left_out: u64,
}

impl Hierarchy {
    /// Finds the hierarchy that has the cpu controller.
    ///
    /// # Errors
    /// The list of mounts cannot be read, or none has the controller.
    pub fn find() -> io::Result<Hierarchy> {
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let has_cpu = |root: &Path| {
            let controllers = fs::read_to_string(root.join("cgroup.controllers"));
            controllers.is_ok_and(|list| list.split_ascii_whitespace().any(|name| name == "cpu"))
        };
        find_in(&mounts, has_cpu).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                "no cgroup hierarchy with the cpu controller is mounted",
            )
        })
    }

    /// The folder of the root group.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Interface of the hierarchy.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Folder of a group that the user named: a path below any hierarchy's mount, or from its root.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.root.join(path_of(name).trim_start_matches('/'))
    }

    /// Returns the group of process `pid`: a path from this hierarchy's root. None when the process
    /// has ended.
    pub fn group_of(&self, pid: u32) -> Option<String> {
        let is_ours = |controllers: &str| match self.version {
            Version::One => controllers.split(',').any(|name| name == "cpu"),
            Version::Two => controllers.is_empty(),
        };
        let groups = procfs::cgroups(pid).ok()?;
        let own = groups
            .iter()
            .find(|(controllers, _)| is_ours(controllers))?;
        Some(own.1.to_string_lossy().into_owned())
    }

    /// Number of the group in `folder`.
    ///
    /// # Errors
    /// There is no such folder.
    pub fn id(&self, folder: &Path) -> io::Result<u64> {
        fs::metadata(folder).map(|metadata| metadata.ino())
    }

    /// Reads the tree of groups. Groups that vanish meanwhile are left out.
    ///
    /// # Errors
    /// The root cannot be read.
    pub fn scan(&self) -> io::Result<Tree> {
        let mut tree = Tree::default();
        let id = self.id(&self.root)?;
        self.scan_below(&self.root, id, None, &mut tree);
        Ok(tree)
    }

    /// Depth first: a group's subtree is counted when it returns.
    fn scan_below(&self, folder: &Path, id: u64, parent: Option<u64>, tree: &mut Tree) -> u64 {
        if tree.groups.len() >= GROUPS_MAX {
            tree.left_out += 1;
            return 0;
        }
        let below = folder.strip_prefix(&self.root).unwrap_or(folder);
        let group = Group {
            path: format!("/{}", below.display()),
            parent,
            bandwidth: self.bandwidth(folder),
            subtree: 1,
        };
        tree.groups.insert(id, group);
        let mut children = Vec::new();
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                children.push(entry.path());
            }
        }
        children.sort();
        let mut subtree = 1;
        for child in children {
            if let Ok(number) = self.id(&child) {
                subtree += self.scan_below(&child, number, Some(id), tree);
            }
        }
        if let Some(group) = tree.groups.get_mut(&id) {
            group.subtree = subtree;
        }
        subtree
    }

    /// Reads the quota of the group in `folder`, if it has one.
    pub fn bandwidth(&self, folder: &Path) -> Option<Bandwidth> {
        let number = |file: &str| -> Option<i64> {
            fs::read_to_string(folder.join(file))
                .ok()?
                .trim()
                .parse()
                .ok()
        };
        match self.version {
            Version::One => Some(Bandwidth {
                quota_us: u64::try_from(number("cpu.cfs_quota_us")?).ok()?,
                period_us: u64::try_from(number("cpu.cfs_period_us")?).ok()?,
                burst_us: number("cpu.cfs_burst_us")
                    .and_then(|burst| u64::try_from(burst).ok())
                    .unwrap_or(0),
            }),
            Version::Two => {
                let max = fs::read_to_string(folder.join("cpu.max")).ok()?;
                let burst = number("cpu.max.burst").and_then(|burst| u64::try_from(burst).ok());
                parse_max(&max, burst.unwrap_or(0))
            }
        }
    }

    /// The weight of the group in `folder` among its siblings, as the kernel counts it: 1024 is usual.
    pub fn shares(&self, folder: &Path) -> Option<u64> {
        let number = |file: &str| -> Option<u64> {
            let text = fs::read_to_string(folder.join(file)).ok()?;
            text.trim().parse().ok()
        };
        match self.version {
            Version::One => number("cpu.shares"),
            // sched_weight_from_cgroup() of kernel/sched/core.c: a weight of 100 is 1024.
            Version::Two => Some(number("cpu.weight")?.saturating_mul(1024) / 100),
        }
    }

    /// Reads the counters of the group in `folder`.
    ///
    /// # Errors
    /// The group has vanished.
    pub fn stat(&self, folder: &Path) -> io::Result<CpuStat> {
        Ok(CpuStat::parse(&fs::read_to_string(
            folder.join("cpu.stat"),
        )?))
    }

    /// Reads the threads of the group in `folder`, without those of groups below it.
    ///
    /// # Errors
    /// The group has vanished.
    pub fn threads(&self, folder: &Path) -> io::Result<Vec<u32>> {
        let file = match self.version {
            Version::One => "tasks",
            Version::Two => "cgroup.threads",
        };
        let text = fs::read_to_string(folder.join(file))?;
        Ok(tids(&text).collect())
    }
}

/// Normalises a cgroup's path to one below its hierarchy's root: `/sys/fs/cgroup/cpu/a`, `/a`, `a`
/// and `a/` are all `/a`.
pub fn path_of(typed: &str) -> String {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    path_below(&mounts, typed)
}

fn path_below(mounts: &str, typed: &str) -> String {
    let below = parse_mounts(mounts).filter(|mount| mount.kind.starts_with("cgroup"));
    let below = below.filter_map(|mount| {
        let path = Path::new(typed).strip_prefix(&mount.point).ok()?;
        Some(path.to_owned())
    });
    // The longest matching mount leaves the shortest path.
    let path = below.min_by_key(|path| path.as_os_str().len());
    let path = path.unwrap_or_else(|| typed.into());
    format!("/{}", path.to_string_lossy().trim_matches('/'))
}

/// Version 1 first: where both are mounted, a controller is in only one of them.
fn find_in(mounts: &str, has_cpu: impl Fn(&Path) -> bool) -> Option<Hierarchy> {
    let hierarchy = |mount: Mounted<'_>, version| Hierarchy {
        root: mount.point,
        version,
    };
    let old = parse_mounts(mounts).find(|mount| mount.controls("cpu"));
    if let Some(old) = old {
        return Some(hierarchy(old, Version::One));
    }
    let new = parse_mounts(mounts).find(|mount| mount.kind == "cgroup2" && has_cpu(&mount.point));
    new.map(|new| hierarchy(new, Version::Two))
}

/// Parses `4000 20000` or `max 100000`.
fn parse_max(text: &str, burst_us: u64) -> Option<Bandwidth> {
    let mut words = text.split_ascii_whitespace();
    Some(Bandwidth {
        quota_us: words.next()?.parse().ok()?,
        period_us: words.next()?.parse().ok()?,
        burst_us,
    })
}

impl CpuStat {
    /// Parses cpu.stat of either version. Missing counters are zero.
    pub fn parse(text: &str) -> CpuStat {
        let mut stat = CpuStat::default();
        for line in text.lines() {
            let Some((name, value)) = line.split_once(' ') else {
                continue;
            };
            let value: u64 = value.trim().parse().unwrap_or(0);
            match name {
                "nr_periods" => stat.periods = value,
                "nr_throttled" => stat.throttled_periods = value,
                "throttled_time" => stat.throttled_ns = value,
                "throttled_usec" => stat.throttled_ns = value.saturating_mul(1000),
                "nr_bursts" => stat.bursts = value,
                _ => {}
            }
        }
        stat
    }

    /// Share of its periods in which the group used up its quota; none where it did not run.
    pub fn throttled_share(self) -> Option<f64> {
        (self.periods > 0).then(|| self.throttled_periods as f64 / self.periods as f64)
    }

    /// Growth of the counters since `earlier`.
    #[must_use]
    pub fn since(self, earlier: CpuStat) -> CpuStat {
        CpuStat {
            periods: self.periods.saturating_sub(earlier.periods),
            throttled_periods: self
                .throttled_periods
                .saturating_sub(earlier.throttled_periods),
            throttled_ns: self.throttled_ns.saturating_sub(earlier.throttled_ns),
            bursts: self.bursts.saturating_sub(earlier.bursts),
        }
    }
}

impl Tree {
    /// A tree of these groups, for tests and simulations.
    pub fn of(groups: impl IntoIterator<Item = (u64, Group)>) -> Tree {
        Tree {
            groups: groups.into_iter().collect(),
            left_out: 0,
        }
    }

    /// Takes the groups of `newer`, and keeps those that it lacks.
    pub fn merge(&mut self, newer: Tree) {
        self.groups.extend(newer.groups);
        self.left_out = newer.left_out;
    }

    /// A group by its number.
    pub fn get(&self, id: u64) -> Option<&Group> {
        self.groups.get(&id)
    }

    /// All groups, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Group)> {
        self.groups.iter().map(|(id, group)| (*id, group))
    }

    /// `id` and the groups above it, the nearest first.
    pub fn upwards(&self, id: u64) -> impl Iterator<Item = u64> {
        let parent = |id: &u64| self.groups.get(id).and_then(|group| group.parent);
        std::iter::successors(Some(id), parent)
    }

    /// The nearest group from `id` upwards with a quota, which throttles its tasks. Where several
    /// have one, a farther one may have throttled.
    pub fn limited(&self, id: u64) -> Option<u64> {
        let has_quota = |id: &u64| self.get(*id).is_some_and(|group| group.bandwidth.is_some());
        self.upwards(id).find(has_quota)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
33 31 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";
    const UNIFIED: &str =
        "29 23 0:26 / /my\\040groups rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn the_hierarchy_with_the_controller_is_found() {
        let found = find_in(HYBRID, |_| true).unwrap();
        assert_eq!(found.version(), Version::One);
        assert_eq!(found.root(), Path::new("/sys/fs/cgroup/cpu,cpuacct"));
        let found = find_in(UNIFIED, |_| true).unwrap();
        assert_eq!(
            (found.version(), found.root()),
            (Version::Two, Path::new("/my groups"))
        );
        assert_eq!(find_in(UNIFIED, |_| false), None);
    }

    #[test]
    fn groups_are_named_from_either_root() {
        let hierarchy = find_in(HYBRID, |_| true).unwrap();
        let folder = Path::new("/sys/fs/cgroup/cpu,cpuacct/a/b");
        for name in ["a/b", "/a/b", "/a/b/"] {
            assert_eq!(path_below(HYBRID, name), "/a/b");
            assert_eq!(hierarchy.folder(name), folder);
        }
        // Below the mount of another hierarchy as well.
        for root in ["/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/unified"] {
            assert_eq!(path_below(HYBRID, &format!("{root}/a/b")), "/a/b");
            assert_eq!(path_below(HYBRID, root), "/");
        }
    }

    #[test]
    fn both_versions_of_the_files_are_read() {
        let limited = parse_max("4000 20000\n", 7).unwrap();
        assert_eq!(
            (limited.quota_us, limited.period_us, limited.burst_us),
            (4000, 20000, 7)
        );
        assert_eq!(parse_max("max 100000\n", 0), None);
        let old = CpuStat::parse(
            "nr_periods 9\nnr_throttled 4\nthrottled_time 5000\nnr_bursts 1\nburst_time 3\n",
        );
        let new = CpuStat::parse(
            "usage_usec 8\nnr_periods 9\nnr_throttled 4\nthrottled_usec 5\nnr_bursts 1\n",
        );
        assert_eq!(old, new);
        assert_eq!(
            old.since(CpuStat {
                periods: 2,
                ..CpuStat::default()
            })
            .periods,
            7
        );
    }

    #[test]
    fn the_nearest_quota_throttles() {
        let group = |parent, quota: Option<u64>| Group {
            path: String::new(),
            parent,
            bandwidth: quota.map(|quota_us| Bandwidth {
                quota_us,
                period_us: 1,
                burst_us: 0,
            }),
            subtree: 1,
        };
        let tree = Tree::of([
            (1, group(None, None)),
            (2, group(Some(1), Some(5))),
            (3, group(Some(2), None)),
            (4, group(Some(1), None)),
        ]);
        assert_eq!(
            (tree.limited(3), tree.limited(4), tree.limited(9)),
            (Some(2), None, None)
        );
        assert_eq!(tree.upwards(3).collect::<Vec<_>>(), [3, 2, 1]);
    }
}
