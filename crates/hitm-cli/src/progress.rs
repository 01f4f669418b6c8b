//! Progress of long work, on standard error: a bar on a terminal, a line now and then elsewhere.

use std::cell::Cell;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use hitm::sim::Progress;
use hitm_base::printable;
use indicatif::{ProgressBar, ProgressStyle};

/// Work whose length nobody knows.
pub(crate) struct Spinner(ProgressBar);

impl Spinner {
    pub(crate) fn start(what: &'static str) -> Spinner {
        // The recorded program writes to standard output: on a terminal the two would mix.
        let bar = ProgressBar::new_spinner();
        let bar = if io::stdout().is_terminal() {
            ProgressBar::hidden()
        } else {
            visible(bar)
        };
        bar.set_style(style("{spinner} {prefix}: {msg} ({elapsed})"));
        bar.set_prefix(what);
        bar.enable_steady_tick(Duration::from_millis(100));
        Spinner(bar)
    }

    pub(crate) fn say(&self, text: &str) {
        self.0.set_message(printable(text).into_owned());
    }

    pub(crate) fn finish(self) {
        self.0.finish_and_clear();
    }
}

/// Work of a known number of bytes.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    pub(crate) fn start(what: &'static str) -> Bar {
        let bar = visible(ProgressBar::new(0));
        bar.set_style(style("{prefix}: {wide_bar} {bytes}/{total_bytes} ({eta})"));
        bar.set_prefix(what);
        Bar(bar)
    }

    pub(crate) fn set(&self, done: u64, all: u64) {
        self.0.set_length(all);
        self.0.set_position(done);
    }

    pub(crate) fn finish(self) {
        self.0.finish_and_clear();
    }
}

/// Work of a known number of steps that is often done at once: says nothing in its first second.
pub(crate) struct Counter {
    bar: ProgressBar,
    what: &'static str,
    started: Instant,
    /// Lines written where no terminal shows a bar.
    line_count: Cell<u32>,
}

impl Counter {
    /// How long it says nothing.
    const QUIET: Duration = Duration::from_secs(1);

    /// Time between two lines of a log.
    const LINE_PERIOD: Duration = Duration::from_secs(10);

    pub(crate) fn start(what: &'static str) -> Counter {
        let bar = visible(ProgressBar::new(0));
        bar.set_style(style("{prefix}: {wide_bar} {percent} % ({eta})"));
        bar.set_prefix(what);
        Counter {
            bar,
            what,
            started: Instant::now(),
            line_count: Cell::new(0),
        }
    }

    pub(crate) fn set(&self, done: u64, all: u64) {
        let elapsed = self.started.elapsed();
        if elapsed < Counter::QUIET {
            return;
        }
        self.bar.set_length(all);
        self.bar.set_position(done);
        if self.bar.is_hidden() && elapsed >= Counter::LINE_PERIOD * (self.line_count.get() + 1) {
            self.line_count.set(self.line_count.get() + 1);
            let percent = done.saturating_mul(100) / all.max(1);
            // A log that is gone stops no search.
            let _ = writeln!(io::stderr(), "hitm: {}: {percent} %", self.what);
        }
    }

    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
    }
}

/// Work in steps.
pub(crate) struct Steps(ProgressBar);

impl Steps {
    pub(crate) fn start(what: &'static str) -> Steps {
        let bar = visible(ProgressBar::new(0));
        bar.set_style(style("{prefix}: {wide_bar} {pos}/{len} {msg}"));
        bar.set_prefix(what);
        Steps(bar)
    }

    pub(crate) fn set(&self, step: &str, done: usize, all: usize) {
        self.0.set_length(all as u64);
        self.0.set_position(done as u64);
        self.0.set_message(printable(step).into_owned());
    }

    pub(crate) fn finish(self) {
        self.0.finish_and_clear();
    }
}

/// Work in virtual time, told by several threads.
pub(crate) struct VirtualTime(ProgressBar);

impl VirtualTime {
    pub(crate) fn start() -> VirtualTime {
        let bar = visible(ProgressBar::new(0));
        bar.set_style(style("{prefix}: {wide_bar} {msg} ({elapsed})"));
        VirtualTime(bar)
    }

    pub(crate) fn set(&self, what: &str, progress: Progress) {
        const NS_PER_MS: u64 = 1_000_000;
        self.0.set_prefix(printable(what).into_owned());
        let done_ms = progress.done_ns / NS_PER_MS;
        let text = match progress.all_ns {
            Some(all_ns) => {
                self.0.set_length(all_ns);
                format!("{done_ms}/{} ms of virtual time", all_ns / NS_PER_MS)
            }
            None => format!("{done_ms} ms of virtual time"),
        };
        self.0.set_position(progress.done_ns);
        self.0.set_message(text);
    }

    pub(crate) fn finish(self) {
        self.0.finish_and_clear();
    }
}

/// Nothing is drawn where nobody looks.
fn visible(bar: ProgressBar) -> ProgressBar {
    if io::stderr().is_terminal() {
        bar
    } else {
        ProgressBar::hidden()
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is one of this file's")
}
