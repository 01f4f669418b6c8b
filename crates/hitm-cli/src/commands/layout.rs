//! `hitm layout`.

mod advise;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use hitm_advise::types_files;
use hitm_layout::structs::{self, ListOptions, ShowOptions, TypesFile};
use hitm_report::layouts;

use crate::commands::Format;
use crate::{Exit, Terminal};

/// Options of `hitm layout`.
#[derive(Debug, Args)]
pub(crate) struct LayoutArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the members of a structure with offsets, cache lines and holes, as pahole does
    Show(ShowArgs),
    /// List the structures of a file, with what they waste
    List(ListArgs),
    /// Compare a structure between two files
    Diff(DiffArgs),
    /// Check structures against rules; exit code 1 when one is broken
    Check(CheckArgs),
    /// Propose better layouts of a structure, from who touches its members
    Advise(advise::AdviseArgs),
    /// Weigh layouts of a structure against each other, line by line
    Compare(advise::CompareArgs),
}

/// Origin of types.
#[derive(Debug, Args)]
struct InputArgs {
    /// BTF, or an ELF file with BTF or DWARF [default: the running kernel's BTF]
    #[arg(short, long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// The BTF that split BTF, such as a module's, goes on from
    #[arg(long, value_name = "FILE")]
    btf_base: Option<PathBuf>,
}

impl InputArgs {
    fn open(&self) -> Result<TypesFile> {
        open(self.input.as_deref(), self.btf_base.as_deref())
    }
}

fn open(input: Option<&Path>, base: Option<&Path>) -> Result<TypesFile> {
    Ok(types_files::open(input, base)?)
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// The structure: `rq`, `struct rq`, `ns::Foo`, or a typedef of one
    #[arg(value_name = "TYPE")]
    name: String,
    #[command(flatten)]
    input: InputArgs,
    /// Show structures in full where they are members
    #[arg(long)]
    expand: bool,
    #[command(flatten)]
    line: LineArgs,
    /// Output format; docs/formats/layout.md has the JSON
    #[arg(long, value_enum, default_value_t = ShowFormat::Text)]
    format: ShowFormat,
}

#[derive(Debug, Args)]
struct LineArgs {
    /// Bytes of a cache line
    #[arg(long, value_name = "N", default_value_t = ShowOptions::LINE_SIZE_DEFAULT,
          value_parser = line_size)]
    line_size: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ShowFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// As C that compiles, with assertions of every offset
    C,
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Only those with more than N bytes in holes
    #[arg(long, value_name = "N")]
    holes_over: Option<u64>,
    /// Only those that take more than N cache lines
    #[arg(long, value_name = "N")]
    lines_over: Option<u64>,
    /// Only those with a member that lies in two lines and would fit in one
    #[arg(long)]
    straddling: bool,
    /// Only those whose name matches; `*` and `?` stand for any characters and for one
    #[arg(long = "match", value_name = "GLOB")]
    pattern: Option<String>,
    #[command(flatten)]
    line: LineArgs,
    /// Output format; docs/formats/layout.md has the JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Args)]
struct DiffArgs {
    /// The file before
    #[arg(value_name = "A")]
    before: PathBuf,
    /// The file after
    #[arg(value_name = "B")]
    after: PathBuf,
    /// The structure
    #[arg(value_name = "TYPE")]
    name: String,
    /// The BTF that split BTF, such as a module's, goes on from
    #[arg(long, value_name = "FILE")]
    btf_base: Option<PathBuf>,
    #[command(flatten)]
    line: LineArgs,
    /// Output format; docs/formats/layout.md has the JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Args)]
struct CheckArgs {
    /// BTF, or an ELF file with BTF or DWARF
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The rules; docs/formats/layout-rules.md describes them
    #[arg(long, value_name = "FILE")]
    rules: PathBuf,
    /// The BTF that split BTF, such as a module's, goes on from
    #[arg(long, value_name = "FILE")]
    btf_base: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

fn line_size(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(bytes) if structs::is_line_size(bytes) => Ok(bytes),
        _ => Err("expected a power of two from 8 to 65536".to_owned()),
    }
}

pub(super) fn run(args: LayoutArgs, terminal: &mut Terminal) -> Result<Exit> {
    match args.command {
        Command::Show(args) => show(&args, terminal),
        Command::List(args) => list(args, terminal),
        Command::Diff(args) => diff(&args, terminal),
        Command::Check(args) => check(&args, terminal),
        Command::Advise(args) => advise::advise(args, terminal),
        Command::Compare(args) => advise::compare(args, terminal),
    }
}

fn show(args: &ShowArgs, terminal: &mut Terminal) -> Result<Exit> {
    let mut file = args.input.open()?;
    let options = ShowOptions {
        line_size: args.line.line_size,
        expand: args.expand,
    };
    match args.format {
        ShowFormat::Text => {
            terminal.out(&layouts::show_text(&mut file, &args.name, &options)?)?;
        }
        ShowFormat::C => terminal.source(&structs::show_c(&mut file, &args.name)?)?,
        ShowFormat::Json => {
            terminal.json(&layouts::show_json(&mut file, &args.name, &options)?)?;
        }
    }
    warn(&file, terminal);
    Ok(Exit::Done)
}

fn list(args: ListArgs, terminal: &mut Terminal) -> Result<Exit> {
    let mut file = args.input.open()?;
    let options = ListOptions {
        line_size: args.line.line_size,
        holes_over: args.holes_over,
        lines_over: args.lines_over,
        straddling: args.straddling,
        pattern: args.pattern,
    };
    let list = structs::list(&mut file, &options);
    match args.format {
        Format::Text => terminal.out(&layouts::list_text(&list))?,
        Format::Json => terminal.json(&layouts::json(&list))?,
    }
    for fault in &list.faults {
        terminal.note(&format!("left out: {fault}"));
    }
    warn(&file, terminal);
    Ok(Exit::Done)
}

fn diff(args: &DiffArgs, terminal: &mut Terminal) -> Result<Exit> {
    let base = args.btf_base.as_deref();
    let mut before = open(Some(&args.before), base)?;
    let mut after = open(Some(&args.after), base)?;
    let diff = structs::diff(&mut before, &mut after, &args.name, args.line.line_size)?;
    match args.format {
        Format::Text => terminal.out(&layouts::diff_text(&diff))?,
        Format::Json => terminal.json(&layouts::json(&diff))?,
    }
    warn(&before, terminal);
    warn(&after, terminal);
    Ok(Exit::Done)
}

fn check(args: &CheckArgs, terminal: &mut Terminal) -> Result<Exit> {
    let rules = types_files::rules(&args.rules)?;
    let mut file = open(Some(&args.file), args.btf_base.as_deref())?;
    let report = structs::check(&mut file, &rules)?;
    match args.format {
        Format::Text => terminal.out(&layouts::check_text(&report))?,
        Format::Json => terminal.json(&layouts::json(&report))?,
    }
    warn(&file, terminal);
    Ok(match report.violations.is_empty() {
        true => Exit::Done,
        false => Exit::GateFailed,
    })
}

/// Says what could not be read.
fn warn(file: &TypesFile, terminal: &mut Terminal) {
    for message in file.diagnostics() {
        terminal.note(&format!("warning: {message}"));
    }
}
