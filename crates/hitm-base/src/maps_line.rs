//! Lines of `/proc/PID/maps` (proc_pid_maps(5)).
//!
//! Here, because the recorder (`hitm-qemu`) reads its own and `hitm` those of hosts and guests, which do not know each
//! other.

use crate::AddrRange;

/// A mapping of a process, as its line tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapsLine<'a> {
    /// Its addresses.
    pub range: AddrRange,
    /// Four letters, such as `r-xp`.
    pub permissions: &'a str,
    /// Place of its first byte in the file.
    pub offset: u64,
    /// Major number of the file's device in the upper half, minor number in the lower one.
    pub device: u64,
    /// The file.
    pub inode: u64,
    /// A path, a name in brackets, or nothing.
    pub path: &'a str,
}

impl<'a> MapsLine<'a> {
    /// Reads `7f00-7f80 r-xp 00001000 08:01 1234   /usr/bin/cat`; none for other lines.
    pub fn parse(line: &'a str) -> Option<MapsLine<'a>> {
        let mut words = line.splitn(6, ' ');
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (start, end) = words.next()?.split_once('-')?;
        let (permissions, offset) = (words.next()?, words.next()?);
        let (major, minor) = words.next()?.split_once(':')?;
        Some(MapsLine {
            range: AddrRange::new(number(start)?, number(end)?)?,
            permissions,
            offset: number(offset)?,
            device: number(major)? << 32 | number(minor)?,
            inode: words.next()?.parse().ok()?,
            path: words.next().unwrap_or_default().trim_start(),
        })
    }

    /// Returns true if the memory has this permission: `r`, `w`, `x`, or `s` for shared memory.
    pub fn has(&self, permission: char) -> bool {
        self.permissions.contains(permission)
    }

    /// The path under which the file was opened, although it may have gone.
    pub fn opened_path(&self) -> &'a str {
        self.path.trim_end_matches(" (deleted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_maps() {
        let text = "7f00-7f80 rw-s 00001000 fe:01 77                 /dev/a b (deleted)";
        let line = MapsLine::parse(text).unwrap();
        let expected = MapsLine {
            range: AddrRange::new(0x7f00, 0x7f80).unwrap(),
            permissions: "rw-s",
            offset: 0x1000,
            device: 0xfe << 32 | 1,
            inode: 77,
            path: "/dev/a b (deleted)",
        };
        assert_eq!(line, expected);
        assert_eq!(line.opened_path(), "/dev/a b");
        assert!(line.has('w') && !line.has('x'));
        let anonymous = MapsLine::parse("7f00-7f80 rw-p 0 0:0 0 ").unwrap();
        assert_eq!(anonymous.path, "");
        for bad in ["", "7f00", "7f80-7f00 r--p 0 0:0 0", "7f00-7f80 r--p 0"] {
            assert_eq!(MapsLine::parse(bad), None, "{bad}");
        }
    }
}
