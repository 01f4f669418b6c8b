//! Cost of a first touch of memory on this host, in pages of 4 KiB and in huge ones.

use std::time::Instant;

/// Bytes of a page, and of a huge one.
const PAGE: usize = 4096;
const HUGE_PAGE: usize = 2 << 20;
/// Huge pages of a round.
const HUGE_PAGES: usize = 4;
/// Rounds, of which the median counts.
const ROUNDS: usize = 7;

/// Nanoseconds of a page fault at a first touch, with the way into the kernel and back and the clearing of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultCosts {
    /// Of a page of 4 KiB.
    pub small_ns: u64,
    /// Of a huge page; none where this kernel gives none.
    pub huge_ns: Option<u64>,
}

impl FaultCosts {
    /// Measures the calling thread's faults, some 20 ms. None where there is no memory.
    pub fn measure() -> Option<FaultCosts> {
        let small = |_| round(libc::MADV_NOHUGEPAGE);
        let huge = |_| round(libc::MADV_HUGEPAGE);
        let small: Option<Vec<Round>> = (0..ROUNDS).map(small).collect();
        let huge: Option<Vec<Round>> = (0..ROUNDS).map(huge).collect();
        Some(FaultCosts {
            small_ns: median(&small?)?,
            huge_ns: median(&huge?).filter(|ns| *ns > 0),
        })
    }
}

/// Touches of fresh memory.
#[derive(Debug, Clone, Copy)]
struct Round {
    ns: u64,
    faults: u64,
    /// Page faults that there are to be.
    expected: u64,
}

/// Median cost of a fault of the rounds whose pages had the size that was asked for.
fn median(rounds: &[Round]) -> Option<u64> {
    let asked = rounds.iter().filter(|round| {
        let most = round.expected + round.expected / 4;
        (1..=most).contains(&round.faults)
    });
    let mut costs: Vec<u64> = asked.map(|round| round.ns / round.faults).collect();
    costs.sort_unstable();
    costs.get(costs.len() / 2).copied()
}

fn round(advice: libc::c_int) -> Option<Round> {
    let length = (HUGE_PAGES + 1) * HUGE_PAGE;
    let (access, kind) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new mapping, which is unmapped below.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), length, access, kind, -1, 0) };
    if memory == libc::MAP_FAILED {
        return None;
    }
    let unaligned = memory as usize % HUGE_PAGE;
    let skipped = (HUGE_PAGE - unaligned) % HUGE_PAGE;
    let used = HUGE_PAGES * HUGE_PAGE;
    // SAFETY: `used` bytes from there on are in the mapping; a refusal changes nothing.
    unsafe { libc::madvise(memory.byte_add(skipped), used, advice) };
    let (before, begun) = (faults(), Instant::now());
    for offset in (skipped..skipped + used).step_by(PAGE) {
        // SAFETY: a byte of the mapping, which nobody else has.
        unsafe { memory.cast::<u8>().add(offset).write_volatile(1) };
    }
    let ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let round = Round {
        ns,
        faults: faults().saturating_sub(before),
        expected: match advice {
            libc::MADV_HUGEPAGE => HUGE_PAGES as u64,
            _ => (used / PAGE) as u64,
        },
    };
    // SAFETY: the mapping that was made.
    unsafe { libc::munmap(memory, length) };
    Some(round)
}

/// Minor faults of the calling thread.
fn faults() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call fills the structure in; zeroes are valid, too.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_minflt.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_whose_pages_are_of_another_size_do_not_count() {
        let round = |ns, faults| Round {
            ns,
            faults,
            expected: 4,
        };
        let rounds = [
            round(800, 4),
            round(900, 512),
            round(400, 4),
            round(1000, 5),
        ];
        assert_eq!(median(&rounds), Some(200));
        assert_eq!(median(&[round(900, 512), round(0, 0)]), None);
    }

    #[test]
    fn a_small_page_has_a_cost_here() {
        let costs = FaultCosts::measure().expect("there is memory");
        assert!(costs.small_ns > 0, "{costs:?}");
    }
}
