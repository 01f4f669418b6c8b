//! Writes to the word of a lock: what each tells of the lock, by its instruction.

use hitm_base::Architecture;

use super::operands::{CodeBytes, likely_before};
use super::{decode_code, x86};

/// A write to a word, and how it can be told whether it found the lock free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordWrite {
    /// It stores, whatever was there.
    Store,
    /// It stores, and has what was there in a register.
    Exchange {
        /// DWARF's number of the register.
        old: u8,
        /// Bytes of the register that are meant.
        bytes: u64,
    },
    /// It changes the word, or finds the lock taken, as a flag says behind it.
    Attempt {
        /// Bit of the processor's flags.
        flag: u64,
        /// Value of the flag where it found the lock free.
        is_set: bool,
    },
    /// Any other operation that reads and writes.
    Other,
}

impl CodeBytes<'_> {
    /// The write of the instruction before an address of this host's code: a thread that has hit a watched word stands
    /// behind it. None where the instruction is not known, or writes no memory. Of x86-64 only.
    pub fn write_before(&self, address: u64) -> Option<WordWrite> {
        if Architecture::HOST != Architecture::X86_64 {
            return None;
        }
        let code = |from: u64, to: u64| {
            let place = |at: u64| usize::try_from(at.checked_sub(self.begin)?).ok();
            self.bytes.get(place(from)?..place(to)?)
        };
        let before = likely_before(Architecture::HOST, address, |range| {
            let bytes = code(range.start, range.end)?;
            Some(decode_code(Architecture::HOST, bytes, range.start))
        })?;
        x86::word_write(code(before.address, address)?)
    }
}

/// Their code is x86-64's.
#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    const ZERO: u64 = 1 << 6;

    fn write(insn: &[u8]) -> Option<WordWrite> {
        // Before it stands something else: nop.
        let bytes = [&[0x90; 64][..], insn].concat();
        let code = CodeBytes {
            begin: 0x1000,
            bytes: &bytes,
        };
        code.write_before(0x1000 + bytes.len() as u64)
    }

    #[test]
    fn a_write_says_if_it_found_the_lock_free() {
        let attempt = |flag, is_set| Some(WordWrite::Attempt { flag, is_set });
        // movl $1, (%rdi); mov %eax, 4(%rbx)
        assert_eq!(write(&[0xc7, 0x07, 1, 0, 0, 0]), Some(WordWrite::Store));
        assert_eq!(write(&[0x89, 0x43, 0x04]), Some(WordWrite::Store));
        // lock decl (%rdi), of pthread_spin_lock
        assert_eq!(write(&[0xf0, 0xff, 0x0f]), attempt(ZERO, true));
        // lock cmpxchg %edx, (%rdi)
        assert_eq!(write(&[0xf0, 0x0f, 0xb1, 0x17]), attempt(ZERO, true));
        // lock btsl $0, (%rdi)
        assert_eq!(write(&[0xf0, 0x0f, 0xba, 0x2f, 0]), attempt(1, false));
        // xchg %al, (%rdi), of PostgreSQL's tas(); xchg %r8d, (%rdi)
        let exchange = |old, bytes| Some(WordWrite::Exchange { old, bytes });
        assert_eq!(write(&[0x86, 0x07]), exchange(0, 1));
        assert_eq!(write(&[0x44, 0x87, 0x07]), exchange(8, 4));
        // xchg %ah, (%rdi): its register has no number.
        assert_eq!(write(&[0x86, 0x27]), Some(WordWrite::Other));
        // lock xadd %eax, (%rdi), of ticket locks
        assert_eq!(write(&[0xf0, 0x0f, 0xc1, 0x07]), Some(WordWrite::Other));
    }

    #[test]
    fn reads_and_unknown_code_are_no_writes() {
        // mov (%rdi), %eax; cmpl $0, (%rdi)
        assert_eq!(write(&[0x8b, 0x07]), None);
        assert_eq!(write(&[0x83, 0x3f, 0]), None);
        let code = CodeBytes {
            begin: 0x1000,
            bytes: &[],
        };
        assert_eq!(code.write_before(0x1000), None);
        assert_eq!(code.write_before(0), None);
    }
}
