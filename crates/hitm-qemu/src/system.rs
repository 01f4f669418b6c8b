//! The recorder of a whole machine: QEMU's virtual CPUs are the modelled CPUs, and what runs on them
//! is a kernel with everything above it.
//!
//! Differences from a program:
//! - **Start and stop.** The guest boots at full speed. A marker instruction, which does nothing and
//!   which no compiler makes, starts the recording, and another stops it. QEMU then forgets its
//!   translated code and asks for every block again, now with callbacks on memory.
//! - **Idle CPUs** halt; they leave the barrier and come back with the interrupt that wakes them.
//!   QEMU tells both with a lock of its own held, so nothing waits there.
//! - **Time** is the recorder's own: `hitm-clock`, preloaded into QEMU, makes its timers and the
//!   guest's time-stamp counter of it. While every CPU is idle it goes from timer to timer.
//! - **Addresses.** Kernel addresses are recorded as they are. One user address means different
//!   memory in different processes, so an access below the kernel's half is recorded at the address
//!   of the same memory in the kernel's direct map. What the kernel copies for a process and what
//!   the process touches itself are then one line.
//! - **Device registers** are no memory: left out, and counted.
//! - **Calls** of functions that the facade names are counted at their first instruction.
//! - **Sleeps** of tasks for the kernel's locks are seen where slow paths call the scheduler ([`sleeps`]).
//! - **Moved members.** Objects of a structure in another layout are priced where their members would
//!   lie then, while the kernel runs on as it was compiled. Slabs of such objects that the kernel makes while it runs
//!   are seen by its stores to their pages' descriptors.
//!
//! Inside, addresses have 48 bits; `output` restores the upper ones.
//!
//! Not modelled: kernels with five page-table levels (boot with `no5lvl`), page walks, interrupt
//! frames and what devices write to memory, which QEMU does not show.

mod sleeps;

pub(crate) use sleeps::SleepFunctions;

use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering as MemoryOrdering};
use std::time::Duration;

use hitm_base::{AccessOp, CodeAddr};
use hitm_coherence::directory::Capacity;
use hitm_trace::{CALLS_OF, Counter, EndReason, LATER_MOVED_SLABS};
use hitm_weave::{Relocation, Weave};

use self::sleeps::Sleeps;
use crate::api::{self, Api, Insn, MemCb, PluginId, Reached, SystemApi, Tb, VirtualTime};
use crate::arch::{Architecture, Machine, Ordering, x86_64};
use crate::barrier::{Barrier, BarrierConfig};
use crate::config::{Config, Start};
use crate::first_touch::FirstTouch;
use crate::launch::sized_text;
use crate::vcpu::{GuestAccess, MemInsn, Vcpu, VcpuTable, op_of};

/// Longest time that a CPU stays parked before it runs a block. Longer than for programs: with many
/// more CPUs than the host has, one that is merely waiting for its turn must not break the barrier.
const PARK_TIME_MAX: Duration = Duration::from_millis(500);

/// The most virtual CPUs of a machine.
const VCPUS_MAX: usize = 1 << 12;

/// Bits of a virtual address with four page-table levels.
const ADDRESS_MASK: u64 = (1 << 48) - 1;

/// The architecture of machines that are recorded. There is one, so that its constants cost an access nothing.
const ARCHITECTURE: &Architecture = &x86_64::X86_64;
const MACHINE: &Machine = &x86_64::MACHINE;

/// The one recorder of this process.
static SYSTEM: OnceLock<System> = OnceLock::new();

/// An access to the kernel's half of the addresses, or to user memory by its place in the direct map.
struct KernelAccess {
    info: u32,
    /// As the guest has it.
    vaddr: u64,
    /// As it is recorded, in 48 bits.
    addr: u64,
    op: AccessOp,
}

struct System {
    id: PluginId,
    api: Api,
    system_api: SystemApi,
    start: Start,
    started: AtomicBool,
    barrier: Barrier,
    /// Region to which the facade writes which members are moved; `relocation` is what it wrote
    /// before the start.
    moves: Option<&'static [u8]>,
    relocation: OnceLock<Relocation>,
    /// Slabs with moved objects that the kernel has made since the start.
    later_slabs: AtomicU64,
    device_accesses: AtomicU64,
    /// By virtual CPU.
    user_accesses: Box<[OwnCount]>,
    /// By the address of a function's first instruction.
    calls: BTreeMap<u64, AtomicU64>,
    sleeps: Option<Sleeps>,
    /// Thousandths of a cycle that an instruction takes.
    cpi_milli: u64,
    vcpus: VcpuTable,
}

/// A count that one virtual CPU adds to, on a cache line of its own: it changes at every access.
#[derive(Debug, Default)]
#[repr(align(64))]
struct OwnCount(AtomicU64);

impl OwnCount {
    /// Called by the CPU's own thread only.
    #[inline(always)]
    fn add_one(&self) {
        self.0.store(self.get() + 1, MemoryOrdering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(MemoryOrdering::Relaxed)
    }
}

/// Starts the recorder of a machine.
pub(crate) fn install(
    id: PluginId,
    api: Api,
    cpu_count: usize,
    config: Config,
) -> Result<(), String> {
    let system_api = SystemApi::load().map_err(|name| format!("this QEMU has no {name}"))?;
    let Config {
        header,
        machine,
        producer,
        start,
        cpu_order,
        moves,
        calls,
        sleeps,
    } = config;
    if cpu_order.len() < cpu_count {
        return Err(format!(
            "the guest has {cpu_count} CPUs, expected at most {}",
            cpu_order.len()
        ));
    }
    let first_touch: &FirstTouch = Box::leak(Box::new(FirstTouch::new()));
    let cpi_milli = machine.core.cpi_milli;
    let weave = Weave::new(machine, Capacity::Finite);
    let barrier = BarrierConfig {
        window: header.window,
        cpu_order,
        park_time_max: PARK_TIME_MAX,
    };
    let system = SYSTEM.get_or_init(|| System {
        id,
        api,
        system_api,
        start,
        started: AtomicBool::new(false),
        barrier: Barrier::new(weave, producer, first_touch, barrier),
        moves,
        relocation: OnceLock::new(),
        later_slabs: AtomicU64::new(0),
        device_accesses: AtomicU64::new(0),
        user_accesses: (0..cpu_count).map(|_| OwnCount::default()).collect(),
        calls: calls
            .into_iter()
            .map(|at| (at, AtomicU64::new(0)))
            .collect(),
        sleeps: Sleeps::new(sleeps),
        cpi_milli: cpi_milli.into(),
        vcpus: VcpuTable::new(VCPUS_MAX),
    });
    match start {
        Start::Now => register(id),
        Start::Marker | Start::Function(_) => {
            system.api.on_tb_trans(id, tb_before_start);
            system.api.on_exit(id, machine_exits);
        }
    }
    Ok(())
}

impl System {
    /// The calling virtual CPU's state, made at its first block.
    #[inline(always)]
    #[allow(
        clippy::mut_from_ref,
        reason = "the table hands each CPU's thread its own state only"
    )]
    fn vcpu(&self, index: c_uint) -> &mut Vcpu {
        self.vcpus
            .get_or_make(index, || self.barrier.enter(index, format!("CPU {index}")))
    }

    fn instrument(&'static self, tb: *mut Tb) {
        let mut insn_count = 0;
        for (index, insn) in self.api.insns(tb).enumerate() {
            insn_count += 1;
            self.instrument_insn(tb, insn, index as u16);
        }
        self.api.on_tb_exec(tb, block_begins, insn_count);
    }

    fn instrument_insn(&'static self, tb: *mut Tb, insn: *mut Insn, index: u16) {
        let (bytes, len) = self.api.insn_bytes(insn);
        let isa = &ARCHITECTURE.instructions;
        let ordering = (isa.ordering)(&bytes[..len]);
        if let Some(count) = self.calls.get(&self.api.insn_vaddr(insn)) {
            let count: *const AtomicU64 = count;
            self.api.on_insn_exec(insn, function_begins, count.cast());
        }
        if let Some(sleeps) = &self.sleeps {
            sleeps.instrument(&self.api, insn, &bytes[..len]);
        }
        let locked = ordering.is_locked();
        let is_look = !locked || isa.gives_value(&self.api, tb, &bytes[..len], index);
        let data = MemInsn {
            code: CodeAddr(self.api.insn_vaddr(insn)),
            index,
            locked,
            is_look,
            len: len as u8,
            is_observers: false,
        }
        .into_argument();
        if bytes[..len] == *MACHINE.mark_stop {
            self.api.on_insn_exec(insn, stop_runs, data);
        } else if ordering == Ordering::Fence {
            self.api.on_insn_exec(insn, fence_runs, data);
        } else {
            if (MACHINE.returns_from_interrupt)(&bytes[..len]) {
                self.api.on_insn_exec(insn, interrupt_returns, data);
            }
            if (isa.pauses)(&bytes[..len]) {
                self.api.on_insn_exec(insn, pause_runs, std::ptr::null());
            }
            let accessed: MemCb = match (isa.writes_stack)(&bytes[..len]) {
                true => memory_accessed::<true>,
                false => memory_accessed::<false>,
            };
            self.api.on_mem(insn, accessed, data);
        }
    }

    /// Returns true if this instruction starts the recording.
    fn is_start(&self, insn: *mut Insn) -> bool {
        match self.start {
            Start::Now => false,
            Start::Function(address) => self.api.insn_vaddr(insn) == address,
            Start::Marker => {
                let (bytes, len) = self.api.insn_bytes(insn);
                bytes[..len] == *MACHINE.mark_start
            }
        }
    }

    fn access(&self, index: c_uint, mut access: KernelAccess, insn: &MemInsn) {
        if access.addr < MACHINE.kernel_half {
            self.user_accesses[index as usize].add_one();
            match self.system_api.reached(access.info, access.vaddr) {
                Reached::Memory(phys) => access.addr = MACHINE.direct_map + phys,
                Reached::Device | Reached::Unknown => return,
            }
        }
        match self.relocation.get() {
            Some(moves) => self.access_moved(index, moves, &access, insn),
            None => self.access_in_place(index, &access, insn),
        }
    }

    /// An access to memory whose members are where the program has them.
    #[inline(always)]
    fn access_in_place(&self, index: c_uint, access: &KernelAccess, insn: &MemInsn) {
        let &KernelAccess {
            info,
            vaddr,
            addr,
            op,
        } = access;
        let may_be_device = MACHINE.devices.iter().any(|range| range.contains(&addr));
        let vcpu = self.vcpu(index);
        let event_count = vcpu.events.len();
        let size = self.api.access_size(info);
        if !vcpu.count(addr, op, size) {
            let access = GuestAccess { addr, op, size };
            vcpu.access_slowly(insn, access, || self.system_api.value(info));
        }
        // Only what would be recorded is worth the question.
        if may_be_device
            && vcpu.events.len() > event_count
            && self.system_api.reached(info, vaddr) == Reached::Device
        {
            vcpu.events.truncate(event_count);
            self.device_accesses.fetch_add(1, MemoryOrdering::Relaxed);
        }
    }

    /// An access that may touch an object whose members are moved: it is priced where they lie then.
    #[inline(never)]
    fn access_moved(
        &self,
        index: c_uint,
        moves: &Relocation,
        access: &KernelAccess,
        insn: &MemInsn,
    ) {
        let &KernelAccess { info, addr, op, .. } = access;
        if op == AccessOp::Store
            && moves.is_slab_pointer(addr)
            && let Some(value) = self.system_api.value(info)
            && moves.store_slab_pointer(addr, value)
        {
            self.later_slabs.fetch_add(1, MemoryOrdering::Relaxed);
        }
        if !moves.may_cover(addr) {
            return self.access_in_place(index, access, insn);
        }
        let whole = (addr, self.api.access_size(info));
        moves.pieces(whole.0, whole.1, |to, size| match (to, size) == whole {
            true => self.access_in_place(index, access, insn),
            false => {
                let access = GuestAccess { addr: to, op, size };
                let value = || self.system_api.value(info);
                self.vcpu(index).access(insn, access, value);
            }
        });
    }

    /// Takes over which members are moved.
    fn learn_moves(&self) {
        let Some(text) = self.moves.and_then(sized_text) else {
            return;
        };
        let relocation = Relocation::parse(&text, ADDRESS_MASK);
        let _ = self
            .relocation
            .set(relocation.expect("the facade writes moves that can be read"));
    }

    fn finish(&self, reason: EndReason) {
        let of_devices = self.device_accesses.load(MemoryOrdering::Relaxed);
        let of_users = self.user_accesses.iter().map(OwnCount::get).sum();
        self.barrier.add_counters([
            Counter::new("device_accesses_left_out", of_devices),
            Counter::new("user_accesses", of_users),
        ]);
        if self.relocation.get().is_some_and(Relocation::has_slabs) && self.system_api.has_values()
        {
            let later = self.later_slabs.load(MemoryOrdering::Relaxed);
            self.barrier
                .add_counters([Counter::new(LATER_MOVED_SLABS, later)]);
        }
        let calls = self.calls.iter().map(|(at, calls)| {
            let name = format!("{CALLS_OF}{at:x}");
            Counter::new(name, calls.load(MemoryOrdering::Relaxed))
        });
        self.barrier.add_counters(calls);
        self.barrier.finish(reason);
    }
}

/// The recorder, while it is recording.
#[inline(always)]
fn recording() -> Option<&'static System> {
    let system = SYSTEM.get()?;
    (!system.barrier.is_over()).then_some(system)
}

/// Callbacks of a running recording, and the time from now on.
fn register(id: PluginId) {
    let Some(system) = SYSTEM.get() else { return };
    api::drive_clock(VirtualTime {
        nanos: virtual_nanos,
        stands: virtual_time_stands,
        pass: pass_virtual_time,
    });
    system.api.on_tb_trans(id, tb_translated);
    system.system_api.on_idle(id, cpu_idles, cpu_resumes);
    system.api.on_exit(id, machine_exits);
}

/// Returns the virtual nanoseconds from which the guest's time is made.
extern "C" fn virtual_nanos() -> u64 {
    SYSTEM
        .get()
        .map_or(0, |system| system.barrier.virtual_nanos())
}

/// Returns true if all CPUs idle.
extern "C" fn virtual_time_stands() -> bool {
    SYSTEM
        .get()
        .is_some_and(|system| system.barrier.awaits_event())
}

/// All CPUs idle until a timer expires at `nanos`.
extern "C" fn pass_virtual_time(nanos: u64) {
    if let Some(system) = SYSTEM.get() {
        system.barrier.pass_idle_time(nanos);
    }
}

unsafe extern "C" fn tb_before_start(_: PluginId, tb: *mut Tb) {
    let Some(system) = SYSTEM.get() else { return };
    for insn in system.api.insns(tb) {
        if system.is_start(insn) {
            system.api.on_insn_exec(insn, start_runs, std::ptr::null());
        }
    }
}

unsafe extern "C" fn start_runs(_: c_uint, _: *mut c_void) {
    let Some(system) = SYSTEM.get() else { return };
    if !system.started.swap(true, MemoryOrdering::Relaxed) {
        system.api.reset(system.id, recording_starts);
    }
}

unsafe extern "C" fn recording_starts(id: PluginId) {
    if let Some(system) = SYSTEM.get() {
        system.learn_moves();
    }
    register(id);
}

unsafe extern "C" fn tb_translated(_: PluginId, tb: *mut Tb) {
    if let Some(system) = recording() {
        system.instrument(tb);
    }
}

unsafe extern "C" fn block_begins(index: c_uint, insn_count: *mut c_void) {
    let Some(system) = recording() else { return };
    let vcpu = system.vcpu(index);
    if !vcpu.start_block(insn_count as u64) {
        system.barrier.wait(vcpu);
    }
}

/// An access. `ON_STACK`: the instruction writes to its task's stack, if it writes.
unsafe extern "C" fn memory_accessed<const ON_STACK: bool>(
    index: c_uint,
    info: u32,
    vaddr: u64,
    insn: *mut c_void,
) {
    let Some(system) = recording() else { return };
    let Some(op) = op_of(insn, system.api.is_store(info)) else {
        return;
    };
    let addr = vaddr & ADDRESS_MASK;
    if op == AccessOp::Store {
        system.vcpu(index).note_store(addr, ON_STACK);
    }
    // SAFETY: the argument is the one that `instrument_insn` registered.
    let insn = unsafe { MemInsn::of_argument(insn) };
    let access = KernelAccess {
        info,
        vaddr,
        addr,
        op,
    };
    system.access(index, access, insn);
}

unsafe extern "C" fn fence_runs(index: c_uint, insn: *mut c_void) {
    let Some(system) = recording() else { return };
    // SAFETY: as in `memory_accessed`.
    system
        .vcpu(index)
        .fence(unsafe { MemInsn::of_argument(insn) });
}

unsafe extern "C" fn pause_runs(index: c_uint, _: *mut c_void) {
    if let Some(system) = recording() {
        system.vcpu(index).pauses += 1;
    }
}

unsafe extern "C" fn interrupt_returns(index: c_uint, insn: *mut c_void) {
    let Some(system) = recording() else { return };
    // SAFETY: as in `memory_accessed`.
    let insn = unsafe { MemInsn::of_argument(insn) };
    system.vcpu(index).return_from_interrupt(insn);
}

unsafe extern "C" fn function_begins(_: c_uint, count: *mut c_void) {
    if recording().is_some() {
        // SAFETY: the pointer is to a count of the one recorder, which lives for ever.
        let count = unsafe { &*count.cast::<AtomicU64>() };
        count.fetch_add(1, MemoryOrdering::Relaxed);
    }
}

unsafe extern "C" fn stop_runs(index: c_uint, _: *mut c_void) {
    let Some(system) = recording() else { return };
    // The end is written when QEMU ends: until then the kernel's objects may be looked at.
    system.barrier.stop(system.vcpu(index));
}

unsafe extern "C" fn cpu_idles(_: PluginId, index: c_uint) {
    let Some(system) = recording() else { return };
    if let Some(vcpu) = system.vcpus.get(index) {
        system.barrier.leave(vcpu);
    }
}

unsafe extern "C" fn cpu_resumes(_: PluginId, index: c_uint) {
    let Some(system) = recording() else { return };
    if let Some(vcpu) = system.vcpus.get(index) {
        system.barrier.rejoin_if_away(vcpu);
    }
}

unsafe extern "C" fn machine_exits(_: PluginId, _: *mut c_void) {
    if let Some(system) = SYSTEM.get() {
        system.finish(EndReason::Stopped);
    }
}

/// Returns an error if this library cannot record the machine that `target` names.
pub(crate) fn supports(target: &str) -> Result<(), String> {
    let expected = ARCHITECTURE.name;
    match target == expected {
        true => Ok(()),
        false => Err(format!("found a {target} machine, expected {expected}")),
    }
}

/// Virtual CPUs as QEMU counts them, as a number that a table can have.
pub(crate) fn cpu_count(smp_vcpus: c_int) -> usize {
    usize::try_from(smp_vcpus).map_or(1, |count| count.clamp(1, VCPUS_MAX))
}
