//! `hitm place apply`.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use hitm_live::place::prove::{Meter, ProveOptions, Trial, prove};
use hitm_live::place::{
    AcquisitionMeter, CommandMeter, EventMeter, Launcher, Linux, Mounts, Place, PlaceError, Plan,
    Session, Stop, Tick, Undone,
};
use hitm_report::place::{Applied, Proven};

use super::wish::WishArgs;
use super::{CommonArgs, shown, watch};
use crate::commands::Format;
use crate::{Exit, Terminal};

/// Time between two looks at the placement.
const PERIOD: Duration = Duration::from_millis(100);

/// Options of `hitm place apply`.
#[derive(Debug, Args)]
pub(super) struct ApplyArgs {
    #[command(flatten)]
    pub(super) wish: WishArgs,
    #[command(flatten)]
    common: CommonArgs,
    /// Put the threads back after this time
    #[arg(long = "for", value_name = "TIME", value_parser = duration, conflicts_with = "keep")]
    pub(super) time: Option<Duration>,
    /// Watch a process (--pid) or a cgroup (--cgroup): place the threads that fight for a lock, follow its share,
    /// release them when they do not fight any more
    #[arg(long, conflicts_with_all = ["lock_share", "input", "tids", "name", "keep", "prove", "prove_command"])]
    watch: bool,
    /// Length of a window of --watch
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    pub(super) window: Duration,
    /// Leave the threads placed, with a guard in the background, until `hitm place undo`
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    prove: ProveArgs,
}

#[derive(Debug, Args)]
struct ProveArgs {
    /// Keep the placement only if this event comes more often with it: context-switches, instructions, ..., or
    /// lock-acquisitions of a program with libhitm_locks.so; otherwise undo it and end with exit code 1
    #[arg(long, value_name = "EVENT", conflicts_with = "prove_command")]
    prove: Option<String>,
    /// Keep the placement only if the number that this shell command prints grows faster with it; otherwise undo it and
    /// end with exit code 1
    #[arg(long, value_name = "COMMAND")]
    prove_command: Option<String>,
    /// Length of one interval of the proof
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2s")]
    prove_time: Duration,
    /// Intervals of each kind
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    prove_rounds: u16,
    /// Gain in the rate that keeps the placement
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = percent,
          allow_hyphen_values = true)]
    min_gain: f64,
    /// Fewer are better: for events such as cache-misses
    #[arg(long)]
    fewer_is_better: bool,
}

/// A time such as `500ms`, `10s` or `2m`.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?}, expected a time such as 500ms, 10s or 2m");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let millis = match &text[digits.len()..] {
        "ms" => number,
        "s" => number.saturating_mul(1000),
        "m" => number.saturating_mul(60_000),
        "h" => number.saturating_mul(3_600_000),
        _ => return Err(wrong()),
    };
    match millis {
        0 => Err(wrong()),
        millis => Ok(Duration::from_millis(millis)),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>().ok();
    let number = number.filter(|number| number.is_finite());
    let wrong = || format!("{text:?}, expected a percentage such as 5%");
    number.map(|number| number / 100.0).ok_or_else(wrong)
}

pub(super) fn run(args: &ApplyArgs, terminal: &mut Terminal) -> Result<Exit> {
    let stop = Stop::catch();
    let mounts = Mounts::read(&Linux)?;
    let Some(store) = super::store(&args.common, true)? else {
        bail!("there is no folder for journals");
    };
    let place = super::here(&mounts, &store);
    let recovered = super::recover(&place, terminal)?;
    if args.watch {
        let report = Report {
            terminal,
            format: args.common.format,
            done: Applied::default(),
        };
        return watch::run(args, place, stop, report);
    }
    let plan = super::planned(&args.wish, &mounts, &recovered)?;
    let mut report = Report {
        terminal,
        format: args.common.format,
        done: Applied {
            plan: Some(plan.clone()),
            ..Applied::default()
        },
    };
    if report.is_text() {
        report.terminal.out(&shown::plan(&plan))?;
    }
    if plan.placement()?.is_none() {
        return report.end(Exit::Done);
    }
    let launcher = launcher();
    let mut switch = Switch {
        place,
        plan: &plan,
        launcher: &launcher,
        stop,
        session: None,
        undone: None,
    };
    if let Some(mut meter) = args.prove.meter(&plan)? {
        let Some(proof) = prove(meter.as_mut(), &mut switch, &args.prove.options())? else {
            switch.switch(false)?;
            report.note("the proof was broken off, nothing is placed");
            return report.end(Exit::Done);
        };
        let is_better = proof.is_better;
        report.proof(Proven {
            proof,
            unit: meter.unit().to_owned(),
            min_gain: args.prove.min_gain,
        })?;
        if !is_better {
            switch.switch(false)?;
            return report.end(Exit::GateFailed);
        }
    }
    switch.switch(true)?;
    hold(args, switch, report)
}

/// Starts a guard: this program again.
pub(super) fn launcher() -> Launcher {
    Launcher {
        program: PathBuf::from("/proc/self/exe"),
        args: ["place", "guard"].map(Into::into).to_vec(),
    }
}

/// Holds the placement for as long as was asked for.
fn hold(args: &ApplyArgs, mut switch: Switch<'_>, mut report: Report<'_>) -> Result<Exit> {
    let Some(session) = switch.session.take() else {
        bail!("nothing is placed");
    };
    let placed = session.placed;
    report.done.placed = Some(placed);
    if args.keep {
        let guard = session.keep()?;
        report.done.guard = Some(guard.tid);
        let end = format!("guard {} keeps it until `hitm place undo`", guard.tid);
        report.line(&shown::applied_line(placed, &end))?;
        return report.end(Exit::Done);
    }
    report.line(&shown::applied_line(placed, &until(args.time)))?;
    let ended = wait(session, args.time, switch.stop)?;
    if ended.guards_lost > 0 {
        report.note(&format!(
            "the guard died {} times and was started again",
            ended.guards_lost
        ));
    }
    match ended.undone {
        Some(undone) => {
            report.line(&format!("undone: {}", shown::undone_line(&undone)))?;
            if !undone.problems.is_empty() {
                bail!("{}", undone.problems.join("; "));
            }
            report.done.undone = Some(undone);
        }
        None => report.line("undone by somebody else")?,
    }
    report.end(Exit::Done)
}

fn until(time: Option<Duration>) -> String {
    match time {
        Some(time) => format!("undone after {:.1} s, or by Ctrl-C", time.as_secs_f64()),
        None => String::from("undone by Ctrl-C"),
    }
}

struct Ended {
    undone: Option<Undone>,
    guards_lost: usize,
}

fn wait(mut session: Session<'_>, time: Option<Duration>, stop: Stop) -> Result<Ended> {
    let begun = Instant::now();
    let mut error = None;
    loop {
        let left = time.map(|time| time.saturating_sub(begun.elapsed()));
        if stop.is_requested() || left.is_some_and(|left| left.is_zero()) {
            break;
        }
        match session.tick() {
            Ok(Tick::Placed) => {}
            Ok(Tick::NoTasks | Tick::Undone) => break,
            Err(problem) => {
                error = Some(problem);
                break;
            }
        }
        thread::sleep(left.unwrap_or(PERIOD).min(PERIOD));
    }
    let guards_lost = session.guards_lost;
    let undone = session.undo()?;
    match error {
        Some(error) => Err(error.into()),
        None => Ok(Ended {
            undone,
            guards_lost,
        }),
    }
}

impl ProveArgs {
    fn meter(&self, plan: &Plan) -> Result<Option<Box<dyn Meter>>, PlaceError> {
        if let Some(command) = &self.prove_command {
            return Ok(Some(Box::new(CommandMeter::new(command))));
        }
        let Some(event) = &self.prove else {
            return Ok(None);
        };
        if event == AcquisitionMeter::NAME {
            return Ok(Some(Box::new(AcquisitionMeter::of(plan)?)));
        }
        let tids = plan.tasks.iter().map(|task| task.id.tid);
        Ok(Some(Box::new(EventMeter::open(event, tids)?)))
    }

    fn options(&self) -> ProveOptions {
        ProveOptions {
            rounds: usize::from(self.prove_rounds),
            time: self.prove_time,
            min_gain: self.min_gain,
            fewer_is_better: self.fewer_is_better,
        }
    }
}

/// A placement that can be turned on and off.
struct Switch<'a> {
    place: Place<'a>,
    plan: &'a Plan,
    launcher: &'a Launcher,
    stop: Stop,
    session: Option<Session<'a>>,
    undone: Option<Undone>,
}

impl Trial for Switch<'_> {
    fn switch(&mut self, is_placed: bool) -> Result<(), PlaceError> {
        match (is_placed, self.session.take()) {
            (true, None) => self.session = Some(self.place.apply(self.plan, self.launcher)?),
            (false, Some(session)) => self.undone = session.undo()?,
            (_, session) => self.session = session,
        }
        Ok(())
    }

    fn tick(&mut self) -> Result<bool, PlaceError> {
        let is_there = match &mut self.session {
            Some(session) => session.tick()? == Tick::Placed,
            None => true,
        };
        Ok(is_there && !self.stop.is_requested())
    }
}

/// The answer: lines as they come, or one value at the end.
pub(super) struct Report<'a> {
    terminal: &'a mut Terminal,
    format: Format,
    pub(super) done: Applied,
}

impl Report<'_> {
    fn is_text(&self) -> bool {
        self.format == Format::Text
    }

    pub(super) fn line(&mut self, line: &str) -> Result<()> {
        match self.format {
            Format::Text => self.terminal.line(line),
            Format::Json => Ok(()),
        }
    }

    pub(super) fn note(&mut self, note: &str) {
        self.terminal.note(note);
    }

    fn proof(&mut self, proven: Proven) -> Result<()> {
        if self.is_text() {
            self.terminal.out(&shown::proof(&proven))?;
        }
        self.done.proof = Some(proven);
        Ok(())
    }

    pub(super) fn end(self, exit: Exit) -> Result<Exit> {
        if let Format::Json = self.format {
            self.terminal.json(&shown::applied_json(&self.done))?;
        }
        Ok(exit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["5", "s", "", "0s", "-1s", "1.5s", "1 s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_gain_is_a_percentage() {
        assert_eq!(percent("5%"), Ok(0.05));
        assert_eq!(percent("-20"), Ok(-0.2));
        assert!(percent("x").is_err() && percent("inf").is_err());
    }
}
