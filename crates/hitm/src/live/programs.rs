//! Processes while they run: their cgroups, their mapped files.

use hitm_layout::Mapping;
use hitm_live::procfs;

/// Mappings of one process that are kept.
const MAPPINGS_MAX: usize = 4096;

/// A cgroup's path below its hierarchy's root, whatever way it was typed: `/sys/fs/cgroup/cpu/a`,
/// `/a`, `a` and `a/` are all `/a`.
pub(super) fn cgroup_path(typed: &str) -> String {
    let below_mount = mounts().iter().find_map(|mount| {
        let rest = typed.strip_prefix(mount.as_str())?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    });
    let path = below_mount.unwrap_or(typed).trim_matches('/');
    format!("/{path}")
}

/// Mount points of the hierarchies of cgroups, the longest path first.
fn mounts() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (_, place, kind) = (words.next()?, words.next()?, words.next()?);
        kind.starts_with("cgroup").then(|| place.to_owned())
    });
    let mut mounts: Vec<String> = lines.collect();
    mounts.sort_by_key(|mount| usize::MAX - mount.len());
    mounts
}

/// Returns true if process `pid` is in the cgroup or in one below it, in any hierarchy.
pub(super) fn is_in_cgroup(pid: u32, path: &str) -> bool {
    let groups = procfs::cgroups(pid).unwrap_or_default();
    groups.iter().any(|(_, group)| group.starts_with(path))
}

/// Returns true while a process has not ended. A zombie has.
pub(super) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes());
    state.is_some_and(|rest| !matches!(rest.first(), Some(b'Z' | b'X')))
}

/// The processes in the cgroup and in those below it.
pub(super) fn in_cgroup(path: &str) -> Vec<u32> {
    let processes = procfs::processes().unwrap_or_default();
    let members = processes.into_iter();
    members.filter(|pid| is_in_cgroup(*pid, path)).collect()
}

/// The executable mappings of a process; none when it is gone.
pub(super) fn mappings(pid: u32) -> Vec<Mapping> {
    let text = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mappings = text.lines().filter_map(mapping);
    mappings.take(MAPPINGS_MAX).collect()
}

/// A line of proc_pid_maps(5) that code may be in.
fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let is_executable = words.next()?.as_bytes().get(2) == Some(&b'x');
    let file_offset = hex(words.next()?)?;
    let path = words.nth(2).unwrap_or_default().trim_start();
    is_executable.then_some(Mapping {
        start: hex(start)?,
        end: hex(end)?,
        file_offset,
        path: path.to_owned(),
        build_id: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_maps() {
        let line = "7f00-7f80 r-xp 00001000 08:01 42                         /usr/lib/a b.so";
        let found = mapping(line).unwrap();
        assert_eq!(
            (found.start, found.end, found.file_offset),
            (0x7f00, 0x7f80, 0x1000)
        );
        assert_eq!(found.path, "/usr/lib/a b.so");
        assert_eq!(mapping(&line.replace("r-xp", "rw-p")), None);
        assert_eq!(
            mapping("7f00-7f80 r-xp 0 0 0").map(|found| found.path),
            Some(String::new())
        );
        assert_eq!(mapping("junk"), None);
    }

    #[test]
    fn paths_of_cgroups_begin_at_the_root() {
        for typed in ["a/b", "/a/b", "/a/b/"] {
            assert_eq!(cgroup_path(typed), "/a/b");
        }
    }

    #[test]
    fn this_process_maps_itself() {
        let own = mappings(std::process::id());
        let code = this_process_maps_itself as fn() as usize as u64;
        assert!(
            own.iter()
                .any(|mapping| (mapping.start..mapping.end).contains(&code))
        );
    }
}
