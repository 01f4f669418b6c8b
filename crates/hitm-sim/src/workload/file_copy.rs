//! The file copy of UnixBench: `fstime` with its buffer sizes (fs.c of UnixBench 5).
//!
//! Each copy of the benchmark reads blocks of one file and writes them to another, over and over. All
//! copies name the same two files, so that all writers want the lock of one inode. The score is what
//! they copy together a second, against a machine of the nineties.
//!
//! A scenario states how long a block takes one thread alone, and for which share of that it holds
//! the lock. Shared accesses and system calls are part of it. The place of each copy in the file
//! when others begin is random, and decides who takes which page from whom.

mod figures;

use std::cell::Cell;
use std::rc::Rc;

use hitm_base::{CpuId, Cycles, Nanos};

pub(crate) use self::figures::FIGURES;
use super::WorkloadKind;
use super::figures::Figures;
use super::keys::{self, Table};
use super::kind::{Kind, Program};
use super::placed::{CpuChoice, Placed};
use crate::engine::{Random, SimError};
use crate::kernel::{BlockCopy, CpuMask, Kernel, PageCacheFile, Policy, TaskSpec, Thread};
use crate::scenario::ScenarioError;
use crate::scenario::quantity::nanos;
use crate::scenario::start::Start;

/// Configuration of the copies.
#[derive(Debug, Clone, PartialEq)]
pub struct FileCopyConfig {
    /// Number of threads.
    pub threads: usize,
    /// Pairs of files; threads take turns.
    pub files: usize,
    /// Bytes of a block.
    pub buffer_bytes: u64,
    /// Blocks of a file.
    pub blocks: u64,
    /// KB/s that make 10 points.
    pub baseline: u64,
    /// Time that a block takes one thread alone.
    pub cycle: Nanos,
    /// The share of it for which the thread holds the lock, 0 to 1.
    pub hold_share: f64,
    /// The share of the rest that is the read, as is the copying of a block in the write. What is
    /// left is user code and the entry of system calls.
    pub read_share: f64,
    /// CPUs that threads may run on.
    pub allowed: Option<CpuMask>,
}

/// The threads.
#[derive(Debug)]
pub struct FileCopy {
    targets: Vec<Rc<PageCacheFile>>,
    blocks: Rc<Cell<u64>>,
    buffer_bytes: u64,
    baseline: u64,
}

/// Work of one thread, in cycles.
#[derive(Debug, Clone, Copy)]
struct Copying {
    buffer_bytes: u64,
    blocks: u64,
    read: Cycles,
    write: Cycles,
    user: Cycles,
}

/// Files and work of one thread.
#[derive(Debug)]
struct Copier {
    from: Rc<PageCacheFile>,
    to: Rc<PageCacheFile>,
    /// The first block.
    start: u64,
    copying: Copying,
    /// Blocks that all threads have copied.
    done: Rc<Cell<u64>>,
}

impl FileCopy {
    /// Makes files and threads, which begin on random CPUs within the first millisecond.
    ///
    /// # Errors
    /// Layouts without what a file needs, or a mask without the CPU that a task begins on.
    pub fn spawn(kernel: &Rc<Kernel>, config: &FileCopyConfig) -> Result<FileCopy, SimError> {
        let bytes = config.buffer_bytes * config.blocks;
        let file =
            |name: &str, number: usize| kernel.page_cache_file(&format!("{name}{number}"), bytes);
        let numbers = 0..config.files;
        let sources = numbers.clone().map(|number| file("from", number));
        let sources = sources.collect::<Result<Vec<_>, _>>()?;
        let targets = numbers.map(|number| file("to", number));
        let targets = targets.collect::<Result<Vec<_>, _>>()?;
        let copy = FileCopy {
            targets,
            blocks: Rc::default(),
            buffer_bytes: config.buffer_bytes,
            baseline: config.baseline,
        };
        let mut random = kernel.engine().random("file-copy");
        let cpus = start_cpus(kernel, config, &mut random);
        for number in 0..config.threads {
            let spec = TaskSpec {
                name: format!("fstime/{number}"),
                policy: Policy::Normal(0),
                allowed: config.allowed.clone(),
                cpu: cpus[number % cpus.len()],
                start: Cycles(random.below(kernel.cycles(Nanos(1e6)).0)),
            };
            let copier = Copier {
                from: Rc::clone(&sources[number % config.files]),
                to: Rc::clone(&copy.targets[number % config.files]),
                start: random.below(config.blocks),
                copying: copying(kernel, config),
                done: Rc::clone(&copy.blocks),
            };
            kernel.spawn(&spec, move |thread| copy_blocks(thread, copier))?;
        }
        Ok(copy)
    }

    /// Blocks that were copied so far.
    pub fn blocks(&self) -> u64 {
        self.blocks.get()
    }

    /// The benchmark's score for so many blocks a second.
    pub fn score(&self, blocks_per_second: f64) -> f64 {
        let kilobytes = blocks_per_second * self.buffer_bytes as f64 / 1024.0;
        kilobytes / self.baseline as f64 * 10.0
    }

    /// The files that are written.
    pub fn targets(&self) -> &[Rc<PageCacheFile>] {
        &self.targets
    }
}

/// The CPUs on which threads begin: each once before any twice, as when they are forked one by one.
fn start_cpus(kernel: &Kernel, config: &FileCopyConfig, random: &mut Random) -> Vec<CpuId> {
    let all = CpuMask::all(kernel.cpu_count());
    let allowed: Vec<CpuId> = config.allowed.as_ref().unwrap_or(&all).iter().collect();
    let order = random.permutation(allowed.len());
    order.into_iter().map(|index| allowed[index]).collect()
}

/// Returns the stated times less the fixed costs of the model: those of an uncontended pass.
fn copying(kernel: &Kernel, config: &FileCopyConfig) -> Copying {
    let cycle = kernel.cycles(config.cycle);
    let hold = Cycles((cycle.0 as f64 * config.hold_share) as u64);
    let fixed = kernel.copy_costs(config.buffer_bytes);
    let outside = (cycle - hold).saturating_sub(fixed.outside);
    let read = Cycles((outside.0 as f64 * config.read_share) as u64);
    Copying {
        buffer_bytes: config.buffer_bytes,
        blocks: config.blocks,
        read,
        write: hold.saturating_sub(fixed.under_lock),
        user: outside - read,
    }
}

async fn copy_blocks(thread: Thread, copier: Copier) {
    let Copier { copying, done, .. } = copier;
    let mut block = copier.start;
    loop {
        let offset_bytes = block * copying.buffer_bytes;
        let read = BlockCopy {
            offset_bytes,
            count_bytes: copying.buffer_bytes,
            work: copying.read,
        };
        thread.read_block(&copier.from, read).await;
        thread.run(copying.user).await;
        let write = BlockCopy {
            offset_bytes,
            count_bytes: copying.buffer_bytes,
            work: copying.write,
        };
        thread.write_block(&copier.to, write).await;
        done.set(done.get() + 1);
        block = (block + 1) % copying.blocks;
    }
}

pub(super) const KIND: Kind = Kind {
    name: "file-copy",
    default_name: "file_copy",
    read,
    figures: &[FIGURES],
    ends: false,
    needed: r#"
buffer_bytes = 256 | 4096
blocks = 500 | 2000
baseline = 1655 | 3960
cycle = "2us"
hold_percent = 30 | 100
"#,
    optional: r#"
files = 1 | 4
read_percent = 50 | 100
threads = 2
cpus = "0-1"
"#,
};

fn read(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    let cycle = keys::time(table, "cycle", *keys::SHORT.start(), keys::TIME_MAX)?;
    Ok(WorkloadKind::FileCopy(Placed {
        cpus: keys::cpu_choice(table)?,
        config: FileCopyConfig {
            threads: 0,
            files: keys::count(table, "files", 4096)?.unwrap_or(1),
            buffer_bytes: keys::required(table, "buffer_bytes", 1, 1 << 20)?,
            blocks: keys::required(table, "blocks", 1, 1 << 16)?,
            baseline: keys::required(table, "baseline", 1, 1 << 20)?,
            cycle: nanos(keys::needed(
                table,
                "cycle",
                "a time, such as \"2us\"",
                cycle,
            )?),
            hold_share: keys::required(table, "hold_percent", 1, 99)? as f64 / 100.0,
            read_share: table.number("read_percent", 1, 99)?.unwrap_or(67) as f64 / 100.0,
            allowed: None,
        },
    }))
}

impl Program for Placed<FileCopyConfig> {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn start(&self, start: &Start<'_>) -> Result<Rc<dyn Figures>, SimError> {
        let config = file_copy_config(&self.cpus, &self.config, start.cpu_count());
        Ok(Rc::new(FileCopy::spawn(start.kernel, &config)?))
    }

    fn cpus(&self) -> Option<&CpuChoice> {
        Some(&self.cpus)
    }
}

fn file_copy_config(
    choice: &CpuChoice,
    config: &FileCopyConfig,
    cpu_count: usize,
) -> FileCopyConfig {
    let cpus = choice.cpus.as_ref();
    let allowed = cpus.map(|cpus| CpuMask::of(cpu_count, cpus.iter().copied().map(CpuId)));
    let own = allowed.as_ref().map_or(cpu_count, CpuMask::count);
    FileCopyConfig {
        threads: choice.threads.unwrap_or(own),
        allowed,
        ..config.clone()
    }
}
