//! Loops in which a thread waits for another one to write.
//!
//! A sampled address is the start of an instruction, so that decoding forward from it needs to know no function. The
//! shortest way back to it is the innermost loop that it is in.

use std::collections::{BTreeMap, VecDeque};

use hitm_base::Architecture;

use super::insn::{Access, Effect, Insn, Next, Place, Reg, SpinPart};
use super::operands::{CodeBytes, Operand};
use super::{convention, decode_upto};

/// Instructions that are looked at from an address on.
const INSNS_MAX: usize = 96;
/// Most instructions of a loop that pauses: those of known locks have up to 20, with what they count.
const PAUSING_MAX: usize = 32;
/// Most instructions of a loop that only looks.
const LOOKING_MAX: usize = 12;
/// Bytes of an instruction and of the next one's begin.
const DECODED_BYTES: usize = 32;

/// A wait for another thread's write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spin {
    /// The memory that is waited for, by registers as they are at the sampled address; none where they do not say
    /// which it is.
    pub operand: Option<Operand>,
}

impl CodeBytes<'_> {
    /// The wait that a thread at an address of this host's code is in, if the code around it is one: a loop with a
    /// processor's hint that it waits, or one that does nothing but look at a place or try to change it.
    pub fn spin(&self, address: u64) -> Option<Spin> {
        let ways = Ways::from(self, address);
        let loops = ways.loops();
        let innermost = loops.first();
        let is_pausing = ways.is_pause(0) || self.is_behind_pause(address);
        if !is_pausing && !innermost.is_some_and(|found| found.is_spin()) {
            return None;
        }
        let near = loops
            .iter()
            .take_while(|found| found.insns.len() <= PAUSING_MAX);
        let operand = near.filter_map(Loop::place).next();
        Some(Spin {
            operand: operand.map(|access| Operand::new(access, access.place)),
        })
    }

    /// Returns true if the instruction before an address is a pause: one that waits is sampled behind it.
    fn is_behind_pause(&self, address: u64) -> bool {
        let pause_bytes = match Architecture::HOST {
            Architecture::X86_64 => 2,
            Architecture::Aarch64 => 4,
        };
        let before = address.checked_sub(pause_bytes);
        let insns = before.map_or(Vec::new(), |before| self.decode(before));
        matches!(&insns[..], [only, next, ..] if only.spin == Some(SpinPart::Pause) && next.address == address)
    }

    /// The instruction at an address, and the one behind it.
    fn decode(&self, address: u64) -> Vec<Insn> {
        let from = address.checked_sub(self.begin);
        let from = from.and_then(|from| usize::try_from(from).ok());
        let code = from.and_then(|from| self.bytes.get(from..));
        let code = code.unwrap_or_default();
        let code = &code[..code.len().min(DECODED_BYTES)];
        decode_upto(Architecture::HOST, code, address, 2)
    }
}

/// An instruction, and those that run next, by number.
struct Step {
    insn: Insn,
    next: Vec<usize>,
}

/// The instructions that may run after one, nearest first.
struct Ways {
    steps: Vec<Step>,
    /// The step before each, on the shortest way from the first one.
    from: Vec<usize>,
}

impl Ways {
    fn from(code: &CodeBytes<'_>, address: u64) -> Ways {
        let mut ways = Ways {
            steps: Vec::new(),
            from: Vec::new(),
        };
        let mut known: BTreeMap<u64, usize> = BTreeMap::new();
        let mut open = VecDeque::from([(address, 0)]);
        while let Some((at, from)) = open.pop_front() {
            let number = ways.steps.len();
            if let Some(known) = known.get(&at) {
                ways.steps[from].next.push(*known);
                continue;
            }
            let mut decoded = code.decode(at).into_iter();
            let Some(insn) = decoded.next().filter(|_| number < INSNS_MAX) else {
                continue;
            };
            let behind = decoded.next().map(|next| next.address);
            let behind =
                behind.filter(|_| insn.next.follows() || matches!(insn.next, Next::Call(_)));
            open.extend(
                insn.next
                    .target()
                    .into_iter()
                    .chain(behind)
                    .map(|at| (at, number)),
            );
            if number > 0 {
                ways.steps[from].next.push(number);
            }
            known.insert(at, number);
            ways.from.push(from);
            ways.steps.push(Step {
                insn,
                next: Vec::new(),
            });
        }
        ways
    }

    fn is_pause(&self, number: usize) -> bool {
        let step = self.steps.get(number);
        step.is_some_and(|step| step.insn.spin == Some(SpinPart::Pause))
    }

    /// Loops through the first instruction: for each other one the shortest that it is in, shortest first.
    fn loops(&self) -> Vec<Loop<'_>> {
        let back = self.back();
        let through = (1..self.steps.len()).filter_map(|number| self.through(number, &back));
        let alone = self.steps.first().filter(|first| first.next.contains(&0));
        let mut loops: Vec<Loop<'_>> = through.collect();
        loops.extend(alone.map(|only| Loop {
            insns: vec![&only.insn],
        }));
        loops.sort_by_key(|found| found.insns.len());
        loops
    }

    /// The step behind each, on the shortest way back to the first one.
    fn back(&self) -> Vec<Option<usize>> {
        let mut before = vec![Vec::new(); self.steps.len()];
        for (number, step) in self.steps.iter().enumerate() {
            step.next.iter().for_each(|next| before[*next].push(number));
        }
        let mut back = vec![None; self.steps.len()];
        let mut open = VecDeque::from([0]);
        while let Some(number) = open.pop_front() {
            for earlier in before.get(number).into_iter().flatten() {
                if *earlier != 0 && back[*earlier].is_none() {
                    back[*earlier] = Some(number);
                    open.push_back(*earlier);
                }
            }
        }
        back
    }

    /// The loop from the first instruction over another one and back.
    fn through(&self, number: usize, back: &[Option<usize>]) -> Option<Loop<'_>> {
        let mut insns = Vec::new();
        let mut at = number;
        while at != 0 {
            insns.push(&self.steps[at].insn);
            at = self.from[at];
        }
        insns.push(&self.steps.first()?.insn);
        insns.reverse();
        let mut at = back[number]?;
        while at != 0 {
            insns.push(&self.steps[at].insn);
            at = back[at]?;
        }
        Some(Loop { insns })
    }
}

/// Instructions in the order in which they run, the first one again behind the last.
struct Loop<'w> {
    insns: Vec<&'w Insn>,
}

impl<'w> Loop<'w> {
    /// Returns true if it waits for another thread.
    fn is_spin(&self) -> bool {
        let pauses = self
            .insns
            .iter()
            .any(|insn| insn.spin == Some(SpinPart::Pause));
        match pauses {
            true => self.insns.len() <= PAUSING_MAX,
            false => self.insns.len() <= LOOKING_MAX && self.only_looks(),
        }
    }

    /// Returns true if all rounds are alike but for what another thread writes: nothing is called or stored, nothing
    /// is counted, and what is read is at one place.
    fn only_looks(&self) -> bool {
        let calls = self
            .insns
            .iter()
            .any(|insn| matches!(insn.next, Next::Call(_)));
        let looks = self.accesses().any(|(_, access)| !is_local(access.place));
        let is_alike = |(number, access): (usize, &Access)| {
            is_local(access.place)
                || self.is_steady(number, access.place)
                    && (!access.writes || self.is_attempt(number))
        };
        looks && !calls && self.accesses().all(is_alike) && !self.counts()
    }

    /// Accesses with the numbers of their instructions.
    fn accesses(&self) -> impl Iterator<Item = (usize, &'w Access)> + '_ {
        let insns = self.insns.iter().enumerate();
        let accesses = insns.flat_map(|(number, insn)| {
            let all = insn.access.iter().chain(&insn.implied);
            all.map(move |access| (number, access))
        });
        accesses.filter(|(_, access)| access.reads || access.writes)
    }

    /// The place that is waited for, if it can be counted from the registers at the first instruction.
    fn place(&self) -> Option<&'w Access> {
        let is_kept = |reg: Option<Reg>| reg.is_none_or(|reg| !self.writes(reg));
        let places = self.accesses().map(|(_, access)| access);
        let known = places.filter(|access| {
            let place = access.place;
            !is_local(access.place)
                && !access.is_narrow
                && is_kept(place.base)
                && is_kept(place.index.map(|index| index.0))
        });
        // The lock's word before other words that are looked at.
        known.max_by_key(|access| access.is_locked)
    }

    fn writes(&self, reg: Reg) -> bool {
        let mut effects = self.insns.iter().flat_map(|insn| &insn.effects);
        let is_called = self
            .insns
            .iter()
            .any(|insn| matches!(insn.next, Next::Call(_)));
        let is_lost = is_called && convention(Architecture::HOST).clobbered.contains(&reg);
        is_lost || effects.any(|effect| effect.written() == Some(reg))
    }

    /// Returns true if a place is the same in each round.
    fn is_steady(&self, number: usize, place: Place) -> bool {
        let registers = place
            .base
            .into_iter()
            .chain(place.index.map(|index| index.0));
        registers.into_iter().all(|reg| {
            // What it was given last, in the round before if need be.
            let (behind, before) = self.insns.split_at(number);
            let last = behind.iter().rev().chain(before.iter().rev());
            let effects = last.flat_map(|insn| insn.effects.iter().rev());
            let mut written = effects.filter(|effect| effect.written() == Some(reg));
            written
                .next()
                .is_none_or(|effect| self.is_same_each_round(effect))
        })
    }

    fn is_same_each_round(&self, effect: &Effect) -> bool {
        match effect {
            Effect::Constant { .. } => true,
            Effect::Load { place, .. } => {
                let is_stored = |other: &Effect| matches!(other, Effect::Store { place: to, .. } | Effect::Spoil { place: to } if to == place);
                let mut effects = self.insns.iter().flat_map(|insn| &insn.effects);
                is_fixed(*place) && !effects.any(is_stored)
            }
            Effect::Address { place, .. } => is_fixed(*place),
            _ => false,
        }
    }

    /// Returns true if the instruction with this number tries to change a place to the same value in each round.
    fn is_attempt(&self, number: usize) -> bool {
        match self.insns[number].spin {
            Some(SpinPart::Exchange) => true,
            Some(SpinPart::CompareExchange { expected, new }) => {
                let others = self.insns.iter().enumerate();
                let others = others.filter(|(other, _)| *other != number);
                let mut effects = others.flat_map(|(_, insn)| &insn.effects);
                let is_given = effects.any(|effect| effect.written() == Some(expected));
                let mut all = self.insns.iter().flat_map(|insn| &insn.effects);
                let is_same = |effect: &Effect| {
                    effect.written() != Some(new) || matches!(effect, Effect::Constant { .. })
                };
                is_given && all.all(is_same)
            }
            _ => false,
        }
    }

    /// Returns true if a register goes on from one round to the next, and changes.
    fn counts(&self) -> bool {
        let insns = self.insns.iter();
        let written = insns.flat_map(|insn| insn.effects.iter().filter_map(Effect::written));
        written.into_iter().any(|reg| !self.is_given_anew(reg))
    }

    /// Returns true if an instruction gives a register something that does not come from what it had.
    fn is_given_anew(&self, reg: Reg) -> bool {
        self.insns.iter().any(|insn| {
            let reads = insn.access.is_some_and(|access| access.reads);
            insn.effects.iter().any(|effect| {
                effect.written() == Some(reg)
                    && match effect {
                        Effect::Constant { .. } | Effect::Load { .. } | Effect::Address { .. } => {
                            true
                        }
                        Effect::Copy { to, from, .. } => to != from,
                        Effect::Clobber { .. } => reads,
                        _ => false,
                    }
            })
        })
    }
}

/// Returns true if a place is counted from the stack pointer, or is below the frame pointer, which else may be any
/// register.
fn is_local(place: Place) -> bool {
    place.index.is_none()
        && match (Architecture::HOST, place.base) {
            (Architecture::X86_64, Some(6)) => place.offset < 0,
            (Architecture::X86_64, base) => base == Some(7),
            (Architecture::Aarch64, base) => matches!(base, Some(29 | 31)),
        }
}

/// Returns true if a place is a local variable or has its address in the instruction.
fn is_fixed(place: Place) -> bool {
    is_local(place) || place.base.is_none() && place.index.is_none()
}

/// Their code is x86-64's.
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
