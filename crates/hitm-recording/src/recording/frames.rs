//! Variables on stacks that threads share: a local variable of `main` that its threads count in has a name too.
//!
//! A recording has no registers, so that it does not say where frames are. But the function's own accesses to its stack
//! do: its code says at which place of the frame the instruction accesses, the recording at which address.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::rc::Rc;

use hitm_base::{CodeAddr, LINE_SIZE, LineAddr};
use hitm_layout::{DataName, FrameVariable, FunctionRef, Symbolizer};

use super::names::{AddressNames, is_of_c_library};

/// Lines whose accesses tell of the frames there, together: a page.
const LINES_TOGETHER: u64 = 4096 / LINE_SIZE;

/// Frames by the first of the lines that tell of them.
#[derive(Debug, Default)]
pub(super) struct Frames(RefCell<BTreeMap<LineAddr, Rc<[Frame]>>>);

/// A function's frame.
#[derive(Debug)]
struct Frame {
    /// The path of the function's file.
    path: String,
    function: FunctionRef,
    base: u64,
    /// Accesses by which it is known.
    access_count: u64,
    /// Virtual addresses of their instructions.
    codes: BTreeSet<u64>,
}

/// A variable in a frame.
struct Found<'f> {
    frame: &'f Frame,
    variable: FrameVariable,
    /// The byte that was asked about.
    offset: u64,
}

impl Frame {
    /// The variable that holds the byte at an address.
    fn at(&self, symbolizer: &mut Symbolizer<'_>, addr: u64) -> Option<Found<'_>> {
        let place = addr.wrapping_sub(self.base).cast_signed();
        let variables = symbolizer.file(&self.path)?.frame_variables(self.function);
        let holding = variables.iter().filter_map(|variable| {
            let offset = variable.byte_at(place)?;
            let is_used = |code: &u64| (variable.begin..variable.end).contains(code);
            let is_live = self.codes.iter().any(is_used);
            let rank = (!variable.is_address_taken, !is_live, variable.size);
            Some((rank, variable, offset))
        });
        // Of variables that lie in each other, the innermost.
        let (_, variable, offset) = holding.min_by_key(|(rank, ..)| *rank)?;
        Some(Found {
            frame: self,
            variable: variable.clone(),
            offset,
        })
    }
}

impl AddressNames<'_> {
    /// Names the data at an address: by the variable of a file, or of a function on its stack.
    pub(super) fn variable(&self, addr: u64, size: u8) -> DataName {
        let name = self.symbolizer.borrow_mut().data(addr, size.into());
        let may_be_stack = name.path.is_none() && addr >> 63 == 0;
        let is_exact = !self.is_inexact && self.kernel.is_none();
        match may_be_stack && is_exact && self.objects.heap_at(addr).is_none() {
            true => self.on_stack(addr, size).unwrap_or(name),
            false => name,
        }
    }

    fn on_stack(&self, addr: u64, size: u8) -> Option<DataName> {
        let frames = self.frames_around(addr);
        let mut symbolizer = self.symbolizer.borrow_mut();
        let found = frames
            .iter()
            .filter_map(|frame| frame.at(&mut symbolizer, addr));
        // The first of equals: frames are in order.
        let rank = |one: &Found<'_>| {
            (
                !one.variable.is_address_taken,
                Reverse(one.frame.access_count),
            )
        };
        let Found {
            frame,
            variable,
            offset,
        } = found.min_by_key(rank)?;
        let file = symbolizer.file(&frame.path)?;
        let start = addr - offset;
        Some(DataName {
            path: Some(frame.path.clone()),
            location: Some(file.frame_location(&variable, start, offset, size.into())),
            place: format!("{addr:#x}"),
        })
    }

    fn frames_around(&self, addr: u64) -> Rc<[Frame]> {
        let line = LineAddr::of(addr).0;
        let first = LineAddr(line - line % LINES_TOGETHER);
        let last = LineAddr(first.0 + LINES_TOGETHER - 1);
        let mut known = self.frames.0.borrow_mut();
        let frames = known.entry(first);
        Rc::clone(frames.or_insert_with(|| self.frames_in(first..=last)))
    }

    fn frames_in(&self, lines: RangeInclusive<LineAddr>) -> Rc<[Frame]> {
        let mut symbolizer = self.symbolizer.borrow_mut();
        let mut accessed: BTreeMap<CodeAddr, _> = BTreeMap::new();
        let mut frames: BTreeMap<(String, FunctionRef, u64), (u64, BTreeSet<u64>)> =
            BTreeMap::new();
        for (line, stats) in self.statistics.lines.range(lines) {
            for (key, row) in &stats.rows {
                let known = accessed.entry(key.code);
                let access = known.or_insert_with(|| symbolizer.frame_access(key.code.0));
                let Some((path, access)) = access else {
                    continue;
                };
                // It shares nothing that lies on its own stack.
                if is_of_c_library(path) {
                    continue;
                }
                let addr = line.first_byte() + u64::from(key.offset);
                let base = addr.wrapping_sub(access.offset.cast_unsigned());
                let frame = frames.entry((path.clone(), access.function, base));
                let (access_count, codes) = frame.or_default();
                *access_count = access_count.saturating_add(row.sources.total());
                codes.insert(access.vaddr);
            }
        }
        let frames = frames.into_iter();
        frames
            .map(|((path, function, base), (access_count, codes))| Frame {
                path,
                function,
                base,
                access_count,
                codes,
            })
            .collect()
    }
}
