//! Plans, placements and proofs of `hitm place`, as text and as JSON. The quantities are declared beside what is
//! decided, in `hitm_live::place`.

mod json;
mod text;

use std::time::Duration;

use hitm_live::place::prove::Proof;
use hitm_live::place::{Placed, Plan, Undone};

pub use json::{applied_json, plan_json, status_json, undone_json};
pub use text::{
    applied_line, change_line, placed_line, plan, problems, proof, recovered, status, undone_all,
    undone_line,
};

/// Everything that `hitm place apply` has done so far.
#[derive(Debug, Clone, Default)]
pub struct Applied {
    /// The plan; none for a watch, which makes many.
    pub plan: Option<Plan>,
    /// The proof, where one was asked for.
    pub proof: Option<Proven>,
    /// Threads that were placed.
    pub placed: Option<Placed>,
    /// The guard that keeps the placement.
    pub guard: Option<u32>,
    /// Changes that a watch made, in their order.
    pub changes: Option<Vec<Change>>,
    /// Threads that were put back.
    pub undone: Option<Undone>,
}

/// A proof, and what was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Proven {
    /// The outcome.
    pub proof: Proof,
    /// Unit of the rates.
    pub unit: String,
    /// Gain that keeps the placement.
    pub min_gain: f64,
}

/// A change that a watch made.
#[derive(Debug, Clone)]
pub struct Change {
    /// Time since the begin of the watch.
    pub at: Duration,
    /// The change.
    pub event: Event,
}

/// Something that a watch saw or did.
#[derive(Debug, Clone)]
pub enum Event {
    /// Somebody else undid the placement.
    Undone,
    /// A placement was wanted and there is none: the reason.
    Stayed(String),
    /// Threads were placed.
    Placed {
        /// Threads that waited for the lock, on average.
        waiting: f64,
        /// The plan by which they were placed.
        plan: Box<Plan>,
    },
    /// Threads were put back, since they fight no more.
    Released {
        /// The lock.
        name: String,
        /// Threads that were put back.
        undone: Undone,
    },
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use hitm_live::place::prove::{Measurement, Spread};

    use super::*;

    fn applied() -> Applied {
        let rates = Spread {
            median: 1500.0,
            min: 0.5,
            max: 1.0 / 3.0,
        };
        let undone = Undone {
            restored: 1,
            ended: 2,
            problems: vec!["no\x1b".into()],
            ..Undone::default()
        };
        Applied {
            plan: None,
            proof: Some(Proven {
                proof: Proof {
                    measurements: vec![Measurement {
                        is_placed: true,
                        rate: 2.0,
                    }],
                    without: rates,
                    placed: rates,
                    gain: -0.1,
                    is_better: false,
                },
                unit: "loops".into(),
                min_gain: 0.05,
            }),
            placed: Some(Placed {
                placed: 3,
                ended: 1,
            }),
            guard: Some(7),
            changes: Some(vec![
                Change {
                    at: Duration::from_millis(1500),
                    event: Event::Stayed("calm".into()),
                },
                Change {
                    at: Duration::from_secs(2),
                    event: Event::Released {
                        name: "mutex".into(),
                        undone: Undone::default(),
                    },
                },
            ]),
            undone: Some(undone),
        }
    }

    #[test]
    fn json_has_what_was_done() {
        expect![[r#"
            {
              "changes": [
                {
                  "at_ms": 1500,
                  "change": "stayed",
                  "reason": "calm"
                },
                {
                  "at_ms": 2000,
                  "change": "released",
                  "undone": {
                    "changed": 0,
                    "ended": 0,
                    "inherited": 0,
                    "problems": [],
                    "restored": 0,
                    "unclear": []
                  }
                }
              ],
              "guard": 7,
              "placed": {
                "ended": 1,
                "placed": 3
              },
              "proof": {
                "gain": -0.1,
                "is_better": false,
                "measurements": [
                  {
                    "is_placed": true,
                    "rate": 2.0
                  }
                ],
                "min_gain": 0.05,
                "placed": {
                  "max": 0.3333333333333333,
                  "median": 1500.0,
                  "min": 0.5
                },
                "unit": "loops",
                "without": {
                  "max": 0.3333333333333333,
                  "median": 1500.0,
                  "min": 0.5
                }
              },
              "schema": 1,
              "undone": {
                "changed": 0,
                "ended": 2,
                "inherited": 0,
                "problems": [
                  "no\u001b"
                ],
                "restored": 1,
                "unclear": []
              }
            }
        "#]]
        .assert_eq(&applied_json(&applied()));
        let nothing = "{\n  \"schema\": 1\n}\n";
        assert_eq!(applied_json(&Applied::default()), nothing);
    }

    #[test]
    fn changes_and_proofs_are_lines() {
        let applied = applied();
        let changes = applied.changes.iter().flatten();
        let lines: Vec<String> = changes.map(change_line).collect();
        let expected = [
            "    1.5 s  nothing is placed: calm",
            "    2.0 s  calm, released mutex: 0 threads are as they were",
        ];
        assert_eq!(lines, expected);
        expect![[r#"
            Proof by loops, a second
                1  placed   2.00
              without: median 1500 (0.50 to 0.33)
              placed:  median 1500 (0.50 to 0.33)
              -10.0 %, at least +5.0 % asked for: the placement is undone
        "#]]
        .assert_eq(&applied.proof.map(|proven| proof(&proven)).unwrap());
    }
}
