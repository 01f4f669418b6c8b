//! General registers of a sample.

/// General registers (`enum perf_event_x86_regs`: AX to SP and R8 to R15; `enum perf_event_arm_regs`: X0 to SP), one bit
/// each.
const GENERAL: u64 = if cfg!(target_arch = "aarch64") {
    0xffff_ffff
} else {
    0x00ff_00ff
};
/// Registers that samples have: these, and x86-64's flags.
pub(crate) const MASK: u64 = if cfg!(target_arch = "aarch64") {
    GENERAL
} else {
    GENERAL | 1 << 9
};

/// Place of x86-64's flags here.
const FLAGS: usize = 16;
/// DWARF's number of each register in the kernel's order, and the flags between them (System V ABI for x86-64, figure
/// 3.36; on arm64 the numbers are the same).
const X86_64: [usize; 17] = [0, 3, 2, 1, 4, 5, 6, 7, FLAGS, 8, 9, 10, 11, 12, 13, 14, 15];

/// General registers of a program, by DWARF's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Registers([u64; 32]);

impl Registers {
    /// Registers as another tool's file has them: one bit of `mask` for each value. None if not all general registers
    /// are there.
    pub fn of_mask(mask: u64, values: &[u64]) -> Option<Registers> {
        if mask & GENERAL != GENERAL || values.len() != mask.count_ones() as usize {
            return None;
        }
        let has = |mask: u64, number: &u32| mask >> number & 1 == 1;
        let own = (0..u64::BITS).filter(|number| has(MASK, number));
        let value = |number: u32| {
            let before = (mask & !(u64::MAX << number)).count_ones();
            let value = values.get(before as usize).copied();
            value.filter(|_| has(mask, &number)).unwrap_or(0)
        };
        Some(Registers::of(own.map(value)))
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

    /// The processor's flags; zero where samples have none.
    pub fn flags(&self) -> u64 {
        match cfg!(target_arch = "aarch64") {
            true => 0,
            false => self.0[FLAGS],
        }
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
        let registers = Registers::of(100..117);
        let of = |number| registers.get(number);
        // rax, rdx, rcx, rbx, then rsi.
        assert_eq!([0, 1, 2, 3, 4].map(of), [100, 103, 102, 101, 104].map(Some));
        assert_eq!((registers.stack(), registers.flags()), (107, 108));
        assert_eq!((of(8), of(15), of(16)), (Some(109), Some(116), None));
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
        assert_eq!(registers.flags(), 9);
        assert_eq!(Registers::of_mask(mask, &values[1..]), None);
        let without_flags = Registers::of_mask(GENERAL, &values[..16]).unwrap();
        assert_eq!((without_flags.get(8), without_flags.flags()), (Some(8), 0));
        assert_eq!(Registers::of_mask(0xff, &values[..8]), None);
    }
}
