//! The tree of a machine as indented text.

use hitm_base::{CpuPlace, Topology, counted};

use crate::Printout;

/// Names of the levels of a place, outermost first.
const LEVELS: [&str; 8] = [
    "half",
    "package",
    "die",
    "NUMA node",
    "LLC",
    "cluster",
    "core",
    "thread",
];
const CLUSTER: usize = 5;
const CORE: usize = 6;
const THREAD: usize = 7;

/// Draws the tree. Equal parts are folded into one line with their count; a level of which every
/// parent has one part is left out.
pub(super) fn tree_text(out: &mut Printout, topology: &Topology) {
    let mut cpus: Vec<([u8; 8], u16)> = topology
        .cpus()
        .map(|cpu| (levels_of(topology.place(cpu)), cpu.0))
        .collect();
    cpus.sort_unstable();
    if only_child(&cpus, CORE) {
        // Every core is a cluster of its own: draw cores.
        for (place, _) in &mut cpus {
            place.swap(CLUSTER, CORE);
        }
    }
    let root = part(&cpus, 0);
    let shown: Vec<bool> = (0..8)
        .map(|level| level == CORE || !only_child(&cpus, level))
        .collect();
    draw(out, &root, &shown, 1);
    let (cpu_count, core_count) = (topology.cpu_count(), topology.core_count());
    let nodes = counted(topology.node_count() as u64, "NUMA node");
    let (cpus, cores) = (
        counted(cpu_count as u64, "CPU"),
        counted(core_count as u64, "core"),
    );
    let packages = counted(topology.package_count() as u64, "package");
    let llcs = counted(topology.llc_count() as u64, "last-level cache");
    out.line(&format!("  {cpus}, {cores}, {llcs}, {nodes}, {packages}"));
}

/// A place as a path of indexes, outermost first.
pub(super) fn levels_of(p: CpuPlace) -> [u8; 8] {
    [
        p.half, p.package, p.die, p.node, p.llc, p.cluster, p.core, p.thread,
    ]
}

/// Returns true if every part of `level` is the only one of its parent.
fn only_child(cpus: &[([u8; 8], u16)], level: usize) -> bool {
    cpus.windows(2).all(|pair| {
        pair[0].0[..level] != pair[1].0[..level] || pair[0].0[level] == pair[1].0[level]
    })
}

/// A part of the tree: its CPUs, and its children grouped by likeness.
struct Part {
    level: usize,
    cpus: Vec<u16>,
    children: Vec<Part>,
}

impl Part {
    /// Returns true if two parts have the same structure; their CPU numbers differ.
    fn is_like(&self, other: &Part) -> bool {
        self.children.len() == other.children.len()
            && self
                .children
                .iter()
                .zip(&other.children)
                .all(|(a, b)| a.is_like(b))
    }
}

fn part(cpus: &[([u8; 8], u16)], level: usize) -> Part {
    let children = if level == 8 {
        Vec::new()
    } else {
        let parts = cpus.chunk_by(|a, b| a.0[..=level] == b.0[..=level]);
        parts.map(|cpus| part(cpus, level + 1)).collect()
    };
    Part {
        level,
        cpus: cpus.iter().map(|(_, number)| *number).collect(),
        children,
    }
}

fn draw(out: &mut Printout, part: &Part, shown: &[bool], depth: usize) {
    for alike in part.children.chunk_by(Part::is_like) {
        let first = &alike[0];
        let level = first.level - 1;
        if level == THREAD {
            continue; // Threads stand on the line of their core.
        }
        if !shown[level] {
            draw(out, first, shown, depth);
            continue;
        }
        let indent = "  ".repeat(depth);
        let what = match alike.len() {
            1 => LEVELS[level].to_owned(),
            count => format!("{count} x {}", LEVELS[level]),
        };
        let threads = match first.children.len() {
            count if level == CORE && count > 1 => format!(" of {count} threads"),
            _ => String::new(),
        };
        let mut cpus: Vec<u16> = alike.iter().flat_map(|part| part.cpus.clone()).collect();
        cpus.sort_unstable();
        let each = if alike.len() > 1 {
            format!(", first {}", ranges(&first.cpus))
        } else {
            String::new()
        };
        out.line(&format!(
            "{indent}{what}{threads}: CPUs {}{each}",
            ranges(&cpus)
        ));
        draw(out, first, shown, depth + 1);
    }
}

/// Formats `0-3,8`; a long list of single numbers is cut.
fn ranges(cpus: &[u16]) -> String {
    const RANGES_MAX: usize = 8;
    let mut sorted = cpus.to_vec();
    sorted.sort_unstable();
    let runs: Vec<String> = sorted
        .chunk_by(|a, b| a + 1 == *b)
        .map(|run| match run {
            [one] => one.to_string(),
            _ => format!("{}-{}", run[0], run[run.len() - 1]),
        })
        .collect();
    match runs.len() {
        0..=RANGES_MAX => runs.join(","),
        _ => format!("{},...", runs[..RANGES_MAX].join(",")),
    }
}
