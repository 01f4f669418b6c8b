//! Inputs of the view: a recording's report and maps, source files, and replays.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Result, bail};
use clap::Parser as _;
use hitm_recording::Recording;
use hitm_report::pictures::Pictures;
use hitm_report::screen::SourceText;
use hitm_report::text::{PercentLimit, TextOptions};
use hitm_report::whatif::{WhatifOptions, WhatifView};
use hitm_report::{By, Printout, Report, ReportOptions, Selection, text};
use hitm_whatif::{self as whatif, WhatifConfig};

use crate::commands::whatif::WhatifArgs;
use super::state::{State, Subject};

/// Rows of a line: those behind are the cheapest, and a detail scrolls.
const ROWS_MAX: usize = 64;

/// The report of a recording at `input` with all that the view shows.
pub(super) fn subject(recording: &Recording, input: &Path, lines_max: usize) -> Subject {
    let mut by = vec![By::Object, By::Type, By::Function];
    if !recording.statistics.calls.is_empty() {
        by.push(By::Caller);
    }
    let options = ReportOptions {
        lines_max,
        rows_max: ROWS_MAX,
        call_paths_max: ReportOptions::CALL_PATHS_MAX_DEFAULT,
    };
    let selection = Selection {
        by,
        ..Selection::default()
    };
    let mut report = Report::of_selection(recording, &options, &selection);
    let (pictures, _) = Pictures::build(recording, &report, None, input);
    let names = recording.names();
    let tables = report.totals_by.iter();
    let places = tables
        .map(|totals| report.places_by(&recording.statistics, &names, totals.by, &selection));
    let places = places.collect();
    // Of the rest only the cost is known.
    report.findings.retain(|finding| finding.is_shown);
    Subject {
        places,
        maps: pictures.maps,
        summary: pictures.summary,
        report,
    }
}

/// Opens the file of a source line, or its figures alone where the file cannot be read.
pub(super) fn show_source(state: &mut State, source: &str) {
    let Some((source, line)) = SourceText::of(&state.subject.report, source) else {
        return state.tell("no source line is known");
    };
    let read = hitm_files::text_file::source_text(Path::new(&source.file));
    let text = match &read {
        Ok(text) => source.render(Ok(text)),
        Err(error) => source.render(Err(&format!("The text is not here: {error}"))),
    };
    let at = if read.is_ok() { line as usize } else { 0 };
    let name = source
        .file
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .to_owned();
    state.open(&name, text, at);
}

/// Options of `hitm whatif` as they are typed.
#[derive(Debug, clap::Parser)]
#[command(no_binary_name = true, name = "hitm whatif")]
struct Typed {
    #[command(flatten)]
    args: WhatifArgs,
}

/// A replay under way.
#[derive(Debug)]
pub(super) struct Trial {
    words: String,
    /// Parts of 1000 that are done.
    done: Arc<AtomicU64>,
    thread: JoinHandle<Result<Printout>>,
}

impl Trial {
    /// Starts a replay of the recording at `input`, whose answer takes `width` columns.
    pub(super) fn start(words: &str, input: &Path, width: usize) -> Result<Trial> {
        let typed = match Typed::try_parse_from(words.split_whitespace()) {
            Ok(typed) => typed,
            Err(error) => {
                let text = error.to_string();
                bail!("{}", text.lines().next().unwrap_or_default());
            }
        };
        let mut config = typed.args.config()?;
        config.input = input.to_owned();
        let options = typed.args.options();
        let text_options = TextOptions {
            has_events: true,
            width,
            color: false,
            percent_limit: PercentLimit::DEFAULT,
        };
        let done = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&done);
        let answer = move || answer(&config, &options, &text_options, &counter);
        Ok(Trial {
            words: words.trim().to_owned(),
            done,
            thread: thread::spawn(answer),
        })
    }

    /// Shows how far the replay is; once it has ended its answer, and no replay is left.
    pub(super) fn step(self, state: &mut State) -> Option<Trial> {
        if !self.thread.is_finished() {
            let done = self.done.load(Ordering::Relaxed) as f64 / 10.0;
            state.tell(&format!("replaying with {}: {done:.1}%", self.words));
            return Some(self);
        }
        match self.thread.join() {
            Ok(Ok(answer)) => state.open(&format!("what if {}", self.words), answer, 0),
            Ok(Err(error)) => state.tell(&format!("{error:#}")),
            Err(bug) => std::panic::resume_unwind(bug),
        }
        None
    }
}

fn answer(
    config: &WhatifConfig,
    options: &WhatifOptions,
    text_options: &TextOptions,
    done: &AtomicU64,
) -> Result<Printout> {
    let mut progress = |read: u64, all: u64| {
        let parts = u128::from(read) * 1000 / u128::from(all.max(1));
        done.store(parts.min(1000) as u64, Ordering::Relaxed);
    };
    let report = whatif::run(config, &mut progress)?;
    let view = WhatifView::new(report, options);
    Ok(text::whatif::render(&view, text_options))
}
