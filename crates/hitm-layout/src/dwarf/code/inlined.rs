//! The inlined calls of a function, read once and looked up by address.

use std::ops::Range;

use crate::RangeMap;

use super::super::die::{Die, PcRanges, Walker};
use super::super::sources::View;
use super::super::units::{DieRef, Unit};
use super::MAX_RANGES;

/// Inlined calls that are reported within each other. Compilers stop far earlier.
const MAX_CHAIN: usize = 128;

/// One function of the chain from the machine code's owner to the innermost inlined one.
#[derive(Debug)]
pub(super) struct ChainLink {
    pub(super) name: Option<String>,
    /// File number and line of the call, for an inlined function.
    pub(super) call: Option<(u64, u32)>,
}

/// An inlined call.
#[derive(Debug, Clone)]
struct Call {
    offset: u32,
    /// Index of the call that it lies in; none for one that lies in the function alone.
    outer: Option<u32>,
    /// Its code in [`Inlined::ranges`]: by first address, without overlaps.
    ranges: Range<usize>,
}

/// The inlined calls of a function by the addresses of their code.
#[derive(Debug)]
pub(super) struct Inlined {
    function: DieRef,
    calls: Vec<Call>,
    ranges: Vec<(u64, u64)>,
    /// Indexes of the innermost calls. Of calls beside each other the first one counts.
    innermost: RangeMap<u32>,
}

impl Inlined {
    /// Reads the function at `function`.
    pub(super) fn read<'a>(
        view: &View<'a>,
        unit: &Unit<'a>,
        function: DieRef,
    ) -> gimli::Result<Inlined> {
        let mut read = Inlined {
            function,
            calls: Vec::new(),
            ranges: Vec::new(),
            innermost: RangeMap::default(),
        };
        let mut attributes = Vec::new();
        let mut budget = MAX_RANGES;
        let mut walker = Walker::new(unit, Some(function.offset))?;
        // Depths and indexes of the calls that the walk is in, and indexes of those that it has left.
        let (mut open, mut left): (Vec<(isize, u32)>, Vec<u32>) = Default::default();
        // Entries below this depth belong to a function nested in this one.
        let mut nested: Option<isize> = None;
        while let Some(step) = walker.next()? {
            if step.depth == 0 || nested.is_some_and(|depth| step.depth > depth) {
                continue;
            }
            nested = (step.tag == gimli::DW_TAG_subprogram).then_some(step.depth);
            while let Some((_, index)) = open.pop_if(|(depth, _)| *depth >= step.depth) {
                left.push(index);
            }
            // Calls further inside are never reported.
            if step.tag != gimli::DW_TAG_inlined_subroutine || open.len() >= MAX_CHAIN - 1 {
                continue;
            }
            walker.read(&mut attributes)?;
            let mut ranges = Vec::new();
            let code = PcRanges::of(&attributes);
            code.each(&view.dwarf_of(function.unit), unit, &mut budget, |range| {
                ranges.push((range.begin, range.end));
            })?;
            let outer = open.last().map(|(_, index)| *index);
            open.push((step.depth, read.push(step.offset, outer, ranges)));
        }
        left.extend(open.iter().rev().map(|(_, index)| *index));
        // Calls before those within them, and those behind them first.
        for index in left.into_iter().rev() {
            let ranges = read.calls[index as usize].ranges.clone();
            for (begin, end) in &read.ranges[ranges] {
                read.innermost.insert(*begin..*end, index);
            }
        }
        Ok(read)
    }

    /// Adds a call and returns its index.
    fn push(&mut self, offset: u32, outer: Option<u32>, mut ranges: Vec<(u64, u64)>) -> u32 {
        ranges.sort_unstable();
        let first = self.ranges.len();
        for (begin, end) in ranges {
            match self.ranges[first..].last_mut() {
                Some(before) if begin <= before.1 => before.1 = before.1.max(end),
                _ => self.ranges.push((begin, end)),
            }
        }
        self.calls.push(Call {
            offset,
            outer,
            ranges: first..self.ranges.len(),
        });
        // An entry has at least one byte of a unit, whose offsets have 32 bits.
        (self.calls.len() - 1) as u32
    }

    /// Calls and their ranges, and the function.
    pub(super) fn len(&self) -> usize {
        1 + self.calls.len() + self.ranges.len()
    }

    /// The function and the inlined calls in it that cover the address, outermost first.
    pub(super) fn chain<'a>(
        &self,
        view: &View<'a>,
        unit: &Unit<'a>,
        address: u64,
    ) -> gimli::Result<Vec<ChainLink>> {
        let mut offsets = Vec::new();
        let mut next = self.innermost.at(address);
        while let Some(index) = next {
            let call = &self.calls[index as usize];
            if self.covers(call, address) {
                offsets.push(call.offset);
            }
            next = call.outer;
        }
        offsets.push(self.function.offset);
        let links = offsets.into_iter().rev().map(|offset| {
            let at = DieRef {
                offset,
                ..self.function
            };
            let entry = view.die(unit, at)?;
            Ok(ChainLink {
                name: view.function_name(unit, &entry),
                call: call_site(&entry),
            })
        });
        links.collect()
    }

    /// Returns true if the call has code at the address. Damaged calls have none where those within them
    /// have some.
    fn covers(&self, call: &Call, address: u64) -> bool {
        let ranges = &self.ranges[call.ranges.clone()];
        let after = ranges.partition_point(|(begin, _)| *begin <= address);
        ranges[..after]
            .last()
            .is_some_and(|(_, end)| address < *end)
    }
}

fn call_site(entry: &Die<'_>) -> Option<(u64, u32)> {
    let file = match entry.get(gimli::DW_AT_call_file)? {
        gimli::AttributeValue::FileIndex(index) => index,
        other => other.udata_value()?,
    };
    let line = entry.u64(gimli::DW_AT_call_line)?;
    Some((file, u32::try_from(line).ok()?))
}
