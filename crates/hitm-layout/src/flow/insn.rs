//! Instructions as far as pointers are concerned: which registers and places get whose value.
//!
//! Registers have DWARF's numbers (System V ABI for x86-64, figure 3.36; ABI for the Arm 64-bit
//! architecture, DWARF register names).

/// A register, in DWARF's numbering.
pub(super) type Reg = u8;

/// Registers that are followed: those of aarch64 with the stack pointer as 31, [`ZERO`] and
/// [`SCRATCH`].
pub(super) const REGISTERS: usize = 34;

/// Reads as an unknown value, and takes none: aarch64's zero register.
pub(super) const ZERO: Reg = 32;

/// A register that no processor has, for instructions that load a value and use it.
pub(super) const SCRATCH: Reg = 33;

/// Bytes of a pointer.
pub(super) const POINTER_BYTES: u8 = 8;

/// Memory that an instruction names: `base + index * scale + offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// None for an address that the instruction has in full.
    pub(super) base: Option<Reg>,
    pub(super) index: Option<(Reg, u8)>,
    pub(super) offset: i64,
}

impl Place {
    pub(super) const fn at(base: Reg, offset: i64) -> Place {
        Place {
            base: Some(base),
            index: None,
            offset,
        }
    }
}

/// An access of an instruction to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Access {
    /// With registers as they are before the instruction.
    pub(super) place: Place,
    /// 0 when not known.
    pub(super) bytes: u64,
    /// Neither of the two for a hint.
    pub(super) reads: bool,
    pub(super) writes: bool,
    /// True if it is atomic together with another access, its own or that of its partner.
    pub(super) is_locked: bool,
    /// True if the place counts a register in part only.
    pub(super) is_narrow: bool,
}

impl Access {
    /// An access that may do nothing.
    pub(super) const fn hint(place: Place, bytes: u64) -> Access {
        Access {
            place,
            bytes,
            reads: false,
            writes: false,
            is_locked: false,
            is_narrow: false,
        }
    }

    /// A load, or else a store.
    pub(super) const fn plain(place: Place, bytes: u64, is_load: bool) -> Access {
        Access {
            reads: is_load,
            writes: !is_load,
            ..Access::hint(place, bytes)
        }
    }

    /// A load and a store that are one.
    pub(super) const fn atomic(place: Place, bytes: u64) -> Access {
        Access {
            reads: true,
            writes: true,
            is_locked: true,
            ..Access::hint(place, bytes)
        }
    }
}

/// One step of what an instruction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// `to = from + add`.
    Copy { to: Reg, from: Reg, add: i64 },
    /// `to = value`.
    Constant { to: Reg, value: u64 },
    /// `to` is the address of a place.
    Address { to: Reg, place: Place },
    /// `to = from + by * scale`.
    Step {
        to: Reg,
        from: Reg,
        by: Reg,
        scale: i64,
    },
    /// `to = from * factor`.
    Scale { to: Reg, from: Reg, factor: i64 },
    /// `to = add + one * other`.
    MultiplyAdd {
        to: Reg,
        add: Reg,
        one: Reg,
        other: Reg,
    },
    /// `to` is one of the two.
    Select { to: Reg, one: Reg, other: Reg },
    /// `to` gets the eight bytes at a place.
    Load { to: Reg, place: Place },
    /// A place gets the register's eight bytes.
    Store { place: Place, from: Reg },
    /// A place gets something else.
    Spoil { place: Place },
    /// `to` gets what the CPU has of its own.
    Own { to: Reg, own: Own },
    /// A register gets something else.
    Clobber { to: Reg },
}

impl Effect {
    /// The register that gets something.
    pub(super) const fn written(&self) -> Option<Reg> {
        match *self {
            Effect::Copy { to, .. }
            | Effect::Constant { to, .. }
            | Effect::Address { to, .. }
            | Effect::Step { to, .. }
            | Effect::Scale { to, .. }
            | Effect::MultiplyAdd { to, .. }
            | Effect::Select { to, .. }
            | Effect::Load { to, .. }
            | Effect::Own { to, .. }
            | Effect::Clobber { to } => Some(to),
            Effect::Store { .. } | Effect::Spoil { .. } => None,
        }
    }
}

/// A value that a kernel keeps for each CPU, of the CPU that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Own {
    /// The pointer or number in its copy of a variable at an address.
    Variable(u64),
    /// The distance from variables to its copies of them.
    Offset,
    /// The task that it runs.
    Task,
}

/// Successors of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// To the next instruction.
    Follow,
    /// To an address.
    Jump(u64),
    /// To an address, or to the next instruction.
    Branch(u64),
    /// To a function, if known at an address, and then to the next instruction.
    Call(Option<u64>),
    /// To an address that the instruction does not have.
    Elsewhere,
    /// Back to the caller.
    Return,
    /// Nowhere.
    Stop,
}

impl Next {
    /// Returns true if the next instruction may be what runs then.
    pub(super) const fn follows(self) -> bool {
        matches!(self, Next::Follow | Next::Branch(_))
    }

    /// The address that it may lead to, if the instruction has it.
    pub(super) const fn target(self) -> Option<u64> {
        match self {
            Next::Jump(target) | Next::Branch(target) => Some(target),
            _ => None,
        }
    }
}

/// Part of an instruction in a loop that waits for another thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpinPart {
    /// It tells the processor that the thread waits.
    Pause,
    /// It puts a value into memory, whatever was there.
    Exchange,
    /// It puts the value of `new` into memory that has the value of `expected`, which else gets what is there.
    CompareExchange { expected: Reg, new: Reg },
}

/// A decoded instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Insn {
    pub(super) address: u64,
    pub(super) effects: Vec<Effect>,
    /// The memory that it reads or writes, if that is one place that it names.
    pub(super) access: Option<Access>,
    /// Memory that it reads or writes without naming it: the stack of a call, what a string
    /// instruction's registers point at.
    pub(super) implied: Vec<Access>,
    /// True if it reads memory, and may retire together with a conditional branch behind it.
    pub(super) is_fusible: bool,
    /// Its part in a loop that waits for another thread, if it may have one.
    pub(super) spin: Option<SpinPart>,
    pub(super) next: Next,
}

impl Insn {
    pub(super) const fn plain(address: u64) -> Insn {
        Insn {
            address,
            effects: Vec::new(),
            access: None,
            implied: Vec::new(),
            is_fusible: false,
            spin: None,
            next: Next::Follow,
        }
    }
}

/// Calling convention: the use of registers by functions.
#[derive(Debug)]
pub(super) struct Convention {
    pub(super) stack: Reg,
    /// The register that a pointer is returned in.
    pub(super) result: Reg,
    /// The registers of the first arguments that are numbers or pointers.
    pub(super) arguments: &'static [Reg],
    /// Registers that a call leaves with anything in them.
    pub(super) clobbered: &'static [Reg],
    /// The stack pointer at a function's entry, from the call frame's address.
    pub(super) stack_at_entry: i64,
}
