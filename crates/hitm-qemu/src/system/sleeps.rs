//! Sleeps of a recorded machine's tasks for locks of its kernel.
//!
//! A task that has to sleep for a lock is in a function of the lock's slow path, which has the lock as its first
//! argument. That function calls the scheduler, which lets the CPU go on with another task until the first one is
//! woken. So a call of the scheduler in such a function begins a wait, and the block behind the call ends it. In
//! between the task is asleep from when its CPU has another task's stack until a CPU has its own again.
//!
//! A task is known by its stack, which is aligned to its size.
//!
//! Not seen: sleeps of tasks that waited before the recording began, and of those in functions that a table does not
//! have ([`SleepFunctions`]).

use std::collections::BTreeMap;
use std::ffi::{c_uint, c_void};
use std::ops::Range;

use hitm_base::{CodeAddr, Cycles};
use hitm_weave::LockSleep;

use super::{ADDRESS_MASK, ARCHITECTURE, System, recording};
use crate::allocators::{Abi, Registers, with_registers};
use crate::api::{Api, Insn};
use crate::locks::{Rank, RankedMutex};

/// Bytes of a kernel stack on x86-64 (Linux: `THREAD_SIZE`), without those that `KASAN` adds.
const STACK_BYTES: u64 = 1 << 14;

/// Tasks of which the last lock is remembered, in each function.
const LOCKS_MAX: usize = 1 << 18;

/// Bytes of a call on x86-64: the opcode 0xe8, and the distance from its end in four bytes.
const CALL_BYTES: u64 = 5;

/// Bytes of a page, the most that a pointer to an instruction can be relied on for.
const PAGE_BYTES: u64 = 4096;

/// Functions of a kernel by which its tasks sleep for locks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SleepFunctions {
    /// Those that wait for the lock that is their first argument.
    pub(crate) waits: Vec<Range<u64>>,
    /// Those that let a CPU go on with another task.
    pub(crate) schedulers: Vec<u64>,
    /// The first one that runs on the other task's stack.
    pub(crate) switch: Option<u64>,
}

/// A task, by its stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Task(u64);

/// A task that waits for a lock.
#[derive(Debug, Clone, Copy)]
struct Waiter {
    lock: u64,
    code: CodeAddr,
    /// Since when no CPU has its stack.
    asleep_since: Option<Cycles>,
}

/// Tasks that wait for locks.
#[derive(Debug)]
pub(super) struct Sleeps {
    functions: SleepFunctions,
    tasks: RankedMutex<Tasks>,
}

#[derive(Debug, Default)]
struct Tasks {
    /// By task and by the first instruction of the function.
    locks: BTreeMap<(Task, u64), u64>,
    waiters: BTreeMap<Task, Waiter>,
    /// The task that each CPU has had last, as far as it is known.
    current: BTreeMap<c_uint, Task>,
}

/// Places in code that matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// The first instruction of a function that waits for its first argument.
    Wait,
    /// A call of the scheduler in one.
    Call,
    /// The instruction behind it.
    Return,
    /// A CPU has another task's stack.
    Switch,
}

impl SleepFunctions {
    /// The function that waits whose code has the address.
    fn wait_at(&self, addr: u64) -> Option<u64> {
        let function = self.waits.iter().find(|range| range.contains(&addr));
        function.map(|range| range.start)
    }

    fn mark(&self, addr: u64, bytes: &[u8], before: Option<[u8; 5]>) -> Option<Mark> {
        if self.switch == Some(addr) {
            return Some(Mark::Switch);
        }
        let function = self.wait_at(addr)?;
        if function == addr {
            return Some(Mark::Wait);
        }
        let calls = |bytes: &[u8], end: u64| {
            called(bytes, end).is_some_and(|target| self.schedulers.contains(&target))
        };
        if calls(bytes, addr.wrapping_add(CALL_BYTES)) {
            return Some(Mark::Call);
        }
        let follows = before.is_some_and(|before| calls(&before, addr));
        follows.then_some(Mark::Return)
    }
}

/// Target of a direct call that ends at `end`.
fn called(bytes: &[u8], end: u64) -> Option<u64> {
    let [0xe8, distance @ ..] = bytes else {
        return None;
    };
    let distance = i32::from_le_bytes(distance.try_into().ok()?);
    Some(end.wrapping_add_signed(i64::from(distance)))
}

impl Task {
    fn of_stack(pointer: u64) -> Task {
        Task(pointer / STACK_BYTES)
    }
}

impl Sleeps {
    /// None where the kernel has no such functions.
    pub(super) fn new(functions: SleepFunctions) -> Option<Sleeps> {
        let is_known = !functions.waits.is_empty() && functions.switch.is_some();
        is_known.then(|| Sleeps {
            functions,
            tasks: RankedMutex::new(Rank::Tasks, Tasks::default()),
        })
    }

    pub(super) fn instrument(&self, api: &Api, insn: *mut Insn, bytes: &[u8]) {
        let addr = api.insn_vaddr(insn);
        let is_inside = self.functions.wait_at(addr).is_some();
        // A call that ends where the page does is followed by another page's instruction.
        let has_before = is_inside && addr % PAGE_BYTES >= CALL_BYTES;
        let before = has_before
            .then(|| api.insn_haddr(insn))
            .filter(|at| *at != 0);
        // SAFETY: QEMU has just read the instruction there, and the bytes before it are in the same page of the
        // guest's memory.
        let before = before.map(|at| unsafe { *((at - CALL_BYTES) as *const [u8; 5]) });
        let callback = match self.functions.mark(addr, bytes, before) {
            None => return,
            Some(Mark::Wait) => wait_begins,
            Some(Mark::Call) => scheduler_called,
            Some(Mark::Return) => scheduler_returns,
            Some(Mark::Switch) => task_switched,
        };
        api.on_insn_exec_with_registers(
            insn,
            callback,
            std::ptr::without_provenance(addr as usize),
        );
    }
}

impl Tasks {
    /// The task begins to wait in a function.
    fn wait(&mut self, task: Task, function: u64, lock: u64) {
        if self.locks.len() < LOCKS_MAX || self.locks.contains_key(&(task, function)) {
            self.locks.insert((task, function), lock);
        }
    }

    /// The task calls the scheduler in that function.
    fn call(&mut self, cpu: c_uint, task: Task, function: u64, code: CodeAddr) {
        self.current.insert(cpu, task);
        if let Some(lock) = self.locks.get(&(task, function)) {
            let waiter = Waiter {
                lock: *lock,
                code,
                asleep_since: None,
            };
            self.waiters.insert(task, waiter);
        }
    }

    /// The scheduler has returned: the task looks at the lock again.
    fn end(&mut self, cpu: c_uint, task: Task) {
        self.current.insert(cpu, task);
        self.waiters.remove(&task);
    }

    /// A CPU goes on with another task; returns that one's sleep if it waits for a lock.
    fn switch(&mut self, cpu: c_uint, next: Task, now: Cycles) -> Option<LockSleep> {
        let former = self.current.insert(cpu, next);
        if let Some(former) = former.filter(|former| *former != next)
            && let Some(waiter) = self.waiters.get_mut(&former)
        {
            waiter.asleep_since = Some(now);
        }
        let waiter = self.waiters.get_mut(&next)?;
        // CPUs may be a window apart.
        let time = now.saturating_sub(waiter.asleep_since.take()?);
        Some(LockSleep {
            lock: waiter.lock,
            code: waiter.code,
            time,
        })
    }
}

/// The callback's part of the recorder: with its sleeps, the running task, and the guest's first argument.
fn running(state: *const u64) -> Option<(&'static System, &'static Sleeps, Task, u64)> {
    let system = recording()?;
    let sleeps = system.sleeps.as_ref()?;
    // SAFETY: the callbacks here are registered as ones that read registers.
    let registers = unsafe { Registers::new(state) }.of(&ARCHITECTURE.registers);
    let argument = registers.argument(Abi::C, 1);
    Some((system, sleeps, Task::of_stack(registers.stack()), argument))
}

with_registers!(
    /// A function that waits for a lock begins.
    wait_begins,
    wait_begins_with
);
with_registers!(
    /// It calls the scheduler.
    scheduler_called,
    scheduler_called_with
);
with_registers!(
    /// The scheduler has returned to it.
    scheduler_returns,
    scheduler_returns_with
);
with_registers!(
    /// A CPU has another task's stack.
    task_switched,
    task_switched_with
);

unsafe extern "C" fn wait_begins_with(_: c_uint, addr: *mut c_void, state: *const u64) {
    if let Some((_, sleeps, task, lock)) = running(state) {
        let lock = lock & ADDRESS_MASK;
        sleeps.tasks.lock().wait(task, addr.addr() as u64, lock);
    }
}

unsafe extern "C" fn scheduler_called_with(cpu: c_uint, addr: *mut c_void, state: *const u64) {
    let addr = addr.addr() as u64;
    if let Some((_, sleeps, task, _)) = running(state)
        && let Some(function) = sleeps.functions.wait_at(addr)
    {
        sleeps
            .tasks
            .lock()
            .call(cpu, task, function, CodeAddr(addr));
    }
}

unsafe extern "C" fn scheduler_returns_with(cpu: c_uint, _: *mut c_void, state: *const u64) {
    if let Some((_, sleeps, task, _)) = running(state) {
        sleeps.tasks.lock().end(cpu, task);
    }
}

unsafe extern "C" fn task_switched_with(cpu: c_uint, _: *mut c_void, state: *const u64) {
    let Some((system, sleeps, task, _)) = running(state) else {
        return;
    };
    let vcpu = system.vcpu(cpu);
    let now = vcpu.clock_here(system.cpi_milli);
    let slept = sleeps.tasks.lock().switch(cpu, task, now);
    vcpu.slept.extend(slept);
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: u64 = 0x8880_1234_5640;
    const WAITS: u64 = 0xffff_ffff_8100_1000;
    const SCHEDULE: u64 = 0xffff_ffff_8100_0100;
    const SWITCH: u64 = 0xffff_ffff_8100_0200;
    const CALL: CodeAddr = CodeAddr(WAITS + 0x80);
    const WAITER: Task = Task(1);
    const OTHER: Task = Task(2);

    fn call(at: u64, target: u64) -> [u8; 5] {
        let distance = target.wrapping_sub(at + CALL_BYTES) as u32;
        let [a, b, c, d] = distance.to_le_bytes();
        [0xe8, a, b, c, d]
    }

    #[test]
    fn places_in_code() {
        let functions = SleepFunctions {
            waits: std::iter::once(WAITS..WAITS + 0x100).collect(),
            schedulers: vec![SCHEDULE],
            switch: Some(SWITCH),
        };
        let mark = |at, bytes: &[u8], before| functions.mark(at, bytes, before);
        let nop = [0x90];
        assert_eq!(mark(WAITS, &nop, None), Some(Mark::Wait));
        assert_eq!(mark(SWITCH, &nop, None), Some(Mark::Switch));
        let at = CALL.0;
        let to_scheduler = call(at, SCHEDULE);
        assert_eq!(mark(at, &to_scheduler, None), Some(Mark::Call));
        assert_eq!(mark(at, &call(at, SWITCH), None), None, "another function");
        let behind = mark(at + CALL_BYTES, &nop, Some(to_scheduler));
        assert_eq!(behind, Some(Mark::Return));
        assert_eq!(mark(at + CALL_BYTES, &nop, Some([0x90; 5])), None);
        let outside = WAITS + 0x200;
        assert_eq!(mark(outside, &call(outside, SCHEDULE), None), None);
    }

    #[test]
    fn a_task_sleeps_while_no_cpu_has_its_stack() {
        let mut tasks = Tasks::default();
        tasks.wait(WAITER, WAITS, LOCK);
        tasks.call(0, WAITER, WAITS, CALL);
        assert_eq!(tasks.switch(0, OTHER, Cycles(1000)), None);
        let slept = LockSleep {
            lock: LOCK,
            code: CALL,
            time: Cycles(500),
        };
        // It continues on another CPU.
        assert_eq!(tasks.switch(1, WAITER, Cycles(1500)), Some(slept));
        tasks.end(1, WAITER);
        // Then it loses its CPU to another task, and waits for no lock.
        tasks.switch(1, OTHER, Cycles(2000));
        assert_eq!(tasks.switch(1, WAITER, Cycles(9000)), None);
        // It waits again, in the same call of the function.
        tasks.call(1, WAITER, WAITS, CALL);
        tasks.switch(1, OTHER, Cycles(9100));
        assert_eq!(tasks.switch(1, WAITER, Cycles(9600)), Some(slept));
    }

    #[test]
    fn who_is_woken_before_it_sleeps_does_not_sleep() {
        let mut tasks = Tasks::default();
        tasks.wait(WAITER, WAITS, LOCK);
        tasks.call(0, WAITER, WAITS, CALL);
        tasks.end(0, WAITER);
        tasks.switch(0, OTHER, Cycles(2000));
        assert_eq!(tasks.switch(0, WAITER, Cycles(9000)), None);
        // Its wait began before the recording: nobody knows for which lock.
        tasks.call(0, OTHER, WAITS, CALL);
        tasks.switch(0, WAITER, Cycles(9100));
        assert_eq!(tasks.switch(0, OTHER, Cycles(9600)), None);
    }
}
