//! Progress of long work, on standard error: a bar on a terminal, a line now and then elsewhere.

use std::cell::Cell;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use hitm::sim::Progress;
use hitm::sweep;
use hitm_base::printable;
use indicatif::{ProgressBar, ProgressStyle};

/// Time between two lines of a log.
const LINE_PERIOD: Duration = Duration::from_secs(10);

/// The user wants errors alone.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Shows no progress, if the user wants errors alone.
pub(crate) fn set_quiet(is_quiet: bool) {
    IS_QUIET.store(is_quiet, Ordering::Relaxed);
}

/// Writes a line to a log, unless the user wants errors alone. A log that is gone stops no work.
fn log(line: &str) {
    if !IS_QUIET.load(Ordering::Relaxed) {
        let _ = writeln!(io::stderr(), "hitm: {line}");
    }
}

/// Work whose length nobody knows. Where no bar shows it, it writes a line now and then.
pub(crate) struct Spinner {
    bar: ProgressBar,
    what: &'static str,
    is_log: bool,
    started: Instant,
    line_count: Cell<u32>,
}

impl Spinner {
    pub(crate) fn start(what: &'static str) -> Spinner {
        // The recorded program writes to standard output: on a terminal it would write into the bar.
        let is_mixed = io::stdout().is_terminal();
        let bar = match is_mixed {
            true => ProgressBar::hidden(),
            false => visible(ProgressBar::new_spinner()),
        };
        let is_log = bar.is_hidden();
        bar.set_style(style("{spinner} {prefix}: {msg} ({elapsed})"));
        bar.set_prefix(what);
        bar.enable_steady_tick(Duration::from_millis(100));
        Spinner {
            bar,
            what,
            is_log,
            started: Instant::now(),
            line_count: Cell::new(0),
        }
    }

    pub(crate) fn say(&self, text: &str) {
        let text = printable(text);
        let elapsed = self.started.elapsed();
        if self.is_log && elapsed >= LINE_PERIOD * (self.line_count.get() + 1) {
            self.line_count.set(self.line_count.get() + 1);
            log(&format!("{}: {text} ({} s)", self.what, elapsed.as_secs()));
        }
        self.bar.set_message(text.into_owned());
    }

    /// Writes something else, with no bar in its way.
    pub(crate) fn aside(&self, write: impl FnOnce()) {
        self.bar.suspend(write);
    }

    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
    }
}

/// Work of a known length that is often done at once: says nothing in its first second. Where no terminal
/// shows a bar, it writes a line now and then.
pub(crate) struct Bar {
    bar: ProgressBar,
    what: &'static str,
    is_of_bytes: bool,
    started: Instant,
    /// The pass under way: files that are large are read several times.
    pass: Cell<Pass>,
    line_count: Cell<u32>,
}

#[derive(Clone, Copy)]
struct Pass {
    number: u32,
    started: Instant,
    done: u64,
}

impl Bar {
    /// Time in which it says nothing.
    const QUIET: Duration = Duration::from_secs(1);

    /// Work that is counted in bytes.
    pub(crate) fn start(what: &'static str) -> Bar {
        let text = "{prefix}: {wide_bar} {percent} % of {total_bytes}, {bytes_per_sec} ({eta})";
        Bar::with_style(what, text, true)
    }

    /// Work that is counted in steps, which tell nobody anything.
    pub(crate) fn of_steps(what: &'static str) -> Bar {
        Bar::with_style(what, "{prefix}: {wide_bar} {percent} % ({eta})", false)
    }

    fn with_style(what: &'static str, text: &str, is_of_bytes: bool) -> Bar {
        let bar = visible(ProgressBar::new(0));
        bar.set_style(style(text));
        bar.set_prefix(what);
        let started = Instant::now();
        let pass = Pass {
            number: 1,
            started,
            done: 0,
        };
        Bar {
            bar,
            what,
            is_of_bytes,
            started,
            pass: Cell::new(pass),
            line_count: Cell::new(0),
        }
    }

    pub(crate) fn set(&self, done: u64, all: u64) {
        let mut pass = self.pass.get();
        if done < pass.done {
            pass = Pass {
                number: pass.number + 1,
                started: Instant::now(),
                done,
            };
            self.bar
                .set_prefix(format!("{}, pass {}", self.what, pass.number));
            self.bar.reset();
        }
        self.pass.set(Pass { done, ..pass });
        let elapsed = self.started.elapsed();
        if elapsed < Bar::QUIET {
            return;
        }
        self.bar.set_length(all);
        self.bar.set_position(done);
        if self.bar.is_hidden() && elapsed >= LINE_PERIOD * (self.line_count.get() + 1) {
            self.line_count.set(self.line_count.get() + 1);
            log(&self.line(all));
        }
    }

    /// A line of a log.
    fn line(&self, all: u64) -> String {
        let (what, pass) = (self.what, self.pass.get());
        let which = match pass.number {
            1 => String::new(),
            number => format!(", pass {number}"),
        };
        let percent = pass.done.saturating_mul(100) / all.max(1);
        let rate = match self.is_of_bytes {
            true => {
                let seconds = pass.started.elapsed().as_secs_f64().max(1e-3);
                format!(", {:.1} MB/s", pass.done as f64 / 1e6 / seconds)
            }
            false => String::new(),
        };
        format!("{what}{which}: {percent} %{rate}")
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

/// Runs of a sweep, told by several threads. Where no terminal shows a bar, it writes a line every ten
/// seconds.
pub(crate) struct Runs {
    bar: ProgressBar,
    started: Instant,
    line_count: AtomicU32,
}

impl Runs {
    pub(crate) fn start() -> Runs {
        let bar = visible(ProgressBar::new(0));
        bar.set_style(style("runs: {wide_bar} {pos}/{len} {msg}"));
        Runs {
            bar,
            started: Instant::now(),
            line_count: AtomicU32::new(0),
        }
    }

    pub(crate) fn set(&self, progress: sweep::Progress) {
        let elapsed = self.started.elapsed();
        let text = Runs::text(progress, elapsed);
        let due = (elapsed.as_secs() / LINE_PERIOD.as_secs()) as u32;
        // One of the threads writes the line that is due.
        if self.bar.is_hidden() && self.line_count.fetch_max(due, Ordering::Relaxed) < due {
            let (done, all) = (progress.done, progress.all);
            log(&format!("runs: {done} of {all}, {text}"));
        }
        self.bar.set_length(progress.all as u64);
        self.bar.set_position(progress.done as u64);
        self.bar.set_message(text);
    }

    /// Rate, failures and time left.
    fn text(progress: sweep::Progress, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs_f64().max(1e-3);
        let rate = progress.done as f64 / seconds;
        let left = (progress.all - progress.done) as f64 / rate.max(1e-9);
        let failed = match progress.failed {
            0 => String::new(),
            failed => format!("{failed} failed, "),
        };
        format!("{rate:.1} a second, {failed}{left:.0} s left")
    }

    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
    }
}

/// Nothing is drawn where nobody looks.
fn visible(bar: ProgressBar) -> ProgressBar {
    if io::stderr().is_terminal() && !IS_QUIET.load(Ordering::Relaxed) {
        bar
    } else {
        ProgressBar::hidden()
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is one of this file's")
}

/// The size of a file, in kB below 1 MB.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes.div_ceil(1_000)),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_tell_rate_failures_and_time_left() {
        let progress = |failed| sweep::Progress {
            done: 20,
            all: 100,
            failed,
        };
        let text = |failed| Runs::text(progress(failed), Duration::from_secs(10));
        assert_eq!(text(0), "2.0 a second, 40 s left");
        assert_eq!(text(3), "2.0 a second, 3 failed, 40 s left");
    }

    #[test]
    fn a_line_of_a_log_tells_pass_share_and_rate() {
        let bar = Bar::start("reading");
        bar.set(250, 1000);
        assert!(bar.line(1000).starts_with("reading: 25 %, "));
        assert!(bar.line(1000).ends_with(" MB/s"));
        bar.set(1000, 1000);
        bar.set(10, 1000);
        assert!(bar.line(1000).starts_with("reading, pass 2: 1 %, "));
        let steps = Bar::of_steps("searching");
        steps.set(3, 4);
        assert_eq!(steps.line(4), "searching: 75 %");
    }

    #[test]
    fn small_files_have_a_size_too() {
        assert_eq!(size(0), "0 kB");
        assert_eq!(size(40_100), "41 kB");
        assert_eq!(size(999_999), "1000 kB");
        assert_eq!(size(1_260_000), "1.3 MB");
    }
}
