//! `hitm record`.

mod runs;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};
use clap::{Args, Command, FromArgMatches as _, ValueEnum};
use hitm::record::{
    Callers,    AllocatorRules, Begin, ControlFiles, Ended, News, ProgramClock, ProgramOutput, Progress, RecordConfig, Stall,
    record,
};
use hitm::runs::{RUNS_MAX, RUNS_MIN};
use hitm_base::Cycles;
use hitm_trace::EndReason;
use hitm_weave::{CpuChoice, Placement};

use crate::progress::{Spinner, size};
use crate::{Exit, Terminal};
use super::duration::{delay, duration};

/// Options of `hitm record`.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// The file to write; with --runs the folder
    #[arg(short, long, value_name = "FILE", default_value = crate::commands::input::DEFAULT)]
    output: PathBuf,
    /// Record the program N times, one after the other, into a new folder; hitm report shows the run whose lost
    /// cycles are the median, and --baseline takes their spread as a tolerance
    #[arg(long, visible_alias = "repeat", value_name = "N", conflicts_with = "control",
          value_parser = clap::value_parser!(u8).range(i64::from(RUNS_MIN)..=i64::from(RUNS_MAX)))]
    runs: Option<u8>,
    /// Say first which emulator, libraries and machine the recording is made with
    #[arg(short, long)]
    verbose: bool,
    /// The user-mode QEMU to use, instead of the one in PATH
    #[arg(long, value_name = "FILE")]
    qemu: Option<PathBuf>,
    /// Let the program go on, unrecorded, when hitm is killed; otherwise it is killed as well
    #[arg(long)]
    keep_running: bool,
    /// Which processes of the program to record: all of them, or only the first one (no)
    #[arg(long, value_name = "all|no", value_enum, default_value_t = Follow::All)]
    follow: Follow,
    /// Record the callers of functions that access shared lines: from the start, not only since a process has a
    /// second thread or shares memory as without it; 0 for no callers, which costs 2 to 15 % less
    #[arg(short = 'g', long, value_name = "0|1", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = clap::value_parser!(u8).range(0..=1))]
    call_graph: Option<u8>,
    /// Observe a function of the program that allocates: its name and which of its arguments, from 1, are
    /// the block's size, what that is multiplied by (count), a block that it takes back (free), or the
    /// place for the address (out), as in pool_get,size=2; or a file of such lines. Known without it:
    /// the functions of the C library, jemalloc, tcmalloc, mimalloc, snmalloc, C++, Rust and Go
    #[arg(long, value_name = "FUNCTION,KEY=N...|@FILE")]
    allocator: Vec<AllocatorRules>,
    /// End the recording after this time, as 10s, 500ms or 2m, and the program with SIGTERM
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Begin the recording so long after the program; -1: by the command `enable` of --control
    #[arg(short = 'D', long, value_name = "TIME", value_parser = delay, allow_hyphen_values = true)]
    delay: Option<Begin>,
    /// Take commands from a FIFO, one a line, as perf record does: enable, disable, ping and stop; each
    /// is answered by a line `ack` in the second FIFO
    #[arg(long, value_name = "FIFO[,FIFO]", value_parser = control)]
    control: Option<ControlFiles>,
    /// Time that the program sees: that of the modelled machine, in which sleeps pass at once where nobody runs; or
    /// the host's, for programs that talk to others outside of the recording
    #[arg(long, value_name = "modelled|host", value_enum, default_value_t = ClockChoice::Modelled)]
    clock: ClockChoice,
    /// Say which threads wait for what when nothing has moved for this long although one should run
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
    stall: Duration,
    /// End the recording then, and kill the program; the file is readable up to there
    #[arg(long)]
    stall_end: bool,
    /// Not possible: a recording begins with its program. `hitm live lines -p PID` looks at one that runs
    #[arg(short, long, value_name = "PID", hide = true)]
    pid: Option<u32>,
    /// The program to record and its arguments
    #[arg(
        required_unless_present = "pid",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    command: Vec<String>,
}

/// The machine that accesses are priced on, and where threads run on it.
#[derive(Debug, Args)]
pub(super) struct MachineArgs {
    /// The machine to price accesses on: a preset (see `hitm machine list`), a file, or `host`
    #[arg(short, long, value_name = "NAME|FILE", default_value = "broadwell-4s")]
    pub(super) machine: String,
    /// CPUs of the modelled machine for threads: as far apart as possible (spread), as close
    /// together (compact), or on the CPUs of a list like 0,2,8-11
    #[arg(long, value_name = "spread|compact|LIST", default_value = "spread")]
    threads_to: Placement,
    /// CPUs of the modelled machine that the program sees and runs on: the first N that --threads-to
    /// gives out, or those of a list like 0,2,8-11; without it the program sees the first 16, and
    /// further threads have the rest of the machine
    #[arg(long, value_name = "N|LIST")]
    cpus: Option<CpuChoice>,
    /// Cycles that a thread's clock may run ahead of the slowest one
    #[arg(long, value_name = "CYCLES", default_value_t = hitm::record::DEFAULT_WINDOW.0,
          value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    window: u64,
    /// Cycles per instruction of the program's code apart from what it waits for shared lines, if you
    /// have measured it; instead of the machine's
    #[arg(long, value_name = "CYCLES")]
    cpi: Option<f64>,
}

impl RecordArgs {
    /// The options as they are where only these are typed.
    pub(super) fn of(machine: MachineArgs, command: &[String], output: PathBuf) -> Result<RecordArgs> {
        let parser = RecordArgs::augment_args(Command::new("record"));
        let words = ["record", "--"].into_iter().chain(command.iter().map(String::as_str));
        let matches = parser.try_get_matches_from(words)?;
        Ok(RecordArgs {
            machine,
            output,
            ..RecordArgs::from_arg_matches(&matches)?
        })
    }
}

/// Time that the program sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ClockChoice {
    /// The modelled machine's.
    Modelled,
    /// The host's.
    Host,
}

/// Processes that are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Follow {
    /// All of them.
    All,
    /// The first one, with its first program.
    No,
}

pub(super) fn run(args: RecordArgs, terminal: &mut Terminal) -> Result<Exit> {
    if let Some(pid) = args.pid {
        bail!("a recording begins with its program: `hitm live lines -p {pid}` looks at one that runs");
    }
    let run_count = args.runs;
    terminal.set_verbose(args.verbose);
    let config = config(args)?;
    match run_count {
        Some(run_count) => runs::record_all(config, run_count, terminal),
        None => {
            let ended = record_one(&config, "recording", terminal)?;
            terminal.note(&summary(&config, &ended));
            Ok(Exit::OfProgram(ended.exit_code))
        }
    }
}

pub(super) fn config(args: RecordArgs) -> Result<RecordConfig> {
    let MachineArgs {
        machine: name,
        threads_to,
        cpus,
        window,
        cpi,
    } = args.machine;
    let machine = match cpi {
        Some(cpi) => hitm_machine::resolve_with_cpi(&name, cpi),
        None => hitm_machine::resolve(&name),
    };
    let machine = machine.with_context(|| format!("cannot use the machine '{name}'"))?;
    let begin = args.delay.unwrap_or_default();
    ensure!(
        begin != Begin::WhenAsked || args.control.is_some(),
        "--delay -1 needs --control: nothing else begins the recording"
    );
    Ok(RecordConfig {
        command: args.command,
        directory: None,
        program_output: ProgramOutput::Inherited,
        machine,
        placement: threads_to,
        cpus,
        window: Cycles(window),
        output: args.output,
        qemu: args.qemu,
        keeps_running: args.keep_running,
        follows: args.follow == Follow::All,
        begin,
        callers: match args.call_graph {
            None => Callers::InCompany,
            Some(0) => Callers::Nobody,
            Some(_) => Callers::All,
        },
        allocators: AllocatorRules::join(args.allocator).context("--allocator")?,
        duration: args.duration,
        control: args.control,
        stall: Stall {
            after: args.stall,
            ends: args.stall_end,
        },
        clock: match args.clock {
            ClockChoice::Host => ProgramClock::Host,
            ClockChoice::Modelled => ProgramClock::Modelled,
        },
    })
}

/// Records the program once, and says all that the recorder noticed but the file's summary.
pub(super) fn record_one(config: &RecordConfig, what: &'static str, terminal: &mut Terminal) -> Result<Ended> {
    let spinner = Spinner::start(what);
    let is_verbose = terminal.is_verbose();
    let ended = record(config, &mut |news| match news {
        News::Progress(progress) => spinner.say(&text(&progress)),
        News::Note(note) => spinner.aside(|| terminal.note(note)),
        News::Tools(lines) if is_verbose => {
            spinner.aside(|| lines.iter().for_each(|line| terminal.note(line)));
        }
        News::Tools(_) => {}
    })?;
    spinner.finish();
    for (program, count) in &ended.left_alone {
        terminal.note(&left_alone(program, *count));
    }
    for (program, loss) in &ended.losses {
        terminal.note(&format!("{program} is not recorded to its end: {loss}"));
    }
    if ended.unknown_commands > 0 {
        terminal.note(&format!(
            "{} lines of --control were no commands: expected enable, disable, ping or stop",
            ended.unknown_commands
        ));
    }
    for caveat in &ended.caveats {
        terminal.note(caveat.text());
    }
    Ok(ended)
}

/// `FIFO` or `FIFO,FIFO`, with `fifo:` before it for those who know perf.
fn control(text: &str) -> Result<ControlFiles, String> {
    let files = text.strip_prefix("fifo:").unwrap_or(text);
    let (commands, answers) = match files.split_once(',') {
        Some((commands, answers)) => (commands, Some(answers)),
        None => (files, None),
    };
    if commands.is_empty() || answers.is_some_and(str::is_empty) {
        return Err("expected FIFO or FIFO,FIFO".to_owned());
    }
    Ok(ControlFiles {
        commands: commands.into(),
        answers: answers.map(Into::into),
    })
}

fn text(progress: &Progress) -> String {
    format!(
        "{:.1} M cycles, {:.1} M records, {}",
        progress.time.0 as f64 / 1e6,
        progress.record_count as f64 / 1e6,
        size(progress.file_bytes)
    )
}

fn left_alone(program: &str, count: u64) -> String {
    let (why, name) = program.split_once(':').unwrap_or((program, ""));
    let times = match count {
        1 => String::new(),
        _ => format!(" {count} times"),
    };
    format!("{name} ran unrecorded{times} ({why})")
}

fn summary(config: &RecordConfig, ended: &Ended) -> String {
    let file = config.output.display();
    format!(
        "{}; read it with `hitm report -i {file}`",
        outcome(config, ended)
    )
}

/// The file and its size, and how it ends if it is not whole.
fn outcome(config: &RecordConfig, ended: &Ended) -> String {
    let Ended {
        progress,
        exit_code: _,
        end,
        losses,
        left_alone: _,
        unknown_commands: _,
        caveats: _,
        stopped_by: _,
    } = ended;
    let note = match end {
        _ if !losses.is_empty() => ", incomplete",
        Some(EndReason::Exec) => {
            ", up to where the program replaced itself (exec): record what it starts"
        }
        Some(EndReason::Signalled { .. }) | Some(EndReason::Killed) | None => {
            ", cut short by a signal"
        }
        Some(_) => "",
    };
    format!(
        "{}: {} records, {}{note}",
        config.output.display(),
        progress.record_count,
        size(progress.file_bytes),
    )
}
