//! `hitm vm`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use hitm::vm::{KernelSource, StartAt, VmConfig, VmEnded, VmProgress, run as run_vm};
use hitm_base::Cycles;

use crate::progress::Spinner;
use crate::{Exit, Terminal};

/// Options of `hitm vm`.
#[derive(Debug, Args)]
pub(crate) struct VmArgs {
    #[command(subcommand)]
    command: VmCommand,
}

#[derive(Debug, Subcommand)]
enum VmCommand {
    /// Boot a kernel on a modelled machine, run a program in it, and record both
    Run(RunArgs),
}

#[derive(Debug, Args)]
struct RunArgs {
    /// The kernel: an image that QEMU can boot, or debian:VERSION for the newest package of apt
    /// whose version begins so
    #[arg(
        short,
        long,
        value_name = "FILE|debian:VERSION",
        default_value = "debian:6"
    )]
    kernel: KernelSource,
    /// The machine to price accesses on, whose CPUs the guest gets: a preset (see
    /// `hitm machine list`), a file, or `host`
    #[arg(short, long, value_name = "NAME|FILE", default_value = "icelake-2s")]
    machine: String,
    /// How many of the machine's CPUs the guest gets, the same from each package; all by default
    #[arg(long, value_name = "N")]
    smp: Option<usize>,
    /// The guest's memory
    #[arg(long, value_name = "MIB", default_value_t = 2048,
          value_parser = clap::value_parser!(u64).range(256..=1_048_576))]
    memory: u64,
    /// Further options for the kernel
    #[arg(long, value_name = "OPTIONS", default_value = "")]
    append: String,
    /// A layout file with structures of the kernel: their objects are priced with members in these
    /// places while the kernel runs; may be given several times
    #[arg(short, long, value_name = "FILE")]
    layout: Vec<PathBuf>,
    /// What starts the recording: the workload, or the first execution of a guest address
    #[arg(long, value_name = "workload|0xADDRESS", default_value = "workload")]
    start: StartAt,
    /// How many cycles a CPU's clock may run ahead of the slowest one
    #[arg(long, value_name = "CYCLES", default_value_t = hitm::record::DEFAULT_WINDOW.0,
          value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    window: u64,
    /// How long the workload may take on this host before the recording is ended
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
    /// Where downloaded kernels and the states of booted machines are kept
    /// [default: $XDG_CACHE_HOME/hitm or ~/.cache/hitm]
    #[arg(long, value_name = "DIR")]
    snapshot_cache: Option<PathBuf>,
    /// The qemu-system-x86_64 to use, instead of the one in PATH
    #[arg(long, value_name = "FILE")]
    qemu: Option<PathBuf>,
    /// The file to write
    #[arg(short, long, value_name = "FILE", default_value = "hitm.data")]
    output: PathBuf,
    /// The program to run and its arguments: a workload of hitm's own (bandwidth_tree, fifo_pool,
    /// file_copy, fork_storm, futex_ping_pong; docs/models/vm.md), or a program of this host
    #[arg(last = true, required = true, value_name = "WORKLOAD")]
    command: Vec<String>,
}

pub(super) fn run(args: VmArgs, terminal: &mut Terminal) -> Result<Exit> {
    match args.command {
        VmCommand::Run(args) => record(args, terminal),
    }
}

fn record(args: RunArgs, terminal: &mut Terminal) -> Result<Exit> {
    let machine = hitm::machine::resolve(&args.machine)
        .with_context(|| format!("cannot use the machine '{}'", args.machine))?;
    let layouts = args
        .layout
        .iter()
        .map(|path| hitm::whatif::read_layout_text(path));
    let layouts = layouts.collect::<Result<_, _>>()?;
    let config = VmConfig {
        layouts,
        kernel: args.kernel,
        machine,
        cpu_count: args.smp,
        memory_mib: args.memory,
        append: args.append,
        command: args.command,
        qemu: args.qemu,
        start: args.start,
        window: Cycles(args.window),
        time_limit: Duration::from_secs(args.timeout),
        cache: args.snapshot_cache.unwrap_or_else(hitm::vm::default_cache),
        output: args.output,
    };
    let spinner = Spinner::start("preparing");
    let ended = run_vm(&config, &mut |progress| spinner.say(&text(progress)))?;
    spinner.finish();
    terminal.err(&summary(&config, &ended));
    Ok(Exit::OfProgram(ended.exit_code))
}

fn text(progress: VmProgress<'_>) -> String {
    match progress {
        VmProgress::Preparing(what) => what.to_owned(),
        VmProgress::Recording(progress) => format!(
            "{:.1} M cycles, {:.1} M records",
            progress.time.0 as f64 / 1e6,
            progress.record_count as f64 / 1e6
        ),
    }
}

fn summary(config: &VmConfig, ended: &VmEnded) -> String {
    let file = config.output.display();
    let note = match ended.is_cut {
        true => ", ended before the workload",
        false => "",
    };
    let (machine, _) = &config.machine;
    format!(
        "hitm: {file}: {:.3} ms of modelled time, {} records, {:.1} MB{note}; read it with `hitm report -i {file}`\n",
        machine.clock.nanos(ended.progress.time).0 / 1e6,
        ended.progress.record_count,
        ended.progress.file_bytes as f64 / 1e6,
    )
}
