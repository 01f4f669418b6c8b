//! `hitm live rt`: the test's table, verdict and late threads, as text and JSON.

use std::fmt::Write as _;

use hitm_base::grouped;
use hitm_live::rt::{
    CpuChoice, Late, RtRun, cpu_choice, late, late_thread, rt_run, thread_sample, thread_starts,
};

use crate::Printout;
use crate::object::{Node, Object, list};

/// Shows the table in the form of rt-migrate-test, then the late threads and their CPUs.
pub fn text(run: &RtRun) -> Printout {
    let mut out = Printout::new();
    for line in run.results.text().lines() {
        out.line(line);
    }
    add_late(&mut out, run);
    out
}

/// Shows the verdict and the late threads alone.
pub fn verdict_text(run: &RtRun) -> Printout {
    let mut out = Printout::new();
    let failed = run.results.failures().len();
    let iterations = run.results.iterations.len();
    out.line(&match failed {
        0 => format!("Passed: {iterations} iterations"),
        _ => format!("Failed: {failed} of {iterations} iterations"),
    });
    add_late(&mut out, run);
    out
}

fn add_late(out: &mut Printout, run: &RtRun) {
    for late in late(run) {
        out.blank();
        out.line(&started(run, &late));
        out.line(&format!("   {}", could_have_run(run, &late.choices)));
    }
}

fn started(run: &RtRun, late: &Late) -> String {
    let prio = |task| run.results.config.prio(task);
    let lower = late.task - 1;
    format!(
        " Iteration {}: task {} (prio {}) started on CPU {} after {} us, {} us later than task {lower} (prio {})",
        late.iteration,
        late.task,
        prio(late.task),
        late.cpu,
        grouped(late.start_us),
        grouped(late.late_us),
        prio(lower),
    )
}

fn could_have_run(run: &RtRun, choices: &[CpuChoice]) -> String {
    if choices.is_empty() {
        return "All CPUs ran tasks of its priority or a higher one until then".to_owned();
    }
    let mut text = String::from("It could have run on");
    for (index, choice) in choices.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let _ = match choice.task {
            Some(task) => write!(
                text,
                "{comma} CPU {} (task {task}, prio {})",
                choice.cpu,
                run.results.config.prio(task)
            ),
            None => write!(text, "{comma} CPU {} (no task of the test)", choice.cpu),
        };
    }
    text
}

/// The same as one JSON object: `schema` is 1; docs/formats/live.md lists the keys.
pub fn json(run: &RtRun) -> String {
    let samples = run.samples();
    let samples = samples.iter().map(|all| list(thread_sample::ALL, all));
    let late = late(run);
    Object::of(rt_run::ALL, run)
        .with("schema", 1)
        .with("threads", list(thread_starts::ALL, &run.threads()))
        .with("iterations", samples.collect::<Node>())
        .with("late", late.iter().map(late_json).collect::<Node>())
        .sorted_text()
}

fn late_json(late: &Late) -> Object {
    let choices = list(cpu_choice::ALL, &late.choices);
    Object::of(late_thread::ALL, late).with("could_have_run", choices)
}

#[cfg(test)]
#[path = "../../../hitm-live/src/rt/tests/samples.rs"]
mod samples;

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::Value;

    use super::samples::published;
    use super::*;

    #[test]
    fn a_late_thread_is_told_where_it_could_have_run() {
        let out = text(&published());
        expect![[r#"
            Iter:       0       1       2       3       4 
               0:      36      33   20041      39      33 
             len:   20036   20033   40041   20039   20033 
             loops: 167789  167693  227167  167829  167814 

             Task 0 (prio 2):
               Max: 36 us
               Min: 36 us
               Tot: 36 us
               Avg: 36 us

             Task 1 (prio 3):
               Max: 33 us
               Min: 33 us
               Tot: 33 us
               Avg: 33 us

             Task 2 (prio 4):
               Max: 20041 us
               Min: 20041 us
               Tot: 20041 us
               Avg: 20041 us

             Task 3 (prio 5):
               Max: 39 us
               Min: 39 us
               Tot: 39 us
               Avg: 39 us

             Task 4 (prio 6):
               Max: 33 us
               Min: 33 us
               Tot: 33 us
               Avg: 33 us

             Failed at iteration 0!

             Iteration 0: task 2 (prio 4) started on CPU 3 after 20,041 us, 20,008 us later than task 1 (prio 3)
               It could have run on CPU 0 (task 0, prio 2), CPU 1 (task 1, prio 3), CPU 4 (no task of the test)
        "#]]
        .assert_eq(out.as_str());
    }

    #[test]
    fn the_verdict_counts_iterations() {
        let out = verdict_text(&published());
        let first = out.as_str().lines().next();
        assert_eq!(first, Some("Failed: 1 of 1 iterations"));
        let mut good = published();
        good.results.iterations[0][2].start_us = 60;
        assert_eq!(verdict_text(&good).as_str(), "Passed: 1 iterations\n");
    }

    #[test]
    fn the_object_names_the_same_thread() {
        let value: Value = serde_json::from_str(&json(&published())).unwrap();
        assert_eq!(value["passed"], false);
        assert_eq!(value["late"][0]["task"], 2);
        assert_eq!(value["late"][0]["could_have_run"][0]["task"], 0);
        assert_eq!(value["late"][0]["could_have_run"][2]["task"], Value::Null);
        assert_eq!(value["threads"][2]["start_max_us"], 20041);
        assert_eq!(value["iterations"][0][3]["first_cpu"], 2);
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a golden, which is longer than code")]
    fn json_of_the_whole() {
        expect![[r#"
            {
              "cpus": [
                0,
                1,
                2,
                3,
                4
              ],
              "iterations": [
                [
                  {
                    "first_cpu": 0,
                    "last_cpu": 0,
                    "length_us": 20036,
                    "loops": 167789,
                    "start_us": 36
                  },
                  {
                    "first_cpu": 1,
                    "last_cpu": 1,
                    "length_us": 20033,
                    "loops": 167693,
                    "start_us": 33
                  },
                  {
                    "first_cpu": 3,
                    "last_cpu": 3,
                    "length_us": 40041,
                    "loops": 227167,
                    "start_us": 20041
                  },
                  {
                    "first_cpu": 2,
                    "last_cpu": 2,
                    "length_us": 20039,
                    "loops": 167829,
                    "start_us": 39
                  },
                  {
                    "first_cpu": 3,
                    "last_cpu": 3,
                    "length_us": 20033,
                    "loops": 167814,
                    "start_us": 33
                  }
                ]
              ],
              "late": [
                {
                  "could_have_run": [
                    {
                      "cpu": 0,
                      "task": 0
                    },
                    {
                      "cpu": 1,
                      "task": 1
                    },
                    {
                      "cpu": 4,
                      "task": null
                    }
                  ],
                  "cpu": 3,
                  "iteration": 0,
                  "late_us": 20008,
                  "start_us": 20041,
                  "task": 2
                }
              ],
              "max_err_us": 1000,
              "passed": false,
              "run_time_us": 20000,
              "schema": 1,
              "threads": [
                {
                  "prio": 2,
                  "start_avg_us": 36,
                  "start_max_us": 36,
                  "start_min_us": 36
                },
                {
                  "prio": 3,
                  "start_avg_us": 33,
                  "start_max_us": 33,
                  "start_min_us": 33
                },
                {
                  "prio": 4,
                  "start_avg_us": 20041,
                  "start_max_us": 20041,
                  "start_min_us": 20041
                },
                {
                  "prio": 5,
                  "start_avg_us": 39,
                  "start_max_us": 39,
                  "start_min_us": 39
                },
                {
                  "prio": 6,
                  "start_avg_us": 33,
                  "start_max_us": 33,
                  "start_min_us": 33
                }
              ]
            }"#]]
        .assert_eq(json(&published()).trim_end());
    }
}
