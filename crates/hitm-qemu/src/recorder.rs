//! The callbacks: where QEMU's world meets the recorder's.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering as MemoryOrdering};
use std::time::Duration;

use hitm_base::{AccessOp, AddrRange, CodeAddr, ThreadId};
use hitm_coherence::directory::Capacity;
use hitm_trace::{EndReason, Record};
use hitm_weave::Weave;

use crate::api::{Api, Insn, PluginId, QemuInfo, Tb};
use crate::barrier::{Barrier, BarrierConfig};
use crate::config::{self, Config};
use crate::decode::{self, Ordering};
use crate::first_touch::{FirstTouch, Touch};
use crate::guest::{Numbers, Syscall};
use crate::heap::{Heap, HeapNote, Observer};
use crate::output::Output;
use crate::vcpu::{InSyscall, MemInsn, Vcpu, VcpuTable, op_of};
use crate::{guest_memory, mappings, system};

/// The most guest threads that may live at one time.
const VCPUS_MAX: usize = 1 << 16;

/// How long a thread stays parked at most before it runs a block.
const PARK_TIME_MAX: Duration = Duration::from_millis(20);

/// `CLONE_VM`: the new task shares memory, so it is a thread.
const CLONE_VM: u64 = libc::CLONE_VM as u64;

/// The one recorder of this process.
static RECORDER: OnceLock<Recorder> = OnceLock::new();

struct Recorder {
    api: Api,
    numbers: &'static Numbers,
    classify: fn(&[u8]) -> Ordering,
    first_touch: &'static FirstTouch,
    heap: &'static Heap,
    observer: Observer,
    barrier: Barrier,
    pid: u32,
    /// The recorded program's name, which threads have until they are given one.
    program: String,
    /// Until the first instruction is translated.
    is_new: AtomicBool,
    /// An index is used again after a thread's end.
    vcpus: VcpuTable,
}

/// Starts the recorder; 0 when QEMU may go on.
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
    let api = Api::load(info.api_version()).map_err(|name| format!("this QEMU has no {name}"))?;
    // SAFETY: `info` is QEMU's.
    let target = unsafe { info.target() };
    // SAFETY: the arguments are QEMU's.
    let config = unsafe { config::read(argc, argv)? };
    if info.is_system_emulation() {
        system::supports(&target)?;
        return system::install(id, api, system::cpu_count(info.smp_vcpus()), config);
    }
    let recorder = Recorder::new(api, &target, config)?;
    let recorder = RECORDER.get_or_init(|| recorder);
    recorder.api.on_vcpu_init(id, vcpu_init);
    recorder.api.on_tb_trans(id, tb_translated);
    recorder.api.on_syscall(id, syscall_begins, syscall_returns);
    recorder.api.on_exit(id, process_exits);
    Ok(())
}

impl Recorder {
    fn new(api: Api, target: &str, config: Config) -> Result<Recorder, String> {
        let numbers = Numbers::of_target(target).ok_or(format!(
            "found a {target} program, expected x86_64 or aarch64"
        ))?;
        let Config {
            header,
            machine,
            cpu_order,
            producer,
            ..
        } = config;
        let command = header.args.first().map_or("", String::as_str);
        let program = command.rsplit('/').next().unwrap_or_default().to_string();
        let first_touch: &FirstTouch =
            Box::leak(Box::new(FirstTouch::with_hand_over(header.window)));
        let heap: &Heap = Box::leak(Box::default());
        let weave = Weave::new(machine, Capacity::Finite);
        let output = Output::new(producer, first_touch);
        Ok(Recorder {
            api,
            numbers,
            classify: if target == "x86_64" {
                decode::x86_64
            } else {
                decode::aarch64
            },
            first_touch,
            heap,
            observer: Observer::default(),
            barrier: Barrier::new(
                weave,
                output,
                (heap, first_touch),
                BarrierConfig {
                    window: header.window,
                    cpu_order,
                    park_time_max: PARK_TIME_MAX,
                    idle_time_passes: false,
                },
            ),
            pid: std::process::id(),
            program,
            is_new: AtomicBool::new(true),
            vcpus: VcpuTable::new(VCPUS_MAX),
        })
    }

    /// The calling thread's state, made at its first block.
    #[inline(always)]
    #[allow(
        clippy::mut_from_ref,
        reason = "the table hands each thread its own state only"
    )]
    fn vcpu(&self, index: c_uint) -> &mut Vcpu {
        self.vcpus.get_or_make(index, || self.new_vcpu(index))
    }

    #[cold]
    fn new_vcpu(&self, index: c_uint) -> Vcpu {
        // SAFETY: a plain system call.
        let tid = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
        let vcpu = self.barrier.enter(index, tid, self.program.clone());
        if tid == self.pid {
            for mapping in mappings::present() {
                self.barrier.record(&Record::Mapping(mapping));
            }
        }
        vcpu
    }

    fn instrument(&self, tb: *mut Tb) {
        let mut addrs = self.api.insns(tb).map(|insn| self.api.insn_vaddr(insn));
        if addrs
            .next()
            .is_some_and(|addr| self.observer.contains(addr))
        {
            return; // Neither its accesses nor its time are the program's.
        }
        let mut insn_count = 0;
        for (index, insn) in self.api.insns(tb).enumerate() {
            insn_count += 1;
            self.instrument_insn(insn, index as u16);
        }
        self.api.on_tb_exec(tb, block_begins, insn_count);
    }

    fn instrument_insn(&self, insn: *mut Insn, index: u16) {
        let (bytes, len) = self.api.insn_bytes(insn);
        let ordering = (self.classify)(&bytes[..len]);
        let locked = ordering == Ordering::LockedRmw;
        let code = CodeAddr(self.api.insn_vaddr(insn));
        if self.is_new.swap(false, MemoryOrdering::Relaxed) {
            guest_memory::learn_base(code.0, self.api.insn_haddr(insn));
        }
        let data = MemInsn {
            code,
            index,
            locked,
        }
        .into_argument();
        if ordering == Ordering::Fence {
            self.api.on_insn_exec(insn, fence_runs, data);
            return;
        }
        self.api.on_mem(insn, memory_accessed, data);
    }

    /// An access: where, and by which callback's argument.
    #[inline(always)]
    fn accessed(
        &self,
        vcpu: &mut Vcpu,
        (info, addr, argument): (u32, u64, *const c_void),
        op: AccessOp,
    ) {
        if let Some(touch) = vcpu.touch(addr, op) {
            self.access_slowly(vcpu, (info, addr, argument), (op, touch));
        }
    }

    /// An access that may have to be recorded: out of the way of all the others.
    #[inline(never)]
    fn access_slowly(
        &self,
        vcpu: &mut Vcpu,
        (info, addr, argument): (u32, u64, *const c_void),
        (op, touch): (AccessOp, Touch),
    ) {
        // SAFETY: callbacks get the argument that `instrument_insn` registered.
        let insn = unsafe { MemInsn::of_argument(argument) };
        vcpu.access_slowly(insn, (addr, op, touch), self.api.access_size(info));
    }

    fn begin_syscall(&self, vcpu: &mut Vcpu, number: i64, args: [u64; 6]) {
        let kind = self.numbers.classify(number, args[1]);
        vcpu.syscall = Some(InSyscall { kind, args });
        match kind {
            Syscall::MayBlock | Syscall::FutexWait => self.barrier.leave(vcpu),
            Syscall::ThreadExit => {
                self.barrier.ends(vcpu);
                self.barrier.leave(vcpu);
            }
            Syscall::FutexWake => self.barrier.wakes_at(vcpu, args[0]),
            Syscall::ProcessExit => {
                let status = args[0] as i32 & 0xff;
                self.barrier
                    .finish(Some(vcpu), EndReason::Exited { status });
            }
            Syscall::Exec => {
                self.barrier.count(|counters| counters.exec_calls += 1);
                self.barrier.flush(vcpu);
            }
            Syscall::SetAffinity => {
                let mask = guest_memory::read_cpu_set(args[2], args[1]);
                self.barrier.pin(vcpu, args[0] as u32, &mask);
            }
            Syscall::Prctl if args[0] == libc::PR_SET_NAME as u64 => {
                self.barrier.rename(vcpu, guest_memory::read_name(args[1]));
            }
            Syscall::HeapNote => self.heap_note(vcpu, &args),
            Syscall::Prctl => {}
            Syscall::Short | Syscall::Clone | Syscall::Mmap => {}
        }
    }

    fn end_syscall(&self, vcpu: &mut Vcpu, result: i64) {
        let Some(InSyscall { kind, args }) = vcpu.syscall.take() else {
            return;
        };
        match kind {
            Syscall::MayBlock => self.barrier.rejoin(vcpu, None),
            Syscall::FutexWait => self.barrier.rejoin(vcpu, (result == 0).then_some(args[0])),
            Syscall::FutexWake if result > 0 => self.barrier.expect_woken(result),
            Syscall::Clone if std::process::id() != self.pid => self.barrier.abandon(),
            Syscall::Clone if result > 0 && args[0] & CLONE_VM == 0 => {
                self.barrier.count(|counters| counters.forked_children += 1);
            }
            Syscall::Clone if result > 0 => self.barrier.has_stack(result as u32, args[1]),
            Syscall::Mmap => self.mapped(result as u64, args[4] as i32),
            _ => {}
        }
    }

    /// A mapping was made; of a file if there is a descriptor.
    fn mapped(&self, addr: u64, fd: i32) {
        if fd >= 0
            && let Some(mapping) = mappings::at(addr)
        {
            self.observer.mapped(&mapping);
            self.barrier.record(&Record::Mapping(mapping));
        }
    }

    fn heap_note(&self, vcpu: &mut Vcpu, args: &[u64; 6]) {
        let [operation, addr, size, stack, depth, _] = *args;
        match HeapNote::from_number(operation) {
            Some(HeapNote::Allocated) => {
                let thread = ThreadId(vcpu.slot.0 as u32);
                let at = (thread, self.barrier.clock(vcpu));
                // The program may tell what it likes: a block that wraps is none.
                let Some(range) = AddrRange::with_len(addr, size) else {
                    return;
                };
                let object = self.heap.allocated(range, (stack, depth), at);
                // Memory whose accesses were recorded before it was freed and is handed out again.
                let lines = (range.start()..range.end()).step_by(hitm_base::LINE_SIZE as usize);
                if lines
                    .take(SHARED_CHECK_LINES)
                    .any(|addr| self.first_touch.is_recorded(addr))
                {
                    self.barrier.record(&Record::HeapObject(object));
                }
            }
            Some(HeapNote::Freed) => self.heap.freed(addr),
            Some(HeapNote::UnwindingBegins) => vcpu.set_aside(),
            Some(HeapNote::UnwindingEnds) => vcpu.take_up(),
            None => {}
        }
    }
}

/// Lines of a new block that are looked up in the first-touch table; larger blocks are fresh
/// mappings, which nobody has shared.
const SHARED_CHECK_LINES: usize = 4096;

/// The recorder, when it is recording.
#[inline(always)]
fn recording() -> Option<&'static Recorder> {
    let recorder = RECORDER.get()?;
    (!recorder.barrier.is_over()).then_some(recorder)
}

unsafe extern "C" fn vcpu_init(_: PluginId, index: c_uint) {
    if let Some(recorder) = RECORDER.get() {
        // The index may have been another thread's.
        recorder.vcpus.forget(index);
    }
}

unsafe extern "C" fn tb_translated(_: PluginId, tb: *mut Tb) {
    if let Some(recorder) = RECORDER.get() {
        recorder.instrument(tb);
    }
}

unsafe extern "C" fn block_begins(index: c_uint, insn_count: *mut c_void) {
    let Some(recorder) = recording() else { return };
    let vcpu = recorder.vcpu(index);
    if !vcpu.start_block(insn_count as u64) {
        recorder.barrier.wait(vcpu);
    }
}

unsafe extern "C" fn memory_accessed(index: c_uint, info: u32, addr: u64, insn: *mut c_void) {
    let Some(recorder) = recording() else { return };
    // A thread's blocks begin before they touch memory.
    let Some(vcpu) = recorder.vcpus.get(index) else {
        return;
    };
    let accessed = (info, addr, insn.cast_const());
    // Each way has code of its own, in which the operation is a constant.
    match op_of(insn, recorder.api.is_store(info)) {
        Some(AccessOp::Load) => recorder.accessed(vcpu, accessed, AccessOp::Load),
        Some(AccessOp::Store) => recorder.accessed(vcpu, accessed, AccessOp::Store),
        Some(op) => recorder.accessed(vcpu, accessed, op),
        None => {}
    }
}

unsafe extern "C" fn fence_runs(index: c_uint, insn: *mut c_void) {
    let Some(recorder) = recording() else { return };
    // SAFETY: as in `memory_accessed`.
    let insn = unsafe { MemInsn::of_argument(insn) };
    recorder.vcpu(index).fence(insn);
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
    let Some(recorder) = recording() else { return };
    recorder.begin_syscall(recorder.vcpu(index), number, [a1, a2, a3, a4, a5, a6]);
}

unsafe extern "C" fn syscall_returns(_: PluginId, index: c_uint, _: i64, result: i64) {
    let Some(recorder) = recording() else { return };
    recorder.end_syscall(recorder.vcpu(index), result);
}

unsafe extern "C" fn process_exits(_: PluginId, _: *mut c_void) {
    let Some(recorder) = recording() else { return };
    if std::process::id() == recorder.pid {
        recorder.barrier.finish(None, EndReason::Stopped);
    }
}
