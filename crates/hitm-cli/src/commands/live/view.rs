//! `hitm live` without a verb: locks, throttled groups, late wake-ups and contended lines in the terminal.
//!
//! [`state`] says what a key or a window of time changes, [`draw`] shows it, [`layers`] observes in threads of its own,
//! and [`tui`](crate::tui) borrows the terminal. Figures are those of `hitm live locks`, `throttle`, `wakeups` and
//! `lines`.

mod draw;
mod layers;
mod state;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use hitm_live::place::{Stop, held_contention};

use crate::commands::duration::duration;
use crate::commands::place::{Holder, Means};
use crate::tui::{self, Screen};
use crate::{Exit, Terminal};
use layers::{Layers, Watched};
use state::{Action, State};

/// Time between two looks at keys and at the placement.
const PERIOD: Duration = Duration::from_millis(100);
/// Time for which each table stands unless the user chooses: long enough to read a row, and for the ten waiting
/// samples that make a lock one. Assumed 2 s (0.5 s to 10 s).
const WINDOW_DEFAULT: Duration = Duration::from_secs(2);

/// Options of the view.
#[derive(Debug, Args)]
pub(super) struct ViewArgs {
    /// View this process, what it starts and its cgroup, instead of everything
    #[arg(short, long, value_name = "PID", conflicts_with = "cgroup",
          value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// View the processes of this cgroup and of those below it
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,
    /// Time between two refreshes of the view, as 2s or 500ms [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    window: Option<Duration>,
}

impl ViewArgs {
    /// Returns true if none was given.
    pub(super) fn is_empty(&self) -> bool {
        self.pid.is_none() && self.cgroup.is_none() && self.window.is_none()
    }

    fn watched(&self) -> Watched {
        match (self.pid, &self.cgroup) {
            (Some(pid), _) => Watched::Process(pid),
            (None, Some(path)) => Watched::Cgroup(path.clone()),
            (None, None) => Watched::Host,
        }
    }
}

/// Refuses to show a view where nobody could see it.
pub(super) fn check(terminal: &Terminal) -> Result<()> {
    tui::check(
        terminal,
        "hitm live without a verb is a view in a terminal, and standard output is none; the verbs are lines, locks, \
         neighbours, rt, throttle and wakeups (hitm live --help)",
        "hitm live without a verb needs a terminal with a cursor, and TERM is dumb",
    )
}

/// Shows the view until a key or a signal ends it. What it placed is undone then.
pub(super) fn run(
    args: &ViewArgs,
    journals: Option<PathBuf>,
    terminal: &mut Terminal,
) -> Result<Exit> {
    let stop = Stop::catch();
    let window = args.window.unwrap_or(WINDOW_DEFAULT);
    let means = Means::new(journals)?;
    let mut holder = Holder::new(&means);
    let layers = Layers::start(&args.watched(), window)?;
    let state = State::new(args.watched().text(), window);
    let mut screen = Screen::enter(terminal.color())?;
    let shown = show(&mut screen, state, &layers, &mut holder, stop);
    drop(screen);
    let undone = holder.undo();
    layers.end();
    shown?;
    if let Some(line) = undone? {
        terminal.line(&line)?;
    }
    Ok(Exit::Done)
}

fn show(
    screen: &mut Screen,
    mut state: State,
    layers: &Layers,
    holder: &mut Holder<'_>,
    stop: Stop,
) -> Result<()> {
    loop {
        screen.draw(|frame, has_colors| draw::draw(frame, &mut state, has_colors))?;
        let keys = screen.keys(PERIOD)?;
        if stop.is_requested() || layers.is_broken() {
            return Ok(());
        }
        for window in layers.windows() {
            state.take(window);
        }
        for key in keys {
            let action = state.key(key);
            if action == Action::Quit {
                return Ok(());
            }
            act(action, &mut state, holder);
        }
        match holder.tick() {
            Ok(None) => {}
            Ok(Some(reason)) => state.tell(&reason),
            Err(error) => state.tell(&format!("{error:#}")),
        }
        state.set_placed(holder.is_placed());
    }
}

fn act(action: Action, state: &mut State, holder: &mut Holder<'_>) {
    let told = match action {
        Action::None | Action::Quit => return,
        Action::Place => match state.selected_lock() {
            Some(view) => held_contention(&view.lock)
                .map_err(anyhow::Error::from)
                .and_then(|contention| holder.place(&contention)),
            None => Ok("p places the threads of a selected lock".to_owned()),
        },
        Action::Undo => holder
            .undo()
            .map(|undone| undone.unwrap_or_else(|| "nothing is placed".to_owned())),
    };
    state.tell(&told.unwrap_or_else(|error| format!("{error:#}")));
}

#[cfg(test)]
mod tests;
