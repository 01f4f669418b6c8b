//! `hitm whatif`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use hitm::whatif::{self, HeapInstances, WhatifConfig};
use hitm_report::whatif::{WhatifOptions, WhatifView};
use hitm_report::{json, text};
use hitm_weave::Placement;

use crate::commands::{Format, text_options};
use crate::progress::Bar;
use crate::{Exit, Terminal};

/// Options of `hitm whatif`.
#[derive(Debug, Args)]
pub(crate) struct WhatifArgs {
    /// The recording to run again
    #[arg(short, long, value_name = "FILE", default_value = "hitm.data")]
    input: PathBuf,
    /// A layout file with structures whose members move; may be given several times
    #[arg(short, long, value_name = "FILE")]
    layout: Vec<PathBuf>,
    /// Heap blocks that hold such structures: those that FUNCTION allocates; may be given several
    /// times
    #[arg(long, value_name = "[STRUCT=]heap:FUNCTION", requires = "layout")]
    instances: Vec<HeapInstances>,
    /// Another machine to run on: a preset (see `hitm machine list`), a file, or `host`
    #[arg(short, long, value_name = "NAME|FILE")]
    machine: Option<String>,
    /// Where threads run, if not as in the recording: spread, compact, or a list like 0,2,8-11
    #[arg(long, value_name = "spread|compact|LIST")]
    threads_to: Option<Placement>,
    /// Iterations that each thread makes: show cycles of an iteration too
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    per: Option<u64>,
    /// What to write; docs/formats/whatif.md has the JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// How many contended lines to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
}

pub(super) fn run(args: WhatifArgs, terminal: &mut Terminal) -> Result<Exit> {
    let layouts = args.layout.iter().map(|path| whatif::read_layout(path));
    let layouts = layouts.collect::<Result<_, _>>()?;
    let machine = match &args.machine {
        Some(name) => Some(
            hitm::machine::resolve(name)
                .with_context(|| format!("cannot use the machine '{name}'"))?
                .0,
        ),
        None => None,
    };
    let config = WhatifConfig {
        input: args.input,
        layouts,
        instances: args.instances,
        machine,
        placement: args.threads_to,
    };
    let bar = Bar::start("replaying");
    let report = whatif::run(&config, &mut |read, all| bar.set(read, all))?;
    bar.finish();
    let options = WhatifOptions {
        lines_max: args.top,
        iterations: args.per,
    };
    let view = WhatifView::new(report, &options);
    match args.format {
        Format::Text => {
            let text = text::whatif::render(&view, &text_options(terminal));
            terminal.out(&text)?;
        }
        Format::Json => terminal.json(&json::whatif::render(&view))?,
    }
    Ok(Exit::Done)
}
