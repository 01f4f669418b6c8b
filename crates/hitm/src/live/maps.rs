//! Mappings of running processes.

use std::fs;

use hitm_base::{AddrRange, MapsLine};
use hitm_layout::Mapping;

/// Mappings of one process that are kept: the kernel's own limit, `vm.max_map_count`.
const AREAS_MAX: usize = 1 << 16;

/// One mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) range: AddrRange,
    pub(super) offset: u64,
    pub(super) path: String,
    pub(super) is_executable: bool,
    pub(super) is_writable: bool,
    /// The file whose memory processes share.
    pub(super) shared: Option<FileId>,
    /// Build id of its file, where somebody took a note of it.
    pub(super) build_id: Option<Vec<u8>>,
}

/// A file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(super) const fn new(device: u64, inode: u64) -> FileId {
        FileId { device, inode }
    }
}

impl Area {
    /// Parses a line of proc_pid_maps(5).
    pub(super) fn parse(line: &str) -> Option<Area> {
        let line = MapsLine::parse(line)?;
        let file = FileId {
            device: line.device,
            inode: line.inode,
        };
        Some(Area {
            range: line.range,
            offset: line.offset,
            path: line.path.to_owned(),
            is_executable: line.has('x'),
            is_writable: line.has('w'),
            shared: (line.has('s') && line.inode != 0).then_some(file),
            build_id: None,
        })
    }

    /// The mapping, if it may hold code or a file's variables.
    pub(super) fn named(&self) -> Option<Mapping> {
        (self.is_executable || self.path.starts_with('/')).then(|| Mapping {
            start: self.range.start(),
            end: self.range.end(),
            file_offset: self.offset,
            path: self.path.clone(),
            build_id: self.build_id.clone(),
        })
    }
}

/// Mappings of a process, by address; none when it has ended.
pub(super) fn areas(pid: u32) -> Vec<Area> {
    let text = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let areas = text.lines().filter_map(Area::parse);
    areas.take(AREAS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_maps() {
        let named = |line: &str| Area::parse(line).and_then(|area| area.named());
        let line = "7f00-7f80 r-xp 00001000 08:01 42                         /usr/lib/a b.so";
        let found = named(line).unwrap();
        assert_eq!(
            (found.start, found.end, found.file_offset),
            (0x7f00, 0x7f80, 0x1000)
        );
        assert_eq!(found.path, "/usr/lib/a b.so");
        assert!(named(&line.replace("r-xp", "rw-p")).is_some());
        let anonymous = line.replace("r-xp", "rw-p").replace("/usr/lib/a b.so", "");
        assert_eq!(named(&anonymous), None);
        assert_eq!(
            named("7f00-7f80 r-xp 0 0:0 0").map(|found| found.path),
            Some(String::new())
        );
        assert_eq!(Area::parse("junk"), None);
    }

    #[test]
    fn this_process_maps_itself() {
        let code = this_process_maps_itself as fn() as usize as u64;
        let own = areas(std::process::id());
        assert!(own.iter().any(|area| area.range.contains(code)));
    }
}
