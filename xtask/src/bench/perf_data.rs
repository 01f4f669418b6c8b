//! Speed of a report on perf.data, against `perf c2c report` of the same file.
//!
//! Five million samples over 20,000 lines, popular by a power law: the line of rank r is about as
//! hot as 1 / r. Each line is used by six instructions at four offsets, by 16 threads on 64 CPUs; a
//! third of the samples are stores. CPU time is compared, and both use one core: on a busy host it
//! says more than the wall clock.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use hitm_base::{AccessOp, DataSource};
use hitm_perf::write::{CpuInfo, FileInfo, MmapInfo, Moment, PerfDataWriter, SampleForm};
use hitm_perf::{CpuMode, DataSrc, EventKind, Sample};

use super::recording::{Used, run};
use crate::target;

const SAMPLES: u64 = 5_000_000;
const LINES: u64 = 20_000;
const PID: u32 = 1000;
const THREADS: u64 = 16;
const CPUS: u32 = 64;

const DATA: u64 = 0x7f00_0000_0000;
const CODE: u64 = 0x40_0000;

/// CPU seconds of `perf c2c report --stdio`.
pub(super) fn perf_seconds() -> Result<f64> {
    Ok(perf()?.cpu_seconds)
}

/// CPU seconds of `hitm report`.
pub(super) fn hitm_seconds() -> Result<f64> {
    Ok(hitm(&[])?.cpu_seconds)
}

/// CPU seconds of `hitm report --perf-c2c`.
pub(super) fn hitm_tables_seconds() -> Result<f64> {
    Ok(hitm(&["--perf-c2c"])?.cpu_seconds)
}

/// Peak memory of `hitm report`.
pub(super) fn hitm_mebibytes() -> Result<f64> {
    Ok(hitm(&[])?.peak_mebibytes)
}

/// Peak memory of `perf c2c report --stdio`.
pub(super) fn perf_mebibytes() -> Result<f64> {
    Ok(perf()?.peak_mebibytes)
}

/// Without source lines: the program of the samples does not exist, and perf fails looking for it.
fn perf() -> Result<Used> {
    let mut command = Command::new("perf");
    run(command
        .args(["c2c", "report", "--stdio", "--no-source", "-i"])
        .arg(file()?))
}

fn hitm(more: &[&str]) -> Result<Used> {
    let program = crate::hitm()?;
    let mut command = Command::new(program);
    run(command.arg("report").arg("-i").arg(file()?).args(more))
}

/// Path of the file, written if it is missing.
fn file() -> Result<PathBuf> {
    let folder = target().join("bench");
    std::fs::create_dir_all(&folder).context("cannot create target/bench")?;
    let path = folder.join("five-million.data");
    if !path.exists() {
        let unfinished = folder.join("five-million.part");
        let file = File::create(&unfinished).context("cannot create the samples")?;
        write(file).context("cannot write the samples")?;
        std::fs::rename(&unfinished, &path).context("cannot name the samples")?;
    }
    Ok(path)
}

fn write(file: File) -> std::io::Result<()> {
    let form = SampleForm {
        period: 1,
        has_callers: false,
    };
    let mut writer = PerfDataWriter::new(BufWriter::with_capacity(1 << 20, file), form)?;
    let at = Moment {
        pid: PID,
        tid: PID,
        cpu: 0,
        time_ns: 1,
    };
    writer.comm(at, "bench", true)?;
    let map = |start, len, executable, path: &str| MmapInfo {
        pid: PID,
        life: 0,
        start,
        end: start + len,
        file_offset: 0,
        executable,
        path: path.to_owned(),
        build_id: Vec::new(),
    };
    writer.mmap(at, &map(CODE, 1 << 24, true, "/nonexistent/bench"))?;
    writer.mmap(at, &map(DATA, 1 << 24, false, "//anon"))?;
    let mut random = Random(1);
    for nth in 0..SAMPLES {
        let (kind, sample) = sample(nth, &mut random);
        writer.sample(kind, &sample, &[])?;
    }
    let cpus = (0..CPUS).map(|cpu| CpuInfo {
        core: cpu % 32,
        package: cpu / 32,
        node: cpu / 32,
    });
    let info = FileInfo {
        hostname: "bench".to_owned(),
        arch: "x86_64".to_owned(),
        cpuid: "GenuineIntel,6,106,6".to_owned(),
        cpus: cpus.collect(),
        ..FileInfo::default()
    };
    writer.finish(&info).map(drop)
}

fn sample(nth: u64, random: &mut Random) -> (EventKind, Sample) {
    // Inverse of the distribution function of 1 / r, in whole numbers: a random number of bits.
    let bits = random.below(15);
    let line = random.below(1 << (bits + 1)) % LINES;
    let thread = random.below(THREADS);
    let place = random.below(6);
    let is_store = place >= 4;
    let source = match random.below(10) {
        0..=3 => DataSource::L1,
        4 => DataSource::FillBuffer,
        5 => DataSource::Llc,
        6 => DataSource::LocalPeer,
        7 => DataSource::LocalHitm,
        8 => DataSource::RemoteHitm,
        _ => DataSource::LocalDram,
    };
    let op = if is_store {
        AccessOp::Store
    } else {
        AccessOp::Load
    };
    let sample = Sample {
        lives: [0; 2],
        pid: PID,
        tid: PID + thread as u32,
        cpu: (thread * 4 + nth % 4) as u32,
        mode: CpuMode::User,
        time_ns: 1000 + nth * 100,
        ip: CODE + (line * 6 + place) * 16,
        addr: DATA + line * 64 + place % 4 * 8,
        data_src: DataSrc::of_access(op, source).expect("no fence"),
        weight: 30 + random.below(500),
        period: 1,
        phys_addr: 0,
    };
    let kind = if is_store {
        EventKind::Stores
    } else {
        EventKind::Loads
    };
    (kind, sample)
}

/// xorshift: the same file every time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % end
    }
}
