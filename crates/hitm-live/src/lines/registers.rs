//! General registers of a sample.

/// Registers that samples have (`enum perf_event_x86_regs`: AX to SP and R8 to R15; `enum
/// perf_event_arm_regs`: X0 to SP), one bit each.
pub(crate) const MASK: u64 = if cfg!(target_arch = "aarch64") {
    0xffff_ffff
} else {
    0x00ff_00ff
};

/// DWARF's number of each register in the kernel's order (System V ABI for x86-64, figure 3.36; on
/// arm64 the numbers are the same).
const X86_64: [usize; 16] = [0, 3, 2, 1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// General registers of a program, by DWARF's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Registers([u64; 32]);

impl Registers {
    /// Registers as another tool's file has them: one bit of `mask` for each value. None if not all general registers
    /// are there.
    pub fn of_mask(mask: u64, values: &[u64]) -> Option<Registers> {
        if mask & MASK != MASK || values.len() != mask.count_ones() as usize {
            return None;
        }
        let numbers = (0..u64::BITS).filter(|number| mask >> number & 1 == 1);
        let own = numbers.zip(values).filter(|of| MASK >> of.0 & 1 == 1);
        Some(Registers::of(own.map(|of| *of.1)))
    }

    /// Values in the kernel's order, as many as [`MASK`] has bits.
    pub(crate) fn of(values: impl Iterator<Item = u64>) -> Registers {
        let mut registers = Registers::default();
        for (place, value) in values.take(32).enumerate() {
            let number = match cfg!(target_arch = "aarch64") {
                true => place,
                false => X86_64.get(place).copied().unwrap_or(31),
            };
            registers.0[number] = value;
        }
        registers
    }

    /// The register with this number, if samples have it.
    pub fn get(&self, number: u8) -> Option<u64> {
        let count = if cfg!(target_arch = "aarch64") {
            32
        } else {
            16
        };
        let is_there = usize::from(number) < count;
        is_there.then(|| self.0[usize::from(number)])
    }

    /// The first argument of the system call that a thread is in.
    pub(crate) fn argument(&self) -> u64 {
        self.0[if cfg!(target_arch = "aarch64") { 0 } else { 5 }]
    }

    /// The stack pointer.
    pub fn stack(&self) -> u64 {
        self.0[if cfg!(target_arch = "aarch64") { 31 } else { 7 }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_kernels_order_becomes_dwarfs() {
        let registers = Registers::of(100..116);
        let of = |number| registers.get(number);
        // rax, rdx, rcx, rbx, then rsi.
        assert_eq!([0, 1, 2, 3, 4].map(of), [100, 103, 102, 101, 104].map(Some));
        assert_eq!(registers.stack(), 107);
        assert_eq!((of(15), of(16)), (Some(115), None));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_mask_has_all_general_registers_or_is_none() {
        // With the instruction pointer, flags and two segments.
        let mask = 0x00ff_0fff;
        let values: Vec<u64> = (0..20).collect();
        let registers = Registers::of_mask(mask, &values).unwrap();
        assert_eq!(
            [7, 8, 15].map(|number| registers.get(number)),
            [7, 12, 19].map(Some)
        );
        assert_eq!(Registers::of_mask(mask, &values[1..]), None);
        assert_eq!(Registers::of_mask(0xff, &values[..8]), None);
    }
}
