//! x86-64 instructions, decoded by iced-x86.

use iced_x86::{
    Code, ConditionCode, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory,
    InstructionInfoOptions, Mnemonic, OpAccess, OpKind, Register, UsedMemory,
};

use super::insn::{
    Access, Convention, Effect, Insn, Next, Own, POINTER_BYTES, Place, Reg, SCRATCH, SpinPart,
};
use super::writes::WordWrite;

/// The System V ABI for x86-64, section 3.2: arguments are in rdi, rsi, rdx, rcx, r8 and r9; rax, rcx, rdx,
/// rsi, rdi, r8 to r11 are the callee's.
pub(super) const CONVENTION: Convention = Convention {
    stack: STACK,
    result: 0,
    arguments: &[5, 4, 1, 2, 8, 9],
    clobbered: &[0, 1, 2, 4, 5, 8, 9, 10, 11],
    stack_at_entry: -8,
};

const STACK: Reg = 7;
const FRAME: Reg = 6;

/// Decodes machine code up to `max` instructions.
pub(super) fn decode(code: &[u8], address: u64, max: usize) -> Vec<Insn> {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let mut factory = InstructionInfoFactory::new();
    let mut found = Vec::new();
    let mut instruction = Instruction::default();
    while decoder.can_decode() && found.len() < max {
        decoder.decode_out(&mut instruction);
        found.push(translate(&instruction, &mut factory));
    }
    found
}

fn translate(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> Insn {
    let mut insn = Insn::plain(instruction.ip());
    if instruction.is_invalid() {
        insn.next = Next::Stop;
        return insn;
    }
    insn.next = next(instruction);
    insn.spin = spin_part(instruction);
    let is_address = matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop);
    if !is_address {
        insn.access = access(instruction, factory);
        insn.implied = implied(instruction, factory);
        insn.is_fusible = insn.access.is_some() && is_fusible(instruction);
    }
    if !matches!(insn.next, Next::Call(_)) && !moves_pointers(instruction, &mut insn.effects) {
        spoil_written(instruction, factory, &mut insn.effects);
    }
    insn
}

fn next(instruction: &Instruction) -> Next {
    match instruction.flow_control() {
        FlowControl::UnconditionalBranch => Next::Jump(instruction.near_branch_target()),
        FlowControl::ConditionalBranch => Next::Branch(instruction.near_branch_target()),
        FlowControl::IndirectBranch => Next::Elsewhere,
        FlowControl::Return => Next::Return,
        FlowControl::Call if instruction.is_call_near() => {
            Next::Call(Some(instruction.near_branch_target()))
        }
        FlowControl::Call | FlowControl::IndirectCall => Next::Call(None),
        FlowControl::Interrupt if instruction.mnemonic() != Mnemonic::Int => Next::Stop,
        FlowControl::Exception => Next::Stop,
        _ => Next::Follow,
    }
}

fn spin_part(instruction: &Instruction) -> Option<SpinPart> {
    let has_memory = memory_operand(instruction).is_some();
    match instruction.mnemonic() {
        Mnemonic::Pause | Mnemonic::Tpause | Mnemonic::Umwait => Some(SpinPart::Pause),
        Mnemonic::Xchg | Mnemonic::Bts | Mnemonic::Btr if has_memory => Some(SpinPart::Exchange),
        Mnemonic::Cmpxchg if has_memory => Some(SpinPart::CompareExchange {
            expected: 0,
            new: number(instruction.op1_register().full_register())?,
        }),
        _ => None,
    }
}

/// The write of the instruction that the bytes begin with; none if it writes no memory that it names.
pub(super) fn word_write(code: &[u8]) -> Option<WordWrite> {
    const CARRY: u64 = 1;
    const ZERO: u64 = 1 << 6;
    let instruction = Decoder::new(64, code, DecoderOptions::NONE).decode();
    let access = access(&instruction, &mut InstructionInfoFactory::new())?;
    if !access.writes {
        return None;
    }
    let attempt = |flag, is_set| WordWrite::Attempt { flag, is_set };
    Some(match instruction.mnemonic() {
        Mnemonic::Xchg => exchange(&instruction),
        Mnemonic::Cmpxchg | Mnemonic::Dec | Mnemonic::Sub if access.is_locked => {
            attempt(ZERO, true)
        }
        Mnemonic::Bts if access.is_locked => attempt(CARRY, false),
        _ if access.reads => WordWrite::Other,
        _ => WordWrite::Store,
    })
}

fn exchange(instruction: &Instruction) -> WordWrite {
    let registers = [instruction.op0_register(), instruction.op1_register()];
    let register = registers.into_iter().find(|own| *own != Register::None);
    let is_high = |own: &Register| {
        matches!(
            own,
            Register::AH | Register::BH | Register::CH | Register::DH
        )
    };
    let register = register.filter(|own| !is_high(own));
    let old = register.and_then(|own| Some((number(own.full_register())?, own.size())));
    match old {
        Some((old, bytes)) => WordWrite::Exchange {
            old,
            bytes: bytes as u64,
        },
        None => WordWrite::Other,
    }
}

/// The access to the place that the instruction names, if it names one.
fn access(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> Option<Access> {
    let operand = memory_operand(instruction)?;
    let mut place = place(instruction)?;
    // The address is counted from the stack pointer after the move.
    if instruction.mnemonic() == Mnemonic::Pop && place.base == Some(STACK) {
        let moved = i64::from(instruction.stack_pointer_increment());
        place.offset = place.offset.wrapping_add(moved);
    }
    const ACCESS_ONLY: u32 =
        InstructionInfoOptions::NO_MEMORY_USAGE | InstructionInfoOptions::NO_REGISTER_USAGE;
    let info = factory.info_options(instruction, ACCESS_ONLY);
    let access = info.op_access(operand);
    Some(Access {
        reads: reads(access),
        writes: writes(access),
        // An exchange with memory needs no prefix.
        is_locked: instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg,
        ..Access::hint(place, instruction.memory_size().size() as u64)
    })
}

/// Returns true for a comparison of memory that some processors fuse with the branch behind it. Source:
/// Intel 64 and IA-32 Architectures Optimization Reference Manual, section 3.4.2.2. AMD's fuse immediate
/// numbers, too, unless there is a displacement.
fn is_fusible(instruction: &Instruction) -> bool {
    let compares = match instruction.mnemonic() {
        Mnemonic::Cmp | Mnemonic::Test => true,
        Mnemonic::Add | Mnemonic::Sub | Mnemonic::And => instruction.op0_kind() == OpKind::Register,
        _ => false,
    };
    let is_long = immediate(instruction, 1).is_some() && instruction.memory_displ_size() > 0;
    compares && !is_long && !instruction.is_ip_rel_memory_operand()
}

/// The number of the operand that names memory.
fn memory_operand(instruction: &Instruction) -> Option<u32> {
    let is_memory = |operand: &u32| instruction.op_kind(*operand) == OpKind::Memory;
    (0..instruction.op_count()).find(is_memory)
}

/// Accesses of an instruction that names no memory: to the stack, and by string instructions.
fn implied(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> Vec<Access> {
    let has_some = instruction.is_stack_instruction() || instruction.is_string_instruction();
    if !has_some || memory_operand(instruction).is_some() {
        return Vec::new();
    }
    let used = factory.info(instruction).used_memory().iter();
    used.filter_map(implied_access).collect()
}

fn implied_access(memory: &UsedMemory) -> Option<Access> {
    let is_segment_relative = matches!(memory.segment(), Register::FS | Register::GS);
    let base = number(memory.base()).filter(|_| !is_segment_relative)?;
    let place = Place::at(base, memory.displacement().cast_signed());
    Some(Access {
        reads: reads(memory.access()),
        writes: writes(memory.access()),
        ..Access::hint(place, memory.memory_size().size() as u64)
    })
}

const fn reads(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

const fn writes(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

/// The place of the memory operand; none when it is counted from a segment's base.
fn place(instruction: &Instruction) -> Option<Place> {
    let has_segment = matches!(instruction.segment_prefix(), Register::FS | Register::GS);
    if has_segment {
        return None;
    }
    if instruction.is_ip_rel_memory_operand() {
        return Some(Place {
            base: None,
            index: None,
            offset: instruction.ip_rel_memory_address().cast_signed(),
        });
    }
    let offset = instruction.memory_displacement64().cast_signed();
    let base = match instruction.memory_base() {
        Register::None => None,
        base => Some(number(base)?),
    };
    let index = match instruction.memory_index() {
        Register::None => None,
        index => Some((
            number(index)?,
            u8::try_from(instruction.memory_index_scale()).ok()?,
        )),
    };
    Some(Place {
        base,
        index,
        offset,
    })
}

/// Notes what an instruction that moves whole pointers does; false for any other.
fn moves_pointers(instruction: &Instruction, effects: &mut Vec<Effect>) -> bool {
    let operand = |index: u32| register(instruction, index);
    let found = match instruction.mnemonic() {
        Mnemonic::Mov => mov(instruction),
        Mnemonic::Lea => operand(0)
            .zip(place(instruction))
            .map(|(to, place)| Effect::Address { to, place }),
        Mnemonic::Xor => zeroed(instruction),
        Mnemonic::Push | Mnemonic::Pop if instruction.stack_pointer_increment().abs() != 8 => {
            return false;
        }
        Mnemonic::Push => return push(operand(0), effects),
        Mnemonic::Pop => return pop(operand(0), effects),
        Mnemonic::Leave => {
            effects.push(Effect::Copy {
                to: STACK,
                from: FRAME,
                add: 0,
            });
            return pop(Some(FRAME), effects);
        }
        Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Nop | Mnemonic::Endbr64 => return true,
        _ if instruction.is_jcc_short_or_near() => return true,
        _ => arithmetic(instruction, effects).or_else(|| conditional_move(instruction, effects)),
    };
    effects.extend(found);
    found.is_some()
}

/// The register operand with this number, if it is a whole one.
fn register(instruction: &Instruction, operand: u32) -> Option<Reg> {
    match instruction.op_kind(operand) {
        OpKind::Register => number(instruction.op_register(operand)),
        _ => None,
    }
}

/// Sums, differences and products whose result is a whole register.
fn arithmetic(instruction: &Instruction, effects: &mut Vec<Effect>) -> Option<Effect> {
    let to = register(instruction, 0)?;
    let operand = |index: u32| register(instruction, index);
    let immediate = |index: u32| immediate(instruction, index);
    match instruction.mnemonic() {
        Mnemonic::Add => match (immediate(1), operand(1)) {
            (Some(number), _) => Some(add(to, number)),
            (None, by) => {
                let by = by.or_else(|| loaded(instruction, effects))?;
                Some(step(to, by, 1))
            }
        },
        Mnemonic::Sub => match (immediate(1), operand(1)) {
            (Some(number), _) => Some(add(to, number.wrapping_neg())),
            (None, by) => Some(step(to, by?, -1)),
        },
        Mnemonic::Inc => Some(add(to, 1)),
        Mnemonic::Dec => Some(add(to, -1)),
        Mnemonic::Shl => {
            // With the sign's bit set nothing is known but that it is a number.
            let bits = u32::try_from(immediate(1)? & 63).ok()?;
            let factor = if bits < 63 { 1i64 << bits } else { 1 };
            Some(Effect::Scale {
                to,
                from: to,
                factor,
            })
        }
        Mnemonic::Imul => {
            let factor = immediate(2)?;
            let from = operand(1).unwrap_or_else(|| {
                effects.push(Effect::Clobber { to });
                to
            });
            Some(Effect::Scale { to, from, factor })
        }
        _ => None,
    }
}

/// `to += by * scale`.
const fn step(to: Reg, by: Reg, scale: i64) -> Effect {
    Effect::Step {
        to,
        from: to,
        by,
        scale,
    }
}

/// `to += add`.
const fn add(to: Reg, add: i64) -> Effect {
    Effect::Copy { to, from: to, add }
}

/// Loads the second operand into [`SCRATCH`], if it is eight bytes of memory.
fn loaded(instruction: &Instruction, effects: &mut Vec<Effect>) -> Option<Reg> {
    let is_memory = instruction.op_count() == 2 && instruction.op1_kind() == OpKind::Memory;
    let is_whole = instruction.memory_size().size() == usize::from(POINTER_BYTES);
    let load = load(instruction, SCRATCH).filter(|_| is_memory && is_whole)?;
    effects.push(load);
    Some(SCRATCH)
}

/// Loads the eight bytes of the memory operand.
fn load(instruction: &Instruction, to: Reg) -> Option<Effect> {
    match place(instruction) {
        Some(place) => Some(Effect::Load { to, place }),
        None => own(instruction).map(|own| Effect::Own { to, own }),
    }
}

/// The CPU's copy of a variable at an address. Linux counts it from the segment gs (arch/x86/include/asm/percpu.h).
fn own(instruction: &Instruction) -> Option<Own> {
    let is_own = instruction.segment_prefix() == Register::GS;
    let has_base = instruction.memory_base() != Register::None;
    let has_index = instruction.memory_index() != Register::None;
    match instruction.is_ip_rel_memory_operand() {
        _ if !is_own => None,
        true => Some(Own::Variable(instruction.ip_rel_memory_address())),
        false if has_base || has_index => None,
        false => Some(Own::Variable(instruction.memory_displacement64())),
    }
}

fn mov(instruction: &Instruction) -> Option<Effect> {
    let register = |index| number(instruction.op_register(index));
    match (instruction.op0_kind(), instruction.op1_kind()) {
        (OpKind::Register, OpKind::Register) => {
            let (to, from) = (register(0)?, register(1)?);
            Some(Effect::Copy { to, from, add: 0 })
        }
        (OpKind::Register, OpKind::Memory) => load(instruction, register(0)?),
        (OpKind::Memory, OpKind::Register) => Some(Effect::Store {
            place: place(instruction)?,
            from: register(1)?,
        }),
        (OpKind::Register, _) => {
            // A move into half of a register clears the other half.
            let to = number(instruction.op0_register().full_register())?;
            let is_wide = matches!(instruction.op0_register().size(), 4 | 8);
            let value = immediate(instruction, 1)
                .filter(|_| is_wide)?
                .cast_unsigned();
            Some(Effect::Constant { to, value })
        }
        _ => None,
    }
}

fn immediate(instruction: &Instruction, operand: u32) -> Option<i64> {
    match instruction.op_kind(operand) {
        OpKind::Immediate8
        | OpKind::Immediate16
        | OpKind::Immediate32
        | OpKind::Immediate64
        | OpKind::Immediate8to64
        | OpKind::Immediate32to64
        | OpKind::Immediate8to32 => Some(instruction.immediate(operand).cast_signed()),
        _ => None,
    }
}

/// `xor eax, eax`.
fn zeroed(instruction: &Instruction) -> Option<Effect> {
    let is_register =
        instruction.op0_kind() == OpKind::Register && instruction.op1_kind() == OpKind::Register;
    let (to, from) = (instruction.op0_register(), instruction.op1_register());
    let to =
        (is_register && to == from && to.size() >= 4).then(|| number(to.full_register()))??;
    Some(Effect::Constant { to, value: 0 })
}

/// `cmov`: whole registers, or a register and memory.
fn conditional_move(instruction: &Instruction, effects: &mut Vec<Effect>) -> Option<Effect> {
    let is_move = instruction.condition_code() != ConditionCode::None
        && instruction.op_count() == 2
        && instruction.op0_kind() == OpKind::Register;
    let to = register(instruction, 0).filter(|_| is_move)?;
    let other = register(instruction, 1).or_else(|| loaded(instruction, effects))?;
    Some(Effect::Select { to, one: to, other })
}

fn push(from: Option<Reg>, effects: &mut Vec<Effect>) -> bool {
    effects.push(add(STACK, -i64::from(POINTER_BYTES)));
    let place = Place::at(STACK, 0);
    effects.push(match from {
        Some(from) => Effect::Store { place, from },
        None => Effect::Spoil { place },
    });
    true
}

fn pop(to: Option<Reg>, effects: &mut Vec<Effect>) -> bool {
    let place = Place::at(STACK, 0);
    effects.extend(to.map(|to| Effect::Load { to, place }));
    effects.push(add(STACK, i64::from(POINTER_BYTES)));
    true
}

/// Notes the registers and the stack slots that any other instruction writes.
fn spoil_written(
    instruction: &Instruction,
    factory: &mut InstructionInfoFactory,
    effects: &mut Vec<Effect>,
) {
    let info = factory.info(instruction);
    let is_plain = |memory: &&UsedMemory| memory.index() == Register::None;
    let memory = info.used_memory().iter().filter(is_plain);
    for memory in memory.filter(|memory| writes(memory.access())) {
        if let Some(base) = number(memory.base()) {
            let place = Place::at(base, memory.displacement().cast_signed());
            effects.push(Effect::Spoil { place });
        }
    }
    for used in info.used_registers() {
        if writes(used.access())
            && let Some(to) = number(used.register().full_register())
        {
            effects.push(Effect::Clobber { to });
        }
    }
    if instruction.code() == Code::INVALID {
        effects.clear();
    }
}

/// DWARF's number of a 64-bit register.
fn number(register: Register) -> Option<Reg> {
    /// By the processor's numbers: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15.
    const NUMBERS: [Reg; 16] = [0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];
    register.is_gpr64().then(|| NUMBERS[register.number()])
}
