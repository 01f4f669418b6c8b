//! `hitm view` and `hitm report --tui`: a recording in the terminal.
//!
//! [`state`] says what a key changes, [`seek`] where a text or a source is, [`draw`] shows it, [`work`] reads what a
//! key asks for, and [`tui`](crate::tui) borrows the terminal. Figures are those of `hitm report` and `hitm whatif`.

mod draw;
mod seek;
mod state;
mod work;

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use hitm_live::place::Stop;

use crate::commands::{InputArg, KernelArgs, report};
use crate::tui::{self, Screen};
use crate::{Exit, Terminal};
use state::{Action, State};
use work::Trial;

/// Time between two looks at keys and at a replay.
const PERIOD: Duration = Duration::from_millis(100);
/// Findings and contended lines that the view has, unless the user chooses. Those behind the first hundred lose little: assumed
/// 100 (20 to 1000), at some 50 us a line for names and map.
const LINES_MAX_DEFAULT: usize = 100;

/// Options of `hitm view`.
#[derive(Debug, Args)]
pub(crate) struct ViewArgs {
    #[command(flatten)]
    input: InputArg,
    /// Findings and contended lines to have in the view
    #[arg(long, value_name = "N", default_value_t = LINES_MAX_DEFAULT)]
    top: usize,
    #[command(flatten)]
    kernel: KernelArgs,
}

pub(super) fn run(args: ViewArgs, terminal: &mut Terminal) -> Result<Exit> {
    show(&args.input, &args.kernel, Some(args.top), terminal)
}

/// Shows a recording until a key or a signal ends the view.
pub(super) fn show(
    input: &InputArg,
    kernel: &KernelArgs,
    top: Option<usize>,
    terminal: &Terminal,
) -> Result<Exit> {
    tui::check(
        terminal,
        "this is a view in a terminal, and standard output is none: hitm report writes the same as text",
        "the view needs a terminal with a cursor, and TERM is dumb: hitm report writes text",
    )?;
    input.check()?;
    let input = input.path();
    if hitm::live::is_live(input) {
        bail!(
            "{}: found a recording of hitm live, expected one of accesses: hitm report shows it",
            input.display()
        );
    }
    let recording = report::load(input, kernel.source(), None)?;
    let subject = work::subject(&recording, input, top.unwrap_or(LINES_MAX_DEFAULT));
    drop(recording);
    let stop = Stop::catch();
    let mut screen = Screen::enter(terminal.color())?;
    let shown = look(&mut screen, State::new(subject), input, stop);
    drop(screen);
    shown?;
    Ok(Exit::Done)
}

fn look(screen: &mut Screen, mut state: State, input: &Path, stop: Stop) -> Result<()> {
    let mut trial: Option<Trial> = None;
    loop {
        screen.draw(|frame, has_colors| draw::draw(frame, &mut state, has_colors))?;
        let keys = screen.keys(PERIOD)?;
        if stop.is_requested() {
            return Ok(());
        }
        for key in keys {
            match state.key(key) {
                Action::None => {}
                Action::Quit => return Ok(()),
                Action::Source(source) => work::show_source(&mut state, &source),
                Action::WhatIf(words) if trial.is_none() => {
                    match Trial::start(&words, input, state.width) {
                        Ok(started) => trial = Some(started),
                        Err(error) => state.tell(&format!("{error:#}")),
                    }
                }
                Action::WhatIf(_) => state.tell("one replay is under way"),
            }
        }
        trial = trial.and_then(|trial| trial.step(&mut state));
    }
}

#[cfg(test)]
mod tests;
