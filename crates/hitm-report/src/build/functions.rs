//! Functions of an access, from its own outwards: those that the compiler put into one another, and those of
//! its call chain.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use hitm_base::CodeAddr;
use hitm_recording::CodeLabel;

use crate::names::Names;
use crate::skip::{SkippedFunctions, is_atomic, is_of_runtime};

/// Names the functions of accesses. Each address is asked for once.
pub(super) struct Functions<'a> {
    names: &'a dyn Names,
    skip: &'a SkippedFunctions,
    are_samples: bool,
    /// By address of an instruction, the innermost first.
    known: RefCell<BTreeMap<CodeAddr, Rc<[Function]>>>,
}

struct Function {
    name: String,
    /// Its source, at the access or the call.
    label: CodeLabel,
    /// The function locks, counts or allocates for others.
    is_skipped: bool,
    /// The function is of the C library, or of a language's library or runtime.
    is_of_language: bool,
}

impl Function {
    /// Returns true for a function that those who wrote the program call their own.
    fn is_own(&self) -> bool {
        !self.is_skipped && !self.is_of_language && !self.name.is_empty()
    }

    /// Returns false for a place in a stripped library, as `libz.so.1!func@0x1a2b` and `libz.so.1+0x1a2b`. One in
    /// a stripped program is still nearer to its author than a library's function that has a name.
    fn says_where(&self) -> bool {
        let is_named = !self.name.contains("func@0x") && !self.name.contains("+0x");
        is_named || !self.name.contains(".so")
    }
}

impl<'a> Functions<'a> {
    pub(super) fn new(
        names: &'a dyn Names,
        skip: &'a SkippedFunctions,
        are_samples: bool,
    ) -> Functions<'a> {
        Functions {
            names,
            skip,
            are_samples,
            known: RefCell::default(),
        }
    }

    /// The function that an access is counted for: its own, or the first around it that is not skipped.
    /// None when it has no name.
    pub(super) fn counted_for(&self, code: CodeAddr, chain: &[CodeAddr]) -> Option<String> {
        let all = self.all(code, chain);
        let own = all.first()?;
        if own.first()?.name.is_empty() {
            return None;
        }
        let mut functions = all.iter().flat_map(|functions| functions.iter());
        let counted = functions.find(|one| !one.is_skipped && !one.name.is_empty());
        // If all are skipped, its own counts.
        Some(counted.unwrap_or(&own[0]).name.clone())
    }

    /// The function that called that of an access, inlined or not: the first outside of what locks, counts or
    /// allocates for others and of languages' libraries, and of these the first that is no place in a stripped library.
    /// The nearest if there is none; none when it is not known, or nobody called.
    pub(super) fn caller(&self, code: CodeAddr, chain: &[CodeAddr]) -> Option<String> {
        let mut all = self.all(code, chain);
        let own = Rc::clone(all.first()?);
        // A library's one-liner stands for the function that it is inlined in, if it is no lock.
        let label = own.iter().position(|one| !one.is_of_language).unwrap_or(0);
        let is_lock = own[..label]
            .iter()
            .any(|one| one.is_skipped && !is_atomic(&one.name));
        // Samples are taken a moment late: the first call is none.
        let is_late =
            |first: &Rc<[Function]>| first.first().is_some_and(|one| one.name == own[label].name);
        if self.are_samples && all.get(1).is_some_and(is_late) {
            all.remove(1);
        }
        let places = all
            .iter()
            .flat_map(|functions| (0..functions.len()).map(move |at| Place { functions, at }));
        let mut callers = places.skip(label + usize::from(!is_lock));
        let mut of_program = callers.clone().filter(|place| place.function().is_own());
        let nearest = of_program.clone().next().or(callers.next());
        let caller = of_program
            .find(|place| place.function().says_where())
            .or(nearest)?;
        (!caller.function().name.is_empty()).then(|| caller.name())
    }

    /// The place of an access in the program's own source: in its function, or the first around it that neither locks
    /// nor is of a language. Its own place if there is none; none when that has no name.
    pub(super) fn place(&self, code: CodeAddr, chain: &[CodeAddr]) -> Option<CodeLabel> {
        let all = self.all(code, chain);
        let mut functions = all.iter().flat_map(|functions| functions.iter());
        let own = functions
            .clone()
            .find(|one| one.is_own() && one.says_where());
        let place = own.or(functions.next())?;
        (!place.name.is_empty()).then(|| place.label.clone())
    }

    /// The library's function that the program has called for an access; none for an access of the program's own.
    pub(super) fn called_by_program(&self, code: CodeAddr, chain: &[CodeAddr]) -> Option<String> {
        let all = self.all(code, chain);
        let functions: Vec<&Function> = all.iter().flat_map(|one| one.iter()).collect();
        let own = functions.iter().position(|one| one.is_own())?;
        let mut named = functions[..own].iter().filter(|one| !one.name.is_empty());
        named.next_back().map(|one| one.name.clone())
    }

    /// All functions that were running, each once.
    pub(super) fn running(&self, code: CodeAddr, chain: &[CodeAddr]) -> Vec<Option<String>> {
        let all = self.all(code, chain);
        let functions = all.iter().flat_map(|functions| functions.iter());
        let names: BTreeSet<&str> = functions.map(|function| function.name.as_str()).collect();
        let names = names.into_iter();
        names
            .map(|name| (!name.is_empty()).then(|| name.to_owned()))
            .collect()
    }

    /// The functions of an access and of its callers.
    fn all(&self, code: CodeAddr, chain: &[CodeAddr]) -> Vec<Rc<[Function]>> {
        // A return address: the call is the instruction before.
        let calls = chain.iter().map(|code| CodeAddr(code.0.saturating_sub(1)));
        let codes = std::iter::once(code).chain(calls);
        codes.map(|code| self.at(code)).collect()
    }

    fn at(&self, code: CodeAddr) -> Rc<[Function]> {
        let mut known = self.known.borrow_mut();
        let find = || {
            let frames = self.names.code_frames(code).into_iter().rev();
            let is_of_library = self.names.is_of_library(code);
            let functions = frames.map(|frame| Function {
                is_skipped: self.skip.contains(&frame.function),
                is_of_language: is_of_library
                    || frame.is_of_language()
                    || is_of_runtime(&frame.function),
                name: frame.function.clone(),
                label: frame,
            });
            functions.collect()
        };
        known.entry(code).or_insert_with(find).clone()
    }
}

/// A function among those at an instruction, the innermost first.
#[derive(Clone, Copy)]
struct Place<'f> {
    functions: &'f [Function],
    at: usize,
}

impl Place<'_> {
    fn function(&self) -> &Function {
        &self.functions[self.at]
    }

    /// The function's name, and which the compiler has put it into.
    fn name(&self) -> String {
        let name = &self.function().name;
        match self.functions[self.at + 1..].last() {
            Some(outer) => format!("{name} (inlined in {})", outer.name),
            None => name.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_places_in_stripped_libraries_say_nothing() {
        let says_where = |name: &str| {
            let label = CodeLabel {
                function: name.to_owned(),
                file: String::new(),
                line: 0,
            };
            let one = Function {
                name: name.to_owned(),
                label,
                is_skipped: false,
                is_of_language: false,
            };
            one.says_where()
        };
        assert!(says_where("deposit"));
        assert!(says_where("memcached!func@0x16260"));
        assert!(!says_where("libevent-2.1.so.7!func@0x1a2b"));
        assert!(!says_where("libz.so.1+0x1a2b"));
    }
}
