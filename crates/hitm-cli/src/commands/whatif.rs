//! `hitm whatif`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use hitm_report::whatif::{WhatifOptions, WhatifView};
use hitm_report::{json, text};
use hitm_weave::Placement;
use hitm_whatif::{self as whatif, HeapInstances, WhatifConfig};

use crate::commands::{InputArg, PageFormat, page, text_options};
use crate::progress::Bar;
use crate::{Exit, Terminal};

/// Options of `hitm whatif`.
#[derive(Debug, Args)]
pub(crate) struct WhatifArgs {
    #[command(flatten)]
    input: InputArg,
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
    /// CPUs for threads, if not those of the recording: spread, compact, or a list like 0,2,8-11
    #[arg(long, value_name = "spread|compact|LIST")]
    threads_to: Option<Placement>,
    /// Iterations that each thread makes: show cycles of an iteration too
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    per: Option<u64>,
    /// Output format; docs/formats/whatif.md has the JSON
    #[arg(long, value_enum, default_value_t = PageFormat::Text)]
    format: PageFormat,
    /// Write the page of `--format html` to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Contended lines to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
}

impl WhatifArgs {
    /// The run that was asked for, with its layouts and its machine.
    pub(super) fn config(&self) -> Result<WhatifConfig> {
        let layouts = self.layout.iter().map(|path| whatif::read_layout(path));
        let machine = match &self.machine {
            Some(name) => Some(
                hitm_machine::resolve(name)
                    .with_context(|| format!("cannot use the machine '{name}'"))?
                    .0,
            ),
            None => None,
        };
        Ok(WhatifConfig {
            input: self.input.path().to_owned(),
            layouts: layouts.collect::<Result<_, _>>()?,
            instances: self.instances.clone(),
            machine,
            placement: self.threads_to.clone(),
        })
    }

    /// Returns the options of the view.
    pub(super) fn options(&self) -> WhatifOptions {
        WhatifOptions {
            lines_max: self.top,
            iterations: self.per,
        }
    }
}

pub(super) fn run(args: WhatifArgs, terminal: &mut Terminal) -> Result<Exit> {
    args.input.check()?;
    page::check_output(args.format, args.output.as_deref(), terminal)?;
    let config = args.config()?;
    let bar = Bar::start("replaying");
    let report = whatif::run(&config, &mut |read, all| bar.set(read, all))?;
    bar.finish();
    let view = WhatifView::new(report, &args.options());
    match args.format {
        PageFormat::Text => {
            let text = text::whatif::render(&view, &text_options(terminal));
            terminal.long_out(&text)?;
        }
        PageFormat::Json => terminal.json(&json::whatif::render(&view))?,
        PageFormat::Html => {
            let html = hitm_report::page::whatif(&view);
            page::write(&html, args.output.as_deref(), terminal)?;
        }
    }
    Ok(Exit::Done)
}
