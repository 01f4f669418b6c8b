//! A thread's shadow stack: who has called the function that runs, without a look at the program's own
//! stack.
//!
//! Where calls push their return address (x86-64), its place on the stack is known from the access
//! itself. So is the one from which a return takes it. A frame is gone when something is at or above its
//! place. So longjmp, exceptions and tail calls need no case of their own, and a frame that was missed is
//! gone with the next one around it. Only code that takes the stack pointer from a register or from memory
//! may go to another stack (swapcontext, a runtime's scheduler, a signal's stack). Then the place and the
//! return address together say to which.
//!
//! Where calls leave it in a register (aarch64), they touch no memory: a return is matched by its address alone.
//!
//! Not followed, and why: a coroutine on another thread than the one that began it has the callers since
//! then, because threads share no state. Where calls touch no memory, a coroutine's calls are lost when it is resumed.

use hitm_base::CodeAddr;
use hitm_trace::PROCESS_SHIFT;
use hitm_weave::{Call, CallTree, PathId};

/// Bytes between a stack's outermost return address and its end that still belong to it: what the first
/// function has there. Assumed, from 64 to 4096: stacks lie further apart, and frames of first functions
/// are shorter.
const END_SLACK: u64 = 512;

/// Bytes below the innermost call to which code may put the stack pointer without leaving the stack: a
/// function that gives back an array of variable length. Assumed, from 1 KiB to 64 KiB. With less, calls from
/// larger frames begin a new chain; with more, a coroutine whose stack lies just below has its resumer as
/// caller.
const NEAR: u64 = 16 << 10;

/// Stacks that a thread is not on, and contexts that can be jumped to, that are remembered.
const STACKS_MAX: usize = 1024;
const CONTEXTS_MAX: usize = 256;

/// Place of an outermost call that has none of its own.
const OUTERMOST: u64 = 1 << 62;

/// A call that the thread makes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Called {
    pub(crate) returns_to: CodeAddr,
    /// The heap observer calls: nobody who reads a chain knows it.
    pub(crate) is_hidden: bool,
}

/// A call that has not returned.
#[derive(Debug, Clone, Copy)]
struct Frame {
    /// Place of the return address.
    slot: u64,
    call: Called,
    /// Number of the chain that ends here; [`PathId::EMPTY`] when nobody has asked for it.
    path: PathId,
}

/// Calls on one stack, outermost first.
///
/// **Invariant:** slots fall from call to call.
#[derive(Debug, Default)]
struct Stack {
    frames: Vec<Frame>,
    /// Address above everything on it; tells stacks apart.
    end: u64,
    /// Chain of the code that went to this stack, if it goes back there (a signal).
    root: PathId,
}

impl Stack {
    /// Lowest place that is in use.
    fn low(&self) -> u64 {
        self.frames.last().map_or(self.end, |frame| frame.slot)
    }

    /// Removes the calls at or below a place.
    fn unwind(&mut self, slot: u64) {
        while self.frames.last().is_some_and(|top| top.slot <= slot) {
            self.frames.pop();
        }
    }

    /// Position of the call whose return address is at `slot`.
    fn position(&self, slot: u64) -> Option<usize> {
        let found = self
            .frames
            .binary_search_by(|frame| slot.cmp(&frame.slot))
            .ok();
        found.filter(|position| self.frames[*position].slot == slot)
    }

    /// Position of the call that returns to `target` from `slot`.
    fn match_of(&self, slot: u64, target: u64) -> Option<usize> {
        let position = self.position(slot)?;
        (local(self.frames[position].call.returns_to) == target).then_some(position)
    }

    fn top_returns_to(&self, target: u64) -> bool {
        let top = self.frames.last();
        top.is_some_and(|top| local(top.call.returns_to) == target)
    }
}

/// An address of code as the program knows it.
fn local(code: CodeAddr) -> u64 {
    code.0 & ((1 << PROCESS_SHIFT) - 1)
}

/// Reason for which the stack pointer may be on another stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Moved {
    #[default]
    No,
    ByProgram,
    BySignal,
}

/// A place to which longjmp may go.
#[derive(Debug, Clone, Copy)]
struct Context {
    target: u64,
    slot: u64,
    end: u64,
}

/// A place at which a signal interrupted the thread.
#[derive(Debug, Clone, Copy)]
struct Interrupted {
    end: u64,
    depth: usize,
}

/// A thread's calls, and the call chains of what it accessed since it was heard of last.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    stack: Stack,
    others: Vec<Stack>,
    moved: Moved,
    /// The last instruction was a call.
    has_called: bool,
    /// A return is under way, and it is not known to where.
    returns: bool,
    /// Block that the thread is in.
    block: CodeAddr,
    contexts: Vec<Context>,
    signals: Vec<Interrupted>,
    tree: CallTree,
    /// Calls of the tree that the recorder knows.
    told: usize,
    /// Chains of the thread's events.
    pub(crate) paths: Vec<PathId>,
}

impl Callers {
    /// A forked child's: nobody has been told of it.
    pub(crate) fn forked(self) -> Callers {
        Callers {
            told: 0,
            paths: Vec::new(),
            ..self
        }
    }

    /// A call, which pushed its return address to `slot`.
    #[inline(always)]
    pub(crate) fn called(&mut self, call: Called, slot: u64) {
        let is_deeper = self.stack.frames.last().is_some_and(|top| slot < top.slot);
        if !is_deeper || self.moved != Moved::No {
            self.settle_call(slot);
        }
        self.has_called = true;
        self.push(call, slot);
    }

    /// A return, which takes its address from `slot`; `target` reads that address.
    #[inline(always)]
    pub(crate) fn returned(&mut self, slot: u64, target: impl Fn(u64) -> Option<u64>) {
        match self.stack.frames.last() {
            Some(top) if top.slot == slot && self.moved == Moved::No => {
                self.stack.frames.pop();
            }
            _ => self.settle_return(slot, target),
        }
    }

    /// A call that touches no memory.
    pub(crate) fn called_by_link(&mut self, call: Called) {
        self.moved = Moved::No;
        self.has_called = true;
        let top = self.stack.frames.last();
        let slot = top.map_or(OUTERMOST, |top| top.slot.saturating_sub(16));
        self.stack.end = OUTERMOST + END_SLACK;
        self.push(call, slot);
    }

    /// A return that touches no memory: the next block says to where.
    pub(crate) fn returns_by_link(&mut self) {
        self.returns = true;
    }

    /// The stack pointer is taken from somewhere.
    pub(crate) fn stack_moves(&mut self) {
        self.moved = Moved::ByProgram;
    }

    /// The stack pointer after the running function's return is kept somewhere.
    pub(crate) fn context_saved(&mut self) {
        let Some(top) = self.stack.frames.last() else {
            return;
        };
        let context = Context {
            target: local(top.call.returns_to),
            slot: top.slot,
            end: self.stack.end,
        };
        let is_same = |known: &Context| known.target == context.target && known.end == context.end;
        if let Some(known) = self.contexts.iter().position(is_same) {
            self.contexts.remove(known);
        } else if self.contexts.len() >= CONTEXTS_MAX {
            self.contexts.remove(0);
        }
        self.contexts.push(context);
    }

    /// A block begins; it may be a signal handler's first.
    #[inline(always)]
    pub(crate) fn block_begins(&mut self, block: CodeAddr, is_handler: bool) {
        if is_handler || self.returns || self.moved == Moved::ByProgram {
            self.settle_block(local(block), is_handler);
        }
        self.has_called = false;
        self.block = block;
    }

    /// A signal handler is over: the thread resumes where the signal interrupted it.
    pub(crate) fn signal_returns(&mut self) {
        if let Some(interrupted) = self.signals.pop()
            && self.go_to(interrupted.end)
        {
            self.stack.frames.truncate(interrupted.depth);
            self.moved = Moved::No;
        }
    }

    /// Chain of the running function.
    pub(crate) fn path(&mut self) -> PathId {
        let frames = &mut self.stack.frames;
        let numbered = frames
            .iter()
            .rposition(|frame| frame.path != PathId::EMPTY)
            .map_or(0, |position| position + 1);
        let mut path = match numbered {
            0 => self.stack.root,
            _ => frames[numbered - 1].path,
        };
        for frame in &mut frames[numbered..] {
            if !frame.call.is_hidden {
                path = self.tree.number(Call {
                    before: path,
                    code: frame.call.returns_to,
                });
            }
            frame.path = path;
        }
        path
    }

    /// Calls that the recorder does not know yet; from now on it does.
    pub(crate) fn take_new_calls(&mut self) -> impl Iterator<Item = Call> + '_ {
        let told = std::mem::replace(&mut self.told, self.tree.len());
        self.tree.calls_from(told)
    }

    fn push(&mut self, call: Called, slot: u64) {
        let path = PathId::EMPTY;
        self.stack.frames.push(Frame { slot, call, path });
    }

    /// Makes ready for a call at `slot`: on which stack that is, and which calls have ended without a
    /// return.
    #[cold]
    fn settle_call(&mut self, slot: u64) {
        let moved = std::mem::replace(&mut self.moved, Moved::No);
        if moved != Moved::No {
            let fits = |stack: &Stack| slot < stack.end && stack.low() <= slot + NEAR;
            let others = self.others.iter().filter(|stack| fits(stack));
            let here = Some(&self.stack).filter(|stack| fits(stack));
            let found = here.into_iter().chain(others).min_by_key(|stack| stack.end);
            match found.map(|stack| stack.end) {
                Some(end) => {
                    self.go_to(end);
                }
                None => self.begin_stack(slot, moved),
            }
        }
        self.stack.unwind(slot);
        if self.stack.frames.is_empty() {
            self.stack.end = self.stack.end.max(slot + END_SLACK);
        }
    }

    #[cold]
    fn settle_return(&mut self, slot: u64, target: impl Fn(u64) -> Option<u64>) {
        let moved = std::mem::replace(&mut self.moved, Moved::No);
        if moved == Moved::No {
            return self.stack.unwind(slot);
        }
        let Some(target) = target(slot) else {
            return;
        };
        let stacks = std::iter::once(&self.stack).chain(&self.others);
        let matches = stacks.filter_map(|stack| Some((stack.end, stack.match_of(slot, target)?)));
        let found = matches.max_by_key(|(end, _)| *end == self.stack.end);
        if let Some((end, position)) = found {
            self.go_to(end);
            self.stack.frames.truncate(position);
        } else if let Some(position) = self.stack.position(slot) {
            // An exception, which replaces the address of a call that it ends.
            self.stack.frames.truncate(position);
        } else if moved == Moved::ByProgram {
            self.begin_stack(slot, moved);
        }
    }

    /// Follows what a jump, a return without a place or a signal did.
    #[cold]
    fn settle_block(&mut self, target: u64, is_handler: bool) {
        if std::mem::take(&mut self.returns) {
            self.settle_link(target);
        } else if self.moved == Moved::ByProgram {
            self.settle_jump(target);
        }
        if is_handler {
            self.interrupted();
        }
    }

    /// A signal handler begins. Where a call was under way, its function has not begun, or it is the
    /// handler, which a program may call as well.
    fn interrupted(&mut self) {
        // Handlers that were left by a jump, and handlers that were called, never return as such.
        let (end, depth) = (self.stack.end, self.stack.frames.len());
        self.signals
            .retain(|signal| signal.end != end || signal.depth <= depth);
        self.signals.push(Interrupted { end, depth });
        self.moved = Moved::BySignal;
        if !self.has_called {
            let slot = self.stack.low().saturating_sub(1);
            // The call of a return address is the instruction before it. Blocks are told without their
            // image's number, which all code has in common.
            let top = self.stack.frames.last();
            let code = top.map_or(CodeAddr(0), |top| top.call.returns_to);
            let image = code.0 - local(code);
            let call = Called {
                returns_to: CodeAddr(image + self.block.0 + 1),
                is_hidden: false,
            };
            self.push(call, slot);
        }
    }

    /// Goes to where longjmp or a scheduler jumped to, if a function has returned there or is to.
    fn settle_jump(&mut self, target: u64) {
        let known = self
            .contexts
            .iter()
            .rfind(|context| context.target == target);
        if let Some(context) = known.copied() {
            if self.go_to(context.end) {
                self.stack.unwind(context.slot);
                let (end, depth) = (self.stack.end, self.stack.frames.len());
                self.signals
                    .retain(|signal| signal.end != end || signal.depth <= depth);
                self.moved = Moved::No;
            }
            return;
        }
        let mut stacks = std::iter::once(&self.stack).chain(&self.others);
        let found = stacks.find(|stack| stack.top_returns_to(target));
        if let Some(end) = found.map(|stack| stack.end) {
            self.go_to(end);
            self.stack.frames.pop();
            self.moved = Moved::No;
        }
    }

    /// Ends the calls up to the one that returns to `target`.
    fn settle_link(&mut self, target: u64) {
        self.moved = Moved::No;
        let frames = &mut self.stack.frames;
        let returns_there = |frame: &Frame| local(frame.call.returns_to) == target;
        if let Some(position) = frames.iter().rposition(returns_there) {
            frames.truncate(position);
        }
    }

    /// Goes to the stack that ends at `end`; false if there is none.
    fn go_to(&mut self, end: u64) -> bool {
        if self.stack.end == end {
            return true;
        }
        let Some(position) = self.others.iter().position(|stack| stack.end == end) else {
            return false;
        };
        let stack = self.others.remove(position);
        self.leave_for(stack);
        true
    }

    /// Begins a stack with a place on it. What was on the same memory before is gone.
    fn begin_stack(&mut self, slot: u64, moved: Moved) {
        let end = slot + END_SLACK;
        self.others
            .retain(|other| other.end.abs_diff(end) >= END_SLACK);
        let root = match moved {
            Moved::BySignal => self.path(),
            _ => PathId::EMPTY,
        };
        self.leave_for(Stack {
            frames: Vec::new(),
            end,
            root,
        });
    }

    fn leave_for(&mut self, stack: Stack) {
        let left = std::mem::replace(&mut self.stack, stack);
        if left.frames.is_empty() {
            return;
        }
        if self.others.len() >= STACKS_MAX {
            self.others.remove(0);
        }
        self.others.push(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose calls the test makes.
    struct Program {
        callers: Callers,
        memory: std::collections::BTreeMap<u64, u64>,
    }

    const NO_BLOCK: CodeAddr = CodeAddr(9);

    fn called(returns_to: u64, is_hidden: bool) -> Called {
        Called {
            returns_to: CodeAddr(returns_to),
            is_hidden,
        }
    }

    impl Program {
        fn new() -> Program {
            Program {
                callers: Callers::default(),
                memory: Default::default(),
            }
        }

        fn call(&mut self, returns_to: u64, slot: u64) {
            self.memory.insert(slot, returns_to);
            self.callers.called(called(returns_to, false), slot);
            self.callers.block_begins(NO_BLOCK, false);
        }

        fn ret(&mut self, slot: u64) {
            let memory = &self.memory;
            self.callers.returned(slot, |at| memory.get(&at).copied());
            self.callers.block_begins(NO_BLOCK, false);
        }

        /// Calls from the innermost to the outermost.
        fn chain(&mut self) -> Vec<u64> {
            let path = self.callers.path();
            let mut out = Vec::new();
            self.callers.tree.append_callers(path, 100, &mut out);
            out.iter().map(|code| code.0).collect()
        }
    }

    #[test]
    fn calls_and_returns() {
        let mut program = Program::new();
        assert!(program.chain().is_empty());
        program.call(10, 0x8000);
        program.call(20, 0x7f00);
        assert_eq!(program.chain(), [20, 10]);
        program.call(30, 0x7e00);
        program.ret(0x7e00);
        program.call(31, 0x7e00);
        assert_eq!(program.chain(), [31, 20, 10]);
        program.ret(0x7e00);
        program.ret(0x7f00);
        assert_eq!(program.chain(), [10]);
        // An address that was pushed to be jumped to is no call.
        program.ret(0x7e80);
        assert_eq!(program.chain(), [10]);
        // A first function with less on its stack than at its first call.
        program.ret(0x8000);
        program.call(11, 0x8040);
        assert_eq!(program.chain(), [11]);
    }

    #[test]
    fn calls_that_never_return_are_gone_with_the_next_one() {
        let mut program = Program::new();
        for (call, slot) in [(10, 0x8000), (20, 0x7f00), (30, 0x7e00), (40, 0x7d00)] {
            program.call(call, slot);
        }
        // An exception lands in the function that made call 20.
        program.call(21, 0x7f00);
        assert_eq!(program.chain(), [21, 10]);
        // One that returns into its landing pad from where the call that it ends had its address.
        program.call(30, 0x7e00);
        program.callers.stack_moves();
        program.memory.insert(0x7f00, 777);
        program.ret(0x7f00);
        assert_eq!(program.chain(), [10]);
        program.ret(0x8000);
        assert!(program.chain().is_empty());
    }

    #[test]
    fn longjmp_goes_back_to_where_setjmp_returned() {
        let mut program = Program::new();
        program.call(10, 0x8000);
        program.call(20, 0x7f00); // setjmp
        program.callers.context_saved();
        program.ret(0x7f00);
        program.call(21, 0x7f00);
        program.call(30, 0x7e00);
        program.call(40, 0x7d00); // longjmp
        program.callers.stack_moves();
        assert_eq!(program.chain(), [40, 30, 21, 10]);
        program.callers.block_begins(CodeAddr(20), false);
        assert_eq!(program.chain(), [10]);
    }

    #[test]
    fn coroutines_have_stacks_of_their_own() {
        let mut program = Program::new();
        program.call(10, 0x9000_8000);
        program.call(20, 0x9000_7f00); // swapcontext, to a function that begins
        program.callers.stack_moves();
        program.memory.insert(0x5000, 500);
        program.ret(0x5000);
        assert!(program.chain().is_empty());
        program.call(50, 0x4f00);
        program.call(60, 0x4e00); // swapcontext, back
        assert_eq!(program.chain(), [60, 50]);
        program.callers.stack_moves();
        program.ret(0x9000_7f00);
        assert_eq!(program.chain(), [10]);
        program.call(21, 0x9000_7f00);
        program.callers.stack_moves();
        program.ret(0x4e00);
        assert_eq!(program.chain(), [50]);
        // It ends, and another one begins on the same memory.
        program.call(61, 0x4e00);
        program.callers.stack_moves();
        program.ret(0x9000_7f00);
        program.call(22, 0x9000_7f00);
        program.callers.stack_moves();
        program.ret(0x5000);
        program.call(51, 0x4f00);
        assert_eq!(program.chain(), [51]);
        assert_eq!(program.callers.others.len(), 1);
    }

    #[test]
    fn a_signal_handler_is_called_by_what_it_interrupts_and_leaves_it_as_it_was() {
        for stack in [0x7b00, 0x2_0000_0000] {
            let mut program = Program::new();
            program.call(10, 0x8000);
            program.call(20, 0x7f00);
            program.callers.block_begins(CodeAddr(24), false);
            program.callers.block_begins(CodeAddr(700), true);
            assert_eq!(program.chain(), [25, 20, 10]);
            program.call(710, stack);
            assert_eq!(program.chain(), [710, 25, 20, 10], "{stack:#x}");
            program.ret(stack);
            program.ret(stack + 0x100); // to the code that ends the signal
            program.callers.signal_returns();
            assert_eq!(program.chain(), [20, 10]);
            program.ret(0x7f00);
            assert_eq!(program.chain(), [10]);
        }
        // One that comes before the first instruction of what is called, or is called itself.
        let mut program = Program::new();
        program.call(10, 0x8000);
        program.callers.called(called(20, false), 0x7f00);
        program.callers.block_begins(CodeAddr(700), true);
        assert_eq!(program.chain(), [20, 10]);
        program.call(710, 0x7b00);
        // Another signal while it runs.
        program.callers.called(called(720, false), 0x7a00);
        program.callers.block_begins(CodeAddr(700), true);
        program.callers.signal_returns();
        assert_eq!(program.chain(), [720, 710, 20, 10]);
        program.callers.signal_returns();
        assert_eq!(program.chain(), [20, 10]);
    }

    #[test]
    fn calls_of_the_heap_observer_are_in_no_chain() {
        let mut program = Program::new();
        program.call(10, 0x8000);
        program.callers.called(called(20, true), 0x7f00);
        program.call(30, 0x7e00);
        assert_eq!(program.chain(), [30, 10]);
        program.ret(0x7e00);
        assert_eq!(program.chain(), [10]);
        program.ret(0x7f00);
        assert_eq!(program.chain(), [10]);
    }

    #[test]
    fn an_array_of_variable_length_moves_the_stack_within_a_function() {
        let mut program = Program::new();
        program.call(10, 0x8000);
        program.callers.stack_moves();
        program.call(20, 0x7000);
        assert_eq!(program.chain(), [20, 10]);
        program.callers.stack_moves();
        program.ret(0x7000);
        assert_eq!(program.chain(), [10]);
    }

    #[test]
    fn calls_by_link_return_by_their_address() {
        let mut callers = Callers::default();
        for code in [10, 20, 30, 40] {
            callers.called_by_link(called(code, false));
            callers.block_begins(NO_BLOCK, false);
        }
        let depth = |callers: &Callers| callers.stack.frames.len();
        callers.returns_by_link();
        callers.block_begins(CodeAddr(40), false);
        assert_eq!(depth(&callers), 3);
        // An exception ended two calls.
        callers.returns_by_link();
        callers.block_begins(CodeAddr(20), false);
        assert_eq!(depth(&callers), 1);
        callers.returns_by_link();
        callers.block_begins(CodeAddr(5), false);
        assert_eq!(depth(&callers), 1);
    }

    #[test]
    fn the_recorder_is_told_of_each_call_once() {
        let mut program = Program::new();
        program.call(10, 0x8000);
        program.chain();
        assert_eq!(program.callers.take_new_calls().count(), 1);
        program.call(20, 0x7f00);
        program.chain();
        let calls: Vec<Call> = program.callers.take_new_calls().collect();
        let call = Call {
            before: PathId(1),
            code: CodeAddr(20),
        };
        assert_eq!(calls, [call]);
        let mut child = program.callers.forked();
        assert_eq!(child.take_new_calls().count(), 2);
    }
}
