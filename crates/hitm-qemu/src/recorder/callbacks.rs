//! The callbacks: where QEMU's world meets the recorder's.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use hitm_base::AccessOp;

use crate::allocators::{Registers, Rule};
use crate::api::{Api, PluginId, QemuInfo, Tb};
use crate::arch::Flow;
use crate::config;
use crate::locks;
use crate::paths::Block;
use crate::system;
use crate::vcpu::{MemInsn, op_of};

use super::{Accessed, Recorder, fork};

/// The one recorder of this process.
pub(super) static RECORDER: OnceLock<Recorder> = OnceLock::new();

/// Starts the recorder; 0 when QEMU may continue.
///
/// # Safety
/// The arguments are those that QEMU passes to `qemu_plugin_install`.
pub unsafe fn install(
    id: PluginId,
    info: *const QemuInfo,
    argc: c_int,
    argv: *mut *mut c_char,
) -> c_int {
    // SAFETY: as the caller says.
    if unsafe { config::is_probe(argc, argv) } {
        return 0;
    }
    // SAFETY: as the caller says.
    match unsafe { start(id, &*info, argc, argv) } {
        Ok(()) => 0,
        Err(message) => {
            eprintln!("hitm: the recorder cannot start: {message}");
            1
        }
    }
}

/// # Safety
/// As for [`install`].
unsafe fn start(
    id: PluginId,
    info: &QemuInfo,
    argc: c_int,
    argv: *mut *mut c_char,
) -> Result<(), String> {
    let api = Api::load(info.version_cur).map_err(|name| format!("this QEMU has no {name}"))?;
    // SAFETY: `info` is QEMU's.
    let target = unsafe { info.target() };
    // SAFETY: the arguments are QEMU's.
    if info.system_emulation {
        // SAFETY: the arguments are QEMU's.
        let config = unsafe { config::read(argc, argv)? };
        system::supports(&target)?;
        return system::install(id, api, system::cpu_count(info.smp_vcpus), config);
    }
    // SAFETY: the arguments are QEMU's.
    let config = unsafe { config::read_program(argc, argv)? };
    let recorder = Recorder::new(id, api, &target, config)?;
    RECORDER.get_or_init(|| recorder);
    fork::observe()?;
    // SAFETY: the plugin is QEMU's.
    unsafe { register(id) };
    Ok(())
}

/// Registers all callbacks.
pub(super) unsafe extern "C" fn register(id: PluginId) {
    let Some(recorder) = RECORDER.get() else {
        return;
    };
    recorder.api.on_vcpu_init(id, vcpu_init);
    recorder.api.on_vcpu_exit(id, vcpu_exits);
    recorder.api.on_tb_trans(id, tb_translated);
    recorder.api.on_syscall(id, syscall_begins, syscall_returns);
    recorder.api.on_exit(id, process_exits);
}

/// The recorder, once it is made.
#[inline(always)]
pub(super) fn recorder() -> Option<&'static Recorder> {
    RECORDER.get()
}

/// The recorder, when it is recording.
#[inline(always)]
fn recording() -> Option<&'static Recorder> {
    let recorder = RECORDER.get()?;
    (!recorder.link.is_over()).then_some(recorder)
}

unsafe extern "C" fn vcpu_init(_: PluginId, index: c_uint) {
    if let Some(recorder) = RECORDER.get() {
        // The index may have been another thread's.
        recorder.vcpus.forget(index);
    }
}

/// QEMU has ended a thread: no signal can keep it any more.
unsafe extern "C" fn vcpu_exits(_: PluginId, index: c_uint) {
    let Some(recorder) = recording() else { return };
    if let Some(vcpu) = recorder.vcpus.get(index) {
        recorder.link.end_thread(vcpu);
    }
}

unsafe extern "C" fn tb_translated(_: PluginId, tb: *mut Tb) {
    if let Some(recorder) = RECORDER.get() {
        recorder.instrument(tb);
        locks::none_is_held("the end of a translation");
    }
}

pub(super) unsafe extern "C" fn block_begins(index: c_uint, insn_count: *mut c_void) {
    let Some(recorder) = recording() else { return };
    let vcpu = recorder.vcpu(index);
    if !vcpu.start_block(insn_count as u64) {
        recorder.wait(vcpu);
    }
}

/// The beginning of a block with a locked operation.
pub(super) unsafe extern "C" fn locking_block_begins(index: c_uint, block: *mut c_void) {
    let Some(recorder) = recording() else { return };
    recorder.start_locking_block(recorder.vcpu(index), Block::of_argument(block));
}

/// An access. `ON_STACK`: the instruction writes to its thread's stack, if it writes.
pub(super) unsafe extern "C" fn memory_accessed<const ON_STACK: bool>(
    index: c_uint,
    info: u32,
    addr: u64,
    insn: *mut c_void,
) {
    let Some(recorder) = recording() else { return };
    // A thread's blocks begin before they touch memory.
    let Some(vcpu) = recorder.vcpus.get(index) else {
        return;
    };
    let accessed = Accessed {
        info,
        addr,
        insn: insn.cast_const(),
    };
    // Each way has code of its own, in which the operation is a constant.
    match op_of(insn, recorder.api.is_store(info)) {
        Some(AccessOp::Load) => recorder.accessed(vcpu, accessed, AccessOp::Load),
        Some(AccessOp::Store) => {
            vcpu.note_store(addr, ON_STACK);
            recorder.accessed(vcpu, accessed, AccessOp::Store);
        }
        Some(op) => recorder.accessed(vcpu, accessed, op),
        None => {}
    }
}

/// The beginning of a block when callers are recorded.
pub(super) unsafe extern "C" fn block_begins_on_path(index: c_uint, block: *mut c_void) {
    let Some(recorder) = recording() else { return };
    let vcpu = recorder.vcpu(index);
    let block = Block::of_argument(block);
    vcpu.block_begins(block.addr, block.is_handler);
    if !vcpu.start_block(block.insn_count) {
        recorder.wait(vcpu);
    }
}

/// Like [`locking_block_begins`], when callers are recorded.
pub(super) unsafe extern "C" fn locking_block_begins_on_path(index: c_uint, block: *mut c_void) {
    let Some(recorder) = recording() else { return };
    let vcpu = recorder.vcpu(index);
    let block = Block::of_argument(block);
    vcpu.block_begins(block.addr, block.is_handler);
    recorder.start_locking_block(vcpu, block);
}

/// A call that pushes its return address, or a return that takes it from the stack.
pub(super) unsafe extern "C" fn stack_accessed<const IS_CALL: bool>(
    index: c_uint,
    info: u32,
    addr: u64,
    insn: *mut c_void,
) {
    // SAFETY: the arguments are QEMU's.
    unsafe {
        memory_accessed::<true>(index, info, addr, insn);
        observer_accesses_stack::<IS_CALL>(index, info, addr, insn);
    }
}

/// Like [`stack_accessed`], of the heap observer, whose accesses do not count.
pub(super) unsafe extern "C" fn observer_accesses_stack<const IS_CALL: bool>(
    index: c_uint,
    info: u32,
    addr: u64,
    insn: *mut c_void,
) {
    let Some(recorder) = recording() else { return };
    // A call may also load the address of its function.
    if IS_CALL && !recorder.api.is_store(info) {
        return;
    }
    // SAFETY: as in `memory_accessed`.
    let insn = unsafe { MemInsn::of_argument(insn) };
    if let Some(vcpu) = recorder.vcpus.get(index) {
        vcpu.stack_accessed(insn, addr, IS_CALL);
    }
}

/// Accesses of the heap observer.
pub(super) unsafe extern "C" fn nobody_asks(_: c_uint, _: u32, _: u64, _: *mut c_void) {}

pub(super) unsafe extern "C" fn call_runs(index: c_uint, insn: *mut c_void) {
    // SAFETY: the arguments are QEMU's.
    unsafe { flows(index, insn, Flow::Call) }
}

pub(super) unsafe extern "C" fn return_runs(index: c_uint, insn: *mut c_void) {
    // SAFETY: the arguments are QEMU's.
    unsafe { flows(index, insn, Flow::Return) }
}

pub(super) unsafe extern "C" fn stack_moves(index: c_uint, insn: *mut c_void) {
    // SAFETY: the arguments are QEMU's.
    unsafe { flows(index, insn, Flow::SetsStack) }
}

pub(super) unsafe extern "C" fn context_is_saved(index: c_uint, insn: *mut c_void) {
    // SAFETY: the arguments are QEMU's.
    unsafe { flows(index, insn, Flow::SavesStack) }
}

/// # Safety
/// The arguments are those of a callback that [`Recorder::follow`] registered.
unsafe fn flows(index: c_uint, insn: *mut c_void, flow: Flow) {
    let Some(recorder) = recording() else { return };
    // SAFETY: as in `memory_accessed`.
    let insn = unsafe { MemInsn::of_argument(insn) };
    if let Some(vcpu) = recorder.vcpus.get(index) {
        vcpu.flows(insn, flow);
    }
}

/// A function that allocates or frees begins: [`crate::allocators::function_entered`], with the guest's registers.
pub(crate) unsafe extern "C" fn allocator_entered(
    index: c_uint,
    rule: *mut c_void,
    state: *const u64,
) {
    let Some(recorder) = recording() else { return };
    let vcpu = recorder.vcpu(index);
    if vcpu.is_aside() {
        return;
    }
    // SAFETY: the argument is the rule that was registered, which lives for ever; the block has just begun.
    let (rule, registers) = unsafe { (&*rule.cast_const().cast::<Rule>(), Registers::new(state)) };
    let calls = &mut vcpu.allocations;
    if let Some(freed) = recorder.allocators.entered(calls, rule, registers) {
        recorder.heap.freed(freed);
    }
}

/// Code runs to which calls of an allocator return: [`crate::allocators::function_returned`].
pub(crate) unsafe extern "C" fn allocator_returned(
    index: c_uint,
    site: *mut c_void,
    state: *const u64,
) {
    let Some(recorder) = recording() else { return };
    let vcpu = recorder.vcpu(index);
    if vcpu.is_aside() {
        return;
    }
    // SAFETY: the block has just begun.
    let registers = unsafe { Registers::new(state) };
    let (calls, site) = (&mut vcpu.allocations, site.addr() as u64);
    if let Some(handed) = recorder.allocators.returned(calls, site, registers) {
        recorder.allocated(vcpu, handed.block, handed.callers, handed.told_type);
    }
}

pub(super) unsafe extern "C" fn fence_runs(index: c_uint, insn: *mut c_void) {
    let Some(recorder) = recording() else { return };
    // SAFETY: as in `memory_accessed`.
    let insn = unsafe { MemInsn::of_argument(insn) };
    recorder.vcpu(index).fence(insn);
}

pub(super) unsafe extern "C" fn pause_runs(index: c_uint, _: *mut c_void) {
    let Some(recorder) = recording() else { return };
    if let Some(vcpu) = recorder.vcpus.get(index) {
        vcpu.pauses += 1;
    }
}

#[allow(clippy::too_many_arguments, reason = "the signature is QEMU's")]
unsafe extern "C" fn syscall_begins(
    _: PluginId,
    index: c_uint,
    number: i64,
    a1: u64,
    a2: u64,
    a3: u64,
    a4: u64,
    a5: u64,
    a6: u64,
    _: u64,
    _: u64,
) {
    let args = [a1, a2, a3, a4, a5, a6];
    match recording() {
        Some(recorder) => recorder.begin_syscall(recorder.vcpu(index), number, args),
        None => {
            if let Some(recorder) = RECORDER.get() {
                recorder.answer_alone(number, &args);
            }
        }
    }
    locks::none_is_held("the beginning of a system call");
}

unsafe extern "C" fn syscall_returns(_: PluginId, index: c_uint, number: i64, result: i64) {
    let Some(recorder) = recording() else { return };
    recorder.end_syscall(index, recorder.vcpu(index), number, result);
    locks::none_is_held("the end of a system call");
}

unsafe extern "C" fn process_exits(_: PluginId, _: *mut c_void) {
    let Some(recorder) = recording() else { return };
    // Nobody knows of a child that has not attached.
    if recorder.link.is_attached() && !fork::is_new_child() {
        recorder.link.abandon_process();
    }
}
