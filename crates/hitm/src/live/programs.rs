//! Running processes: their cgroups, their mapped files.

use hitm_base::MapsLine;
use hitm_layout::Mapping;
use hitm_live::procfs;

/// Mappings of one process that are kept.
const MAPPINGS_MAX: usize = 4096;

/// Returns true if process `pid` is in the cgroup or a descendant, in any hierarchy.
pub(super) fn is_in_cgroup(pid: u32, path: &str) -> bool {
    let groups = procfs::cgroups(pid).unwrap_or_default();
    groups.iter().any(|(_, group)| group.starts_with(path))
}

/// Processes in the cgroup and its descendants.
pub(super) fn in_cgroup(path: &str) -> Vec<u32> {
    let processes = procfs::processes().unwrap_or_default();
    let members = processes.into_iter();
    members.filter(|pid| is_in_cgroup(*pid, path)).collect()
}

/// Mappings of a process that may hold code or variables; none when it has ended.
pub(super) fn mappings(pid: u32) -> Vec<Mapping> {
    let text = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mappings = text.lines().filter_map(mapping);
    mappings.take(MAPPINGS_MAX).collect()
}

/// Parses a line of proc_pid_maps(5), if it may hold code or a file's variables.
fn mapping(line: &str) -> Option<Mapping> {
    let line = MapsLine::parse(line)?;
    (line.has('x') || line.path.starts_with('/')).then(|| Mapping {
        start: line.range.start(),
        end: line.range.end(),
        file_offset: line.offset,
        path: line.path.to_owned(),
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
        assert!(mapping(&line.replace("r-xp", "rw-p")).is_some());
        let anonymous = line.replace("r-xp", "rw-p").replace("/usr/lib/a b.so", "");
        assert_eq!(mapping(&anonymous), None);
        assert_eq!(
            mapping("7f00-7f80 r-xp 0 0:0 0").map(|found| found.path),
            Some(String::new())
        );
        assert_eq!(mapping("junk"), None);
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
