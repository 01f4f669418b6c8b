//! The callbacks: where QEMU's world meets the recorder's.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering as MemoryOrdering};

use hitm_base::{AccessOp, AddrRange, CodeAddr, CpuId, ThreadId};

use crate::allocators::{self, Allocators, Registers, Rule};
use crate::api::{Api, ExecCb, Insn, MemCb, PluginId, QemuInfo, Tb};
use crate::callers::Callers;
use crate::config::{self, ProgramConfig};
use crate::cpus::{self, Cpus};
use crate::decode::{self, Ordering};
use crate::exec::{Call, Plan};
use crate::first_touch::{FirstTouch, Touch};
use crate::flow::Flow;
use crate::guest::{Numbers, Syscall};
use crate::heap::{self, Heap, HeapNote, Observer};
use crate::launch::Launch;
use crate::link::{Link, WaitEnd};
use crate::paths::{Convention, Handlers, block_argument, block_of};
use crate::vcpu::{InSyscall, MemInsn, Vcpu, VcpuTable, op_of};
use crate::{cpu_files, guard, guest_memory, mappings, system};

/// The most guest threads that may live at one time.
const VCPUS_MAX: usize = 1 << 16;

/// `CLONE_VM`: the new task shares memory, so it is a thread.
const CLONE_VM: u64 = libc::CLONE_VM as u64;

/// The one recorder of this process.
static RECORDER: OnceLock<Recorder> = OnceLock::new();

struct Recorder {
    api: Api,
    architecture: String,
    numbers: &'static Numbers,
    classify: fn(&[u8]) -> Ordering,
    first_touch: &'static FirstTouch,
    heap: &'static Heap,
    observer: Observer,
    allocators: Allocators,
    link: Link,
    launch: Launch,
    cpus: Cpus,
    guard: NonNull<u8>,
    /// The command as the user typed it.
    command: String,
    program: OnceLock<Program>,
    /// Until the first instruction is translated.
    is_new: AtomicBool,
    /// An index is used again after a thread's end.
    vcpus: VcpuTable,
    convention: Convention,
    /// Of the program, when callers are recorded.
    handlers: Handlers,
}

// SAFETY: `guard` leads to a mutex in memory that is never unmapped.
unsafe impl Send for Recorder {}
// SAFETY: as above.
unsafe impl Sync for Recorder {}

/// The program that this process runs.
#[derive(Debug)]
struct Program {
    path: PathBuf,
    /// As it was asked for.
    name: String,
}

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
    let api = Api::load(info.api_version()).map_err(|name| format!("this QEMU has no {name}"))?;
    // SAFETY: `info` is QEMU's.
    let target = unsafe { info.target() };
    // SAFETY: the arguments are QEMU's.
    if info.is_system_emulation() {
        // SAFETY: the arguments are QEMU's.
        let config = unsafe { config::read(argc, argv)? };
        system::supports(&target)?;
        return system::install(id, api, system::cpu_count(info.smp_vcpus()), config);
    }
    // SAFETY: the arguments are QEMU's.
    let config = unsafe { config::read_program(argc, argv)? };
    let recorder = Recorder::new(api, &target, config)?;
    let recorder = RECORDER.get_or_init(|| recorder);
    recorder.api.on_vcpu_init(id, vcpu_init);
    recorder.api.on_tb_trans(id, tb_translated);
    recorder.api.on_syscall(id, syscall_begins, syscall_returns);
    recorder.api.on_exit(id, process_exits);
    Ok(())
}

impl Recorder {
    fn new(api: Api, target: &str, config: ProgramConfig) -> Result<Recorder, String> {
        let numbers = Numbers::of_target(target).ok_or(format!(
            "found a {target} program, expected x86_64 or aarch64"
        ))?;
        let first_touch: &FirstTouch =
            Box::leak(Box::new(FirstTouch::with_hand_over(config.header.window)));
        let heap: &Heap = Box::leak(Box::default());
        // SAFETY: the board is mapped for ever.
        let link = unsafe { Link::new(config.board, first_touch, heap)? };
        Ok(Recorder {
            api,
            architecture: target.to_string(),
            numbers,
            classify: if target == "x86_64" {
                decode::x86_64
            } else {
                decode::aarch64
            },
            first_touch,
            heap,
            observer: Observer::default(),
            allocators: Allocators::new(
                target,
                &config.launch.allocators,
                !config.launch.observer.is_empty(),
            ),
            link,
            cpus: Cpus::new(
                config.launch.cpus.clone(),
                config.header.machine_toml.clone(),
            ),
            launch: config.launch,
            command: config.header.args.first().cloned().unwrap_or_default(),
            guard: config.guard,
            program: OnceLock::new(),
            is_new: AtomicBool::new(true),
            vcpus: VcpuTable::new(VCPUS_MAX),
            convention: Convention::of_target(target),
            handlers: Handlers::new(),
        })
    }

    /// The name that threads have until they are given one.
    fn thread_name(&self) -> &str {
        let name = match self.link.process() {
            0 => &self.command,
            _ => &self.program().name,
        };
        name.rsplit('/').next().unwrap_or_default()
    }

    fn program(&self) -> &Program {
        self.program.get_or_init(|| {
            // QEMU was told the program after its options, and knows them itself.
            let name = mappings::program().unwrap_or_default();
            Program {
                path: std::fs::canonicalize(&name).unwrap_or_else(|_| name.clone()),
                name: name.to_string_lossy().into_owned(),
            }
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
        let is_first = self.link.pid() == 0;
        if is_first {
            self.attach(None);
            if self.launch.is_guarded {
                // SAFETY: `hitm record` made the mutex.
                unsafe { guard::start(self.guard) };
            }
        }
        let mut vcpu = self.link.enter(index, tid, self.thread_name());
        if self.launch.has_callers {
            vcpu.callers = Some(Box::new(Callers::new()));
        }
        if is_first {
            let mappings = mappings::present();
            self.allocators
                .begin(&self.program().path.to_string_lossy(), &mappings);
            self.link.record_mappings(&vcpu, &mappings, false);
        }
        vcpu
    }

    /// Makes the process known, a fork of process `parent` or a new program.
    fn attach(&self, parent: Option<u32>) {
        let program = self.program().path.to_string_lossy();
        self.link.attach(&program, parent, !self.cpus.is_asked());
    }

    /// The process is a forked child: it has memory and threads of its own.
    #[cold]
    fn forked(&self, index: c_uint, vcpu: &mut Vcpu) {
        let parent = self.link.process();
        self.vcpus.forget_others(index);
        vcpu.forking = None;
        vcpu.channel = None;
        if !self.launch.follows {
            return self.link.abandon();
        }
        self.attach(Some(parent));
        if self.link.is_over() {
            return;
        }
        if self.launch.is_guarded {
            // SAFETY: as in `new_vcpu`.
            unsafe { guard::start(self.guard) };
        }
        // SAFETY: a plain system call.
        let tid = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
        let callers = vcpu.take_callers();
        *vcpu = self.link.enter(index, tid, self.thread_name());
        vcpu.callers = callers;
        self.link.record_mappings(vcpu, &mappings::present(), false);
    }

    fn instrument(&self, tb: *mut Tb) {
        let mut addrs = self.api.insns(tb).map(|insn| self.api.insn_vaddr(insn));
        if addrs
            .next()
            .is_some_and(|addr| self.observer.contains(addr))
        {
            // Neither its accesses nor its time are the program's; what it calls is.
            if self.launch.has_callers {
                self.api
                    .insns(tb)
                    .for_each(|insn| self.follow_observer(insn));
            }
            return;
        }
        let (mut insn_count, mut has_locked) = (0, false);
        for (index, insn) in self.api.insns(tb).enumerate() {
            insn_count += 1;
            has_locked |= self.instrument_insn(insn, index as u16);
        }
        let [begins, begins_on_path]: [ExecCb; 2] = match has_locked {
            true => [locking_block_begins, locking_block_begins_on_path],
            false => [block_begins, block_begins_on_path],
        };
        let first = self.api.insns(tb).next();
        let first = first.map(|insn| self.api.insn_vaddr(insn));
        match first {
            Some(addr) if self.launch.has_callers => {
                let block = block_argument(addr, insn_count, self.handlers.contains(addr));
                self.api.on_tb_exec(tb, begins_on_path, block);
            }
            _ => self.api.on_tb_exec(tb, begins, insn_count),
        }
        if let Some(addr) = first {
            self.watch_allocators(tb, addr);
        }
    }

    /// Registers what tells of allocators at the block's beginning.
    fn watch_allocators(&self, tb: *mut Tb, addr: u64) {
        if let Some(rule) = self.allocators.function_at(addr) {
            let rule: *const Rule = rule;
            self.api
                .on_tb_exec(tb, allocators::function_entered, rule.expose_provenance());
        }
        if self.allocators.is_site(addr) {
            self.api
                .on_tb_exec(tb, allocators::function_returned, addr as usize);
        }
    }

    /// Follows the calls of the heap observer.
    fn follow_observer(&self, insn: *mut Insn) {
        let (bytes, len) = self.api.insn_bytes(insn);
        let flow = (self.convention.classify)(&bytes[..len]);
        if flow == Flow::Other {
            // QEMU 7.2 keeps the callback of a block's last instruction for what helpers access later,
            // until an instruction has one of its own: it would be taken for a call.
            self.api.on_mem(insn, nobody_asks, std::ptr::null());
            return;
        }
        let data = MemInsn {
            code: self.link.code_addr(self.api.insn_vaddr(insn)),
            index: 0,
            locked: false,
            len: len as u8,
        }
        .into_argument();
        self.follow(insn, flow, (data, [observer_calls, observer_returns]));
    }

    /// Registers what tells of an instruction's flow. Calls and returns by the stack have the callbacks
    /// `of_stack`; true if the instruction has one of those.
    fn follow(
        &self,
        insn: *mut Insn,
        flow: Flow,
        (data, of_stack): (*const c_void, [MemCb; 2]),
    ) -> bool {
        let [calls, returns] = of_stack;
        let on_stack = match flow {
            Flow::Call => Some(calls),
            Flow::Return => Some(returns),
            _ => None,
        };
        if let Some(callback) = on_stack.filter(|_| self.convention.is_on_stack) {
            self.api.on_mem(insn, callback, data);
            return true;
        }
        let callback = match flow {
            Flow::Call => call_runs,
            Flow::Return => return_runs,
            Flow::SetsStack => stack_moves,
            Flow::SavesStack => context_is_saved,
            Flow::Other => return false,
        };
        self.api.on_insn_exec(insn, callback, data);
        false
    }

    /// Registers what tells of an instruction; true if it is a locked operation.
    fn instrument_insn(&self, insn: *mut Insn, index: u16) -> bool {
        let (bytes, len) = self.api.insn_bytes(insn);
        let ordering = (self.classify)(&bytes[..len]);
        let locked = ordering == Ordering::LockedRmw;
        let addr = self.api.insn_vaddr(insn);
        if self.is_new.swap(false, MemoryOrdering::Relaxed) {
            guest_memory::learn_base(addr, self.api.insn_haddr(insn));
        }
        let code = self.link.code_addr(addr);
        let data = MemInsn {
            code,
            index,
            locked,
            len: len as u8,
        }
        .into_argument();
        if self.launch.has_callers {
            let flow = (self.convention.classify)(&bytes[..len]);
            if self.follow(insn, flow, (data, [call_accesses, return_accesses])) {
                return false;
            }
        }
        if ordering == Ordering::Fence {
            self.api.on_insn_exec(insn, fence_runs, data);
            return false;
        }
        self.api.on_mem(insn, memory_accessed, data);
        locked
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

    fn start_locking_block(&self, vcpu: &mut Vcpu, insn_count: u64) {
        let goes_on = vcpu.start_block(insn_count);
        if vcpu.is_turn_over(goes_on) {
            self.link.wait_for_turn(vcpu);
        } else if !goes_on {
            self.link.wait(vcpu);
        }
    }

    fn begin_syscall(&'static self, vcpu: &mut Vcpu, number: i64, args: [u64; 6]) {
        if let Some(callers) = &mut vcpu.callers {
            self.convention
                .system_call((&self.handlers, callers), number, &args);
        }
        let kind = self.numbers.classify(number, args[1]);
        vcpu.syscall = Some(InSyscall { kind, args });
        match kind {
            Syscall::MayBlock => self.link.leave(vcpu),
            Syscall::FutexWait => self.link.leave_for(vcpu, args[0]),
            Syscall::ThreadExit => self.link.end_thread(vcpu),
            Syscall::FutexWake => self.link.begin_wake(vcpu, args[0]),
            Syscall::ProcessExit => self.link.end_process(vcpu, args[0] as i32 & 0xff),
            Syscall::Exec => self.exec(vcpu, number, &args),
            Syscall::SetAffinity => {
                let mask = guest_memory::read_cpu_set(args[2], args[1]);
                if let Some(is_pinned) = self.link.pin(vcpu, args[0] as u32, &mask) {
                    self.cpus.answer_pinned(is_pinned);
                }
            }
            Syscall::GetAffinity => {
                let words = self.cpus.possible_count().div_ceil(64);
                let mask = self.link.affinity(vcpu, args[0] as u32, words);
                self.cpus.answer_affinity(mask);
            }
            Syscall::GetCpu => self.cpus.answer_cpu(vcpu.cpu),
            Syscall::Prctl if args[0] == libc::PR_SET_NAME as u64 => {
                self.link.rename(vcpu, &guest_memory::read_name(args[1]));
            }
            Syscall::Clone if self.forks(number, &args) => {
                if self.launch.follows {
                    self.link.begin_fork(vcpu);
                }
                vcpu.forking = Some((self.heap.hold(), self.allocators.hold()));
            }
            Syscall::HeapNote => self.heap_note(vcpu, &args),
            Syscall::Prctl => {}
            Syscall::Unmap => vcpu.moves = self.numbers.is_mremap(number),
            Syscall::Short | Syscall::Clone | Syscall::Mmap => {}
            Syscall::ShmAt | Syscall::ShmDt => {}
        }
    }

    /// Answers questions about CPUs where nobody is recorded: children that are not followed, and what runs on
    /// after the recording.
    fn answer_alone(&self, number: i64, args: &[u64; 6]) {
        match self.numbers.classify(number, args[1]) {
            Syscall::SetAffinity => {
                let mask = guest_memory::read_cpu_set(args[2], args[1]);
                let is_seen = |cpu| self.cpus.online().contains(cpu);
                self.cpus.answer_pinned(mask.iter().any(is_seen));
            }
            Syscall::GetAffinity => self.cpus.answer_affinity(None),
            Syscall::GetCpu => {
                let first = self.cpus.online().first();
                self.cpus.answer_cpu(first.copied().unwrap_or(CpuId(0)));
            }
            _ => {}
        }
    }

    /// Returns true if a clone makes a process. QEMU makes one of what only borrows its parent's memory (vfork).
    fn forks(&self, number: i64, args: &[u64; 6]) -> bool {
        const CLONE_VFORK: u64 = libc::CLONE_VFORK as u64;
        match self.numbers.clone_flags(number, args) {
            Some(flags) => flags & CLONE_VM == 0 || flags & CLONE_VFORK != 0,
            None => true,
        }
    }

    /// Another program is to take this process over.
    fn exec(&self, vcpu: &mut Vcpu, number: i64, args: &[u64; 6]) {
        let call = match self.numbers.is_execve(number) {
            true => Call::read([args[0], args[1], args[2]]),
            false => None,
        };
        let plan = call.as_ref().map_or(Plan::LetFail, |call| {
            call.plan(&self.architecture, &self.program().path)
        });
        let why = match plan {
            Plan::Follow(program) if self.launch.follows => {
                self.link.begin_exec(vcpu);
                if let Some(call) = &call {
                    call.follow(&program, &self.launch);
                }
                // It did not work out.
                self.link.rejoin(vcpu, WaitEnd::Other);
                "no emulator"
            }
            Plan::Follow(_) => "not asked for",
            Plan::LeaveAlone(why) => why,
            Plan::LetFail => "execve",
        };
        let name = call.map_or(String::new(), |call| call.name());
        self.link.begin_exec(vcpu);
        self.link.leave_program_alone(vcpu, why, &name);
    }

    fn end_syscall(&self, index: c_uint, vcpu: &mut Vcpu, (number, result): (i64, i64)) {
        let Some(InSyscall { kind, args }) = vcpu.syscall.take() else {
            return;
        };
        if let Some(path) = self.numbers.opened_path(number, &args) {
            self.opened(vcpu, path, result);
        }
        match kind {
            Syscall::SetAffinity | Syscall::GetAffinity | Syscall::GetCpu => cpus::take_back(),
            Syscall::MayBlock => self.link.rejoin(vcpu, WaitEnd::Other),
            // It failed.
            Syscall::Exec => {
                self.link.cancel_exec(vcpu);
                self.link.rejoin(vcpu, WaitEnd::Other);
            }
            Syscall::FutexWait => self.link.rejoin(vcpu, WaitEnd::of(args[0], result)),
            Syscall::FutexWake => self.link.end_wake(vcpu, args[0], result),
            Syscall::Clone if std::process::id() != self.link.pid() => {
                self.forked(index, vcpu);
            }
            Syscall::Clone if vcpu.forking.take().is_some() => {
                let child = u32::try_from(result).ok().filter(|pid| *pid > 0);
                match self.launch.follows {
                    true => self.link.end_fork(vcpu, child),
                    false if child.is_some() => self.link.leave_child_alone(vcpu),
                    false => {}
                }
            }
            Syscall::Clone if result > 0 => {
                let futex = self.numbers.futex_of_end(&args);
                self.link.expect_thread(vcpu, result as u32, futex);
                if let Some(stack) = mappings::stack_below(args[1]) {
                    self.link.register_stack(vcpu, result as u32, stack);
                }
            }
            Syscall::Mmap => self.mapped(vcpu, result, &args),
            Syscall::ShmAt if (0..1 << 47).contains(&result) => {
                self.link.register_shared(vcpu, result as u64)
            }
            Syscall::ShmDt if result == 0 => self.link.unshare_from(args[0]),
            Syscall::Unmap if (0..1 << 47).contains(&result) => {
                if let Some(range) = AddrRange::with_len(args[0], args[1]) {
                    self.link.unshare(range);
                }
                self.allocators.unmapped();
                if std::mem::take(&mut vcpu.moves) {
                    self.link.register_shared(vcpu, result as u64);
                }
            }
            _ => {}
        }
    }

    /// A file was opened as `fd`, if that is no error. Those that tell of CPUs tell of the machine's.
    fn opened(&self, vcpu: &Vcpu, path: u64, fd: i64) {
        let Ok(fd @ 0..) = c_int::try_from(fd) else {
            return;
        };
        let path = guest_memory::read_string(path, libc::PATH_MAX as usize);
        let Some(path) = path.filter(|path| cpu_files::may_tell(path.to_bytes())) else {
            return;
        };
        if self.cpus.is_asked() {
            let words = self.cpus.possible_count().div_ceil(64);
            let mask = || cpus_of(&self.link.affinity(vcpu, 0, words).unwrap_or_default());
            cpu_files::opened(fd, &path.to_string_lossy(), &self.cpus, mask);
        }
    }

    /// A mapping was made at `result`; of a file if there is a descriptor.
    fn mapped(&self, vcpu: &Vcpu, result: i64, args: &[u64; 6]) {
        const KIND_MASK: u64 = 3;
        let [_, len, protection, flags, fd, _] = *args;
        let Ok(addr) = u64::try_from(result) else {
            return;
        };
        if let Some(range) = AddrRange::with_len(addr, len) {
            self.link.unshare(range);
        }
        if flags & KIND_MASK != libc::MAP_PRIVATE as u64 {
            self.link.register_shared(vcpu, addr);
        }
        if fd as i32 >= 0
            && let Some(mapping) = mappings::at(addr)
        {
            self.observer.mapped(&mapping);
            if protection & libc::PROT_EXEC as u64 != 0 {
                self.allocators.mapped(&mapping);
            }
            self.link.record_mappings(vcpu, &[mapping], true);
        }
    }

    fn heap_note(&self, vcpu: &mut Vcpu, args: &[u64; 6]) {
        let [operation, addr, size, stack, depth, _] = *args;
        match HeapNote::from_number(operation) {
            Some(HeapNote::Allocated) => {
                // The program may tell what it likes: a block that wraps is none.
                if let Some(range) = AddrRange::with_len(addr, size) {
                    self.allocated(vcpu, range, (heap::stack_of_note(stack, depth), None));
                }
            }
            Some(HeapNote::Freed) => self.heap.freed(addr),
            Some(HeapNote::UnwindingBegins) => vcpu.set_aside(),
            Some(HeapNote::UnwindingEnds) => vcpu.take_up(),
            None => {}
        }
    }

    /// A block was handed out: return addresses of the allocation, and the type that the allocator was told.
    fn allocated(&self, vcpu: &Vcpu, range: AddrRange, site: (Vec<CodeAddr>, Option<u64>)) {
        let thread = ThreadId(vcpu.slot.0 as u32);
        let object = self.heap.allocated(range, site, (thread, vcpu.clock));
        // Memory whose accesses were recorded before it was freed and is handed out again.
        let lines = (range.start()..range.end()).step_by(hitm_base::LINE_SIZE as usize);
        let mut lines = lines.take(SHARED_CHECK_LINES);
        if self.first_touch.shared_addr(range.start()).is_some()
            || lines.any(|addr| self.first_touch.is_recorded(addr))
        {
            let record = self.link.block(object);
            self.link.record(vcpu, record.as_slice());
        }
    }
}

/// The CPUs of a mask.
fn cpus_of(words: &[u64]) -> Vec<CpuId> {
    let is_in = |cpu: &usize| words[cpu / 64] >> (cpu % 64) & 1 == 1;
    let cpus = (0..words.len() * 64).filter(is_in);
    cpus.map(|cpu| CpuId(cpu as u16)).collect()
}

/// Lines of a new block that are looked up in the first-touch table; larger blocks are fresh
/// mappings, which nobody has shared.
const SHARED_CHECK_LINES: usize = 4096;

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

unsafe extern "C" fn tb_translated(_: PluginId, tb: *mut Tb) {
    if let Some(recorder) = RECORDER.get() {
        recorder.instrument(tb);
    }
}

unsafe extern "C" fn block_begins(index: c_uint, insn_count: *mut c_void) {
    let Some(recorder) = recording() else { return };
    let vcpu = recorder.vcpu(index);
    if !vcpu.start_block(insn_count as u64) {
        recorder.link.wait(vcpu);
    }
}

/// The beginning of a block with a locked operation.
unsafe extern "C" fn locking_block_begins(index: c_uint, insn_count: *mut c_void) {
    let Some(recorder) = recording() else { return };
    recorder.start_locking_block(recorder.vcpu(index), insn_count as u64);
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

/// The beginning of a block when callers are recorded.
unsafe extern "C" fn block_begins_on_path(index: c_uint, block: *mut c_void) {
    let Some(recorder) = recording() else { return };
    let vcpu = recorder.vcpu(index);
    let (addr, insn_count, is_handler) = block_of(block);
    vcpu.block_begins(addr, is_handler);
    if !vcpu.start_block(insn_count) {
        recorder.link.wait(vcpu);
    }
}

/// Like [`locking_block_begins`], when callers are recorded.
unsafe extern "C" fn locking_block_begins_on_path(index: c_uint, block: *mut c_void) {
    let Some(recorder) = recording() else { return };
    let vcpu = recorder.vcpu(index);
    let (addr, insn_count, is_handler) = block_of(block);
    vcpu.block_begins(addr, is_handler);
    recorder.start_locking_block(vcpu, insn_count);
}

/// A call that pushes its return address.
unsafe extern "C" fn call_accesses(index: c_uint, info: u32, addr: u64, insn: *mut c_void) {
    // SAFETY: the arguments are QEMU's.
    unsafe {
        memory_accessed(index, info, addr, insn);
        observer_calls(index, info, addr, insn);
    }
}

/// A return that takes its address from the stack.
unsafe extern "C" fn return_accesses(index: c_uint, info: u32, addr: u64, insn: *mut c_void) {
    // SAFETY: the arguments are QEMU's.
    unsafe {
        memory_accessed(index, info, addr, insn);
        observer_returns(index, info, addr, insn);
    }
}

/// Like [`call_accesses`], of the heap observer, whose accesses do not count.
unsafe extern "C" fn observer_calls(index: c_uint, info: u32, addr: u64, insn: *mut c_void) {
    if let Some(recorder) = recording()
        && recorder.api.is_store(info)
    {
        // SAFETY: as in `memory_accessed`.
        let insn = unsafe { MemInsn::of_argument(insn) };
        if let Some(vcpu) = recorder.vcpus.get(index) {
            vcpu.stack_accessed(insn, addr, true);
        }
    }
}

/// Like [`return_accesses`], of the heap observer.
unsafe extern "C" fn observer_returns(index: c_uint, _: u32, addr: u64, insn: *mut c_void) {
    if let Some(recorder) = recording()
        && let Some(vcpu) = recorder.vcpus.get(index)
    {
        // SAFETY: as in `memory_accessed`.
        let insn = unsafe { MemInsn::of_argument(insn) };
        vcpu.stack_accessed(insn, addr, false);
    }
}

/// Accesses of the heap observer.
unsafe extern "C" fn nobody_asks(_: c_uint, _: u32, _: u64, _: *mut c_void) {}

unsafe extern "C" fn call_runs(index: c_uint, insn: *mut c_void) {
    // SAFETY: the arguments are QEMU's.
    unsafe { flows(index, insn, Flow::Call) }
}

unsafe extern "C" fn return_runs(index: c_uint, insn: *mut c_void) {
    // SAFETY: the arguments are QEMU's.
    unsafe { flows(index, insn, Flow::Return) }
}

unsafe extern "C" fn stack_moves(index: c_uint, insn: *mut c_void) {
    // SAFETY: the arguments are QEMU's.
    unsafe { flows(index, insn, Flow::SetsStack) }
}

unsafe extern "C" fn context_is_saved(index: c_uint, insn: *mut c_void) {
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

/// A function that allocates or frees begins: [`allocators::function_entered`], with the guest's registers.
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

/// Code runs to which calls of an allocator return: [`allocators::function_returned`].
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
        recorder.allocated(vcpu, handed.block, (handed.callers, handed.told_type));
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
    let args = [a1, a2, a3, a4, a5, a6];
    match recording() {
        Some(recorder) => recorder.begin_syscall(recorder.vcpu(index), number, args),
        None => {
            if let Some(recorder) = RECORDER.get() {
                recorder.answer_alone(number, &args);
            }
        }
    }
}

unsafe extern "C" fn syscall_returns(_: PluginId, index: c_uint, number: i64, result: i64) {
    let Some(recorder) = recording() else { return };
    recorder.end_syscall(index, recorder.vcpu(index), (number, result));
}

unsafe extern "C" fn process_exits(_: PluginId, _: *mut c_void) {
    let Some(recorder) = recording() else { return };
    if std::process::id() == recorder.link.pid() {
        recorder.link.abandon_process();
    }
}
