//! System calls of the program: what they say about threads, processes, memory and CPUs.

use std::ffi::{c_int, c_uint};
use std::fs::File;

use hitm_base::{AddrRange, CodeAddr, CpuId, ThreadId};
use hitm_trace::HeapObject;

use crate::exec::{Call, Plan};
use crate::guest::Syscall;
use crate::heap::{self, HeapNote};
use crate::link::WaitEnd;
use crate::vcpu::{InSyscall, Vcpu};
use crate::{clock, cpu_files, cpus, guest_memory, mappings, memory, timers};

use super::time::end_of_futex;
use super::{Recorder, fork};

/// `CLONE_VM`: the new task shares memory, so it is a thread.
const CLONE_VM: u64 = libc::CLONE_VM as u64;
/// Reason told of a program that QEMU cannot be started for, and that runs unrecorded.
const NO_EMULATOR: &str = "no emulator";
/// Lines of a new block that are looked up in the first-touch table; larger blocks are fresh
/// mappings, which nobody has shared.
const SHARED_CHECK_LINES: usize = 4096;

impl Recorder {
    pub(super) fn begin_syscall(&'static self, vcpu: &mut Vcpu, number: i64, args: [u64; 6]) {
        if let Some(callers) = &mut vcpu.callers {
            let calls = &self.architecture.calls;
            self.handlers.system_call(calls, callers, number, &args);
        }
        let kind = self.architecture.calls.classify(number, args[1]);
        self.expect_company(vcpu, kind, number, &args);
        vcpu.begin_syscall(InSyscall { kind, args });
        match kind {
            Syscall::MayBlock => {
                self.answer_time(vcpu, number, &args);
                vcpu.wait_length = self.begin_wait(vcpu, number, &args);
                self.link.leave(vcpu, vcpu.wait_length);
            }
            Syscall::FutexWait => {
                let length = self.begin_wait(vcpu, number, &args);
                self.link.leave_for(vcpu, args[0], length);
            }
            Syscall::Short => {
                self.answer_time(vcpu, number, &args);
                self.begin_timers(vcpu, number);
            }
            Syscall::ThreadExit => self.link.begin_end(vcpu, args[0] as i32 & 0xff),
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
            }
            Syscall::HeapNote => self.heap_note(vcpu, &args),
            Syscall::Prctl => {}
            Syscall::Unmap => vcpu.moves = self.architecture.calls.is_mremap(number),
            Syscall::Clone | Syscall::Mmap => {}
            Syscall::ShmAt | Syscall::ShmDt => {}
        }
    }

    /// Answers questions about CPUs where nobody is recorded: children that are not followed, and what runs on
    /// after the recording.
    pub(super) fn answer_alone(&self, number: i64, args: &[u64; 6]) {
        match self.architecture.calls.classify(number, args[1]) {
            Syscall::SetAffinity => {
                let mask = guest_memory::read_cpu_set(args[2], args[1]);
                let is_seen = |cpu| self.cpus.online().contains(cpu);
                self.cpus.answer_pinned(mask.iter().any(is_seen));
            }
            Syscall::GetAffinity => self.cpus.answer_affinity(None),
            Syscall::Short | Syscall::MayBlock => self.answer_time_alone(number, args),
            Syscall::GetCpu => {
                let first = self.cpus.online().first();
                self.cpus.answer_cpu(first.copied().unwrap_or(CpuId(0)));
            }
            _ => {}
        }
    }

    /// Returns true if a clone makes a process. QEMU makes one of what only borrows its parent's memory (vfork).
    pub(super) fn forks(&self, number: i64, args: &[u64; 6]) -> bool {
        const CLONE_VFORK: u64 = libc::CLONE_VFORK as u64;
        match self.architecture.calls.clone_flags(number, args) {
            Some(flags) => flags & CLONE_VM == 0 || flags & CLONE_VFORK != 0,
            None => true,
        }
    }

    /// Another program is to take this process over.
    fn exec(&self, vcpu: &mut Vcpu, number: i64, args: &[u64; 6]) {
        let call = match self.architecture.calls.is_execve(number) {
            true => Call::read([args[0], args[1], args[2]]),
            false => None,
        };
        let plan = call.as_ref().map_or(Plan::LetFail, |call| {
            call.plan(self.architecture.elf_machine, &self.program().path)
        });
        let why = match plan {
            Plan::Follow(_) if self.launch.follows && !self.launch.is_here() => NO_EMULATOR,
            Plan::Follow(program) if self.launch.follows => match self.memory(vcpu) {
                Some(memory) => {
                    self.link.begin_exec(vcpu);
                    if let Some(call) = &call {
                        call.follow(&program, &self.launch, memory);
                    }
                    // It did not work out.
                    self.link.rejoin(vcpu, WaitEnd::Other);
                    NO_EMULATOR
                }
                None => "out of reach",
            },
            Plan::Follow(_) => "not asked for",
            Plan::LeaveAlone(why) => why,
            Plan::LetFail => "execve",
        };
        let name = call.map_or(String::new(), |call| call.name());
        self.link.begin_exec(vcpu);
        vcpu.has_lent = timers::lend(&self.link, timers::outlives_exec);
        self.link.leave_program_alone(vcpu, why, &name);
    }

    /// The recording's memory for another program.
    fn memory(&self, vcpu: &Vcpu) -> Option<File> {
        let identity = self.launch.memory_identity;
        let ask = |fd| self.link.ask_for_memory(vcpu, fd);
        memory::open(&self.launch.memory, identity).or_else(|| memory::receive(identity, ask))
    }

    pub(super) fn end_syscall(&self, index: c_uint, vcpu: &mut Vcpu, number: i64, result: i64) {
        let Some(InSyscall { kind, args }) = vcpu.syscall.take() else {
            return;
        };
        if self
            .architecture
            .calls
            .is_refused_namespace(number, &args, result)
        {
            self.link.note_refused_namespace(vcpu);
        }
        if let Some(path) = self.architecture.calls.opened_path(number, &args) {
            self.opened(vcpu, path, result);
        }
        match kind {
            Syscall::SetAffinity | Syscall::GetAffinity | Syscall::GetCpu => cpus::take_back(),
            // A thread's end returns when a signal came first; the program asks again.
            Syscall::ThreadExit => self.link.rejoin(vcpu, WaitEnd::Other),
            Syscall::MayBlock => {
                let end = self.end_wait(vcpu, number, result, &args);
                self.link.rejoin(vcpu, end);
            }
            Syscall::Short => {
                clock::take_back();
                self.end_timers(vcpu);
            }
            // It failed.
            Syscall::Exec => {
                timers::take_back(std::mem::take(&mut vcpu.has_lent));
                self.link.cancel_exec(vcpu);
                self.link.rejoin(vcpu, WaitEnd::Other);
            }
            Syscall::FutexWait => self.link.rejoin(vcpu, end_of_futex(args[0], result)),
            Syscall::FutexWake => self.link.end_wake(vcpu, args[0], result),
            Syscall::Clone if fork::take_new_child() => self.forked(index, vcpu),
            Syscall::Clone if self.forks(number, &args) => {
                let child = u32::try_from(result).ok().filter(|pid| *pid > 0);
                match self.launch.follows {
                    true => self.link.end_fork(vcpu, child),
                    false if child.is_some() => self.link.leave_child_alone(vcpu),
                    false => {}
                }
            }
            Syscall::Clone if result > 0 => {
                let futex = self.architecture.calls.futex_of_end(&args);
                self.link.expect_thread(vcpu, result as u32, futex);
                if let Some(stack) = mappings::stack_below(args[1]) {
                    self.link.register_stack(vcpu, result as u32, stack);
                }
            }
            Syscall::Mmap => self.mapped(vcpu, result, &args),
            Syscall::ShmAt if (0..1 << 47).contains(&result) => {
                self.link.register_shared(vcpu, result as u64);
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
            let mask = || {
                let words = self.link.affinity(vcpu, 0, words).unwrap_or_default();
                guest_memory::cpus_of(words.into_iter().flat_map(u64::to_le_bytes))
            };
            cpu_files::opened(fd, &path.to_string_lossy(), &self.cpus, mask);
        }
    }

    /// A mapping was made at `result`; of a file if there is a descriptor.
    fn mapped(&self, vcpu: &mut Vcpu, result: i64, args: &[u64; 6]) {
        const KIND_MASK: u64 = 3;
        let [_, len, protection, flags, fd, _] = *args;
        let Ok(addr) = u64::try_from(result) else {
            return;
        };
        if let Some(range) = AddrRange::with_len(addr, len) {
            self.link.unshare(range);
        }
        let is_shared = flags & KIND_MASK != libc::MAP_PRIVATE as u64;
        if is_shared && self.link.register_shared(vcpu, addr) {
            self.begin_company(vcpu, true);
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
                    self.allocated(vcpu, range, heap::stack_of_note(stack, depth), None);
                }
            }
            Some(HeapNote::Freed) => self.heap.freed(addr),
            Some(HeapNote::UnwindingBegins) => vcpu.set_aside(),
            Some(HeapNote::UnwindingEnds) => vcpu.take_up(),
            None => {}
        }
    }

    /// A block was handed out: return addresses of the allocation, and the type that the allocator was told.
    pub(super) fn allocated(
        &self,
        vcpu: &Vcpu,
        range: AddrRange,
        stack: Vec<CodeAddr>,
        told_type: Option<u64>,
    ) {
        let object = HeapObject {
            range,
            time: vcpu.clock,
            thread: ThreadId(vcpu.slot.0 as u32),
            stack,
            told_type,
        };
        self.heap.allocated(&object);
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
