//! `hitm layout advise` and `hitm layout compare`.

mod all;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use hitm_advise::{Answer, Inputs, Language, Proposal, Session};
use hitm_files::output_file;
use hitm_layout::advise::Options;
use hitm_layout::emit::Style;
use hitm_report::layout_advice::{advice_json, advice_text, comparison_json, comparison_text};

use crate::commands::{Format, KernelArgs};
use crate::progress::Bar;
use crate::{Exit, Terminal};

/// Inputs of both commands.
#[derive(Debug, Args)]
struct InputsArgs {
    /// The structure, or a variable that is an array of scalars
    #[arg(value_name = "TYPE")]
    name: Option<String>,
    /// Declaration of the structure: BTF, an ELF file with BTF or DWARF, a layout file, or the name
    /// of a layout that comes with hitm, such as linux-6.12
    #[arg(short, long, value_name = "NAME|FILE")]
    input: Option<PathBuf>,
    /// The BTF that split BTF, such as a module's, goes on from
    #[arg(long, value_name = "FILE")]
    btf_base: Option<PathBuf>,
    /// Accesses to its members: a recording, perf.data, the text of perf script or of perf c2c
    /// report, what hitm sim --format json wrote, or a table as docs/formats/profile.md describes it
    #[arg(short, long, value_name = "FILE")]
    profile: PathBuf,
    /// Variant of a simulation [default: the one of the layout that is asked about]
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Instances that no variable's type tells: part of the name that `hitm report` gives a
    /// heap block or a kernel's symbol, or the address of one, such as 0xffff888004a81000
    #[arg(long, value_name = "SITE|ADDRESS")]
    at: Option<String>,
    #[command(flatten)]
    kernel: KernelArgs,
    /// Lay out the members of a structure inside this one, too; may be given several times
    #[arg(long, value_name = "TYPE")]
    open: Vec<String>,
    /// The machine to price on: a preset, a file, or `host` [default: the profile's]
    #[arg(short, long, value_name = "NAME|FILE")]
    machine: Option<String>,
}

impl InputsArgs {
    fn open(&self, declared_in: Option<PathBuf>) -> Result<Session> {
        let (Some(name), Some(input)) = (&self.name, &self.input) else {
            bail!("expected a structure and --input with its declaration");
        };
        let inputs = Inputs {
            type_name: name.clone(),
            input: input.clone(),
            below: None,
            btf_base: self.btf_base.clone(),
            profile: self.profile.clone(),
            variant: self.variant.clone(),
            at: self.at.clone(),
            kernel: self.kernel.source(),
            open: self.open.clone(),
            declared_in,
            machine: self.machine.clone(),
        };
        let bar = Bar::start("reading");
        let session = Session::open(&inputs, &mut |read, all| bar.set(read, all))?;
        bar.finish();
        Ok(session)
    }
}

/// Options of `hitm layout advise`.
#[derive(Debug, Args)]
#[command(
    mut_arg("name", |name| name.required_unless_present("all")),
    mut_arg("input", |input| input.required_unless_present("all"))
)]
pub(crate) struct AdviseArgs {
    #[command(flatten)]
    inputs: InputsArgs,
    /// Every structure that is falsely shared in the recording, the one whose best layout gains most first
    #[arg(long, conflicts_with_all = ["name", "input", "btf_base", "variant", "at", "open", "max_lines", "pin",
          "keep_together", "frozen_prefix", "pick", "output", "emit", "source"])]
    all: bool,
    /// The most cache lines that the structure may take
    #[arg(long, value_name = "N")]
    max_lines: Option<u64>,
    /// Put a member at an offset; may be given several times
    #[arg(long, value_name = "MEMBER@OFFSET", value_parser = pin)]
    pin: Vec<(String, u64)>,
    /// Keep members next to each other in one line; may be given several times
    #[arg(long, value_name = "A,B", value_parser = names)]
    keep_together: Vec<Names>,
    /// Leave members that begin in the first N bytes where they are
    #[arg(long, value_name = "N", default_value_t = 0)]
    frozen_prefix: u64,
    /// For the search when more than a dozen members are touched
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Proposal to write with --output and --emit, counted from 1 [default: the first, which is
    /// the best]
    #[arg(long, value_name = "N")]
    pick: Option<usize>,
    /// Write the proposal as a layout file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the proposal as source instead of the advice
    #[arg(long, value_enum, value_name = "LANGUAGE")]
    emit: Option<Emit>,
    /// Layouts that are tried by a replay of the recording [default: as many as half a minute has
    /// room for, 3 to 18]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    candidates: Option<usize>,
    /// Do not run the recording again with each layout: show what the model estimates
    #[arg(long, conflicts_with = "candidates")]
    no_replay: bool,
    /// The file that declares the structure: what it marks __randomize_layout stays together. With
    /// --emit a unified diff of it is printed
    #[arg(long, value_name = "FILE")]
    source: Option<PathBuf>,
    /// Output format; docs/formats/advice.md has the JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Options of `hitm layout compare`.
#[derive(Debug, Args)]
#[command(mut_arg("name", |name| name.required(true)), mut_arg("input", |input| input.required(true)))]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    inputs: InputsArgs,
    /// A layout file, or the name of a layout that comes with hitm; may be given several times
    #[arg(short, long, value_name = "NAME|FILE", required = true)]
    layout: Vec<String>,
    /// Output format; docs/formats/advice.md has the JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Form of source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Emit {
    /// C11, with `_Alignas`
    C,
    /// C++, with `alignas`
    Cpp,
    /// The kernel's C, with `____cacheline_aligned_in_smp`
    Kernel,
    /// Rust, with `#[repr(C)]` and explicit padding
    Rust,
}

impl Emit {
    const fn language(self) -> Language {
        match self {
            Emit::C => Language::C(Style::C),
            Emit::Cpp => Language::C(Style::Cpp),
            Emit::Kernel => Language::C(Style::Kernel),
            Emit::Rust => Language::Rust,
        }
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| "expected a number from 1 on".to_owned())
}

/// Members of one `--keep-together`.
#[derive(Debug, Clone)]
struct Names(Vec<String>);

fn names(text: &str) -> Result<Names, String> {
    let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    if names.len() < 2 || names.iter().any(String::is_empty) {
        return Err("expected at least two members with commas between".to_owned());
    }
    Ok(Names(names))
}

fn pin(text: &str) -> Result<(String, u64), String> {
    let parts = text.rsplit_once('@');
    let offset = parts.and_then(|(_, offset)| match offset.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => offset.parse().ok(),
    });
    match (parts, offset.filter(|offset| *offset < 1 << 31)) {
        (Some((name, _)), Some(offset)) if !name.is_empty() => Ok((name.to_owned(), offset)),
        _ => Err("expected a member, @ and an offset in bytes, such as lock@64".to_owned()),
    }
}

pub(super) fn advise(args: AdviseArgs, terminal: &mut Terminal) -> Result<Exit> {
    if args.all {
        return all::advise(&args, terminal);
    }
    let opened = args.inputs.open(args.source.clone())?;
    let options = args.options();
    let answer = |session: &Session| args.answer(session, &options);
    let (session, answer) = opened.first_better(&options, answer)?;
    if args.output.is_some() || args.emit.is_some() {
        let Some(proposal) = picked(&answer, args.pick)? else {
            bail!("no layout is better by a thousandth: there is nothing to write");
        };
        if let Some(path) = &args.output {
            let stem = path
                .file_stem()
                .and_then(|stem| stem.to_str())
                .unwrap_or("advised");
            let text = session.layout_file(stem, &proposal.candidate).to_toml();
            output_file::write(path, text.as_bytes())?;
            terminal.note(&format!("wrote {}", path.display()));
        }
        if let Some(emit) = args.emit {
            let source = args.source.as_deref();
            let text = session.emit(&proposal.candidate, emit.language(), source)?;
            terminal.source(&text)?;
            return Ok(Exit::Done);
        }
    }
    let heading = session.advice_heading();
    match args.format {
        Format::Text => terminal.out(&advice_text(&heading, &answer))?,
        Format::Json => {
            let json = advice_json(&heading, &answer);
            terminal.json(&(serde_json::to_string_pretty(&json)? + "\n"))?;
        }
    }
    Ok(Exit::Done)
}

impl AdviseArgs {
    fn options(&self) -> Options {
        let together = self.keep_together.iter();
        Options {
            max_lines: self.max_lines,
            pins: self.pin.clone(),
            keep_together: together.map(|names| names.0.clone()).collect(),
            frozen_prefix: self.frozen_prefix,
            seed: self.seed,
            steps_max: None,
        }
    }

    /// Searches for layouts, and tries them on the recording.
    fn answer(&self, session: &Session, options: &Options) -> Result<Answer> {
        let counter = Bar::of_steps("searching");
        let advice = session.search(options, &|done, all| counter.set(done, all))?;
        counter.finish();
        if self.no_replay {
            return Ok(session.estimate(&advice));
        }
        let bar = Bar::start("replaying");
        let answer = session.prove(&advice, self.candidates, &mut |read, all| {
            bar.set(read, all)
        });
        bar.finish();
        Ok(answer)
    }
}

/// The proposal of a number, counted from 1; the best without a number.
fn picked(answer: &Answer, number: Option<usize>) -> Result<Option<&Proposal>> {
    let Some(number) = number else {
        return Ok(answer.proposals.first());
    };
    let at = number.checked_sub(1);
    let Some(proposal) = at.and_then(|at| answer.proposals.get(at)) else {
        bail!(
            "found --pick {number}, expected one of the {} proposals",
            answer.proposals.len()
        );
    };
    Ok(Some(proposal))
}

pub(super) fn compare(args: CompareArgs, terminal: &mut Terminal) -> Result<Exit> {
    let session = args.inputs.open(None)?;
    let bar = Bar::start("replaying");
    let layouts = session.compare(&args.layout, &mut |read, all| bar.set(read, all))?;
    bar.finish();
    let heading = session.heading();
    match args.format {
        Format::Text => terminal.out(&comparison_text(&heading, &layouts))?,
        Format::Json => {
            let json = comparison_json(&heading, &layouts);
            terminal.json(&(serde_json::to_string_pretty(&json)? + "\n"))?;
        }
    }
    Ok(Exit::Done)
}
