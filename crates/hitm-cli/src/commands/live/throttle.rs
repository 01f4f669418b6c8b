//! `hitm live throttle`.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use hitm::live::{Deviation, QuotaSetting, Sufficient, simulate_quota, smallest};
use hitm_live::cgroups::{Bandwidth, Hierarchy};
use hitm_live::place::Stop;
use hitm_live::options::Options;
use hitm_live::throttle::{self, Demand};
use hitm_report::live::throttle as shown;
use hitm_report::live::whatif::{self, WhatIf as Answer, WhatIfRow};

use super::what_if::{WhatIf, what_if};
use crate::commands::duration::duration;
use crate::commands::{Format, text_options};
use crate::{Exit, Terminal};

/// Options of `hitm live throttle`.
#[derive(Debug, Args)]
pub(crate) struct ThrottleArgs {
    /// Look at this cgroup and at those below it, instead of at all
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,
    /// For how long at most, as 10s, 500ms or 2m; Ctrl-C ends it earlier
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    duration: Duration,
    /// Write a line for the begin and the end of each walk of a timer, as ftrace does, before the report
    #[arg(long, conflicts_with = "format")]
    trace: bool,
    /// Load no BPF program: the kernel's counters alone
    #[arg(long)]
    counters: bool,
    /// Simulate the group's load under another quota, as quota=8ms,period=20ms,burst=0,kernel=task|async|sync; what is
    /// left out is as it is
    #[arg(long, value_name = "SETTING", value_parser = what_if, requires = "cgroup", conflicts_with = "trace")]
    what_if: Option<WhatIf>,
    /// Form of the result; docs/formats/live.md has the JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(super) fn run(args: &ThrottleArgs, terminal: &mut Terminal) -> Result<Exit> {
    let options = Options {
        target: args.cgroup.clone(),
        duration: args.duration,
        stop: Stop::catch(),
        counters_only: args.counters,
    };
    if let (Some(what_if), Some(group)) = (args.what_if, &args.cgroup) {
        return simulate(args, what_if, group, &options, terminal);
    }
    let mut written = Ok(());
    let report = throttle::observe(&options, &mut |line| {
        if args.trace && written.is_ok() {
            written = terminal.line(line);
        }
    })?;
    written?;
    match args.format {
        Format::Text => terminal.out(&shown::text(&report))?,
        Format::Json => terminal.json(&shown::json(&report, None))?,
    }
    Ok(Exit::Done)
}

/// Observes, and runs the group's load in the simulator: under the present quota and under the one that was asked for.
fn simulate(
    args: &ThrottleArgs,
    what_if: WhatIf,
    group: &str,
    options: &Options<Option<String>>,
    terminal: &mut Terminal,
) -> Result<Exit> {
    // A setting that cannot be is told before the time is spent.
    let [present, asked] = what_if.settings(quota_of(group)?)?;
    let (report, demand) = throttle::observe_load(options)?;
    let measured = WhatIfRow::measured(&report, present, &demand);
    let as_it_is = simulated("simulated, as it is", present, &demand)?;
    let deviation = Deviation::of(&as_it_is.run, &measured.run);
    let mut answer = Answer {
        rows: vec![measured, as_it_is],
        refused: deviation.is_beyond().then_some(deviation),
        demand,
    };
    if answer.refused.is_none() {
        let row = simulated("simulated, asked", asked, &answer.demand)?;
        let [measured, as_it_is] = [&answer.rows[0].run, &answer.rows[1].run];
        let carried = Deviation::carried(as_it_is, measured, &row.run);
        answer.refused = carried.is_beyond().then_some(carried);
        if answer.refused.is_none() {
            answer.rows.push(row);
            answer.rows.extend(sufficing(&answer.demand, &asked)?);
        }
    }
    match args.format {
        Format::Text => {
            terminal.out(&shown::text(&report))?;
            let width = text_options(terminal).width;
            terminal.out(&whatif::text(&answer, width))?;
        }
        Format::Json => {
            terminal.json(&shown::json(&report, Some(whatif::json(&answer))))?;
        }
    }
    match answer.refused {
        None => Ok(Exit::Done),
        Some(_) => Ok(Exit::GateFailed),
    }
}

fn simulated(label: &'static str, setting: QuotaSetting, demand: &Demand) -> Result<WhatIfRow> {
    let run = simulate_quota(demand, &setting)?;
    Ok(WhatIfRow {
        label,
        setting,
        run,
    })
}

/// The smallest quota and burst that suffice a load whose jobs are known: one without sleeps takes all.
fn sufficing(demand: &Demand, asked: &QuotaSetting) -> Result<Vec<WhatIfRow>> {
    if !demand.is_traced() {
        return Ok(Vec::new());
    }
    let labels = ["simulated, least quota", "simulated, least burst"];
    let found = labels.into_iter().zip(smallest(demand, asked)?);
    let row = |(label, found): (&'static str, Option<Sufficient>)| {
        let Sufficient { setting, run } = found?;
        Some(WhatIfRow {
            label,
            setting,
            run,
        })
    };
    Ok(found.filter_map(row).collect())
}

fn quota_of(group: &str) -> Result<Option<Bandwidth>> {
    let hierarchy = Hierarchy::find()?;
    let folder = hierarchy.folder(group);
    // A group that is not there is told with its name when it is observed.
    Ok(hierarchy.bandwidth(&folder))
}
