//! A group's throttling as it was measured, and as the simulator has it under two settings.

use hitm::live::{DEVIATION_MAX, Deviation, DeviationOf, QuotaRun, QuotaSetting};
use hitm_fields::fields;
use hitm_live::spread::Spread;
use hitm_live::throttle::{Demand, GroupRow, Rhythm, ThrottleReport};
use serde_json::Value as Json;

use hitm_base::printable;

use crate::Printout;
use crate::fields::Field;
use crate::live::fixed::slots;
use crate::live::screen;
use crate::object::{Node, Object};

fields! {
    /// A group's throttling under one setting.
    #[derive(Debug, Clone, PartialEq)]
    pub struct WhatIfRow in live_whatif {
        /// Measured, or simulated with the present setting or the asked one.
        pub label: &'static str => label "";
        /// The quota, and the form of throttling.
        pub setting: QuotaSetting;
        /// CPU time that the group may use in a period, in microseconds.
        quota_us => number "quota us", |row| row.setting.bandwidth.map(|own| own.quota_us);
        /// Length of a period, in microseconds.
        period_us => number "period us", |row| row.setting.bandwidth.map(|own| own.period_us);
        /// Unused time of earlier periods that it may use besides, in microseconds.
        burst_us => number "burst us", |row| row.setting.bandwidth.map(|own| own.burst_us);
        /// Form of throttling: task, async or sync.
        kernel => label "kernel", |row| row.setting.throttling.id();
        /// Times and throttlings.
        pub run: QuotaRun;
        /// Time of the host, or virtual time.
        duration_ns => nanos "time", |row| row.run.duration_ns;
        /// CPUs that its threads used: their CPU time over duration_ns.
        cpus => decimal "CPUs", |row| row.run.ran_ns as f64 / row.run.duration_ns.max(1) as f64;
        /// Times that a task was throttled.
        episodes => count "times", |row| row.run.spread.count();
        /// The same a second.
        rate => decimal "times/s", |row| row.run.spread.count() as f64 * 1e9 / row.run.duration_ns.max(1) as f64;
        /// Time from leaving the CPU until it could run again that half of them do not exceed.
        throttled_p50_ns => nanos "p50 stopped", |row| quantile(&row.run.throttled, 500);
        /// The same for 99 of 100.
        throttled_p99_ns => nanos "p99 stopped", |row| quantile(&row.run.throttled, 990);
        /// Time from leaving the CPU until it ran again that half of them do not exceed.
        p50_ns => nanos "p50", |row| quantile(&row.run.spread, 500);
        /// The same for 99 of 100.
        p99_ns => nanos "p99", |row| quantile(&row.run.spread, 990);
        /// The longest of them.
        longest_ns => nanos "longest", |row| longest(&row.run.spread);
        /// Period timers; simulated are those that had a queue to unthrottle.
        timer_count => count "timers", |row| row.run.period_timer.count();
        /// Time that 99 of 100 of them did not exceed.
        timer_p99_ns => nanos "p99 timer", |row| quantile(&row.run.period_timer, 990);
        /// The longest of them.
        timer_longest_ns => nanos "longest timer", |row| longest(&row.run.period_timer);
    }
}

impl WhatIfRow {
    /// The measured one.
    pub fn measured(report: &ThrottleReport, setting: QuotaSetting, demand: &Demand) -> WhatIfRow {
        // The quota of a group above may be the one that throttles: then that has the row.
        let group = report.groups.first();
        let spread = |pick: fn(&GroupRow) -> &Spread| group.map(pick).cloned().unwrap_or_default();
        let run = QuotaRun {
            duration_ns: report.duration_ns,
            spread: spread(|group| &group.spread),
            throttled: spread(|group| &group.throttled),
            period_timer: report.period_timer.clone(),
            ran_ns: demand.threads.iter().map(|thread| thread.ran_ns).sum(),
        };
        let label = "measured";
        WhatIfRow {
            label,
            setting,
            run,
        }
    }
}

fields! {
    /// Of the load that is simulated.
    pub live_load for Demand {
        /// Threads of the group that ran or wanted to.
        thread_count => count "threads", |load| load.threads.len();
        /// Those that never slept.
        hog_count => count "hogs", |load| {
            let hogs = load.threads.iter().filter(|thread| thread.rhythm == Rhythm::Always);
            hogs.count()
        };
        /// Groups and autogroups beside it with tasks that ran or wanted to.
        other_groups => count "other groups", |load| load.others.len();
        /// Tasks of theirs that ran or wanted to, on average.
        other_tasks => decimal "other tasks", |load| load.others.iter().map(|other| other.runnable).sum::<f64>();
        /// The reason why threads have mean times instead of their jobs one by one.
        untraced => words "by means", |load| load.untraced.as_deref();
        /// Threads that began or ended meanwhile, which are not simulated.
        left_out_count => count "left out", |load| load.left_out;
    }
}

fn quantile(spread: &Spread, permille: u64) -> Option<u64> {
    (spread.count() > 0).then(|| spread.quantile_ns(permille))
}

fn longest(spread: &Spread) -> Option<u64> {
    (spread.count() > 0).then(|| spread.longest_ns())
}

const COLUMNS: &[Field<WhatIfRow>] = &[
    live_whatif::label,
    live_whatif::quota_us,
    live_whatif::period_us,
    live_whatif::burst_us,
    live_whatif::kernel,
    live_whatif::cpus,
    live_whatif::rate,
    live_whatif::throttled_p50_ns,
    live_whatif::throttled_p99_ns,
    live_whatif::p99_ns,
    live_whatif::longest_ns,
];

/// A group's load, and its throttling under several settings.
#[derive(Debug, Clone, PartialEq)]
pub struct WhatIf {
    /// The load.
    pub demand: Demand,
    /// The measured row, then the simulated ones.
    pub rows: Vec<WhatIfRow>,
    /// The reason why other settings than the present one were not simulated.
    pub refused: Option<Deviation>,
}

impl WhatIf {
    /// The reason in a sentence.
    fn refusal(&self) -> Option<String> {
        self.refused.map(too_far_off)
    }
}

/// The sentence that says how far a simulated load is from the measured one.
pub(super) fn too_far_off(deviation: Deviation) -> String {
    let Deviation { figure, share, of } = deviation;
    let side = if share < 0.0 { "below" } else { "above" };
    let off = format!("{:.0} %", share.abs() * 100.0);
    let far = match of {
        DeviationOf::Measured => format!("{off} {side} the measured one"),
        DeviationOf::Asked => {
            format!("{side} the measured one by {off} of the one that was asked for")
        }
    };
    format!(
        "Refused: as it is, the simulated {figure} is {far}; no other setting is simulated beyond {:.0} %.",
        DEVIATION_MAX * 100.0,
    )
}

/// The rows as a table, and their histograms.
pub fn text(what_if: &WhatIf, width: usize) -> Printout {
    let WhatIf { demand, rows, .. } = what_if;
    let mut out = Printout::new();
    out.blank();
    out.line("What if: the group's load in the simulator, on a model of this host");
    let load = |field: Field<_>| field.text(demand);
    out.line(&format!(
        "  {} threads, {} of which never sleep; {} more were not there all the time; beside it {} groups with {} tasks",
        load(live_load::thread_count),
        load(live_load::hog_count),
        load(live_load::left_out_count),
        load(live_load::other_groups),
        load(live_load::other_tasks),
    ));
    if let Some(reason) = &demand.untraced {
        out.line(&format!(
            "  by means of each thread, not job by job: {}",
            printable(reason)
        ));
    }
    out.append(&screen::rows(COLUMNS, rows, width));
    if let Some(refusal) = what_if.refusal() {
        out.line(&refusal);
    }
    for row in rows {
        out.blank();
        out.line(&format!(
            "Throttled until it could run, {} (ns):",
            row.label
        ));
        out.block("", &row.run.throttled.histogram().text());
        out.line(&format!("Period timers, {} (ns):", row.label));
        out.block("", &row.run.period_timer.histogram().text());
    }
    out
}

/// The load and the rows as JSON.
pub fn json(what_if: &WhatIf) -> Json {
    let row = |row: &WhatIfRow| {
        let throttled = row.run.throttled.histogram().rows();
        let timer = row.run.period_timer.histogram().rows();
        Object::of(live_whatif::ALL, row)
            .with("throttled_histogram", slots(throttled))
            .with("timer_histogram", slots(timer))
    };
    let all = Object::default()
        .with("load", Object::of(live_load::ALL, &what_if.demand))
        .with("refused", what_if.refusal())
        .with("rows", what_if.rows.iter().map(row).collect::<Node>());
    all.json()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use hitm::live::Throttling;
    use hitm_live::cgroups::Bandwidth;
    use hitm_live::throttle::{OtherGroup, ThreadDemand, Weight};

    use super::*;

    fn row(label: &'static str, quota_us: u64, ns: u64) -> WhatIfRow {
        let mut run = quiet();
        for _ in 0..99 {
            run.throttled.add(ns);
            run.spread.add(ns + 1000);
        }
        run.period_timer.add(5000);
        let setting = QuotaSetting {
            bandwidth: Some(Bandwidth {
                quota_us,
                period_us: 20_000,
                burst_us: 0,
            }),
            throttling: Throttling::Task,
        };
        WhatIfRow {
            label,
            setting,
            run,
        }
    }

    fn quiet() -> QuotaRun {
        QuotaRun {
            duration_ns: 2_000_000_000,
            ran_ns: 400_000_000,
            ..QuotaRun::default()
        }
    }

    fn demand() -> Demand {
        let mean = Rhythm::Mean {
            run_ns: 1,
            sleep_ns: 5,
        };
        let thread = |tid, rhythm| ThreadDemand {
            tid,
            nice: 0,
            ran_ns: 1,
            ready_ns: 1,
            rhythm,
        };
        Demand {
            duration_ns: 2_000_000_000,
            weight: Weight::default(),
            threads: vec![thread(7, Rhythm::Always), thread(8, mean)],
            others: vec![OtherGroup {
                name: "/autogroup-7".into(),
                weight: Weight::Nice(-5),
                runnable: 1.5,
            }],
            left_out: 0,
            timer_at_ns: None,
            untraced: None,
        }
    }

    fn what_if(rows: &[WhatIfRow]) -> WhatIf {
        WhatIf {
            demand: demand(),
            rows: rows.to_vec(),
            refused: None,
        }
    }

    #[test]
    fn what_is_too_far_off_is_refused_with_its_figure() {
        let mut refused = what_if(&[row("measured", 4000, 16_000_000)]);
        refused.refused = Some(Deviation {
            figure: "rate of throttlings",
            share: -0.86,
            of: DeviationOf::Measured,
        });
        let said = "Refused: as it is, the simulated rate of throttlings is 86 % below the measured one; no other setting is simulated beyond 25 %.";
        assert!(text(&refused, 120).to_string().contains(said));
        assert_eq!(json(&refused)["refused"], said);
        refused.refused = Some(Deviation {
            figure: "p50 stopped",
            share: -0.33,
            of: DeviationOf::Asked,
        });
        let said = "Refused: as it is, the simulated p50 stopped is below the measured one by 33 % of the one that was asked for; no other setting is simulated beyond 25 %.";
        assert!(text(&refused, 120).to_string().contains(said));
    }

    #[test]
    fn measured_and_simulated_stand_below_each_other() {
        let none = WhatIfRow {
            run: quiet(),
            ..row("simulated, asked", 40_000, 1)
        };
        let rows = [row("measured", 4000, 16_000_000), none];
        expect![[r#"

            What if: the group's load in the simulator, on a model of this host
              2 threads, 1 of which never sleep; 0 more were not there all the time; beside it 1 groups with 1.50 tasks
                               quota us period us burst us kernel CPUs times/s p50 stopped p99 stopped     p99 longest
              measured             4000     20000        0 task   0.20   49.50     16.0 ms     16.0 ms 16.0 ms 16.0 ms
              simulated, asked    40000     20000        0 task   0.20    0.00           -           -       -       -

            Throttled until it could run, measured (ns):
            [8M, 16M)               99 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
            Period timers, measured (ns):
            [4K, 8K)                 1 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|

            Throttled until it could run, simulated, asked (ns):
            Period timers, simulated, asked (ns):
        "#]].assert_eq(&text(&what_if(&rows), 120).to_string());
    }

    #[test]
    fn json_has_every_field_and_the_histograms() {
        let json = json(&what_if(&[row("measured", 4000, 16_000_000)]));
        assert_eq!(json["load"]["hog_count"], 1);
        let json = &json["rows"];
        for field in live_whatif::ALL {
            assert!(json[0].get(field.id).is_some(), "{}", field.id);
        }
        assert_eq!(json[0]["cpus"], 0.2);
        assert_eq!(json[0]["throttled_histogram"][0]["count"], 99);
        assert_eq!(json[0]["timer_histogram"][0]["from_ns"], 4096);
    }
}
