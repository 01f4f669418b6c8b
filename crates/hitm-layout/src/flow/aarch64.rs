//! aarch64 instructions, as far as pointers are concerned. An instruction that is not known here is
//! taken to write the register in its lowest five bits, which is where almost all have it.
//!
//! Source: Arm Architecture Reference Manual for A-profile, DDI 0487, section C4.1 (encodings).

use super::insn::{Access, Convention, Effect, Insn, Next, Own, Place, Reg, SpinPart, ZERO};

/// Procedure Call Standard for the Arm 64-bit Architecture, section 6.1.1: arguments are in x0 to
/// x7; x0 to x18 and the link register are the callee's.
pub(super) const CONVENTION: Convention = Convention {
    stack: STACK,
    result: 0,
    arguments: &[0, 1, 2, 3, 4, 5, 6, 7],
    clobbered: &[
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 30,
    ],
    stack_at_entry: 0,
};

const STACK: Reg = 31;

/// Decodes machine code up to `max` instructions.
pub(super) fn decode(code: &[u8], address: u64, max: usize) -> Vec<Insn> {
    let words = code.as_chunks::<4>().0.iter().take(max);
    let addresses = (0..).map(|index: u64| address.wrapping_add(index * 4));
    let decoded = words.zip(addresses);
    decoded
        .map(|(word, at)| Word(u32::from_le_bytes(*word)).decode(at))
        .collect()
}

/// `to = from + (by << shift)`, or the difference.
fn step(to: Reg, from: Reg, by: Reg, shift: u32, is_minus: bool) -> Effect {
    if shift > 32 {
        return Effect::Clobber { to };
    }
    let scale = 1i64 << shift;
    Effect::Step {
        to,
        from,
        by,
        scale: if is_minus { -scale } else { scale },
    }
}

#[derive(Clone, Copy)]
struct Word(u32);

impl Word {
    const fn bits(self, low: u32, count: u32) -> u32 {
        (self.0 >> low) & ((1 << count) - 1)
    }

    const fn signed(self, low: u32, count: u32) -> i64 {
        let unused = 64 - count;
        ((self.bits(low, count) as i64) << unused) >> unused
    }

    const fn is(self, mask: u32, value: u32) -> bool {
        self.0 & mask == value
    }

    /// A register where 31 is the stack pointer.
    const fn base(self, low: u32) -> Reg {
        self.bits(low, 5) as Reg
    }

    /// A register where 31 is zero.
    const fn reg(self, low: u32) -> Reg {
        match self.bits(low, 5) as Reg {
            31 => ZERO,
            reg => reg,
        }
    }

    fn decode(self, address: u64) -> Insn {
        let mut insn = Insn::plain(address);
        match self.bits(25, 4) {
            0b1010 | 0b1011 => insn.next = self.branch(address, &mut insn.effects),
            0b1000 | 0b1001 => insn.effects.push(self.immediate(address)),
            0b0101 | 0b1101 => insn.effects.push(self.of_registers()),
            0b0100 | 0b0110 | 0b1100 | 0b1110 => self.load_store(&mut insn),
            0b0111 | 0b1111 => insn.effects.extend(self.vector()),
            0b0000 if self.0 >> 16 == 0 => insn.next = Next::Stop,
            _ => insn.effects.push(self.clobber()),
        }
        insn.spin = self.spin_part();
        insn
    }

    const fn spin_part(self) -> Option<SpinPart> {
        match self.0 {
            // yield, wfe, and isb, which Rust's spin_loop has.
            0xd503_203f | 0xd503_205f | 0xd503_3fdf => Some(SpinPart::Pause),
            _ if self.is(0x3f20_fc00, 0x3820_8000) => Some(SpinPart::Exchange),
            _ if self.is(0x3fa0_7c00, 0x08a0_7c00) => Some(SpinPart::CompareExchange {
                expected: self.reg(16),
                new: self.reg(0),
            }),
            _ => None,
        }
    }

    /// Operations on vectors and floating-point numbers: few write a general register.
    fn vector(self) -> Option<Effect> {
        let is_conversion = self.is(0x7f20_fc00, 0x1e20_0000) || self.is(0x7f20_0000, 0x1e00_0000);
        // umov and smov.
        let is_move = self.is(0xbfe0_fc00, 0x0e00_3c00) || self.is(0xbfe0_fc00, 0x0e00_2c00);
        (is_conversion || is_move).then(|| self.clobber())
    }

    const fn clobber(self) -> Effect {
        Effect::Clobber { to: self.reg(0) }
    }

    /// A system instruction. Linux keeps a CPU's task in sp_el0, and the distance to its variables in tpidr_el1,
    /// or in tpidr_el2 as a host of virtual machines.
    const fn system(self) -> Effect {
        let own = match self.0 & !0x1f {
            0xd538_4100 => Own::Task,
            0xd538_d080 | 0xd53c_d040 => Own::Offset,
            _ => return self.clobber(),
        };
        let to = self.reg(0);
        Effect::Own { to, own }
    }

    fn branch(self, address: u64, effects: &mut Vec<Effect>) -> Next {
        let target = |offset: i64| address.wrapping_add_signed(offset * 4);
        if self.is(0x7c00_0000, 0x1400_0000) {
            let is_call = self.bits(31, 1) == 1;
            return if is_call {
                Next::Call(Some(target(self.signed(0, 26))))
            } else {
                Next::Jump(target(self.signed(0, 26)))
            };
        }
        if self.is(0xff00_0000, 0x5400_0000) || self.is(0x7e00_0000, 0x3400_0000) {
            return Next::Branch(target(self.signed(5, 19)));
        }
        if self.is(0x7e00_0000, 0x3600_0000) {
            return Next::Branch(target(self.signed(5, 14)));
        }
        if self.is(0xfe00_0000, 0xd600_0000) {
            return match self.bits(21, 4) {
                0b0001 | 0b1001 => Next::Call(None),
                0b0010 | 0b0100 => Next::Return,
                _ => Next::Elsewhere,
            };
        }
        // A system instruction may put something into a register.
        if self.is(0xffc0_0000, 0xd500_0000) {
            effects.push(self.system());
            return Next::Follow;
        }
        match self.bits(21, 3) {
            // brk and hlt end it, svc comes back.
            0b001 | 0b010 => Next::Stop,
            _ => {
                effects.push(Effect::Clobber { to: 0 });
                Next::Follow
            }
        }
    }

    /// Data processing with an immediate.
    fn immediate(self, address: u64) -> Effect {
        let to = self.reg(0);
        let is_wide = self.bits(31, 1) == 1;
        match self.bits(23, 3) {
            0b000 | 0b001 => {
                let offset = (self.signed(5, 19) << 2) | i64::from(self.bits(29, 2));
                let value = match is_wide {
                    true => (address & !0xfff).wrapping_add_signed(offset << 12),
                    false => address.wrapping_add_signed(offset),
                };
                Effect::Constant { to, value }
            }
            0b010 if is_wide => {
                let shift = 12 * self.bits(22, 1);
                let number = i64::from(self.bits(10, 12)) << shift;
                let is_minus = self.bits(30, 1) == 1;
                // The form that sets flags writes no stack pointer.
                let is_flagged = self.bits(29, 1) == 1;
                Effect::Copy {
                    to: if is_flagged { to } else { self.base(0) },
                    from: self.base(5),
                    add: if is_minus { -number } else { number },
                }
            }
            0b101 if self.bits(29, 2) == 0b10 => {
                let value = u64::from(self.bits(5, 16)) << (16 * self.bits(21, 2));
                Effect::Constant { to, value }
            }
            // lsl is a move of bits to another place.
            0b110 if self.bits(29, 3) == 0b110 && self.bits(10, 6) + 1 == self.bits(16, 6) => {
                Effect::Scale {
                    to,
                    from: self.reg(5),
                    factor: 1i64 << (63 - self.bits(10, 6)).min(62),
                }
            }
            // Logical operations may write the stack pointer: to align it.
            0b100 => Effect::Clobber { to: self.base(0) },
            _ => self.clobber(),
        }
    }

    /// Data processing with registers.
    fn of_registers(self) -> Effect {
        let (to, from, by) = (self.reg(0), self.reg(5), self.reg(16));
        let is_plain_move = self.is(0xffe0_ffe0, 0xaa00_03e0);
        if is_plain_move {
            return match by {
                ZERO => Effect::Constant { to, value: 0 },
                from => Effect::Copy { to, from, add: 0 },
            };
        }
        // add and sub of shifted registers.
        if self.is(0x9f20_0000, 0x8b00_0000) {
            let is_left = self.bits(22, 2) == 0;
            let shift = if is_left { self.bits(10, 6) } else { 64 };
            return step(to, from, by, shift, self.bits(30, 1) == 1);
        }
        // add and sub of extended registers, which may be the stack pointer.
        if self.is(0x9f20_0000, 0x8b20_0000) {
            let is_flagged = self.bits(29, 1) == 1;
            let to = if is_flagged { to } else { self.base(0) };
            let from = self.base(5);
            return step(to, from, by, self.bits(10, 3), self.bits(30, 1) == 1);
        }
        // csel.
        if self.is(0xffe0_0c00, 0x9a80_0000) {
            return Effect::Select {
                to,
                one: from,
                other: by,
            };
        }
        // madd, smaddl and umaddl.
        let is_madd = self.is(0xffe0_8000, 0x9b00_0000);
        if is_madd || self.is(0xff60_8000, 0x9b20_0000) {
            return Effect::MultiplyAdd {
                to,
                add: self.reg(10),
                one: from,
                other: by,
            };
        }
        Effect::Clobber { to }
    }

    fn load_store(self, insn: &mut Insn) {
        match (self.bits(27, 3), self.bits(24, 2)) {
            (0b111, 0b01) => {
                let offset = i64::from(self.bits(10, 12)) << self.scale();
                self.single(Place::at(self.base(5), offset), insn);
            }
            (0b111, 0b00) if self.bits(21, 1) == 0 => self.signed_offset(insn),
            (0b111, 0b00) if self.bits(10, 2) == 0b10 => {
                let shift = self.bits(12, 1) * self.scale();
                let place = Place {
                    base: Some(self.base(5)),
                    index: Some((self.reg(16), 1 << shift)),
                    offset: 0,
                };
                self.single(place, insn);
                // The index may be half of a register.
                let is_narrow = self.bits(13, 1) == 0;
                insn.access = insn.access.map(|access| Access {
                    is_narrow,
                    ..access
                });
            }
            // Atomic operations, and pointers with authentication.
            (0b111, _) => self.atomic(insn),
            (0b101, _) => self.pair(insn),
            (0b011, 0b00) => {
                let target = insn.address.wrapping_add_signed(self.signed(5, 19) * 4);
                let place = Place {
                    base: None,
                    index: None,
                    offset: target.cast_signed(),
                };
                let bytes = 4 << self.bits(30, 1);
                let is_prefetch = self.bits(30, 2) == 0b11 && !self.is_vector();
                insn.access = Some(match is_prefetch {
                    true => Access::hint(place, bytes),
                    false => Access::plain(place, bytes, true),
                });
                let to = self.reg(0);
                insn.effects.push(match self.is(0xff00_0000, 0x5800_0000) {
                    true => Effect::Load { to, place },
                    false => Effect::Clobber { to },
                });
            }
            (0b011, 0b01) if self.bits(10, 2) == 0 => self.signed_offset(insn),
            (0b001, 0b00) if self.bits(26, 1) == 0 => self.exclusive(insn),
            // Vectors in memory: the base may be moved.
            (0b001, _) => {
                let is_load = self.bits(22, 1) == 1;
                let place = Place::at(self.base(5), 0);
                insn.access = Some(match self.is_vector() {
                    true => Access::plain(place, 0, is_load),
                    false => Access::hint(place, 0),
                });
                insn.effects.push(Effect::Clobber { to: self.base(5) });
            }
            _ => insn.effects.push(self.clobber()),
        }
    }

    /// Log 2 of the bytes of a single access.
    const fn scale(self) -> u32 {
        match self.bits(30, 2) {
            0 if self.is_vector() && self.bits(23, 1) == 1 => 4,
            scale => scale,
        }
    }

    const fn is_vector(self) -> bool {
        self.bits(26, 1) == 1
    }

    /// A load or store of one register.
    fn single(self, place: Place, insn: &mut Insn) {
        let bytes = 1 << self.scale();
        let is_whole = self.bits(30, 2) == 0b11 && !self.is_vector();
        let is_store = self.bits(22, 2) == 0b00;
        // prfm is encoded as a load of a form that does not exist.
        let is_prefetch = is_whole && self.bits(22, 2) == 0b10;
        let is_load = match self.is_vector() {
            true => self.bits(22, 1) == 1,
            false => !is_store,
        };
        insn.access = Some(match is_prefetch {
            true => Access::hint(place, bytes),
            false => Access::plain(place, bytes, is_load),
        });
        let reg = self.reg(0);
        insn.effects.extend(match (is_store, is_whole) {
            _ if is_prefetch => None,
            (true, true) => Some(Effect::Store { place, from: reg }),
            (true, false) => Some(Effect::Spoil { place }),
            (false, true) => Some(Effect::Load { to: reg, place }),
            (false, false) if self.is_vector() => None,
            (false, false) => Some(Effect::Clobber { to: reg }),
        });
    }

    /// A load or store with an offset of nine bits, which may move its base before or after.
    fn signed_offset(self, insn: &mut Insn) {
        let (base, offset) = (self.base(5), self.signed(12, 9));
        let moved = Effect::Copy {
            to: base,
            from: base,
            add: offset,
        };
        match self.bits(10, 2) {
            0b01 => {
                self.single(Place::at(base, 0), insn);
                insn.effects.push(moved);
            }
            0b11 => {
                // The address is that before the move; the effects come in order.
                insn.effects.push(moved);
                self.single(Place::at(base, 0), insn);
                let place = Place::at(base, offset);
                insn.access = insn.access.map(|access| Access { place, ..access });
            }
            _ => self.single(Place::at(base, offset), insn),
        }
    }

    fn pair(self, insn: &mut Insn) {
        let is_whole = self.bits(30, 2) == 0b10 && !self.is_vector();
        let is_word = self.bits(30, 2) != 0b10 && !self.is_vector();
        let log2 = match (self.is_vector(), is_word) {
            (true, _) => 2 + self.bits(30, 2),
            (false, true) => 2,
            (false, false) => 3,
        };
        let base = self.base(5);
        let offset = self.signed(15, 7) << log2;
        let (first, moved_by) = match self.bits(23, 2) {
            0b01 => (0, Some(offset)),
            0b11 => (offset, Some(offset)),
            _ => (offset, None),
        };
        let is_load = self.bits(22, 1) == 1;
        insn.access = Some(Access::plain(Place::at(base, first), 2 << log2, is_load));
        let mut loaded = [(first, self.reg(0)), (first + (1 << log2), self.reg(10))];
        if loaded[0].1 == base {
            // The base is needed for the other one.
            loaded.reverse();
        }
        for (offset, reg) in loaded {
            let place = Place::at(base, offset);
            insn.effects.extend(match (is_load, is_whole) {
                (true, true) => Some(Effect::Load { to: reg, place }),
                (false, true) => Some(Effect::Store { place, from: reg }),
                (true, false) if self.is_vector() => None,
                (true, false) => Some(Effect::Clobber { to: reg }),
                (false, false) => Some(Effect::Spoil { place }),
            });
        }
        let moved = moved_by.map(|add| Effect::Copy {
            to: base,
            from: base,
            add,
        });
        insn.effects.extend(moved);
    }

    /// Exclusive and ordered loads and stores, and compare and swap.
    fn exclusive(self, insn: &mut Insn) {
        let place = Place::at(self.base(5), 0);
        let is_load = self.bits(22, 1) == 1;
        let is_whole = self.bits(30, 2) == 0b11;
        let is_swap = self.bits(21, 1) == 1;
        let is_ordered = self.bits(23, 1) == 1;
        let is_pair = is_swap && !is_ordered;
        let is_swap_of_pair = is_pair && self.bits(31, 1) == 0;
        let bytes = match is_swap_of_pair {
            true => 8 << self.bits(30, 1),
            false => 1 << (self.bits(30, 2) + u32::from(is_pair)),
        };
        insn.access = Some(match (is_swap, is_ordered) {
            (true, true) => Access::atomic(place, bytes),
            _ if is_swap_of_pair => Access::atomic(place, bytes),
            _ => Access {
                is_locked: !is_ordered,
                ..Access::plain(place, bytes, is_load)
            },
        });
        if is_load && is_whole && !is_swap {
            let to = self.reg(0);
            insn.effects.push(Effect::Load { to, place });
            return;
        }
        if !is_load && is_ordered && !is_swap {
            insn.effects.push(Effect::Spoil { place });
            return;
        }
        let written = [self.reg(0), self.reg(10), self.reg(16)];
        insn.effects.push(Effect::Spoil { place });
        insn.effects
            .extend(written.map(|to| Effect::Clobber { to }));
        if is_swap_of_pair {
            insn.effects.push(Effect::Clobber {
                to: self.reg(16) | 1,
            });
        }
    }

    fn atomic(self, insn: &mut Insn) {
        let place = Place::at(self.base(5), 0);
        let bytes = 1 << self.bits(30, 2);
        let is_swap = self.bits(12, 4) == 0b1000;
        insn.access = Some(match (self.bits(10, 2), self.bits(15, 1)) {
            (0b00, 0) => Access::atomic(place, bytes),
            (0b00, _) if is_swap => Access::atomic(place, bytes),
            // ldapr.
            (0b00, _) if self.bits(12, 3) == 0b100 => Access::plain(place, bytes, true),
            // The address of what is left is not in the register.
            _ => Access::hint(place, bytes),
        });
        insn.effects.push(Effect::Spoil { place });
        insn.effects.push(self.clobber());
    }
}
