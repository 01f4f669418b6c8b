//! Functions of an access, from its own outwards: those that the compiler put into one another, and those of
//! its call chain.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use hitm_base::CodeAddr;

use crate::names::Names;
use crate::skip::SkippedFunctions;

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
    is_skipped: bool,
}

/// A place among the functions of an access: the one of so many instructions outwards, and in that the one
/// of so many inlined ones outwards.
type Place = (usize, usize);

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
        let (instruction, inlined) = first_counted(&all)?;
        Some(all[instruction][inlined].name.clone())
    }

    /// The function that called that one; none when it is not known, or nobody did.
    pub(super) fn caller(&self, code: CodeAddr, chain: &[CodeAddr]) -> Option<String> {
        let all = self.all(code, chain);
        let (instruction, _) = first_counted(&all)?;
        let counted = all[instruction].last()?;
        let mut callers = all[instruction + 1..].iter();
        let first = callers.next()?.first()?;
        // Samples are taken a moment late: the first call is none.
        let is_none = self.are_samples && instruction == 0 && first.name == counted.name;
        let caller = match is_none {
            true => callers.next()?.first()?,
            false => first,
        };
        (!caller.name.is_empty()).then(|| caller.name.clone())
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
            let functions = frames.map(|frame| Function {
                is_skipped: self.skip.contains(&frame.function),
                name: frame.function,
            });
            functions.collect()
        };
        known.entry(code).or_insert_with(find).clone()
    }
}

/// The place of the function that an access is counted for; none when the access has no function with a
/// name. If all are skipped, its own counts.
fn first_counted(all: &[Rc<[Function]>]) -> Option<Place> {
    let own = all.first()?.first()?;
    if own.name.is_empty() {
        return None;
    }
    for (instruction, functions) in all.iter().enumerate() {
        let counted = |function: &Function| !function.is_skipped && !function.name.is_empty();
        if let Some(inlined) = functions.iter().position(counted) {
            return Some((instruction, inlined));
        }
    }
    Some((0, 0))
}
