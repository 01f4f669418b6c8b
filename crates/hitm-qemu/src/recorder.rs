//! The recorder of a program: its state, and how threads and processes come into it.
//!
//! `callbacks` is where QEMU's world meets it; `instrument` says what each instruction tells, `syscalls` what
//! each system call does.

mod callbacks;
mod company;
mod fork;
mod instrument;
mod syscalls;
mod time;

use std::ffi::{c_uint, c_void};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use hitm_base::AccessOp;

use crate::allocators::Allocators;
use crate::api::{Api, PluginId};
use crate::arch::Architecture;
use crate::clock::Clock;
use crate::config::ProgramConfig;
use crate::cpus::Cpus;
use crate::first_touch::FirstTouch;
use crate::guest_memory;
use crate::heap::{Heap, Observer};
use crate::launch::Launch;
use crate::link::{HostView, Link};
use crate::paths::{Block, Handlers};
use crate::vcpu::{GuestAccess, MemInsn, Vcpu, VcpuTable};
use crate::{guard, mappings, timers, waits};

use company::Company;

pub use callbacks::install;
pub(crate) use callbacks::{allocator_entered, allocator_returned};

/// The most guest threads that may live at one time.
const VCPUS_MAX: usize = 1 << 16;

struct Recorder {
    api: Api,
    architecture: &'static Architecture,
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
    company: Company,
    /// An index is used again after a thread's end.
    vcpus: VcpuTable,
    /// Of the program, when callers are recorded.
    handlers: Handlers,
}

// SAFETY: `guard` leads to a mutex in memory that is never unmapped.
unsafe impl Send for Recorder {}
// SAFETY: as above.
unsafe impl Sync for Recorder {}

/// An access, as QEMU tells it.
#[derive(Clone, Copy)]
struct Accessed {
    /// Its size and direction.
    info: u32,
    addr: u64,
    /// Argument of the instruction's callback: [`MemInsn::of_argument`].
    insn: *const c_void,
}

/// The program that this process runs.
#[derive(Debug)]
struct Program {
    path: PathBuf,
    /// As it was asked for.
    name: String,
}

impl Recorder {
    fn new(
        id: PluginId,
        api: Api,
        target: &str,
        config: ProgramConfig,
    ) -> Result<Recorder, String> {
        let architecture = Architecture::of_target(target)?;
        let first_touch: &FirstTouch =
            Box::leak(Box::new(FirstTouch::with_hand_over(config.header.window)));
        let heap: &Heap = Box::leak(Box::default());
        let clock = config
            .launch
            .clock
            .and_then(|start| Clock::new(start, &config.header.machine_toml));
        // SAFETY: QEMU has one thread while it loads plugins.
        let clock = clock.filter(|_| unsafe { waits::install() } && timers::install());
        // SAFETY: board and mutex are mapped for ever.
        let link = unsafe { Link::new(config.board, config.guard, first_touch, heap, clock)? };
        let may_be_alone = !config.launch.has_callers_alone;
        Ok(Recorder {
            api,
            architecture,
            first_touch,
            heap,
            observer: Observer::default(),
            allocators: Allocators::new(
                architecture,
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
            // Calls and returns are followed by their accesses.
            company: Company::new(id, may_be_alone),
            vcpus: VcpuTable::new(VCPUS_MAX),
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
        let is_first = !self.link.is_attached();
        if is_first {
            self.attach(None);
        }
        let mut vcpu = self.link.enter(index, tid, self.thread_name());
        if self.launch.has_callers {
            vcpu.callers = Some(Box::default());
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
        // Before all else: a recorder that is gone by now is noticed as well.
        if self.launch.is_guarded {
            // SAFETY: `hitm record` made the mutex.
            unsafe { guard::start(self.guard) };
        }
        let program = self.program().path.to_string_lossy();
        let sees_host = HostView {
            cpus: !self.cpus.is_asked(),
            clock: self.launch.clock.is_some() && self.link.clock().is_none(),
        };
        let kept = self.link.attach(&program, parent, sees_host);
        if let Some(times) = kept {
            self.keep_timer(times);
        }
    }

    /// The process is a forked child: it has memory and threads of its own.
    #[cold]
    fn forked(&self, index: c_uint, vcpu: &mut Vcpu) {
        let parent = self.link.process();
        self.vcpus.forget_others(index);
        vcpu.channel = None;
        if !self.launch.follows {
            return self.link.abandon();
        }
        if let Some(clock) = self.link.clock() {
            clock.forget_cpu();
            timers::forked();
        }
        self.attach(Some(parent));
        if self.link.is_over() {
            return;
        }
        // SAFETY: a plain system call.
        let tid = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
        let callers = vcpu.take_callers();
        *vcpu = self.link.enter(index, tid, self.thread_name());
        vcpu.callers = callers;
        self.link.record_mappings(vcpu, &mappings::present(), false);
    }

    #[inline(always)]
    fn accessed(&self, vcpu: &mut Vcpu, access: Accessed, op: AccessOp) {
        if !vcpu.count(access.addr, op, self.api.access_size(access.info)) {
            self.access_slowly(vcpu, access, op);
        }
    }

    /// An access that may have to be recorded: out of the way of all the others.
    #[inline(never)]
    fn access_slowly(&self, vcpu: &mut Vcpu, access: Accessed, op: AccessOp) {
        let Accessed { info, addr, insn } = access;
        // Its stacks, on which it also runs code that is not its own.
        if self.observer.contains(addr) {
            return;
        }
        // SAFETY: callbacks get the argument that `instrument_insn` registered.
        let insn = unsafe { MemInsn::of_argument(insn) };
        let size = self.api.access_size(info);
        // SAFETY: the guest has just used these bytes.
        let value = || Some(unsafe { guest_memory::value_at(addr, size) });
        vcpu.access_slowly(insn, GuestAccess { addr, op, size }, value);
    }

    fn start_locking_block(&self, vcpu: &mut Vcpu, block: Block) {
        let goes_on = vcpu.start_block(block.insn_count);
        vcpu.turns.enter(block.addr, block.adds);
        if vcpu.is_turn_over(goes_on) {
            self.link.wait_for_turn(vcpu);
        } else if !goes_on {
            self.wait(vcpu);
        }
    }

    /// The thread has used up its budget.
    fn wait(&self, vcpu: &mut Vcpu) {
        self.company.come(&self.api);
        self.link.wait(vcpu);
    }
}
