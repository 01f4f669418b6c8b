//! Decodes the records of clocks and watches (include/uapi/linux/perf_event.h, Linux 6.12).

use super::Seen;
use super::registers::{MASK, Registers};
use crate::sampler::record::{CONTEXTS, Words, each};

/// `IDENTIFIER | IP | TID | TIME | CPU | CALLCHAIN`.
const SAMPLE_TYPE: u64 = 1 << 16 | 1 | 2 | 4 | 128 | 32;
/// The same with `REGS_USER`.
pub(super) const OF_PROGRAMS: u64 = SAMPLE_TYPE | 1 << 12;
/// The same with `REGS_INTR`, which stands at the same place.
pub(super) const OF_ALL_CODE: u64 = SAMPLE_TYPE | 1 << 18;

/// Decodes `bytes` to their end, and returns the number of records that were lost before them. Skips records that are
/// cut off or of another kind.
pub(super) fn parse(bytes: &[u8], mut sink: impl FnMut(Seen)) -> u64 {
    let mut lost = 0u64;
    each(bytes, |kind, mut words| match kind {
        // LOST: an id, then the number.
        2 => lost = lost.saturating_add(words.nth(1).unwrap_or(0)),
        9 => sample(&mut words).into_iter().for_each(&mut sink),
        _ => {}
    });
    lost
}

fn sample(words: &mut Words<'_>) -> Option<Seen> {
    let id = words.next()?;
    let code = words.next()?;
    let ids = words.next()?;
    let time_ns = words.next()?;
    let cpu = words.next()? as u32;
    let count = words.next()?;
    let mut callers = Vec::new();
    for _ in 0..count {
        let address = words.next()?;
        if address < CONTEXTS {
            callers.push(address);
        }
    }
    // The first one is the instruction itself.
    if !callers.is_empty() {
        callers.remove(0);
    }
    const ABI_64: u64 = 2;
    let registers = match words.next()? {
        ABI_64 => {
            let values: Vec<u64> = words.take(MASK.count_ones() as usize).collect();
            Some(Registers::of(values.into_iter()))
        }
        _ => None,
    };
    Some(Seen {
        event: id,
        pid: ids as u32,
        tid: (ids >> 32) as u32,
        cpu,
        time_ns,
        code,
        callers,
        registers,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::record::record;

    fn all(bytes: &[u8]) -> (Vec<Seen>, u64) {
        let mut seen = Vec::new();
        let lost = parse(bytes, |one| seen.push(one));
        (seen, lost)
    }

    #[test]
    fn a_sample_has_callers_and_registers() {
        const USER: u64 = -512_i64 as u64;
        let mut words = vec![7, 0x10, 3 | 4 << 32, 99, 1, 3, USER, 0x10, 0x20, 2];
        words.extend(100..100 + u64::from(MASK.count_ones()));
        let (found, _) = all(&record(9, &words));
        let [seen] = &found[..] else {
            panic!("{found:?}");
        };
        let known = (seen.event, seen.pid, seen.tid, seen.cpu, seen.time_ns);
        assert_eq!(known, (7, 3, 4, 1, 99));
        assert_eq!((seen.code, &seen.callers[..]), (0x10, &[0x20][..]));
        assert_eq!(seen.registers.unwrap().get(0), Some(100));
    }

    #[test]
    fn what_is_cut_or_unknown_is_left_out() {
        let mut bytes = [record(77, &[1]), record(2, &[8, 5])].concat();
        bytes.extend(&record(9, &[0; 12])[..20]);
        assert_eq!(all(&bytes), (vec![], 5));
        assert_eq!(all(&record(9, &[0, 1, 2, 3, 4, u64::MAX])), (vec![], 0));
        assert_eq!(all(&[0; 16]), (vec![], 0));
    }
}
