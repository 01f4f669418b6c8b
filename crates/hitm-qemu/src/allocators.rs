//! Allocators inside of programs: static ones, those with names of their own, a runtime's.
//!
//! Their functions are found by name in the files that are mapped ([`module`], [`rules`]). A block of
//! instructions that begins with such a function tells of its call: arguments and the return address are in
//! the guest's registers and on its stack. That return address is a place at which the result is there: its
//! block, which is not translated before the first call through it, tells of the return.
//!
//! The allocators of shared libraries are observed by `hitm-heap`, which is preloaded, where it can be.

mod module;
mod registers;
mod rules;
mod unwind;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};

use hitm_base::{AddrRange, CodeAddr};
use hitm_trace::Mapping;

use crate::arch::{Architecture, Flow, Instructions};
use crate::guest_memory;
use crate::locks::{Rank, RankedGuard, RankedMutex};

use module::Module;
use registers::Read;
pub(crate) use registers::{Registers, function_entered, function_returned, with_registers};
use rules::Rules;
pub(crate) use rules::{Abi, Rule};
use unwind::Walker;

/// Bytes of stack that an allocator's own frames have at most: a call of one that lies so far below
/// another's is a part of it. Assumed, from 4 KiB to 1 MiB. With less, blocks have the allocator as call
/// site; with more, blocks that are allocated after an exception left an allocator are missed.
const NESTED_MAX: u64 = 64 << 10;

/// A call of an allocator that has not returned.
#[derive(Debug)]
struct Pending {
    site: u64,
    /// Stack pointer at the function's first instruction.
    stack: u64,
    size: u64,
    /// Address at which the function leaves the block's; it returns 0 then.
    out: Option<u64>,
    told_type: Option<u64>,
    callers: Vec<CodeAddr>,
}

impl Pending {
    /// Returns true for a call that the allocator makes for itself. A function of Go begins again once its
    /// stack has grown, at the same call.
    fn is_around(&self, call: &Entered<'_>) -> bool {
        let stack = call.registers.stack();
        self.site != call.site && stack < self.stack && self.stack - stack <= NESTED_MAX
    }
}

/// A call of an allocator that begins.
#[derive(Clone, Copy)]
struct Entered<'a> {
    rule: &'a Rule,
    registers: &'a Read,
    /// Address to which it returns.
    site: u64,
}

impl Entered<'_> {
    fn argument(&self, number: u8) -> u64 {
        self.registers.argument(self.rule.abi, number)
    }
}

/// A thread's call of an allocator, and what it has learnt of stacks.
#[derive(Debug, Default)]
pub(crate) struct ThreadCalls {
    pending: Option<Pending>,
    /// Return addresses that are known to be some.
    sites: HashSet<u64>,
    walker: Walker,
    /// Changes of the memory that it has taken note of.
    seen: Changes,
}

/// Numbers of changes of a process's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Changes {
    mapped_code: u64,
    unmapped: u64,
}

/// Outcome of a call of an allocator.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Handed {
    pub(crate) block: AddrRange,
    /// Return addresses, innermost first.
    pub(crate) callers: Vec<CodeAddr>,
    /// Address of the description of its type, as the allocator was told.
    pub(crate) told_type: Option<u64>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Path of the recorded program.
    program: String,
    /// First instructions of the functions.
    functions: BTreeMap<u64, &'static Rule>,
    /// Return addresses of their calls.
    sites: HashSet<u64>,
    modules: Vec<Module>,
    /// Calls of goroutines, by the address of their `g`: they may return on another thread.
    goroutines: HashMap<u64, Pending>,
}

/// The functions of a process that allocate, and their calls that are under way.
#[derive(Debug)]
pub(crate) struct Allocators {
    architecture: &'static Architecture,
    rules: Rules,
    inner: RankedMutex<Inner>,
    mapped_code_count: AtomicU64,
    unmapped_count: AtomicU64,
    /// Calls without a return address, since there was one.
    doubt_count: AtomicU64,
}

/// Calls without a return address after which no more are looked at: this QEMU keeps registers elsewhere.
/// Assumed, from 16 to 10^6; each look takes some 100 us.
const DOUBTS_MAX: u64 = 256;

/// While this lives, the tables do not change.
#[derive(Debug)]
pub(crate) struct AllocatorsGuard(
    #[expect(dead_code, reason = "held, not read")] RankedGuard<'static, Inner>,
);

impl Allocators {
    /// For programs of an architecture. `rules` are the user's; `is_observed` if `hitm-heap` is preloaded.
    pub(crate) fn new(
        architecture: &'static Architecture,
        rules: &[String],
        is_observed: bool,
    ) -> Allocators {
        Allocators {
            architecture,
            rules: Rules::new(rules, is_observed),
            inner: RankedMutex::new(Rank::Allocators, Inner::default()),
            mapped_code_count: AtomicU64::new(0),
            unmapped_count: AtomicU64::new(0),
            doubt_count: AtomicU64::new(0),
        }
    }

    /// The program's own files are mapped: what is in them is looked at.
    pub(crate) fn begin(&self, program: &str, mappings: &[Mapping]) {
        self.inner.lock().program = program.to_string();
        let own = mappings.iter().filter(|mapping| mapping.path == program);
        own.for_each(|mapping| self.mapped(mapping));
    }

    /// Code of a file was mapped into the program. What was there before is gone.
    pub(crate) fn mapped(&self, mapping: &Mapping) {
        let Some(mut module) = Module::open(mapping) else {
            return;
        };
        let mut inner = self.inner.lock();
        let is_program = inner.program == mapping.path;
        let functions = module.take_functions(
            |name| self.rules.of(name, is_program),
            // Under its other names as well.
            |name| !is_program && self.rules.is_interposed(name),
        );
        inner.functions.extend(functions);
        let is_over = |other: &Module| module.code.contains(other.code.start());
        inner.modules.retain(|other| !is_over(other));
        inner.modules.push(module);
        self.mapped_code_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Memory was unmapped.
    pub(crate) fn unmapped(&self) {
        self.unmapped_count.fetch_add(1, Ordering::Relaxed);
    }

    /// The function that begins at `addr`.
    pub(crate) fn function_at(&self, addr: u64) -> Option<&'static Rule> {
        self.inner.lock().functions.get(&addr).copied()
    }

    /// Returns true if calls of allocators return to `addr`.
    pub(crate) fn is_site(&self, addr: u64) -> bool {
        self.inner.lock().sites.contains(&addr)
    }

    /// A function was called; the block that it frees.
    pub(crate) fn entered(
        &self,
        thread: &mut ThreadCalls,
        rule: &Rule,
        registers: Registers,
    ) -> Option<u64> {
        let doubts = self.doubt_count.load(Ordering::Relaxed);
        if doubts > DOUBTS_MAX {
            return None;
        }
        let registers = registers.of(&self.architecture.registers);
        self.note_changes(thread);
        let site = registers.return_address(&mut thread.walker);
        let known = site.filter(|site| thread.sites.contains(site));
        let known = known.or_else(|| self.learn_site(thread, site?));
        let Some(site) = known else {
            self.doubt_count.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        if doubts > 0 {
            self.doubt_count.store(0, Ordering::Relaxed);
        }
        let call = Entered {
            rule,
            registers: &registers,
            site,
        };
        match rule.abi {
            Abi::C => self.entered_by(thread, call),
            Abi::Go => self.entered_by_goroutine(thread, call),
        }
    }

    /// Lets the thread forget what is not so any more.
    fn note_changes(&self, thread: &mut ThreadCalls) {
        let now = Changes {
            mapped_code: self.mapped_code_count.load(Ordering::Relaxed),
            unmapped: self.unmapped_count.load(Ordering::Relaxed),
        };
        if thread.seen.mapped_code != now.mapped_code {
            thread.walker.forget_code();
        }
        if thread.seen.unmapped != now.unmapped {
            thread.walker.forget_memory();
        }
        thread.seen = now;
    }

    /// Makes a return address known. What is none is not read from the guest's registers: nothing is
    /// believed of them then.
    #[cold]
    fn learn_site(&self, thread: &mut ThreadCalls, site: u64) -> Option<u64> {
        let mut inner = self.inner.lock();
        if !inner.sites.contains(&site) {
            self.follows_a_call(site).then_some(())?;
            inner.sites.insert(site);
        }
        thread.sites.insert(site);
        Some(site)
    }

    fn entered_by(&self, thread: &mut ThreadCalls, call: Entered<'_>) -> Option<u64> {
        let around = thread.pending.as_ref();
        if around.is_some_and(|around| around.is_around(&call)) {
            return None;
        }
        if call.rule.size.is_some() {
            thread.pending = Some(self.pending(&mut thread.walker, call));
        }
        call.rule.old.map(|number| call.argument(number))
    }

    fn entered_by_goroutine(&self, thread: &mut ThreadCalls, call: Entered<'_>) -> Option<u64> {
        let goroutine = call.registers.goroutine();
        let around = self.inner.lock().goroutines.remove(&goroutine);
        let around = around.filter(|around| around.is_around(&call));
        let pending = around.unwrap_or_else(|| self.pending(&mut thread.walker, call));
        self.inner.lock().goroutines.insert(goroutine, pending);
        None
    }

    fn pending(&self, walker: &mut Walker, call: Entered<'_>) -> Pending {
        let Entered {
            rule,
            registers,
            site,
        } = call;
        let argument = |number| call.argument(number);
        let size = rule.size.map_or(0, argument);
        let frame_at = |call| {
            let inner = self.inner.lock();
            let mut modules = inner.modules.iter();
            let module = modules.find(|module| module.code.contains(call));
            module.map(|module| module.frame_at(call, self.architecture.unwinding?))
        };
        Pending {
            site,
            stack: registers.stack(),
            size: size.saturating_mul(rule.count.map_or(1, argument)),
            out: rule.out.map(argument),
            told_type: rule.told_type.map(argument).filter(|at| *at != 0),
            callers: walker.walk(registers, site, frame_at),
        }
    }

    /// The code at `site` runs: perhaps after a call of an allocator, whose block that is.
    pub(crate) fn returned(
        &self,
        thread: &mut ThreadCalls,
        site: u64,
        registers: Registers,
    ) -> Option<Handed> {
        let registers = registers.of(&self.architecture.registers);
        let stack = registers.stack_before_call();
        let is_it = |pending: &mut Pending| pending.site == site && pending.stack == stack;
        let call = match thread.pending.take_if(is_it) {
            Some(call) => call,
            None => {
                // The stack may have moved meanwhile.
                let goroutines = &mut self.inner.lock().goroutines;
                let goroutine = registers.goroutine();
                let call = goroutines.get(&goroutine)?;
                (call.site == site).then_some(())?;
                goroutines.remove(&goroutine)?
            }
        };
        let block = match call.out {
            None => registers.result(),
            Some(_) if registers.result() != 0 => return None,
            Some(at) => guest_memory::read_word(at)?,
        };
        let block = AddrRange::with_len(block, call.size)
            .filter(|block| block.start() != 0 && !block.is_empty())?;
        Some(Handed {
            block,
            callers: call.callers,
            told_type: call.told_type,
        })
    }

    /// Keeps the tables as they are until the guard goes.
    pub(crate) fn hold(&'static self) -> AllocatorsGuard {
        AllocatorsGuard(self.inner.lock())
    }

    /// Returns true if the instruction before `site` is a call.
    fn follows_a_call(&self, site: u64) -> bool {
        let Instructions {
            call_bytes, flow, ..
        } = &self.architecture.instructions;
        call_bytes.clone().any(|length| {
            let bytes = guest_memory::read(site.wrapping_sub(length), length as usize);
            bytes.is_some_and(|bytes| flow(&bytes) == Flow::Call)
        })
    }
}
