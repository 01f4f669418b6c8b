//! Members that a kernel's instructions access, by its BTF.
//!
//! BTF says what functions are given and what they return, and what members point at; not where
//! variables are. So a function's pointers are those that it is given, that calls return, and that it
//! loads from objects.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use hitm_base::Architecture;

use super::function::{Analysis, Code};
use super::insn::{Convention, Effect, Insn, Next, Own};
use super::types::{Part, Types};
use super::{
    AccessedType, Argument, CodeBytes, FunctionIndex, FunctionTypes, INSNS_MAX, convention,
    decode_code,
};
use crate::btf::Prototype;
use crate::dwarf::{FunctionLocals, Local, LocalPlace};
use crate::types::{TypeId, TypeKind, TypeStore};
use crate::{AccessPath, BtfFile, BtfVariable, LeafList};

/// Members that a kernel's instructions access, by its BTF alone.
///
/// `N` tells the name of the function that begins at an address, as /proc/kallsyms has it.
///
/// Not known are pointers that come out of `void *` and numbers, that a function has from an indirect call, and
/// those to an object around the one that a pointer is declared to point at, unless the function
/// made the pointer from one to the object.
pub struct BtfFlow<N> {
    btf: BtfFile,
    architecture: Architecture,
    name_of: N,
    per_cpu: PerCpu,
    /// By first address.
    functions: FunctionIndex<u64>,
}

/// A function of a kernel.
#[derive(Debug, Clone, Copy)]
pub struct KernelFunction<'f> {
    /// Its name, as /proc/kallsyms has it.
    pub name: &'f str,
    /// Its machine code, from its first byte on.
    pub code: CodeBytes<'f>,
}

impl<N> fmt::Debug for BtfFlow<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("BtfFlow");
        shown.field("btf", &self.btf).finish_non_exhaustive()
    }
}

impl<N: Fn(u64) -> Option<String>> BtfFlow<N> {
    /// Takes a kernel's BTF, and for functions of a module the module's.
    pub fn new(btf: BtfFile, architecture: Architecture, name_of: N) -> BtfFlow<N> {
        BtfFlow {
            per_cpu: PerCpu::new(&btf),
            btf,
            architecture,
            name_of,
            functions: FunctionIndex::default(),
        }
    }

    /// Takes the code of the kernel's `bpf_get_current_task`. Where an x86-64 kernel keeps the task that a CPU runs
    /// says where its other variables for each CPU are. Linux 6.14 and earlier have them at address 0.
    pub fn set_current(&mut self, code: CodeBytes<'_>) {
        let insns = decode_code(self.architecture, code.bytes, code.begin);
        let mut effects = insns.iter().flat_map(|insn| &insn.effects);
        let own = effects.find_map(|effect| match effect {
            Effect::Own { own, .. } => Some(*own),
            _ => None,
        });
        let offset = self.per_cpu.offset(&["current_task", "pcpu_hot"]);
        if let (Some(Own::Variable(at)), Some(offset)) = (own, offset) {
            self.set_per_cpu(at.wrapping_sub(offset));
        }
    }

    /// Takes the address of the kernel's symbol `__per_cpu_start`.
    pub fn set_per_cpu(&mut self, start: u64) {
        self.per_cpu.start = start;
        self.functions = FunctionIndex::default();
    }

    /// The object that the instruction at an address accesses. A function's code is read once: later changes
    /// to it are not seen.
    pub fn access(&mut self, function: &KernelFunction<'_>, at: u64) -> Option<AccessedType> {
        self.types_of(function).accesses.get(&at).copied()
    }

    /// The object that argument `number`, counted from 0, of a call points into. `call` is the address
    /// after the call, as stacks have it. So the function that takes a lock says which object has it.
    pub fn argument(
        &mut self,
        function: &KernelFunction<'_>,
        call: u64,
        number: usize,
    ) -> Option<AccessedType> {
        let found = self.types_of(function);
        found.arguments.get(&Argument { call, number }).copied()
    }

    /// The BTF, with the types that were found.
    pub fn btf(&mut self) -> &mut BtfFile {
        &mut self.btf
    }

    /// The name of the type of an accessed object: `files_struct`, without `struct`.
    pub fn name(&self, accessed: &AccessedType) -> &str {
        let types = self.btf.types();
        let layout = types.layout(accessed.type_id);
        let own = layout.and_then(|layout| layout.name.as_deref());
        own.unwrap_or(&types.get(accessed.type_id).name)
    }

    /// The members that an access touches, behind the type's name: `files_struct.file_lock`.
    pub fn path(&self, accessed: &AccessedType) -> AccessPath {
        let types = self.btf.types();
        let size = types.get(accessed.type_id).size.unwrap_or(0);
        let end = accessed.offset.saturating_add(accessed.bytes.max(1));
        let range = accessed.offset..end;
        let is_long = accessed.bytes > 1;
        let leaves = LeafList::find(types, accessed.type_id, size, range.clone(), is_long);
        AccessPath::new(self.name(accessed), leaves, range)
    }

    fn types_of(&mut self, function: &KernelFunction<'_>) -> Arc<FunctionTypes> {
        let start = function.code.begin;
        if let Some(known) = self.functions.functions.get(&start) {
            return known.clone();
        }
        let found = self.run(function);
        self.functions.keep(start, found)
    }

    fn run(&mut self, function: &KernelFunction<'_>) -> FunctionTypes {
        let CodeBytes { begin, bytes } = function.code;
        let end = begin.checked_add(bytes.len() as u64);
        let mut insns = decode_code(self.architecture, bytes, begin);
        // Code that is cut off could be jumped over.
        let Some(end) = end.filter(|_| insns.len() < INSNS_MAX) else {
            return FunctionTypes::default();
        };
        let convention = convention(self.architecture);
        let mut locals = FunctionLocals::default();
        locals.ranges.push(gimli::Range { begin, end });
        if let Some(prototype) = self.btf.prototype(function.name) {
            locals.locals = self.parameters(&prototype, begin, convention);
            locals.result = Some(prototype.result);
        }
        locals.call_results = self.call_results(&mut insns);
        let code = Code {
            insns,
            convention,
            is_kernel: true,
        };
        let types = BtfTypes {
            btf: &mut self.btf,
            per_cpu: &self.per_cpu,
            name_of: &self.name_of,
        };
        Analysis::new(types, &locals, code).run()
    }

    /// The parameters that registers have at a function's first instruction.
    fn parameters(
        &mut self,
        prototype: &Prototype,
        begin: u64,
        convention: &Convention,
    ) -> Vec<Local<u32>> {
        let mut left = convention.arguments.iter();
        let mut found = Vec::new();
        for of_type in &prototype.parameters {
            let Some(words) = self.words(*of_type) else {
                break;
            };
            // What does not fit is on the stack as a whole.
            if words > left.len() as u64 {
                continue;
            }
            found.extend((0..words).zip(left.by_ref()).map(|(word, register)| Local {
                begin,
                end: begin + 1,
                place: LocalPlace::Value {
                    register: u16::from(*register),
                    addend: 0,
                    part: word * WORD,
                },
                of_type: *of_type,
                variable: None,
            }));
        }
        found
    }

    /// Registers that a parameter is passed in; none when that is not known, also of those behind it.
    fn words(&mut self, parameter: u32) -> Option<u64> {
        let id = self.btf.read(parameter);
        let types = self.btf.types();
        let size = types.get(id).size?;
        let words = size.div_ceil(WORD);
        match types.get(types.resolve(id)).kind {
            TypeKind::Base | TypeKind::Enum | TypeKind::Pointer => (words == 1).then_some(1),
            // A large one is on x86-64's stack; aarch64 passes its address.
            TypeKind::Aggregate(_) if words > 2 => match self.architecture {
                Architecture::X86_64 => Some(0),
                Architecture::Aarch64 => None,
            },
            TypeKind::Aggregate(_) => Some(words),
            _ => None,
        }
    }

    /// Results of calls, by the address after the call. The call of a tracer at a function's begin becomes
    /// none: it leaves all registers as they are.
    fn call_results(&mut self, insns: &mut [Insn]) -> BTreeMap<u64, u32> {
        let mut found = BTreeMap::new();
        for index in 0..insns.len() {
            let Next::Call(Some(target)) = insns[index].next else {
                continue;
            };
            let name = (self.name_of)(target);
            let is_tracer = name.as_deref().is_none_or(|name| name == "__fentry__");
            if is_tracer && is_at_begin(&insns[..index]) {
                insns[index].next = Next::Follow;
                continue;
            }
            // A copy of a function for some callers, `name.isra.0`, may be given other parameters, but returns
            // the same.
            let name = name.as_deref().and_then(|name| name.split('.').next());
            let prototype = name.and_then(|name| self.btf.prototype(name));
            if let (Some(prototype), Some(after)) = (prototype, insns.get(index + 1)) {
                found.insert(after.address, prototype.result);
            }
        }
        found
    }
}

/// Returns true if the instructions before another one are what compilers put before a function's own.
fn is_at_begin(before: &[Insn]) -> bool {
    let mut effects = before.iter().flat_map(|insn| &insn.effects);
    let is_plain = |effect: &Effect| matches!(effect, Effect::Copy { .. } | Effect::Clobber { .. });
    before.len() <= 2 && effects.all(is_plain)
}

/// Variables that each CPU has a copy of.
struct PerCpu {
    /// The address that their offsets are counted from.
    start: u64,
    /// By offset.
    variables: Vec<BtfVariable>,
}

impl PerCpu {
    /// The section that a kernel has them in.
    const SECTION: &str = ".data..percpu";

    fn new(btf: &BtfFile) -> PerCpu {
        let mut variables = btf.variables();
        variables.retain(|variable| variable.section.as_deref() == Some(PerCpu::SECTION));
        variables.sort_by_key(|variable| variable.offset);
        PerCpu {
            start: 0,
            variables,
        }
    }

    /// The variable that has the byte at an offset.
    fn variable(&self, at: u64) -> Option<&BtfVariable> {
        let after = self.variables.partition_point(|own| own.offset <= at);
        let nearest = self.variables[..after].last()?;
        (at - nearest.offset < nearest.size).then_some(nearest)
    }

    /// The offset of the first variable with one of these names.
    fn offset(&self, names: &[&str]) -> Option<u64> {
        let mut all = self.variables.iter();
        let found = all.find(|own| names.contains(&own.name.as_str()));
        found.map(|variable| variable.offset)
    }
}

/// Types of BTF.
struct BtfTypes<'b, N> {
    btf: &'b mut BtfFile,
    per_cpu: &'b PerCpu,
    name_of: &'b N,
}

impl<N: Fn(u64) -> Option<String>> Types for BtfTypes<'_, N> {
    /// The id of a type's record.
    type At = u32;

    fn store(&self) -> &TypeStore {
        self.btf.types()
    }

    fn read(&mut self, at: u32) -> TypeId {
        self.btf.read(at)
    }

    fn pointee(&mut self, pointer: TypeId) -> Option<TypeId> {
        self.btf.pointee(pointer)
    }

    fn type_parameter(&mut self, _: TypeId) -> Option<TypeId> {
        None
    }

    /// Kernels describe no variables but those of each CPU.
    fn variable(&mut self, _: u64) -> Option<Part> {
        None
    }

    fn per_cpu(&mut self, address: u64) -> Option<Part> {
        let at = address.wrapping_sub(self.per_cpu.start);
        let variable = self.per_cpu.variable(at)?;
        Some(Part {
            of: self.btf.variable_type(variable),
            offset: at - variable.offset,
        })
    }

    fn holds_distance(&self, address: u64) -> bool {
        let at = address.wrapping_sub(self.per_cpu.start);
        let variable = self.per_cpu.variable(at);
        variable.is_some_and(|variable| variable.name == "this_cpu_off")
            || (self.name_of)(address).is_some_and(|name| name == "__per_cpu_offset")
    }

    fn task(&mut self) -> Option<TypeId> {
        self.btf.type_by_name("struct task_struct")
    }
}

/// Bytes of a register.
const WORD: u64 = 8;

#[cfg(test)]
mod tests;
