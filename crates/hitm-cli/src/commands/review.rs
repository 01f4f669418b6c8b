//! `hitm review`.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::Args;
use hitm_advise::review::{Review, ReviewInputs, StatedRename, review};
use hitm_files::output_file;
use hitm_report::review::unmatched_words;
use hitm_report::{json, page, text};

use crate::commands::{Format, KernelArgs, text_options};
use crate::progress::Bar;
use crate::{Exit, Terminal};

/// Options of `hitm review`.
#[derive(Debug, Args)]
pub(crate) struct ReviewArgs {
    /// The build before: BTF, an ELF file with BTF or DWARF, a layout file, or the name of a layout
    /// that comes with hitm, such as linux-6.12
    #[arg(value_name = "OLD")]
    before: PathBuf,
    /// The build after; a layout file may have only the structures that it replaces
    #[arg(value_name = "NEW")]
    after: PathBuf,
    /// The structure; may be given several times [default: all that differ]
    #[arg(short, long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Accesses to the members: a recording, perf.data, the text of perf script or of perf c2c
    /// report, what hitm sim --format json wrote, or a table as docs/formats/profile.md describes it
    #[arg(short, long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// A member that has another name in NEW, or OLD= for one that the patch takes away; with
    /// several structures TYPE.OLD=NEW; may be given several times
    #[arg(long, value_name = "OLD=NEW")]
    renamed: Vec<StatedRename>,
    /// Machines to price on: presets or files, with commas between [default: the profile's own, if
    /// it has one, and presets of other kinds, four in all]
    #[arg(
        short,
        long,
        value_name = "NAME|FILE,...",
        value_delimiter = ',',
        requires = "profile"
    )]
    machine: Vec<String>,
    /// Variant of a simulation [default: the one of the layout OLD]
    #[arg(long, value_name = "NAME", requires = "profile")]
    variant: Option<String>,
    /// Instances that no variable's type tells: part of the name that `hitm report` gives a
    /// heap block or a kernel's symbol, or the address of one, such as 0xffff888004a81000
    #[arg(long, value_name = "SITE|ADDRESS", requires = "profile")]
    at: Option<String>,
    #[command(flatten)]
    kernel: KernelArgs,
    /// The BTF that split BTF, such as a module's, goes on from
    #[arg(long, value_name = "FILE")]
    btf_base: Option<PathBuf>,
    /// Write a page with pictures, one file for any browser, beside what standard output has
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Form of standard output; docs/formats/review.md has the JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(super) fn run(args: ReviewArgs, terminal: &mut Terminal) -> Result<Exit> {
    let inputs = ReviewInputs {
        builds: [args.before, args.after],
        btf_base: args.btf_base,
        types: args.types,
        profile: args.profile,
        variant: args.variant,
        at: args.at,
        renamed: args.renamed,
        kernel: args.kernel.source(),
        machines: args.machine,
    };
    let bar = Bar::start("reading");
    let answer = review(&inputs, &mut |read, all| bar.set(read, all))?;
    bar.finish();
    match args.format {
        Format::Text => {
            let text = text::review::render(&answer, &text_options(terminal));
            terminal.long_out(&text)?;
        }
        Format::Json => terminal.json(&json::review::render(&answer))?,
    }
    if let Some(path) = args.output {
        output_file::write(&path, page::review(&answer).as_bytes())?;
        terminal.note(&format!("wrote {}", path.display()));
    }
    Ok(refusal(&answer, terminal))
}

/// Says which types have no figures because the second build lacks touched members.
fn refusal(review: &Review, terminal: &mut Terminal) -> Exit {
    let refused = review.types.iter().filter(|of| !of.unmatched.is_empty());
    let refused = refused.map(|of| {
        let members = of.unmatched.iter().map(unmatched_words);
        format!("{}: {}", of.name, members.collect::<Vec<_>>().join("; "))
    });
    let refused: Vec<String> = refused.collect();
    if refused.is_empty() {
        return Exit::Done;
    }
    let [_, new] = &review.builds;
    terminal.error(&anyhow!(
        "no figures where {new} lacks touched members: {}: expected --renamed OLD=NEW for each, or \
         --renamed OLD= for one that is gone",
        refused.join("; ")
    ));
    Exit::Usage
}
