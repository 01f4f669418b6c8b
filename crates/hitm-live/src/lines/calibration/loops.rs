//! Loops with one access and little else, whose instructions have known addresses.

use hitm_base::LINE_SIZE;

/// Lines that are walked over: more than the caches of a core have, fewer than take long to touch. A power of two, for
/// [`Walk::new`].
const LINES: usize = 1 << 16;
/// Lines between two stores: too far for a prefetcher that follows.
const STRIDE: usize = 17;
const WORDS: usize = LINE_SIZE as usize / size_of::<u64>();
/// Accesses of a run, so that stores stay within the lines.
pub(super) const COUNT: u64 = (LINES / STRIDE) as u64;

/// Access of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// None: the rest of the loop.
    Nothing,
    /// A load whose address is the one before's result.
    Load,
    /// Stores to line after line.
    Store,
    /// Locked additions to one word.
    Locked,
}

/// Addresses of a loop's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Code {
    /// The access, which is the first one.
    pub(super) at: u64,
    /// The one behind.
    pub(super) behind: u64,
    /// The first byte behind the loop.
    pub(super) end: u64,
}

/// Memory, and how far it was walked.
pub(super) struct Walk {
    words: Vec<u64>,
    next: u64,
    run_count: usize,
}

#[cfg(target_arch = "x86_64")]
macro_rules! walk {
    ($access:literal, $first:expr, $step:expr) => {{
        let mut next: u64 = $first;
        let (at, behind, end): (u64, u64, u64);
        // SAFETY: `COUNT` times the access at `next`, which `Walk` keeps within its words; the rest of the code
        // counts, and does nothing in sixteen instructions.
        unsafe {
            std::arch::asm!(
                "lea {at}, [rip + 2f]",
                "lea {behind}, [rip + 3f]",
                "lea {end}, [rip + 4f]",
                "2:",
                $access,
                "3:",
                ".rept 16",
                "nop",
                ".endr",
                "add {next}, {step}",
                "dec {count}",
                "jnz 2b",
                "4:",
                at = out(reg) at,
                behind = out(reg) behind,
                end = out(reg) end,
                next = inout(reg) next,
                step = in(reg) $step,
                count = inout(reg) COUNT => _,
            );
        }
        (next, Code { at, behind, end })
    }};
}

impl Walk {
    /// Memory whose lines lead to one another, each to one far away.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn new() -> Option<Walk> {
        let mut words = vec![0; (LINES + 1) * WORDS];
        let first = (words.as_ptr() as u64).next_multiple_of(LINE_SIZE);
        let skip = (first - words.as_ptr() as u64) as usize / size_of::<u64>();
        for line in 0..LINES {
            // A full period (Hull and Dobell): an odd increment, a factor of 1 modulo 4.
            let to = (line * 20_077 + 12_345) % LINES;
            words[skip + line * WORDS] = first + to as u64 * LINE_SIZE;
        }
        Some(Walk {
            words,
            next: first,
            run_count: 0,
        })
    }

    /// Other CPUs have no loops yet.
    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn new() -> Option<Walk> {
        None
    }

    /// Runs a loop of [`COUNT`] accesses.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn run(&mut self, kind: Kind) -> Code {
        let first = (self.words.as_ptr() as u64).next_multiple_of(LINE_SIZE);
        self.run_count += 1;
        match kind {
            Kind::Nothing => walk!("nop", first, 0u64).1,
            Kind::Load => {
                let (next, code) = walk!("mov {next}, qword ptr [{next}]", self.next, 0u64);
                self.next = next;
                code
            }
            Kind::Store => {
                // The second word, since loads follow the first one.
                let line = (self.run_count % STRIDE) as u64;
                let first = first + line * LINE_SIZE + size_of::<u64>() as u64;
                let step = STRIDE as u64 * LINE_SIZE;
                walk!("mov qword ptr [{next}], {count}", first, step).1
            }
            Kind::Locked => {
                let word = first + size_of::<u64>() as u64;
                walk!("lock add qword ptr [{next}], 1", word, 0u64).1
            }
        }
    }

    /// Other CPUs have no loops yet.
    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn run(&mut self, _kind: Kind) -> Code {
        Code {
            at: self.words.len() as u64,
            behind: self.next,
            end: self.run_count as u64,
        }
    }
}
