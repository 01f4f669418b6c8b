//! A guest's mappings, of the workload and of the kernel itself, as the agent sends them.
//!
//! ```text
//! line   "M " a line of /proc/PID/maps
//!      | "V " a line of /proc/vmallocinfo
//!      | "P " ADDRESS " " PHYSICAL " " PAGES     hexadecimal, hexadecimal, decimal
//! ```
//! Lines of another form are skipped: a missing name is no reason to lose a recording.

use hitm_base::{AddrRange, MapsLine};
use hitm_trace::{Mapping, Record, Region, RegionKind};

use hitm_kernel::{DIRECT_MAP, PAGE_BYTES};
use hitm_recording::VMALLOC_AREA;

/// End of user space.
const USER_END: u64 = 1 << 47;

/// Returns records for the names of the workload's code and data. `on_host` gives the path of a
/// guest's file on this host.
pub fn records(text: &str, on_host: &dyn Fn(&str) -> String) -> Vec<Record> {
    let lines = text
        .lines()
        .filter_map(|line| match line.split_at_checked(2)? {
            ("M ", rest) => mapping(rest, on_host).map(Record::Mapping),
            ("P ", rest) => run(rest).map(Record::Region),
            ("V ", rest) => area(rest).map(Record::Region),
            _ => None,
        });
    lines.collect()
}

fn mapping(line: &str, on_host: &dyn Fn(&str) -> String) -> Option<Mapping> {
    let line = MapsLine::parse(line)?;
    let range = line.range;
    (!range.is_empty() && range.end() <= USER_END).then(|| Mapping {
        range,
        file_offset: line.offset,
        path: on_host(line.opened_path()),
        build_id: Vec::new(),
        executable: line.has('x'),
    })
}

fn run(line: &str) -> Option<Region> {
    let mut words = line.split_ascii_whitespace();
    let address = hexadecimal(words.next()?)?;
    let physical = hexadecimal(words.next()?)?;
    let pages: u64 = words.next()?.parse().ok()?;
    let start = DIRECT_MAP.checked_add(physical)?;
    let range = AddrRange::with_len(start, pages.checked_mul(PAGE_BYTES)?)?;
    // The range must fit both address spaces, the machine's and the program's.
    AddrRange::with_len(address, range.len())?;
    Some(Region {
        range,
        kind: RegionKind::UserMemory { address },
    })
}

/// `0xffffc90000000000-0xffffc90000005000   20480 dup_task_struct+0x5f/0x2d0 pages=4 vmalloc`
fn area(line: &str) -> Option<Region> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let address = |text: &str| hexadecimal(text.strip_prefix("0x")?);
    let range = AddrRange::new(address(start)?, address(end)?)?;
    let _size = words.next()?;
    let owner = words.next()?;
    let owner = owner.split('+').next().unwrap_or(owner);
    let name = match owner {
        // Functions that allocate stacks, by kernel version (kernel/fork.c).
        "dup_task_struct" | "alloc_thread_stack_node" | "copy_process" => "thread stack".to_owned(),
        "unpurged" => "freed vmalloc area".to_owned(),
        _ => format!("{VMALLOC_AREA}{owner}"),
    };
    let type_name = String::new();
    let is_area = !range.is_empty() && range.start() >> 63 == 1 && !line.contains(" ioremap");
    is_area.then_some(Region {
        range,
        kind: RegionKind::Object { name, type_name },
    })
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_and_pages() {
        let text = "M 00400000-00401000 r-xp 00001000 00:02 1234   /hitm/bin/fifo_pool\n\
                    P 4c6000 1a2b000 3\n\
                    M 7ffff7ff0000-7ffff7ff4000 rw-p 00000000 00:00 0 \n\
                    M ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n\
                    P 4c6000 ffffffffffffff 99999999999999999\n\
                    V 0xffffc90000008000-0xffffc9000000d000   20480 dup_task_struct+0x5f/0x2d0 pages=4 vmalloc\n\
                    V 0xffffc90000010000-0xffffc90000012000    8192 hpet_enable+0x36/0x4b0 phys=0xfed00000 ioremap\n\
                    junk\nM 5-\nV 0x5\n";
        let found = records(text, &|path| path.replace("/hitm/bin", "/cache"));
        let range = |start, end| AddrRange::new(start, end).unwrap();
        let mapping = |start, end, file_offset, path: &str, executable| {
            Record::Mapping(Mapping {
                range: range(start, end),
                file_offset,
                path: path.into(),
                build_id: Vec::new(),
                executable,
            })
        };
        let pages = Record::Region(Region {
            range: range(0xffff_8880_01a2_b000, 0xffff_8880_01a2_e000),
            kind: RegionKind::UserMemory { address: 0x4c_6000 },
        });
        assert_eq!(
            found,
            [
                mapping(0x40_0000, 0x40_1000, 0x1000, "/cache/fifo_pool", true),
                pages,
                mapping(0x7fff_f7ff_0000, 0x7fff_f7ff_4000, 0, "", false),
                Record::Region(Region {
                    range: range(0xffff_c900_0000_8000, 0xffff_c900_0000_d000),
                    kind: RegionKind::Object {
                        name: "thread stack".into(),
                        type_name: String::new(),
                    },
                }),
            ]
        );
    }
}
