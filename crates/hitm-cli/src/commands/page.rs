//! Pages: where they are written, and what of a recording they need beyond its report.

use std::path::Path;

use anyhow::{Result, bail};
use hitm_advise::advise_recorded;
use hitm_files::{output_file, text_file};
use hitm_recording::perf_data;
use hitm_recording::{Recording, traffic};
use hitm_report::page::{self, LineAdvice, SourcePart};
use hitm_report::pictures::{Pictures, Structure};
use hitm_report::screen::{Excerpt, file_and_line};
use hitm_report::{Report, Selection, SourceLine};

use super::PageFormat;
use crate::Terminal;
use crate::progress::Bar;

/// Structures that are advised on: a search takes up to a twentieth of a second.
const ADVICE_MAX: usize = 3;

/// Source lines whose text is shown.
const SOURCES_MAX: usize = 5;

/// Lines of text before and behind each.
const AROUND: u32 = 2;

/// Fails before the work when its result has no place to go.
pub(super) fn check_output(
    format: PageFormat,
    output: Option<&Path>,
    terminal: &Terminal,
) -> Result<()> {
    match (format, output) {
        (PageFormat::Html, None) if terminal.is_terminal() => {
            bail!("a page is no text for a terminal: expected -o FILE")
        }
        (PageFormat::Text | PageFormat::Json, Some(_)) => {
            bail!("-o is for pages: expected --format html")
        }
        _ => Ok(()),
    }
}

/// Writes a page to the file, or to standard output without one.
pub(super) fn write(html: &str, output: Option<&Path>, terminal: &mut Terminal) -> Result<()> {
    match output {
        None => terminal.source(html)?,
        Some(path) => {
            output_file::write(path, html.as_bytes())?;
            terminal.note(&format!("wrote {}", path.display()));
        }
    }
    Ok(())
}

/// The page of a recording at `input`, or of samples; with text of source files, if it `has_text`.
pub(super) fn of_report(
    input: &Path,
    recording: Recording,
    report: &Report,
    selection: &Selection,
    has_text: bool,
) -> Result<String> {
    let is_recording =
        perf_data::sample_format(input).is_none() && recording.header.sampled.is_none();
    let plan = Pictures::plan(&recording.statistics, report);
    let counted = match is_recording {
        true => {
            let bar = Bar::start("reading again");
            let counted = traffic(input, &plan, &mut |read, all| bar.set(read, all))?;
            bar.finish();
            Some(counted)
        }
        false => None,
    };
    let (mut pictures, mut structures) =
        Pictures::build(&recording, report, counted.as_ref(), input);
    // A command cannot read what has no name.
    let has_name = !input.starts_with("/proc/self/fd");
    pictures.summary.retain(|line| has_name || !line.is_command);
    let mut sources = sources(&recording, report, selection);
    if has_text {
        sources
            .iter_mut()
            .for_each(|one| one.text = excerpt(&one.line));
    }
    structures.truncate(if is_recording { ADVICE_MAX } else { 0 });
    let advice = match structures.is_empty() {
        true => Vec::new(),
        false => advice(input, recording, structures)?,
    };
    Ok(page::report(report, &pictures, &advice, &sources))
}

/// The source lines that lose most, without their text.
fn sources(recording: &Recording, report: &Report, selection: &Selection) -> Vec<SourcePart> {
    let names = recording.names();
    let lines = report.source_lines(&recording.statistics, &names, selection, SOURCES_MAX);
    let parts = lines
        .into_iter()
        .map(|line| SourcePart { line, text: None });
    parts.collect()
}

/// The text around a source line, where this host has it.
fn excerpt(line: &SourceLine) -> Option<Excerpt> {
    let (file, number) = file_and_line(&line.source)?;
    let text = text_file::source_text(Path::new(file)).ok()?;
    Excerpt::of(&text, number, AROUND)
}

/// Advice on structures, or why there is none.
fn advice(
    input: &Path,
    recording: Recording,
    structures: Vec<Structure>,
) -> Result<Vec<LineAdvice>> {
    let asked = structures.iter().map(|one| one.inputs.clone()).collect();
    let bar = Bar::start("advising");
    let progress = &mut |read, all| bar.set(read, all);
    let found = advise_recorded(input, recording, asked, progress)?;
    bar.finish();
    let advised = structures.into_iter().zip(found);
    let advised = advised.map(|(structure, found)| LineAdvice {
        ranks: structure.ranks,
        type_name: structure.inputs.type_name,
        advice: match found {
            Ok(found) => Ok(hitm_report::layout_advice::recorded_json(&found)),
            Err(error) => Err(error.to_string()),
        },
    });
    Ok(advised.collect())
}
