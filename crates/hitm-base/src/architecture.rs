//! Architectures whose programs are recorded and named.

crate::words! {
    /// An architecture.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Architecture {
        /// 64-bit x86.
        X86_64 = "x86_64",
        /// 64-bit Arm.
        Aarch64 = "aarch64",
    }
}

impl Architecture {
    /// This host's.
    pub const HOST: Architecture = match cfg!(target_arch = "aarch64") {
        true => Architecture::Aarch64,
        false => Architecture::X86_64,
    };

    /// Its number in ELF files (elf(5), `e_machine`).
    pub const fn elf_machine(self) -> u16 {
        match self {
            Architecture::X86_64 => 62,
            Architecture::Aarch64 => 183,
        }
    }

    /// The architecture with a number in ELF files.
    pub fn of_elf(machine: u16) -> Option<Architecture> {
        let mut all = Architecture::ALL.into_iter();
        all.find(|one| one.elf_machine() == machine)
    }
}
