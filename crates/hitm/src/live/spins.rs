//! Code of programs that waits for another thread's write, and code that writes to the words of locks.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use hitm_layout::{CodeBytes, Spin, WordWrite};
use hitm_live::holders::{SpunWord, Write};
use hitm_live::lines::Seen;
use hitm_live::sampler::RawSample;
use rustc_hash::FxHashMap;

use super::programs;

/// Instructions of all processes whose code is remembered.
const KNOWN_MAX: usize = 1 << 18;
/// Bytes around an instruction that are looked at: a loop's rare parts may lie behind the function.
const AROUND: u64 = 1024;

/// Waits that were found at instructions that were sampled.
#[derive(Debug, Default)]
pub(super) struct Spins {
    known: FxHashMap<(u32, u64), Known>,
}

#[derive(Debug, Clone, Copy)]
enum Known {
    /// Sampled once: a thread that waits comes back.
    Sampled,
    Looked(Option<Spin>),
}

/// The wait of a sampled thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waits {
    /// The memory that it waits for; none when it is not known.
    pub(super) word: Option<SpunWord>,
}

impl Spins {
    /// The wait of a thread that was sampled in its program's code.
    pub(super) fn of(&mut self, sample: &RawSample) -> Option<Waits> {
        let registers = sample.registers.as_deref()?;
        let code = *sample.user.first()?;
        let spin = self.at(sample.pid, code)?;
        let word = spin.operand.and_then(|operand| {
            let address = programs::address(&operand, Some(registers))?;
            let bytes = operand.bytes;
            Some(SpunWord { address, bytes })
        });
        Some(Waits { word })
    }

    /// Forgets the code of a process that runs another program now.
    pub(super) fn forget(&mut self, pid: u32) {
        self.known.retain(|known, _| known.0 != pid);
    }

    fn at(&mut self, pid: u32, code: u64) -> Option<Spin> {
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        let known = self.known.entry((pid, code));
        let mut is_new = false;
        let known = known.or_insert_with(|| {
            is_new = true;
            Known::Sampled
        });
        match known {
            Known::Looked(spin) => *spin,
            Known::Sampled if is_new => None,
            Known::Sampled => {
                let spin = look(pid, code);
                *known = Known::Looked(spin);
                spin
            }
        }
    }
}

fn look(pid: u32, code: u64) -> Option<Spin> {
    around(pid, code, |bytes| bytes.spin(code))?
}

/// Applies `look` to the code around an instruction; none where it cannot be read.
fn around<T>(pid: u32, code: u64, look: impl Fn(&CodeBytes<'_>) -> T) -> Option<T> {
    const PAGE_BYTES: u64 = 4096;
    // A process that has ended, or whose memory is not ours to read, has none.
    let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    let mut bytes = [0; 2 * AROUND as usize];
    let mut at = |begin: u64| {
        let read = memory.read_at(&mut bytes, begin).ok()?;
        let bytes = &bytes[..read];
        Some(look(&CodeBytes { begin, bytes }))
    };
    let begin = code.saturating_sub(AROUND);
    // The page before may not be mapped.
    at(begin).or_else(|| at(begin.max(code & !(PAGE_BYTES - 1))))
}

/// Instructions that write to words of locks.
#[derive(Debug, Default)]
pub(super) struct Writes {
    known: FxHashMap<(u32, u64), Option<WordWrite>>,
}

impl Writes {
    /// The write of a thread that stands behind its instruction.
    pub(super) fn of(&mut self, seen: &Seen) -> Write {
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        let known = self.known.entry((seen.pid, seen.code));
        let write = *known.or_insert_with(|| {
            around(seen.pid, seen.code, |code| code.write_before(seen.code)).flatten()
        });
        let registers = seen.registers.as_ref();
        let has_got = match write {
            Some(WordWrite::Store) => return Write::Stored,
            Some(WordWrite::Exchange { old, bytes }) => {
                let old = registers.and_then(|registers| registers.get(old));
                let unused_bits = 64 - 8 * bytes.clamp(1, 8);
                old.map(|old| old << unused_bits == 0)
            }
            Some(WordWrite::Attempt { flag, is_set }) => {
                registers.map(|registers| (registers.flags() & flag != 0) == is_set)
            }
            Some(WordWrite::Other) | None => None,
        };
        match has_got {
            Some(true) => Write::Got,
            Some(false) | None => Write::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `spin`'s own code is this process's.
    #[test]
    fn a_wait_is_found_when_it_is_sampled_again() {
        #[inline(never)]
        fn wait(flag: &std::sync::atomic::AtomicBool) {
            while !flag.load(std::sync::atomic::Ordering::Acquire) {
                std::hint::spin_loop();
            }
        }
        wait(&true.into());
        let begin = wait as fn(&_) as usize as u64;
        let mut spins = Spins::default();
        let mut waits = || {
            let codes = begin..begin + 64;
            let pid = std::process::id();
            codes.filter(|code| spins.at(pid, *code).is_some()).count()
        };
        assert_eq!(waits(), 0);
        assert!(waits() > 0);
        spins.forget(std::process::id());
        assert_eq!(spins.known.len(), 0);
    }
}
