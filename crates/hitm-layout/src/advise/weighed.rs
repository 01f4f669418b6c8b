//! A given layout, line by line: what each costs and who is in it.

use std::collections::BTreeMap;

use super::atoms::LINE;
use super::demand::Demand;
use super::line::LineCost;

/// The profile's traffic on one line of a layout.
#[derive(Debug, Clone, PartialEq)]
pub struct LineReport {
    /// The instance that begins first in the line.
    pub instance: u32,
    /// The line, counted from the one with the instance's first byte.
    pub line: u64,
    /// Paths of the members that are touched there.
    pub members: Vec<String>,
    /// Cost of the line.
    pub cost: LineCost,
}

/// A layout and its cost.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Weighed {
    /// Lines that one instance takes.
    pub lines: u64,
    /// The sum of its lines.
    pub cost: LineCost,
    /// The lines that are touched, in order of address.
    pub per_line: Vec<LineReport>,
    /// The steps of weighing it.
    pub(super) steps: u64,
}

impl Demand {
    /// Weighs a layout of `size_bytes` in which `locate` finds a member's offset and size. `bases`
    /// has the addresses of instances that may share lines; the others begin at lines of their own.
    /// Answers the first path that is not found as an error.
    pub fn weigh_layout(
        &self,
        size_bytes: u64,
        bases: &BTreeMap<u32, u64>,
        locate: &dyn Fn(&str) -> Option<(u64, u64)>,
    ) -> Result<Weighed, String> {
        let mut by_line: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (index, spot) in self.spots.iter().enumerate() {
            let (offset, size) = locate(&spot.path).ok_or_else(|| spot.path.clone())?;
            let start = base_of(spot.instance, bases).saturating_add(offset);
            let end = start.saturating_add(size.max(1));
            for line in start / LINE..end.div_ceil(LINE) {
                by_line.entry(line).or_default().push(index);
            }
        }
        let mut total = LineCost::default();
        let mut per_line = Vec::new();
        let mut steps = 0;
        for (line, spots) in by_line {
            let (cost, line_steps) = self.spots_cost(&spots);
            steps += line_steps;
            total.add(&cost);
            let instance = spots
                .iter()
                .map(|spot| self.spots[*spot].instance)
                .min()
                .unwrap_or(0);
            let first = base_of(instance, bases) / LINE;
            let mut members: Vec<String> = spots
                .iter()
                .map(|spot| self.spots[*spot].path.clone())
                .collect();
            members.sort_unstable();
            members.dedup();
            per_line.push(LineReport {
                instance,
                line: line - first,
                members,
                cost,
            });
        }
        Ok(Weighed {
            lines: size_bytes.div_ceil(LINE),
            cost: total,
            per_line,
            steps,
        })
    }
}

/// Instances without a known address are so far apart that they never share a line.
pub(super) fn base_of(instance: u32, bases: &BTreeMap<u32, u64>) -> u64 {
    bases
        .get(&instance)
        .copied()
        .unwrap_or((u64::from(instance) + 1) << 31)
}
