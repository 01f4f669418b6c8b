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
use hitm_layout::{DataName, FrameAccess, FrameVariable, FunctionRef, Symbolizer};

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
        let mut code = Code {
            symbolizer: &mut symbolizer,
            known: BTreeMap::new(),
        };
        let mut told = Told::default();
        for (line, stats) in self.statistics.lines.range(lines) {
            for (key, row) in &stats.rows {
                let addr = line.first_byte() + u64::from(key.offset);
                told.add(code.known(key.code, None), addr, row.sources.total());
                for (chain, counts) in self.statistics.calls.of_row(*line, *key) {
                    let back = chain.first().copied();
                    if back.is_some() {
                        told.add(code.known(key.code, back), addr, counts.access_count);
                    }
                }
            }
        }
        told.0.into_values().collect()
    }
}

/// A place in a frame, by what an access says of it.
struct Place {
    path: String,
    access: FrameAccess,
    /// Bytes from that place to what is accessed.
    into: u64,
}

/// Code that says where frames are.
struct Code<'s> {
    symbolizer: &'s mut Symbolizer<'static>,
    /// By the instruction, and the address that its function returns to.
    known: BTreeMap<(CodeAddr, Option<CodeAddr>), Vec<Place>>,
}

impl Code<'_> {
    /// Places in frames that an access tells of: in that of its own function, or, with the address that this one returns
    /// to, in that of the caller.
    fn known(&mut self, code: CodeAddr, back: Option<CodeAddr>) -> &[Place] {
        let symbolizer = &mut *self.symbolizer;
        let places = self.known.entry((code, back));
        places.or_insert_with(|| {
            let mut places = match back {
                None => own_places(symbolizer, code),
                Some(back) => callers_places(symbolizer, code, back),
            };
            // The C library shares nothing that lies on its own stack.
            places.retain(|place| !is_of_c_library(&place.path));
            places
        })
    }
}

fn own_places(symbolizer: &mut Symbolizer<'_>, code: CodeAddr) -> Vec<Place> {
    let found = symbolizer.frame_access(code.0).into_iter();
    let places = found.map(|(path, access)| Place {
        path,
        access,
        into: 0,
    });
    places.collect()
}

/// The variables of a caller that a function was given the address of and accesses, as their types say.
fn callers_places(symbolizer: &mut Symbolizer<'_>, code: CodeAddr, back: CodeAddr) -> Vec<Place> {
    let mut find = || {
        let (path, arguments) = symbolizer.frame_arguments(back.0)?;
        if arguments.is_empty() {
            return None;
        }
        let (of_path, accessed) = symbolizer.accessed_type(code.0)?;
        if of_path != path || accessed.is_stepped {
            return None;
        }
        let file = symbolizer.file(&path)?;
        let is_of_type = |access: &FrameAccess| {
            let variables = file.frame_variables(access.function);
            let types = file.types();
            variables.iter().any(|variable| {
                let begins_there = variable.byte_at(access.offset) == Some(0);
                begins_there && types.is_same(variable.type_id, accessed.type_id)
            })
        };
        let arguments = arguments.into_iter().filter(is_of_type);
        let places = arguments.map(|access| Place {
            path: path.clone(),
            access,
            into: accessed.offset,
        });
        Some(places.collect())
    };
    find().unwrap_or_default()
}

/// Frames that accesses told of.
#[derive(Default)]
struct Told(BTreeMap<(String, FunctionRef, u64), Frame>);

impl Told {
    /// Adds accesses at an address, and the places that they tell of.
    fn add(&mut self, places: &[Place], addr: u64, access_count: u64) {
        for Place { path, access, into } in places {
            let function = access.function;
            let base = addr.wrapping_sub(*into);
            let base = base.wrapping_sub(access.offset.cast_unsigned());
            let frame = self.0.entry((path.clone(), function, base));
            let frame = frame.or_insert_with(|| Frame {
                path: path.clone(),
                function,
                base,
                access_count: 0,
                codes: BTreeSet::new(),
            });
            frame.access_count = frame.access_count.saturating_add(access_count);
            frame.codes.insert(access.vaddr);
        }
    }
}
