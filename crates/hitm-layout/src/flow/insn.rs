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
    /// A register gets something else.
    Clobber { to: Reg },
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
    /// To a function, and then to the next instruction.
    Call,
    /// To an address that the instruction does not have.
    Elsewhere,
    /// Back to the caller.
    Return,
    /// Nowhere.
    Stop,
}

/// A decoded instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Insn {
    pub(super) address: u64,
    pub(super) effects: Vec<Effect>,
    /// The memory that it reads or writes, if that is one place that it names, and how many bytes there.
    pub(super) access: Option<(Place, u64)>,
    pub(super) next: Next,
}

impl Insn {
    pub(super) const fn plain(address: u64) -> Insn {
        Insn {
            address,
            effects: Vec::new(),
            access: None,
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
    /// Registers that a call leaves with anything in them.
    pub(super) clobbered: &'static [Reg],
    /// The stack pointer at a function's entry, from the call frame's address.
    pub(super) stack_at_entry: i64,
}
