//! The text of `perf c2c report` as a profile: its rows at the addresses of one object.
//!
//! A row states how many samples an instruction has at an offset, how long the loads among them took, and
//! how many CPUs they came from. Three things it does not state are assumed:
//!
//! - The time in which the samples were taken. A CPU's own work is taken to be as long as it waited for
//!   the lines of the text: half of its time. A tenth to ten times as long is possible. Less own work
//!   means higher rates of accesses, so that sharing costs more.
//! - The CPUs, unless the text lists them (`perf c2c report -NN`). As many are taken as give the stated
//!   number of distinct CPUs in so many samples, if each is as likely as the others. Rows of different
//!   offsets are taken to be of different CPUs as far as there are as many, spread evenly over the machine.
//!   Rows of one CPU each are so never of the same one.
//! - Locked operations: stores are taken as plain ones. Of a line with HITM and without a store all
//!   accesses are taken as locked: something writes it, and AMD's samples count locked operations as loads.

use std::collections::BTreeMap;
use std::path::Path;

use hitm_base::{CpuId, Cycles, Machine, Topology};
use hitm_files::text_file;
use hitm_layout::advise::path_in_types;
use hitm_layout::profile::{Counts, CpuSet, Profile, RowKey};
use hitm_perf::c2c::published::{Published, PublishedLine, PublishedRow, TEXT_BYTES_MAX};

use crate::SessionError;
use crate::accesses::Read;
use crate::inputs::{Asked, Structure};

/// Characters of a symbol that perf leaves of a longer one, unless `--full-symbols` is given.
const SYMBOL_CHARS_CUT: usize = 26;
/// Lines of the text that an error names.
const LINES_SHOWN: usize = 6;

/// Reads a text.
pub(super) fn read(path: &Path) -> Result<Published, SessionError> {
    let text = text_file::read(path, TEXT_BYTES_MAX as u64, "the text of perf c2c report")?;
    Ok(Published::parse(&text, &path.display().to_string())?)
}

/// The accesses to the object that `--at` names.
pub(super) fn stated(asked: Asked, text: &Published) -> Result<Read, SessionError> {
    let machine = asked.machine.clone();
    let machine = machine.ok_or_else(|| SessionError::NoMachine {
        path: asked.inputs.profile.clone(),
    })?;
    let subject = asked.subject()?;
    let at = asked.inputs.at.as_deref();
    let base = at.and_then(address);
    let base =
        base.ok_or_else(|| nowhere(&asked, text, "an address, such as 0xffff888004a81000"))?;
    let cpus = Cpus::of(text, &machine);
    let period = waited(text, cpus.total);
    let name = asked.inputs.profile.display().to_string();
    let mut profile = Profile::new(name, "perf c2c report, as text", period);
    let mut sample_count = 0;
    let mut has_locked = false;
    for (addr, line, row) in rows(text) {
        let inside = addr.checked_sub(base);
        let offset = inside.filter(|offset| *offset < subject.size_bytes);
        let Some(member) =
            offset.and_then(|offset| member_at(&asked.structure, &subject.name, offset))
        else {
            continue;
        };
        let counts = counts(line, row);
        has_locked |= is_locked(line);
        sample_count += counts.total();
        let key = RowKey {
            member,
            instance: 0,
            function: function(row),
            comm: String::new(),
            cpus: cpus.of_row(addr, row),
        };
        profile.add(key, counts);
    }
    if sample_count == 0 {
        let expected = "the address of the object that holds some of these lines";
        return Err(nowhere(&asked, text, expected));
    }
    let profile = profile
        .folded(machine.topology.cpu_count())
        .unwrap_or(profile);
    let counted = format!(
        "{sample_count} samples of the text, each counted as one access; {}",
        match has_locked {
            true => "lines with HITM and no store are taken as written by locked operations",
            false => "stores are taken as plain ones, as the text does not say which are locked",
        }
    );
    let assumed = format!(
        "the text states no time: each CPU's own work is taken to be as long as it waited for these lines, \
         {period} cycles (assumed; a tenth to ten times as long)"
    );
    let second = text
        .second
        .map(|place| format!("the text has another table from line {place} on, which is left out"));
    Ok(Read {
        structure: asked.structure,
        subject,
        profile,
        bases: BTreeMap::from([(0, base)]),
        machine,
        source: asked.source,
        counted: None,
        notes: [counted, assumed].into_iter().chain(second).collect(),
        randomized: asked.randomized,
    })
}

/// Rows with their addresses and lines; lines without an address have none.
fn rows(text: &Published) -> impl Iterator<Item = (u64, &PublishedLine, &PublishedRow)> {
    text.lines.iter().flat_map(|line| {
        let addr = |row: &PublishedRow| line.address?.checked_add(u64::from(row.offset));
        let rows = line.rows.iter();
        rows.filter_map(move |row| Some((addr(row)?, line, row)))
    })
}

/// The function of a row; one whose name perf cut may be several, so that each instruction stands alone.
fn function(row: &PublishedRow) -> String {
    match row.code {
        Some(code) if row.symbol.chars().count() >= SYMBOL_CHARS_CUT => {
            format!("{}... {code:#x}", row.symbol)
        }
        _ => row.symbol.clone(),
    }
}

/// A line that is written by locked operations alone.
fn is_locked(line: &PublishedLine) -> bool {
    line.stores == 0 && line.remote + line.local > 0
}

fn counts(line: &PublishedLine, row: &PublishedRow) -> Counts {
    match is_locked(line) {
        true => Counts {
            rmws: row.loads(),
            ..Counts::default()
        },
        false => Counts {
            loads: row.loads(),
            stores: row.stores,
            rmws: 0,
        },
    }
}

fn address(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

fn member_at(structure: &Structure, type_name: &str, offset: u64) -> Option<String> {
    match structure {
        Structure::Types(file, layout) => {
            path_in_types(layout, file.borrow_mut().types(), offset).map(|found| found.0)
        }
        Structure::Table(table) => table.path_at(type_name, offset),
        Structure::Scalars => None,
    }
}

fn nowhere(asked: &Asked, text: &Published, expected: &str) -> SessionError {
    let lines = text.lines.iter().map(|line| {
        let name = line.address.map_or_else(
            || String::from("no address"),
            |address| format!("{address:#x}"),
        );
        format!("{name} ({} HITM)", line.remote + line.local)
    });
    SessionError::NoObject {
        path: asked.inputs.profile.clone(),
        type_name: asked.inputs.type_name.clone(),
        found: match &asked.inputs.at {
            Some(at) => format!("--at {at}"),
            None => String::from("no --at"),
        },
        expected: expected.to_owned(),
        lines: lines.take(LINES_SHOWN).collect::<Vec<_>>().join(", "),
    }
}

/// Cycles that each of `cpu_count` CPUs waited for the lines of the text, at least one.
fn waited(text: &Published, cpu_count: u32) -> Cycles {
    let rows = text.lines.iter().flat_map(|line| &line.rows);
    let cycles: u128 = rows.map(PublishedRow::load_cycles).sum();
    let each = cycles / u128::from(cpu_count);
    Cycles(u64::try_from(each).unwrap_or(u64::MAX).clamp(1, 1 << 50))
}

/// The CPUs of rows on a machine.
struct Cpus {
    /// CPUs of the text's machine that use its lines.
    total: u32,
    /// The most CPUs that a row states; `total` where no row states any.
    most: u32,
    /// CPUs of the machine: the first threads of its cores, then the second ones.
    machine: Vec<CpuId>,
    /// Cores of the machine.
    core_count: usize,
    /// The first CPU that uses an address.
    first: BTreeMap<u64, u32>,
}

impl Cpus {
    fn of(text: &Published, machine: &Machine) -> Cpus {
        let topology = &machine.topology;
        let mut machine: Vec<CpuId> = topology.cpus().collect();
        machine.sort_by_key(|cpu| (topology.place(*cpu).thread, topology.place(*cpu)));
        let most = match text.cpu_count_max() {
            0 => machine.len() as u32,
            stated => stated.min(Topology::CPUS_MAX as u32),
        };
        let mut counts: BTreeMap<u64, u32> = BTreeMap::new();
        for (addr, _, row) in rows(text) {
            let count = counts.entry(addr).or_default();
            *count = (*count).max(count_of(row, most));
        }
        // Lines that have a HITM have two CPUs at least, so that rows of one CPU are of several.
        let total = match most {
            1 => (machine.len().min(counts.len()) as u32).max(1),
            most => most,
        };
        let mut next = 0;
        let first = counts.into_iter().map(|(addr, count)| {
            let first = next;
            next = (next + count) % total;
            (addr, first)
        });
        Cpus {
            first: first.collect(),
            total,
            most,
            machine,
            core_count: topology.core_count(),
        }
    }

    fn of_row(&self, addr: u64, row: &PublishedRow) -> CpuSet {
        let listed = CpuSet::of(row.cpus.iter().map(|cpu| CpuId(*cpu)));
        let first = self.first.get(&addr).copied().unwrap_or(0);
        // Threads of one core share its caches: CPUs of the text get cores of their own while there are some.
        let total = self.total as usize;
        let room = match total <= self.core_count {
            true => self.core_count,
            false => self.machine.len(),
        };
        let spread = |at: u32| {
            let at = (first + at) as usize % total;
            match self.machine.get(at * room / total) {
                Some(cpu) if total <= room => *cpu,
                _ => CpuId(at as u16),
            }
        };
        listed
            .or_else(|| CpuSet::of((0..count_of(row, self.most)).map(spread)))
            .unwrap_or_else(|| CpuSet::one(CpuId(0)))
    }
}

/// CPUs that make a row's accesses, at most `most`.
fn count_of(row: &PublishedRow, most: u32) -> u32 {
    let samples = row.records.unwrap_or(0).max(row.loads() + row.stores);
    cpus_behind(row.cpu_count.unwrap_or(most), samples, most)
}

/// CPUs, equally likely, that give `distinct` ones in so many samples on average; at most `most`.
fn cpus_behind(distinct: u32, samples: u64, most: u32) -> u32 {
    let expected = |count: u32| {
        let missed = 1.0 - 1.0 / f64::from(count);
        f64::from(count) * (1.0 - missed.powi(samples.min(1 << 30) as i32))
    };
    let (mut low, mut high) = (distinct.clamp(1, most), most);
    while low < high {
        let middle = low + (high - low) / 2;
        match expected(middle) >= f64::from(distinct) {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPUs of the rows of a text on a machine of 64 cores with two threads, in the order of the text.
    fn cpus_of(rows: &[(&str, u32, u32)]) -> Vec<String> {
        let row = |(offset, records, count): &(&str, u32, u32)| {
            format!("  10.00%  0.00%  10.00%  {offset}  500  {records}  {count}  [.] f\n")
        };
        let rows: String = rows.iter().map(row).collect();
        let head =
            "# Num RmtHitm LclHitm L1 Hit Offset load records cnt Symbol\n 0 100 0 100 0x1000\n";
        let text = Published::parse(&format!("{head}{rows}"), "mail").expect("a text");
        let machine = hitm_machine::resolve("icelake-2s").expect("a preset").0;
        let cpus = Cpus::of(&text, &machine);
        super::rows(&text)
            .map(|(addr, _, row)| cpus.of_row(addr, row).to_string())
            .collect()
    }

    #[test]
    fn rows_of_one_cpu_are_of_several() {
        // Threads that touch their own member each are spread over 64 cores of two packages.
        let own = [
            ("0x0", 900, 1),
            ("0x0", 800, 1),
            ("0x8", 900, 1),
            ("0x10", 900, 1),
        ];
        assert_eq!(cpus_of(&own), ["0", "0", "21", "42"]);
        // A writer, and readers that see all CPUs.
        let shared = [("0x0", 900, 1), ("0x8", 9000, 4)];
        assert_eq!(cpus_of(&shared), ["0", "0 16 32 48"]);
    }

    #[test]
    fn few_samples_may_be_of_many_cpus() {
        assert_eq!(cpus_behind(1, 500, 480), 1);
        assert_eq!(
            cpus_behind(20, 20, 480),
            480,
            "each sample is of another CPU"
        );
        // 100 samples of 64 CPUs are of 64 * (1 - (63/64)^100) = 50.7 distinct ones.
        assert_eq!(cpus_behind(50, 100, 480), 63);
        assert_eq!(cpus_behind(51, 100, 480), 65);
        assert_eq!(cpus_behind(480, 100_000, 480), 480);
    }
}
