//! The cheapest partition of a few atoms into lines, for every number of lines.
//!
//! The cost of a line is no sum over its members. So an integer programme would need a variable for
//! each set of atoms that fits a line: a set partitioning. The dynamic programme over subsets goes
//! over the same sets once and answers for all numbers of lines together, without a solver.
//! `best[n][set]` is the least of `cost[part] + best[n - 1][set without part]` over the parts of
//! `set` that hold its first atom. That takes `3^k` steps for `k` atoms.

use super::bins::{Gap, Weigher};

/// The most atoms that are partitioned exactly: 3^12 = 531,441 steps for each number of lines.
pub(super) const EXACT_ATOMS_MAX: usize = 12;

/// A partition of the atoms: those in each bin, and those in each line of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assignment {
    /// The cost in thousandths of a cycle.
    pub(super) cost: u64,
    /// For each of the weigher's bins.
    pub(super) bins: Vec<Vec<usize>>,
    /// Lines of their own.
    pub(super) lines: Vec<Vec<usize>>,
}

/// Number of the most used atoms, at most [`EXACT_ATOMS_MAX`], are partitioned exactly in `steps`.
///
/// A subset is taken to cost as much as the more used half of them in one line.
pub(super) fn atoms_within(weigher: &Weigher<'_>, steps: u64) -> usize {
    let most = weigher.hot.len().min(EXACT_ATOMS_MAX);
    let places = (0..weigher.bins.len()).map(Some).chain([None]);
    let half = &weigher.hot[..most.div_ceil(2)];
    let of_a_set: u64 = places.map(|bin| weigher.steps_of(bin, half)).sum();
    let of_partition = |count: usize| {
        let prices = of_a_set.saturating_mul(1 << count);
        prices.saturating_add(table_steps(weigher, count))
    };
    let fitting = (1..=most).rev().find(|count| of_partition(*count) <= steps);
    fitting.unwrap_or(most.min(1))
}

/// Steps of the tables over subsets of `count` atoms.
fn table_steps(weigher: &Weigher<'_>, count: usize) -> u64 {
    3u64.pow(count as u32) * (weigher.bins.len() + count) as u64
}

type Set = u32;

/// A table over sets: the least cost and the part that was taken last.
type Table = Vec<Option<(u64, Set)>>;

/// The cheapest assignments of `hot` to the bins and to 0, 1, 2 ... lines of their own.
pub(super) fn partitions(weigher: &Weigher<'_>, hot: &[usize]) -> Vec<Option<Assignment>> {
    assert!(
        hot.len() <= EXACT_ATOMS_MAX,
        "more atoms than the tables hold"
    );
    let full: Set = (1 << hot.len()) - 1;
    weigher.work.spend(table_steps(weigher, hot.len()));
    let mut in_bins: Vec<Table> = Vec::new();
    let mut before: Table = vec![None; full as usize + 1];
    before[0] = Some((weigher.constant, 0));
    for (index, bin) in weigher.bins.iter().enumerate() {
        let costs = costs_of(weigher, hot, Some(index), bin.free);
        before = with_part(&before, &costs, parts);
        in_bins.push(before.clone());
    }
    let costs = costs_of(weigher, hot, None, Gap::WHOLE_LINE);
    let mut in_lines: Vec<Table> = vec![before];
    let mut found = Vec::new();
    for count in 0..=hot.len() {
        found.push(trace(weigher, hot, &in_bins, &in_lines[..=count]));
        // A line holds something; lines are told apart by nothing, so the sets that they are taken
        // from may be in any order.
        let some = |set| parts(set).filter(|part| *part != 0);
        in_lines.push(with_part(&in_lines[count], &costs, some));
    }
    found
}

/// The table of sets of which one more part is taken, one of its `parts`.
fn with_part<P: Iterator<Item = Set>>(
    rest: &Table,
    costs: &[Option<u64>],
    parts: impl Fn(Set) -> P,
) -> Table {
    let best = |set: usize| {
        let sums = parts(set as Set).filter_map(|part| {
            let (rest, _) = rest[set ^ part as usize]?;
            Some((costs[part as usize]? + rest, part))
        });
        sums.reduce(|best, other| if other.0 < best.0 { other } else { best })
    };
    (0..rest.len()).map(best).collect()
}

/// Every subset of `set`, itself and nothing included.
fn parts(set: Set) -> impl Iterator<Item = Set> {
    let mut next = Some(set);
    std::iter::from_fn(move || {
        let part = next?;
        next = (part != 0).then(|| (part - 1) & set);
        Some(part)
    })
}

/// Costs of the sets of atoms in a line with these residents; none for a set that does not fit.
fn costs_of(
    weigher: &Weigher<'_>,
    hot: &[usize],
    bin: Option<usize>,
    free: Gap,
) -> Vec<Option<u64>> {
    let sets = (0..1u32 << hot.len()).map(|set| members(set, hot));
    let cost = |atoms: Vec<usize>| {
        let fits = weigher.fits(&atoms, free);
        fits.then(|| weigher.cost(bin, &atoms))
    };
    sets.map(cost).collect()
}

fn members(set: Set, hot: &[usize]) -> Vec<usize> {
    let each = hot.iter().enumerate();
    each.filter(|(bit, _)| set >> bit & 1 == 1)
        .map(|(_, atom)| *atom)
        .collect()
}

/// Reads the choices back from the tables.
fn trace(
    weigher: &Weigher<'_>,
    hot: &[usize],
    in_bins: &[Table],
    in_lines: &[Table],
) -> Option<Assignment> {
    let mut set: Set = (1 << hot.len()) - 1;
    let (cost, _) = in_lines.last()?[set as usize]?;
    let mut found = Assignment {
        cost,
        bins: vec![Vec::new(); weigher.bins.len()],
        lines: Vec::new(),
    };
    for table in in_lines[1..].iter().rev() {
        let (_, part) = table[set as usize]?;
        found.lines.push(members(part, hot));
        set ^= part;
    }
    for (bin, table) in in_bins.iter().enumerate().rev() {
        let (_, part) = table[set as usize]?;
        found.bins[bin] = members(part, hot);
        set ^= part;
    }
    Some(found)
}
