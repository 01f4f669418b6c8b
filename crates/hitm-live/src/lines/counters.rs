//! Counters of the hardware that tell addresses, where the host has them: loads that took long on Intel, IBS on AMD.
//!
//! They choose lines to watch, and better than clocks do: an address comes with where its data came from. What a line
//! costs is told by clocks alone.

use std::fs;
use std::io;
use std::path::Path;

use super::event::{self, Whom};
use super::is_kernels;
use crate::sampler::record::{Words, each};
use crate::sampler::ring::{Attributes, Ring, kind};

/// Kernel's folder of what can count.
const DEVICES: &str = "/sys/bus/event_source/devices";
/// Samples in a second that the kernel aims at, of each CPU.
const FREQUENCY: u64 = 999;
/// Cycles from which on a load is sampled: none that a cache of its core has.
const LATENCY_MIN: u64 = 30;
const RING_BYTES: usize = 64 << 10;

/// A counter that tells addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Counter {
    /// Its name, as perf has it.
    pub(super) name: String,
    kind: u64,
    config: u64,
    config1: u64,
    /// Flags of `struct perf_event_attr`.
    flags: u64,
}

/// An access that a counter saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CountedAccess {
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// First byte.
    pub address: u64,
    /// True if another cache had the line modified.
    pub is_hitm: bool,
}

impl Counter {
    /// The best one of this host.
    fn of_host() -> Option<Counter> {
        Counter::find(Path::new(DEVICES))
    }

    fn find(devices: &Path) -> Option<Counter> {
        // Newer Intel CPUs count loads in a group with an event of its own, which is not done here.
        let intel = Counter::loads(devices);
        intel.or_else(|| Counter::ibs(devices))
    }

    /// Loads that took long (PEBS).
    fn loads(devices: &Path) -> Option<Counter> {
        const EXCLUDE_KERNEL: u64 = 1 << 5;
        const EXCLUDE_HV: u64 = 1 << 6;
        const PRECISE: u64 = 2 << 15;
        let device = devices.join("cpu");
        let event = fs::read_to_string(device.join("events/mem-loads")).ok()?;
        if device.join("events/mem-loads-aux").exists() {
            return None;
        }
        let value = |key: &str| {
            let parts = event.trim().split(',');
            let mut values = parts.filter_map(|part| part.strip_prefix(key)?.strip_prefix('='));
            let value = values.next()?;
            u64::from_str_radix(value.trim_start_matches("0x"), 16).ok()
        };
        Some(Counter {
            name: format!("cpu/mem-loads,ldlat={LATENCY_MIN}/P"),
            kind: number_of(&device)?,
            config: value("event")? | value("umask")? << 8,
            config1: LATENCY_MIN,
            flags: EXCLUDE_KERNEL | EXCLUDE_HV | PRECISE,
        })
    }

    /// Operations by chance (IBS), which leave out nobody: the kernel's are dropped here.
    fn ibs(devices: &Path) -> Option<Counter> {
        Some(Counter {
            name: "ibs_op//".to_owned(),
            kind: number_of(&devices.join("ibs_op"))?,
            config: 0,
            config1: 0,
            flags: 0,
        })
    }

    /// Attributes of samples of `IDENTIFIER | TID | ADDR | DATA_SRC`.
    fn attributes(&self) -> Attributes {
        const SAMPLE_TYPE: u64 = 1 << 16 | 1 << 1 | 1 << 3 | 1 << 15;
        const DISABLED: u64 = 1;
        const IS_FREQUENCY: u64 = 1 << 10;
        let mut words = [0; 14];
        words[0] = kind(self.kind);
        words[1] = self.config;
        words[2] = FREQUENCY;
        words[3] = SAMPLE_TYPE;
        words[5] = self.flags | DISABLED | IS_FREQUENCY;
        words[7] = self.config1;
        words
    }
}

/// Number of a device among the kinds of events.
fn number_of(device: &Path) -> Option<u64> {
    let text = fs::read_to_string(device.join("type")).ok()?;
    text.trim().parse().ok()
}

/// Counters of all CPUs; none where the host has none, or does not allow them.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Name of the counter.
    pub(super) name: Option<String>,
    rings: Vec<Ring>,
}

impl Counters {
    pub(super) fn of_cpus(cpus: &[u32]) -> Counters {
        let Some(counter) = Counter::of_host() else {
            return Counters::default();
        };
        let open = |cpu: &u32| {
            let event = Whom::Cpu(*cpu).open(counter.attributes())?;
            Ring::of(event, RING_BYTES)
        };
        match cpus.iter().map(open).collect::<io::Result<Vec<Ring>>>() {
            Ok(rings) => Counters {
                name: Some(counter.name),
                rings,
            },
            // Others may have it, or it takes more rights than clocks do.
            Err(_) => Counters::default(),
        }
    }

    /// Lets them count, or stops them.
    pub(super) fn tick(&self, ticks: bool) {
        let rings = self.rings.iter();
        rings.for_each(|ring| event::enable(ring.file(), ticks));
    }

    /// Passes on what they have seen.
    pub(super) fn drain(&mut self, mut sink: impl FnMut(CountedAccess)) {
        for ring in &mut self.rings {
            let mut bytes = Vec::new();
            ring.read(&mut bytes);
            parse(&bytes, &mut sink);
        }
    }
}

/// Decodes samples, up to one that is cut off. Those without an address, and of the kernel, are left out.
fn parse(bytes: &[u8], mut sink: impl FnMut(CountedAccess)) {
    each(bytes, |kind, words| {
        const SAMPLE: u32 = 9;
        let access = (kind == SAMPLE).then(|| access(words)).flatten();
        let access = access.filter(|access| access.address != 0 && !is_kernels(access.address));
        access.into_iter().for_each(&mut sink);
    });
}

fn access(mut words: Words<'_>) -> Option<CountedAccess> {
    /// `PERF_MEM_SNOOP_HITM` at `PERF_MEM_SNOOP_SHIFT`.
    const HITM: u64 = 0x10 << 19;
    let _event = words.next()?;
    let ids = words.next()?;
    let address = words.next()?;
    let source = words.next()?;
    Some(CountedAccess {
        pid: ids as u32,
        tid: (ids >> 32) as u32,
        address,
        is_hitm: source & HITM != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::record::record;

    fn devices(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn each_vendor_has_its_counter() {
        let skylake = [
            ("cpu/type", "4\n"),
            ("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n"),
        ];
        let found = |files: &[(&str, &str)]| Counter::find(devices(files).path());
        let loads = found(&skylake).unwrap();
        assert_eq!(loads.name, "cpu/mem-loads,ldlat=30/P");
        let words = loads.attributes();
        assert_eq!((words[0] as u32, words[1], words[7]), (4, 0x1cd, 30));
        // Precise, without the kernel, disabled.
        assert_eq!(words[5] & (3 << 15 | 1 << 5 | 1), 2 << 15 | 1 << 5 | 1);
        let aux = [&skylake[..], &[("cpu/events/mem-loads-aux", "event=0x03")]].concat();
        assert_eq!(found(&aux), None);
        let ibs = found(&[("cpu/type", "4\n"), ("ibs_op/type", "11\n")]).unwrap();
        assert_eq!(
            (ibs.name.as_str(), ibs.attributes()[0] as u32),
            ("ibs_op//", 11)
        );
        assert_eq!(found(&[("software/type", "1\n")]), None);
        let damaged = [("cpu/type", "4"), ("cpu/events/mem-loads", "event=x")];
        assert_eq!(found(&damaged), None);
    }

    #[test]
    fn samples_have_an_address_and_where_the_data_came_from() {
        const HITM: u64 = 0x10 << 19;
        let kernel = 0xffff_8000_0000_0040;
        let bytes = [
            record(9, &[7, 3 | 4 << 32, 0x40, HITM]),
            record(9, &[7, 3 | 4 << 32, 0x80, 0x02 << 19]),
            record(9, &[7, 3 | 4 << 32, 0, HITM]),
            record(9, &[7, 3 | 4 << 32, kernel, HITM]),
            record(2, &[7, 1]),
            record(9, &[7, 3]),
        ];
        let mut found = Vec::new();
        parse(&bytes.concat(), |access| found.push(access));
        let at = |address, is_hitm| CountedAccess {
            pid: 3,
            tid: 4,
            address,
            is_hitm,
        };
        assert_eq!(found, [at(0x40, true), at(0x80, false)]);
    }
}
