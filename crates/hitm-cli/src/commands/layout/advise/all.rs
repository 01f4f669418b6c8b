//! `hitm layout advise --all`: every structure on falsely shared lines of a recording.

use anyhow::{Result, bail};
use hitm_advise::{Answer, Heading, Inputs, Session, gain};
use hitm_report::layout_advice::{advice_json, advice_text};
use hitm_report::pictures::Pictures;
use hitm_report::{Printout, Report, ReportOptions};
use serde_json::Value;

use super::AdviseArgs;
use crate::commands::{Format, report};
use crate::progress::Bar;
use crate::{Exit, Terminal};

/// Advice about one structure.
struct Advised {
    heading: Heading,
    answer: Answer,
}

impl Advised {
    /// Part of the threads' time that the best layout saves, in a replay.
    fn gain(&self) -> f64 {
        let best = self.answer.proposals.first();
        let proof = best.and_then(|best| best.proof.as_ref()?.as_ref().ok());
        proof.map_or(0.0, gain)
    }
}

pub(super) fn advise(args: &AdviseArgs, terminal: &mut Terminal) -> Result<Exit> {
    let mut all = Vec::new();
    for inputs in structures(args)? {
        let bar = Bar::start("reading");
        let opened = Session::open(&inputs, &mut |read, all| bar.set(read, all))?;
        bar.finish();
        let options = args.options();
        let (session, answer) = opened.first_better(&options, |session| args.answer(session, &options))?;
        all.push(Advised {
            heading: session.advice_heading(),
            answer,
        });
    }
    // Stable: of those without a replay, the one of the costliest line comes first.
    all.sort_by(|a, b| b.gain().total_cmp(&a.gain()));
    match args.format {
        Format::Text => {
            for (number, one) in all.iter().enumerate() {
                if number > 0 {
                    let mut space = Printout::new();
                    space.blank();
                    terminal.out(&space)?;
                }
                terminal.out(&advice_text(&one.heading, &one.answer))?;
            }
        }
        Format::Json => {
            let all = all.iter().map(|one| advice_json(&one.heading, &one.answer));
            let all: Vec<Value> = all.collect();
            terminal.json(&(serde_json::to_string_pretty(&all)? + "\n"))?;
        }
    }
    Ok(Exit::Done)
}

/// The structures, that of the costliest line first.
fn structures(args: &AdviseArgs) -> Result<Vec<Inputs>> {
    let profile = &args.inputs.profile;
    let recording = report::load(profile, args.inputs.kernel.source(), None)?;
    let report = Report::of_recording(&recording, &ReportOptions::default());
    let structures = Pictures::structures(&recording.names(), &report);
    if structures.is_empty() {
        bail!(
            "{} has no falsely shared line with a structure whose declaration is known",
            profile.display()
        );
    }
    let inputs = structures.into_iter().map(|one| Inputs {
        profile: profile.clone(),
        machine: args.inputs.machine.clone(),
        ..one.inputs
    });
    Ok(inputs.collect())
}
