//! `hitm sim`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use hitm::sim::{LoadOptions, is_rt_app, SEEDS_MAX, SimReport, Simulation};
use hitm::timeline;
use hitm_files::output_file;
use hitm_report::calls::CallTable;
use hitm_report::sim::{Output, SimTextOptions, simulation_json, simulation_text};

use crate::commands::export::note_trace;
use crate::commands::{PageFormat, page, text_options};
use crate::progress::VirtualTime;
use crate::{Exit, Terminal};

/// Options of `hitm sim`.
#[derive(Debug, Args)]
pub(crate) struct SimArgs {
    /// The scenario: a file (docs/formats/scenario.md describes it), one that comes with hitm, such as
    /// 000-root-domain/ffmpeg, or a JSON file of rt-app as it is
    #[arg(value_name = "SCENARIO.toml|APP.json")]
    scenario: PathBuf,
    /// The first seed, instead of the scenario's; the only one unless --seeds says otherwise
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Seeds to run, instead of as many as the scenario states; figures are then means with
    /// their spread
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=SEEDS_MAX))]
    seeds: Option<u64>,
    /// A layout instead of the scenario's: a name, a layout file, or a kernel's BTF or debug
    /// information; may be given several times
    #[arg(long, value_name = "NAME|FILE")]
    layout: Vec<String>,
    /// A machine instead of the scenario's
    #[arg(long, value_name = "NAME|FILE")]
    machine: Option<String>,
    /// A key of the scenario with another value, such as kernel.tick=1000/s or workload.0.runnable=12;
    /// may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Run a tenth of the duration and of the iterations
    #[arg(long)]
    quick: bool,
    /// Lines of the kernel's memory to show of each variant
    #[arg(long, value_name = "N", default_value_t = 3)]
    top: usize,
    /// Show lines also as `perf c2c` would have sampled them: without loads below 30 cycles, and with
    /// locked operations not labelled as HITM
    #[arg(long)]
    perf_c2c: bool,
    /// Show what the workloads print themselves
    #[arg(long)]
    output: bool,
    /// Write what functions of the simulated kernel do to each member at each call, as CSV: of the first
    /// seed of the first variant (docs/formats/calls.md)
    #[arg(long, value_name = "FILE")]
    calls: Option<PathBuf>,
    /// Write who ran, waited, held locks and handed over lines when, as a trace that ui.perfetto.dev opens:
    /// of the first seed of the first variant (docs/formats/views.md)
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// End with exit code 1 when a workload's own check fails
    #[arg(long)]
    check: bool,
    /// Write the page of `--format html` to a file instead of standard output
    #[arg(short = 'o', long = "page", value_name = "FILE")]
    page: Option<PathBuf>,
    /// Output format; docs/formats/sim.md has the JSON
    #[arg(long, value_enum, default_value_t = PageFormat::Text)]
    format: PageFormat,
}

pub(super) fn run(args: SimArgs, terminal: &mut Terminal) -> Result<Exit> {
    page::check_output(args.format, args.page.as_deref(), terminal)?;
    let options = LoadOptions {
        machine: args.machine,
        layouts: args.layout,
        quick: args.quick,
        settings: args.set,
        numbers: Vec::new(),
    };
    let simulation = Simulation::load_named(&args.scenario, &options)?;
    for (workload, keys) in simulation.inert_keys() {
        let keys = keys.join(", ");
        terminal.note(&format!("{workload}: keys that change nothing here: {keys}"));
    }
    let bar = VirtualTime::start();
    let (seed, seed_count) = match (args.seed, args.seeds) {
        (None, None) => (simulation.seed(), simulation.seed_count()),
        (seed, count) => (
            seed.unwrap_or_else(|| simulation.seed()),
            count.unwrap_or(1),
        ),
    };
    let progress = |progress| bar.set("simulating", progress);
    let run = match &args.perfetto {
        Some(_) => simulation
            .run_traced(seed, seed_count, &progress)
            .map(|(report, trace)| (report, Some(trace))),
        None => simulation
            .run(seed, seed_count, &progress)
            .map(|report| (report, None)),
    };
    bar.finish();
    let (report, trace) = run?;
    if let (Some(path), Some(trace)) = (&args.perfetto, trace) {
        let summary = timeline::write_simulation(trace, path)?;
        note_trace(&summary, path, terminal);
    }
    if let Some(path) = &args.calls {
        let table = CallTable::of_simulation(&report.variants[0].outcomes[0]).csv();
        output_file::write(path, table.as_bytes())?;
    }
    match args.format {
        PageFormat::Text => {
            let options = SimTextOptions {
                text: text_options(terminal),
                lines_max: args.top,
                output: match (is_rt_app(&args.scenario), args.output) {
                    (true, _) => Output::First,
                    (false, true) => Output::Below,
                    (false, false) => Output::Hidden,
                },
                sampled: args.perf_c2c,
            };
            terminal.out(&simulation_text(&report, &options))?;
        }
        PageFormat::Json => terminal.json(&simulation_json(&report, args.perf_c2c))?,
        PageFormat::Html => {
            let html = hitm_report::page::simulation(&report);
            page::write(&html, args.page.as_deref(), terminal)?;
        }
    }
    Ok(if args.check {
        check(&[report], terminal)
    } else {
        Exit::Done
    })
}

/// Says which workloads fail their own check, and with which seed.
pub(super) fn check(reports: &[SimReport], terminal: &mut Terminal) -> Exit {
    for report in reports {
        for checked in report.checks() {
            for seed in checked.failed_seeds {
                terminal.note(&format!(
                    "{}: {}: {} fails its check with seed {seed}",
                    report.scenario, checked.variant, checked.workload
                ));
            }
        }
    }
    if reports.iter().all(SimReport::passed) {
        Exit::Done
    } else {
        Exit::GateFailed
    }
}
