//! Names of memory that processes share.

use hitm_trace::{Mapping, PROCESS_SHIFT, SHARED_END, SHARED_FIRST};

use super::labels::DataLabel;
use super::names::AddressNames;

/// The path that Linux gives to memory without a file.
const NO_FILE: &str = "/dev/zero";

/// Returns true if an address of a recording is of a shared object.
pub(super) fn is_shared(addr: u64) -> bool {
    (u64::from(SHARED_FIRST)..u64::from(SHARED_END)).contains(&(addr >> PROCESS_SHIFT))
}

/// The name of a shared object with this path.
fn name_of(path: &str) -> String {
    match path.rsplit('/').next() {
        _ if path == NO_FILE => "shared anonymous memory".to_owned(),
        file => format!("shared mapping of {}", file.unwrap_or(path)),
    }
}

impl AddressNames<'_> {
    /// Returns true for memory that processes share. Samples of other tools have no numbers of it.
    pub(super) fn is_shared(&self, addr: u64) -> bool {
        !self.is_inexact && is_shared(addr)
    }

    /// The shared object that holds the byte at `addr`, as far as it is mapped.
    pub(super) fn shared_label(&self, addr: u64) -> Option<DataLabel> {
        if !self.is_shared(addr) {
            return None;
        }
        let mut mappings = self.objects.mappings.iter().rev();
        let mapping: &Mapping = mappings.find(|mapping| mapping.range.contains(addr))?;
        let start = mapping.range.start();
        Some(DataLabel {
            object: name_of(&mapping.path),
            object_addr: start,
            object_size: mapping.range.len(),
            member: format!("+{:#x}", addr - start),
            ..DataLabel::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_by_their_files() {
        let names = [
            "/dev/shm/table",
            "/memfd:ring",
            "/dev/zero",
            "/SYSV0000002a",
        ]
        .map(name_of);
        let expected = [
            "shared mapping of table",
            "shared mapping of memfd:ring",
            "shared anonymous memory",
            "shared mapping of SYSV0000002a",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn addresses_say_whether_they_are_shared() {
        let of = |number: u32| u64::from(number) << PROCESS_SHIFT | 0x40;
        assert!(is_shared(of(SHARED_FIRST)) && is_shared(of(SHARED_END - 1)));
        assert!(!is_shared(of(SHARED_FIRST - 1)) && !is_shared(of(SHARED_END)) && !is_shared(0x40));
    }
}
