//! `hitm explain`.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use hitm_base::counted;
use hitm_report::explain::{Explained, Meaning, Recorded, json, meanings, similar, text};
use hitm_report::{Report, ReportOptions};

use crate::commands::{Format, KernelArgs, input, report, text_options};
use crate::{Exit, Terminal};

/// Options of `hitm explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A word of a report, a page or the view: a verdict, a column's head, a figure, a label; or the number of a
    /// finding. Without one, all words
    #[arg(value_name = "WORD|NUMBER")]
    words: Vec<String>,
    /// A recording, as for hitm report: what it has of the word, and what met the rule of the verdict [default of
    /// numbers: hitm.data]
    #[arg(short, long, value_name = "FILE", requires = "words")]
    input: Option<PathBuf>,
    /// Output format; docs/formats/explain.md has the JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    kernel: KernelArgs,
}

pub(super) fn run(args: ExplainArgs, terminal: &mut Terminal) -> Result<Exit> {
    if args.words.is_empty() {
        match args.format {
            Format::Text => terminal.long_out(&text::list(&text_options(terminal)))?,
            Format::Json => terminal.json(&json::list_all())?,
        }
        return Ok(Exit::Done);
    }
    let word = args.words.join(" ");
    if let Ok(number) = word.parse() {
        let input = args.input.as_deref().unwrap_or(Path::new(input::DEFAULT));
        let report = read(input, &args.kernel)?;
        let recorded = Recorded {
            input,
            report: &report,
        };
        let Some(explained) = Explained::finding(&word, number, recorded) else {
            bail!(
                "{} has no finding {number}: found {}",
                input.display(),
                counted(report.findings.len() as u64, "finding")
            );
        };
        show(&explained, args.format, terminal)?;
        return Ok(Exit::Done);
    }
    let meanings = known(&word)?;
    let report = args.input.as_deref();
    let report = report.map(|input| Ok::<_, anyhow::Error>((input, read(input, &args.kernel)?)));
    let report = report.transpose()?;
    let recorded = report.as_ref();
    let recorded = recorded.map(|(input, report)| Recorded { input, report });
    show(&Explained::word(&word, meanings, recorded), args.format, terminal)?;
    Ok(Exit::Done)
}

/// The meanings of a word; an error with similar words where it has none.
fn known(word: &str) -> Result<Vec<Meaning>> {
    let meanings = meanings(word);
    if !meanings.is_empty() {
        return Ok(meanings);
    }
    match similar(word).as_slice() {
        [] => bail!("no screen has the word {word}: hitm explain lists all"),
        words => bail!("no screen has the word {word}; did you mean {}?", words.join(", ")),
    }
}

/// The report of a recording or of samples, with all its contended lines.
fn read(input: &Path, kernel: &KernelArgs) -> Result<Report> {
    if hitm::live::is_live(input) {
        bail!(
            "{}: found a recording of hitm live, expected one of accesses",
            input.display()
        );
    }
    let recording = report::load(input, kernel.source(), None)?;
    let options = ReportOptions {
        lines_max: usize::MAX,
        rows_max: ReportOptions::ROWS_MAX_DEFAULT,
        call_paths_max: 0,
    };
    Ok(Report::of_recording(&recording, &options))
}

fn show(explained: &Explained<'_>, format: Format, terminal: &mut Terminal) -> Result<()> {
    match format {
        Format::Text => terminal.long_out(&text::render(explained, &text_options(terminal))),
        Format::Json => terminal.json(&json::render(explained)),
    }
}
