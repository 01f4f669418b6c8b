//! Decodes records of the kernel's perf rings (include/uapi/linux/perf_event.h, Linux 6.12).

use crate::lines::Registers;
use crate::lines::registers::MASK;

const CONTEXT_USER: u64 = -512_i64 as u64;

/// One record of a ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A task was running.
    Sample(RawSample),
    /// A task got a name.
    Comm {
        /// Its process.
        pid: u32,
        /// The task.
        tid: u32,
        /// The name.
        name: String,
    },
    /// A task began.
    Fork {
        /// Its process.
        pid: u32,
        /// The process of the task that made it.
        parent: u32,
        /// The task.
        tid: u32,
    },
    /// Records that were lost.
    Lost(u64),
}

/// A sample of a running task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RawSample {
    /// Its process; 0 for an idle CPU.
    pub pid: u32,
    /// The task.
    pub tid: u32,
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// The CPU that it ran on.
    pub cpu: u32,
    /// Kernel addresses, innermost first: the instruction, then each caller's return address.
    pub kernel: Vec<u64>,
    /// Addresses of the program, likewise.
    pub user: Vec<u64>,
    /// First argument of the system call that it is in, if it is in one.
    pub argument: Option<u64>,
    /// Registers of a task in its own code of 64 bits.
    pub registers: Option<Box<Registers>>,
}

/// Call-chain entries from here on are marks of the following code's context (`PERF_CONTEXT_MAX`).
pub(crate) const CONTEXTS: u64 = -4095_i64 as u64;

/// Decodes `bytes` to their end. Skips records that are cut off or of an unknown kind.
pub(super) fn parse(bytes: &[u8], mut sink: impl FnMut(Record)) {
    each(bytes, |kind, words| {
        one(kind, words).into_iter().for_each(&mut sink)
    });
}

/// Passes kind and content of each record to `sink`, up to one that is cut off.
pub(crate) fn each<'b>(bytes: &'b [u8], mut sink: impl FnMut(u32, Words<'b>)) {
    let mut rest = bytes;
    while let Some((head, _)) = rest.split_first_chunk::<8>() {
        let size = usize::from(u16::from_le_bytes([head[6], head[7]]));
        if size < 8 || size > rest.len() {
            return;
        }
        let (record, behind) = rest.split_at(size);
        let kind = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        sink(kind, Words(&record[8..]));
        rest = behind;
    }
}

fn one(kind: u32, mut words: Words<'_>) -> Option<Record> {
    match kind {
        // LOST: an id, then the number. LOST_SAMPLES has no id.
        2 => {
            words.next()?;
            Some(Record::Lost(words.next()?))
        }
        13 => Some(Record::Lost(words.next()?)),
        3 => {
            let (pid, tid) = words.pair()?;
            let name = words.0.split(|byte| *byte == 0).next()?;
            let name = String::from_utf8_lossy(name).into_owned();
            Some(Record::Comm { pid, tid, name })
        }
        7 => {
            let (pid, parent) = words.pair()?;
            let (tid, _) = words.pair()?;
            Some(Record::Fork { pid, parent, tid })
        }
        9 => sample(words).map(Record::Sample),
        _ => None,
    }
}

/// Decodes a sample of `IP | TID | TIME | CPU | CALLCHAIN | REGS_USER`.
fn sample(mut words: Words<'_>) -> Option<RawSample> {
    words.next()?;
    let (pid, tid) = words.pair()?;
    let time_ns = words.next()?;
    let (cpu, _) = words.pair()?;
    let mut sample = RawSample {
        pid,
        tid,
        time_ns,
        cpu,
        ..RawSample::default()
    };
    let mut is_user = false;
    for _ in 0..words.next()? {
        let address = words.next()?;
        if address >= CONTEXTS {
            is_user = address == CONTEXT_USER;
        } else if is_user {
            sample.user.push(address);
        } else {
            sample.kernel.push(address);
        }
    }
    // A task without a user part, such as a kernel thread, has no registers.
    const NONE: u64 = 0;
    const ABI_64: u64 = 2;
    let abi = words.next().unwrap_or(NONE);
    let registers = Registers::of(words.take(MASK.count_ones() as usize));
    match sample.kernel.is_empty() {
        true => sample.registers = (abi == ABI_64).then(|| Box::new(registers)),
        false => sample.argument = Some(registers.argument()).filter(|_| abi != NONE),
    }
    Some(sample)
}

/// Numbers at the front of bytes.
pub(crate) struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn pair(&mut self) -> Option<(u32, u32)> {
        let both = self.next()?;
        Some((both as u32, (both >> 32) as u32))
    }
}

impl Iterator for Words<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }
}

/// A record as the kernel writes it.
#[cfg(test)]
pub(crate) fn record(kind: u32, words: &[u64]) -> Vec<u8> {
    let size = 8 + 8 * words.len() as u64;
    let head = u64::from(kind) | size << 48;
    let words = [&[head], words].concat();
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Vec<Record> {
        let mut records = Vec::new();
        parse(bytes, |record| records.push(record));
        records
    }

    /// The registers' form and values, with 7 as the first argument.
    fn registers() -> Vec<u64> {
        let argument = if cfg!(target_arch = "aarch64") { 0 } else { 5 };
        let mut words = vec![0; 1 + MASK.count_ones() as usize];
        (words[0], words[1 + argument]) = (2, 7);
        words
    }

    #[test]
    fn a_sample_has_two_chains_and_an_argument() {
        let kernel = -128_i64 as u64;
        let words = [
            0x10,
            3 | 4 << 32,
            99,
            1,
            6,
            kernel,
            0xf1,
            0xf2,
            CONTEXT_USER,
            0x40,
            0x41,
        ];
        let words = [&words[..], &registers()].concat();
        let expected = RawSample {
            pid: 3,
            tid: 4,
            time_ns: 99,
            cpu: 1,
            kernel: vec![0xf1, 0xf2],
            user: vec![0x40, 0x41],
            argument: Some(7),
            registers: None,
        };
        assert_eq!(all(&record(9, &words)), [Record::Sample(expected)]);
    }

    #[test]
    fn a_task_in_its_own_code_has_no_argument() {
        let words = [0x10, 3 | 4 << 32, 99, 1, 2, CONTEXT_USER, 0x40];
        let found = all(&record(9, &[&words[..], &registers()].concat()));
        let Record::Sample(sample) = &found[0] else {
            panic!("{found:?}");
        };
        assert_eq!(sample.argument, None);
        let registers = sample.registers.as_deref().expect("it has 64 bits");
        assert_eq!(registers.argument(), 7);
    }

    #[test]
    fn what_is_cut_or_unknown_is_left_out() {
        let lost = record(2, &[8, 5]);
        let comm = record(3, &[3 | 4 << 32, u64::from_le_bytes(*b"abc\0\0\0\0\0")]);
        let unknown = record(77, &[1]);
        let mut bytes = [lost, unknown, comm].concat();
        bytes.extend(&record(2, &[8, 6])[..12]);
        let name = Record::Comm {
            pid: 3,
            tid: 4,
            name: "abc".into(),
        };
        assert_eq!(all(&bytes), [Record::Lost(5), name]);
        assert_eq!(all(&record(9, &[0, 1, 2, 3, u64::MAX])), []);
        assert_eq!(all(&[0; 16]), []);
    }
}
