//! Runs readers on inputs of two sizes and compares what they took.

use std::fmt;
use std::path::Path;
use std::process::Stdio;
use std::{fs, io};

use super::Input;
use crate::process::{Command, Usage};

/// Cost of twice the input over that of the input, at most.
const RATIO_MAX: f64 = 2.5;

/// Differences of CPU time and memory that are noise: caches of a busy host, and pages that an allocator
/// keeps.
const NOISE: Cost = Cost {
    cpu_ms: 20.0,
    memory_mib: 6.0,
};

/// Doublings in one series of measurements, at most. Inputs that no longer fit into a cache of the host
/// cost more than twice as much for one or two of them, a square for all.
const DOUBLINGS: u32 = 4;

/// CPU time and memory.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cost {
    cpu_ms: f64,
    memory_mib: f64,
}

impl Cost {
    fn of(usage: Usage) -> Cost {
        Cost {
            cpu_ms: usage.cpu.as_secs_f64() * 1e3,
            memory_mib: usage.memory_bytes_max as f64 / f64::from(1 << 20),
        }
    }

    fn min(self, other: Cost) -> Cost {
        Cost {
            cpu_ms: self.cpu_ms.min(other.cpu_ms),
            memory_mib: self.memory_mib.min(other.memory_mib),
        }
    }

    /// The part beyond the cost of the smallest input.
    fn beyond(self, least: Cost) -> Cost {
        Cost {
            cpu_ms: (self.cpu_ms - least.cpu_ms).max(0.0),
            memory_mib: (self.memory_mib - least.memory_mib).max(0.0),
        }
    }
}

/// Costs of one reader by size.
#[derive(Debug, Clone)]
pub struct Growth {
    /// The number that grows.
    pub number: &'static str,
    /// The reader's command line.
    pub reader: &'static str,
    /// The smallest input's, which is subtracted from the others.
    least: Cost,
    /// Sizes, each twice the one before, and their costs.
    costs: Vec<(usize, Cost)>,
}

/// Returns true if each doubling costs more than it may, in time or in memory.
fn is_steep(costs: &[(usize, Cost)]) -> bool {
    let is_beyond = |before: f64, last: f64, noise: f64| last > RATIO_MAX * before + noise;
    let doublings = || costs.windows(2).map(|pair| (pair[0].1, pair[1].1));
    let in_time =
        |(before, last): (Cost, Cost)| is_beyond(before.cpu_ms, last.cpu_ms, NOISE.cpu_ms);
    let in_memory = |(before, last): (Cost, Cost)| {
        is_beyond(before.memory_mib, last.memory_mib, NOISE.memory_mib)
    };
    doublings().all(in_time) || doublings().all(in_memory)
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, by `hitm {}`:", self.number, self.reader)?;
        for (size, cost) in &self.costs {
            let Cost { cpu_ms, memory_mib } = cost;
            write!(f, " {size}: {cpu_ms:.0} ms {memory_mib:.1} MiB;")?;
        }
        let [.., (_, before), (_, last)] = self.costs[..] else {
            return Ok(());
        };
        write!(
            f,
            " x {:.2} time, x {:.2} memory (beyond {:.0} ms {:.1} MiB)",
            last.cpu_ms / before.cpu_ms.max(1.0),
            last.memory_mib / before.memory_mib.max(0.1),
            self.least.cpu_ms,
            self.least.memory_mib
        )
    }
}

/// Outcome of all measurements of an input.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// Each reader's costs.
    pub readers: Vec<Growth>,
    /// Of the readers whose costs grow too fast, at the sizes at which that was found.
    pub steep: Vec<Growth>,
}

/// Measures the readers of an input with a program `hitm`, in an empty folder.
///
/// Runs of other programs disturb a measurement, and only ever make it larger. So one that looks steep is
/// repeated with larger inputs and the least of several runs before it counts. An input that is too large
/// for its reader's limits ends such a series.
///
/// # Errors
///
/// If a file cannot be written, or a reader refuses an input.
pub fn measure(input: &Input, hitm: &Path, folder: &Path) -> io::Result<Measured> {
    let mut measured = Measured::default();
    let sizes = [1, input.size, 2 * input.size];
    let folders = sizes.map(|size| folder.join(size.to_string()));
    for (size, folder) in sizes.iter().zip(&folders) {
        write(input, *size, folder)?;
    }
    for reader in input.readers {
        let least = cost(hitm, reader, &folders[0], 1)?;
        let mut growth = Growth {
            number: input.number,
            reader,
            least,
            costs: Vec::new(),
        };
        for (size, folder) in sizes.iter().zip(&folders).skip(1) {
            let cost = cost(hitm, reader, folder, 1)?;
            growth.costs.push((*size, cost.beyond(least)));
        }
        if is_steep(&growth.costs) {
            growth.costs = again(input, hitm, reader, folder, least)?;
            if is_steep(&growth.costs) {
                measured.steep.push(growth.clone());
            }
        }
        measured.readers.push(growth);
    }
    Ok(measured)
}

/// Measures a reader with more runs, and with larger inputs while it looks steep.
fn again(
    input: &Input,
    hitm: &Path,
    reader: &str,
    folder: &Path,
    least: Cost,
) -> io::Result<Vec<(usize, Cost)>> {
    let mut costs = Vec::new();
    for doubling in 0..=DOUBLINGS {
        let size = input.size << doubling;
        let folder = folder.join(size.to_string());
        if !folder.exists() {
            write(input, size, &folder)?;
        }
        match cost(hitm, reader, &folder, 3) {
            Ok(cost) => costs.push((size, cost.beyond(least))),
            Err(_) if doubling > 1 => break,
            Err(error) => return Err(error),
        }
        if costs.len() > 1 && !is_steep(&costs) {
            break;
        }
    }
    Ok(costs)
}

fn write(input: &Input, size: usize, folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    for (name, bytes) in (input.make)(size) {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, bytes)?;
    }
    Ok(())
}

/// The least that so many runs take.
fn cost(hitm: &Path, reader: &str, folder: &Path, runs: u32) -> io::Result<Cost> {
    let mut least: Option<Cost> = None;
    for _ in 0..runs {
        reset_peak();
        let said = fs::File::create(folder.join("stderr"))?;
        let mut command = Command::new(hitm);
        command
            .args(reader.split(' '))
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said);
        let (status, usage) = command.usage()?;
        // A gate or a rule may fail.
        if !matches!(status.code(), Some(0 | 1)) {
            let said = fs::read_to_string(folder.join("stderr"))?;
            let shown = folder.display();
            return Err(io::Error::other(format!(
                "`hitm {reader}` in {shown}: {status}: {said}"
            )));
        }
        let cost = Cost::of(usage);
        least = Some(least.map_or(cost, |least| least.min(cost)));
    }
    Ok(least.expect("there is a run"))
}

/// Forgets the most memory that this process had, which Linux would count as the next child's.
fn reset_peak() {
    // Memory that made the files is free, but still in the allocator's hands.
    #[cfg(target_env = "gnu")]
    // SAFETY: it may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
    // Kernels without it count too much, for all sizes.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growth(costs: &[(f64, f64)]) -> Growth {
        let costs = costs.iter().enumerate();
        let costs = costs.map(|(doubling, (cpu_ms, memory_mib))| {
            let cost = Cost {
                cpu_ms: *cpu_ms,
                memory_mib: *memory_mib,
            };
            (100 << doubling, cost)
        });
        Growth {
            number: "threads of a recording",
            reader: "report -i x.hitm",
            least: NOISE,
            costs: costs.collect(),
        }
    }

    #[test]
    fn a_square_is_steep_in_time_and_in_memory() {
        let is_steep = |costs: &[(f64, f64)]| is_steep(&growth(costs).costs);
        assert!(!is_steep(&[(50.0, 20.0), (110.0, 45.0)]));
        assert!(is_steep(&[(50.0, 20.0), (200.0, 40.0)]));
        assert!(is_steep(&[(50.0, 20.0), (100.0, 80.0)]));
        assert!(!is_steep(&[(1.0, 1.0), (15.0, 6.0)]), "noise");
        let out_of_a_cache = [(50.0, 20.0), (160.0, 40.0), (350.0, 80.0)];
        assert!(!is_steep(&out_of_a_cache));
    }

    #[test]
    fn an_error_names_row_sizes_time_and_memory() {
        assert_eq!(
            growth(&[(50.0, 20.0), (200.0, 40.0)]).to_string(),
            "threads of a recording, by `hitm report -i x.hitm`: 100: 50 ms 20.0 MiB; 200: 200 ms 40.0 MiB; \
             x 4.00 time, x 2.00 memory (beyond 20 ms 6.0 MiB)"
        );
    }

    #[test]
    fn a_refused_input_is_an_error() {
        let folder = std::env::temp_dir().join(format!("growth-{}", std::process::id()));
        fs::create_dir(&folder).expect("a folder");
        let input = Input {
            number: "nothing",
            size: 2,
            make: |_| vec![("x".to_owned(), b"echo no >&2; exit 2".to_vec())],
            readers: &["x"],
        };
        let error = measure(&input, Path::new("/bin/sh"), &folder).expect_err("it is refused");
        fs::remove_dir_all(&folder).expect("it is there");
        assert!(
            error.to_string().ends_with("exit status: 2: no\n"),
            "{error}"
        );
    }
}
