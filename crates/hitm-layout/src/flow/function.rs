//! One function, gone through until nothing new is learned.
//!
//! A forward analysis over basic blocks: each block begins with what all ways to it agree on. Where a
//! block is reached by a jump whose target the instruction does not have, only the stack is known.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::{Facts, place_of};
use super::insn::{Convention, Effect, Insn, Next, Own, Place, Reg, ZERO};
use super::numbers::{moved, numbers, scaled, stepped};
use super::state::{Pointer, State, Value, join, join_parts};
use super::target::Target;
use super::types::{Part, Types, array_at, bytes_of};
use super::{AccessedType, Argument, FunctionTypes};
use crate::dwarf::FunctionLocals;
use crate::types::TypeId;

/// Most passes over all instructions of a function. Ten are rare: registers change what they point
/// at few times.
const ROUNDS_MAX: usize = 64;

/// Machine code of one function.
pub(super) struct Code {
    /// By address.
    pub(super) insns: Vec<Insn>,
    pub(super) convention: &'static Convention,
    /// True for a kernel's. It patches jumps in where they are needed, so that what nothing leads to is not
    /// run; and what its calls pass is noted.
    pub(super) is_kernel: bool,
}

/// The analysis of one function.
pub(super) struct Analysis<'f, T: Types> {
    types: T,
    locals: &'f FunctionLocals<T::At>,
    code: Code,
    /// The first instructions of blocks, in order.
    leaders: Vec<usize>,
    facts: Facts,
    /// States at the begin of blocks that were reached, by their first instruction.
    entries: BTreeMap<usize, State>,
    /// Blocks whose states do not change by what nothing leads to.
    run: BTreeSet<usize>,
    /// State where an indirect jump leads, or an exception.
    jumped: Option<State>,
    /// The stack at the calls that were reached.
    at_calls: Option<State>,
    found: FunctionTypes,
    is_recording: bool,
}

impl<'f, T: Types> Analysis<'f, T> {
    pub(super) fn new(
        mut types: T,
        locals: &'f FunctionLocals<T::At>,
        code: Code,
    ) -> Analysis<'f, T> {
        let addresses: Vec<u64> = code.insns.iter().map(|insn| insn.address).collect();
        let leaders = leaders(&code.insns, locals);
        let facts = Facts::new(locals, &addresses, &leaders, &mut types);
        Analysis {
            types,
            locals,
            code,
            leaders,
            facts,
            entries: BTreeMap::new(),
            run: BTreeSet::new(),
            jumped: None,
            at_calls: None,
            found: FunctionTypes::default(),
            is_recording: false,
        }
    }

    /// Goes through the function, and answers what its instructions access.
    pub(super) fn run(mut self) -> FunctionTypes {
        let first = self.locals.ranges.first();
        let Some(entry) = first.and_then(|range| self.index_of(range.begin)) else {
            return FunctionTypes::default();
        };
        let mut left = self.code.insns.len().saturating_mul(ROUNDS_MAX);
        let mut start = Some((entry, State::at_entry(self.code.convention)));
        while let Some((first, state)) = start {
            self.entries.insert(first, state);
            self.settle(first, &mut left);
            if self.code.is_kernel && self.run.is_empty() {
                self.run = self.entries.keys().copied().collect();
            }
            start = self.unreached();
        }
        self.is_recording = true;
        for (first, state) in std::mem::take(&mut self.entries) {
            self.block(first, state);
        }
        self.found
    }

    /// Goes through blocks from one on until nothing changes, or the work is no longer worth it.
    fn settle(&mut self, first: usize, left: &mut usize) {
        let is_kernel = self.code.is_kernel;
        let mut open = BTreeSet::from([first]);
        while let Some(first) = open.pop_first() {
            let (length, ends) = self.block(first, self.entries[&first].clone());
            *left = left.saturating_sub(length);
            if *left == 0 {
                // States that are not settled are not known.
                self.entries.clear();
                return;
            }
            for (next, state) in ends {
                match self.entries.get_mut(&next) {
                    Some(_) if self.run.contains(&next) => {}
                    Some(known) => {
                        if known.join(&state, joined(&self.types, is_kernel)) {
                            open.insert(next);
                        }
                    }
                    None => {
                        self.entries.insert(next, state);
                        open.insert(next);
                    }
                }
            }
        }
    }

    /// A block that nothing led to yet, with the stack where the function's indirect jumps have it, or else its calls:
    /// what they throw comes to such a block.
    fn unreached(&mut self) -> Option<(usize, State)> {
        if self.entries.is_empty() {
            return None;
        }
        let mut leaders = self.leaders.iter();
        let first = *leaders.find(|leader| !self.entries.contains_key(leader))?;
        if self.jumped.is_none() {
            let at_calls = || self.at_calls.clone().unwrap_or(State::unknown());
            self.jumped = Some(self.at_jumps().unwrap_or_else(at_calls));
        }
        Some((first, self.jumped.clone()?))
    }

    /// The stack before the indirect jumps that were reached; none if there are none.
    fn at_jumps(&self) -> Option<State> {
        let is_jump =
            |block: &usize| self.code.insns[self.end_of(*block) - 1].next == Next::Elsewhere;
        let blocks = self.entries.iter().filter(|(block, _)| is_jump(block));
        let states = blocks.map(|(_, entry)| entry.stack());
        states.reduce(|mut known, other| {
            known.join(&other, joined(&self.types, self.code.is_kernel));
            known
        })
    }

    /// Notes the stack at a call.
    fn note_stack(&mut self, state: &State) {
        let stack = state.stack();
        let join = joined(&self.types, self.code.is_kernel);
        match &mut self.at_calls {
            Some(known) => {
                known.join(&stack, join);
            }
            None => self.at_calls = Some(stack),
        }
    }

    /// The number of the instruction after a block's last one.
    fn end_of(&self, first: usize) -> usize {
        let after = self.leaders.partition_point(|leader| *leader <= first);
        self.leaders
            .get(after)
            .copied()
            .unwrap_or(self.code.insns.len())
    }

    fn index_of(&self, address: u64) -> Option<usize> {
        index_of(&self.code.insns, address)
    }

    /// Goes through one block. Answers how many instructions it has, and where the program goes from it.
    fn block(&mut self, first: usize, mut state: State) -> (usize, Vec<(usize, State)>) {
        let end = self.end_of(first);
        for index in first..end {
            self.step(index, &mut state);
        }
        let mut ends = Vec::new();
        let last = self.code.insns[end - 1].next;
        let follows = last.follows() || matches!(last, Next::Call(_));
        if let Some(index) = last.target().and_then(|target| self.index_of(target)) {
            ends.push((index, state.clone()));
        }
        let is_begin = |insn: &Insn| {
            self.locals
                .ranges
                .iter()
                .any(|part| part.begin == insn.address)
        };
        // A part that ends with a call does not return from it.
        if follows && self.code.insns.get(end).is_some_and(|next| !is_begin(next)) {
            ends.push((end, state));
        }
        (end - first, ends)
    }

    fn step(&mut self, index: usize, state: &mut State) {
        let found = &mut self.found;
        let is_recording = self.is_recording;
        let types = self.types.store();
        self.facts.apply(index, state, types, |call, to| {
            if is_recording {
                found.note_result(call, to, types);
            }
        });
        let insn = &self.code.insns[index];
        let (address, next) = (insn.address, insn.next);
        if let Some(access) = insn.access.filter(|_| self.is_recording) {
            let target = Target::of(state, access.place);
            if let Some(accessed) = self.object(target) {
                let accessed = AccessedType {
                    bytes: access.bytes,
                    ..accessed
                };
                self.found.accesses.insert(address, accessed);
            }
            if let Some(offset) = self.on_frame(target, state) {
                self.found.frame.insert(address, offset);
            }
        }
        let effects = std::mem::take(&mut self.code.insns[index].effects);
        for effect in &effects {
            self.effect(address, *effect, state);
            if self.is_recording {
                self.note_taken(*effect, state);
            }
        }
        self.code.insns[index].effects = effects;
        match next {
            Next::Call(_) => self.call(index, state),
            Next::Return => self.returned(state),
            _ => {}
        }
    }

    /// Bytes from the base of the function's frame to a place on its stack.
    fn on_frame(&self, target: Target, state: &State) -> Option<i64> {
        let Target::Stack(at) = target else {
            return None;
        };
        at.checked_sub(place_of(self.locals.frame?, state)?)
    }

    fn call(&mut self, index: usize, state: &mut State) {
        if !self.is_recording && !self.code.is_kernel {
            self.note_stack(state);
        }
        let after = self.code.insns.get(index + 1).map(|insn| insn.address);
        if let Some(call) = after.filter(|_| self.is_recording) {
            match self.code.is_kernel {
                true => self.note_arguments(call, state),
                false => self.note_passed(call, state),
            }
        }
        for reg in self.code.convention.clobbered {
            state.set(*reg, Value::Unknown);
        }
        let Some(after) = after else {
            return;
        };
        let declared = self.locals.call_results.get(&after);
        let to = declared.and_then(|result| self.pointer_of(*result));
        let value = to.map_or(Value::Result(after), Value::pointer_to);
        state.set(self.code.convention.result, value);
    }

    /// Notes that an instruction takes the address of a place on the stack.
    fn note_taken(&mut self, effect: Effect, state: &State) {
        let (Effect::Copy { to, .. } | Effect::Address { to, .. }) = effect else {
            return;
        };
        let is_taken = to != self.code.convention.stack;
        let place = self.on_frame(Target::at(state.get(to)), state);
        self.found.taken.extend(place.filter(|_| is_taken));
    }

    fn note_passed(&mut self, call: u64, state: &State) {
        let arguments = self.code.convention.arguments.iter();
        let places = arguments.filter_map(|reg| self.on_frame(Target::at(state.get(*reg)), state));
        let places: Vec<i64> = places.collect();
        if !places.is_empty() {
            self.found.passed.insert(call, places);
        }
    }

    fn note_arguments(&mut self, call: u64, state: &State) {
        let arguments = self.code.convention.arguments;
        for (number, reg) in arguments.iter().enumerate() {
            if let Some(accessed) = self.object(Target::at(state.get(*reg))) {
                let argument = Argument { call, number };
                self.found.arguments.insert(argument, accessed);
            }
        }
    }

    fn returned(&mut self, state: &State) {
        let Value::Result(call) = state.get(self.code.convention.result) else {
            return;
        };
        if self.is_recording {
            let declared = self.locals.result;
            match declared.and_then(|result| self.pointer_of(result)) {
                Some(to) => self.found.note_result(call, to, self.types.store()),
                None => self.found.returned.extend([call]),
            }
        }
    }

    /// Type that a value of the type at an entry points at.
    fn pointer_of(&mut self, of: T::At) -> Option<TypeId> {
        let of = self.types.read(of);
        self.types.pointer_at(of, 0)
    }

    fn effect(&mut self, address: u64, effect: Effect, state: &mut State) {
        match effect {
            Effect::Copy { to, from, add } => {
                if state.get(from) == Value::Unknown {
                    state.set_new(from, address);
                }
                state.set(to, moved(state.get(from), add));
            }
            Effect::Constant { to, value } => state.set(to, Value::Constant(value)),
            Effect::Clobber { to } => state.set_new(to, address),
            Effect::Select { to, one, other } => {
                let value =
                    joined(&self.types, self.code.is_kernel)(state.get(one), state.get(other));
                state.set(to, value);
            }
            Effect::Address { to, place } => {
                let value = match Target::of(state, place) {
                    Target::Object(pointer) => Value::Pointer(pointer),
                    Target::Stack(at) => Value::Stack(at),
                    Target::Static(address) => Value::Constant(address),
                    Target::PerCpu(address) => Value::PerCpu(address),
                    Target::Unknown => numbers(state, place),
                };
                set_number(state, to, value, address);
            }
            Effect::Step {
                to,
                from,
                by,
                scale,
            } => {
                let value = stepped(state.get(from), scaled(state.get(by), scale), from == by);
                set_number(state, to, value, address);
            }
            Effect::Scale { to, from, factor } => {
                let value = scaled(state.get(from), factor);
                set_number(state, to, value, address);
            }
            Effect::MultiplyAdd {
                to,
                add,
                one,
                other,
            } => {
                let product = match (state.get(one), state.get(other)) {
                    (Value::Constant(factor), by) | (by, Value::Constant(factor)) => {
                        scaled(by, factor.cast_signed())
                    }
                    _ => Value::Unknown,
                };
                let value = match add {
                    ZERO => product,
                    add => stepped(state.get(add), product, false),
                };
                set_number(state, to, value, address);
            }
            Effect::Load { to, place } => {
                let value = self.load(address, place, state);
                set_number(state, to, value, address);
            }
            Effect::Own { to, own } => {
                let value = self.own(own);
                set_number(state, to, value, address);
            }
            Effect::Store { place, from } => self.store(address, place, from, state),
            Effect::Spoil { place } => {
                if let Target::Stack(at) = Target::of(state, place) {
                    state.set_slot(at, Value::Unknown);
                }
            }
        }
    }

    fn own(&mut self, own: Own) -> Value {
        let to = match own {
            Own::Offset => return Value::PerCpu(0),
            Own::Variable(at) if self.types.holds_distance(at) => return Value::PerCpu(0),
            Own::Variable(at) => self.declared_per_cpu(at),
            Own::Task => self.types.task(),
        };
        to.map_or(Value::Unknown, Value::pointer_to)
    }

    /// Type that the pointer in each CPU's variable at an address points at.
    fn declared_per_cpu(&mut self, address: u64) -> Option<TypeId> {
        let Part { of, offset } = self.types.per_cpu(address)?;
        self.types.pointer_at(of, offset)
    }

    /// The object in memory.
    fn object(&mut self, target: Target) -> Option<AccessedType> {
        match target {
            Target::Object(pointer) => self.accessed(pointer),
            Target::PerCpu(at) => {
                let Part { of, offset } = self.types.per_cpu(at)?;
                self.accessed(Pointer::new(of, i64::try_from(offset).ok()?))
            }
            Target::Stack(_) | Target::Static(_) | Target::Unknown => None,
        }
    }

    /// The object that a pointer points into, with the offset in it: an element of the array that it is
    /// moved along, or of an array inside.
    fn accessed(&self, pointer: Pointer) -> Option<AccessedType> {
        let types = self.types.store();
        let size = bytes_of(types, pointer.to)?;
        let is_element = pointer.stride > 0 && pointer.stride.is_multiple_of(size);
        let offset = match is_element {
            true => pointer.offset.rem_euclid(i64::try_from(size).ok()?),
            false => pointer.offset,
        };
        let offset = u64::try_from(offset).ok()?;
        let is_inside = offset < size || types.has_open_end(pointer.to);
        let (type_id, offset) = match pointer.stride {
            _ if !is_inside => return None,
            0 => (pointer.to, offset),
            _ if is_element => (pointer.to, offset),
            stride => {
                let (element, rest) = array_at(types, pointer.to, offset)?;
                let is_element = stride.is_multiple_of(bytes_of(types, element)?);
                is_element.then_some((element, rest))?
            }
        };
        Some(AccessedType {
            type_id,
            offset,
            bytes: 0,
            is_stepped: pointer.stride > 0,
        })
    }

    fn load(&mut self, address: u64, place: Place, state: &State) -> Value {
        let target = Target::of(state, place);
        let declared = self.declared_at(address, target, state);
        match (declared, target) {
            (Some(to), Target::Stack(at)) => match state.slot(at) {
                // The pointer that was put there may be known better than what the variable is
                // declared as.
                Value::Pointer(own)
                    if self
                        .types
                        .store()
                        .has_part(own.to, own.offset.unsigned_abs(), to) =>
                {
                    Value::Pointer(own)
                }
                _ => Value::pointer_to(to),
            },
            (Some(to), _) => Value::pointer_to(to),
            (None, Target::Stack(at)) => state.slot(at),
            (None, Target::Static(at)) if self.types.holds_distance(at) => Value::PerCpu(0),
            _ => Value::Unknown,
        }
    }

    /// Type that the pointer at a place points at, by what is declared to be there.
    fn declared_at(&mut self, address: u64, target: Target, state: &State) -> Option<TypeId> {
        match target {
            Target::Object(pointer) => {
                let accessed = self.accessed(pointer)?;
                self.types.pointer_at(accessed.type_id, accessed.offset)
            }
            Target::Stack(at) => self
                .facts
                .pointer_on_stack(address, at, state, &mut self.types),
            Target::Static(at) => {
                let Part { of, offset } = self.types.variable(at)?;
                let is_inside = bytes_of(self.types.store(), of).is_some_and(|size| offset < size);
                is_inside.then(|| self.types.pointer_at(of, offset))?
            }
            Target::PerCpu(at) => self.declared_per_cpu(at),
            Target::Unknown => None,
        }
    }

    fn store(&mut self, address: u64, place: Place, from: Reg, state: &mut State) {
        let target = Target::of(state, place);
        let value = state.get(from);
        let is_open = matches!(
            value,
            Value::Unknown
                | Value::Result(_)
                | Value::Linear {
                    factor: 1,
                    add: 0,
                    ..
                }
        );
        if is_open && let Some(to) = self.declared_at(address, target, state) {
            if let (Value::Result(call), true) = (value, self.is_recording) {
                self.found.note_result(call, to, self.types.store());
            }
            // A value that is put into a pointer is one.
            state.set(from, Value::pointer_to(to));
        }
        if let Target::Stack(at) = target {
            state.set_slot(at, state.get(from));
        }
    }
}

/// Joins two values. What a variable is declared to point at is not known of a kernel, so there what
/// two pointers have in common is kept.
fn joined<T: Types>(types: &T, is_kernel: bool) -> impl Fn(Value, Value) -> Value {
    let types = types.store();
    move |one, other| match join(one, other, types) {
        Value::Unknown if is_kernel => join_parts(one, other, types),
        joined => joined,
    }
}

/// The number of the instruction at an address.
fn index_of(insns: &[Insn], address: u64) -> Option<usize> {
    insns
        .binary_search_by_key(&address, |insn| insn.address)
        .ok()
}

/// Sets a register. A number of which nothing is known is a new one.
fn set_number(state: &mut State, to: Reg, value: Value, address: u64) {
    match value {
        Value::Unknown => state.set_new(to, address),
        known => state.set(to, known),
    }
}

/// The first instructions of blocks: where jumps lead, what follows them, and where parts begin.
fn leaders<At>(insns: &[Insn], locals: &FunctionLocals<At>) -> Vec<usize> {
    let index_of = |address: u64| index_of(insns, address);
    let mut leaders: BTreeSet<usize> = BTreeSet::new();
    let begins = locals.ranges.iter();
    leaders.extend(begins.filter_map(|range| index_of(range.begin)));
    for (index, insn) in insns.iter().enumerate() {
        if let Next::Jump(target) | Next::Branch(target) = insn.next {
            leaders.extend(index_of(target));
        }
        let ends = !matches!(insn.next, Next::Follow | Next::Call(_));
        if ends && index + 1 < insns.len() {
            leaders.insert(index + 1);
        }
    }
    leaders.into_iter().collect()
}
