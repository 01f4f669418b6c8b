//! The result of a simulation as a profile: `hitm sim --format json` counts accesses by member,
//! function and CPU.
//!
//! A simulation counts all objects of a type together, so a profile needs a type with one object.
//! Memory behind a pointer of the object has lines of its own and is no part of it.

use std::path::Path;

use hitm_base::Cycles;
use hitm_layout::profile::{Counts, CpuSet, Profile, RowKey};
use serde::Deserialize;
use thiserror::Error;

/// The only version of the format.
const SCHEMA: u32 = 1;

/// Selection of a profile in a result.
#[derive(Debug, Clone, Copy)]
pub struct Simulated<'s> {
    /// The file's name.
    pub path: &'s Path,
    /// The type.
    pub type_name: &'s str,
    /// The variant; that of `layout` when it is left out.
    pub variant: Option<&'s str>,
    /// Layout that the question is about.
    pub layout: &'s str,
}

/// Errors of making a profile from a simulation.
#[derive(Debug, Error)]
#[error("{file}: {place}found {found}, expected {expected}")]
pub struct SimulatedProfileError {
    /// The file.
    pub file: String,
    /// Place in the file, with a colon and a space behind; empty for the whole.
    pub place: String,
    /// Value found there.
    pub found: String,
    /// Values that are allowed.
    pub expected: String,
}

#[derive(Deserialize)]
struct ResultJson {
    schema: u32,
    #[serde(default)]
    scenario: String,
    #[serde(default)]
    machine: String,
    #[serde(default)]
    variants: Vec<VariantJson>,
}

#[derive(Deserialize)]
struct VariantJson {
    variant: String,
    layout: String,
    #[serde(default)]
    runs: Vec<RunJson>,
}

#[derive(Deserialize)]
struct RunJson {
    seed: u64,
    work_cycles_mean: Option<f64>,
    lines: Vec<LineJson>,
}

#[derive(Deserialize)]
struct LineJson {
    object: String,
    object_count: Option<u64>,
    rows: Vec<RowJson>,
}

#[derive(Deserialize)]
struct RowJson {
    member: String,
    function: String,
    load_count: u64,
    store_count: u64,
    locked_count: Option<u64>,
    cpus: Option<String>,
}

/// Returns the accesses to the one object of a type, over all seeds of a variant, and the name of
/// the simulated machine.
///
/// # Errors
/// Text that is no such result; no such variant; a type with no object or with several.
pub fn profile(
    text: &str,
    wanted: &Simulated<'_>,
) -> Result<(Profile, String), SimulatedProfileError> {
    let result: ResultJson = serde_json::from_str(text)
        .map_err(|error| wanted.error("", &format!("no result of a simulation ({error})"), KIND))?;
    if result.schema != SCHEMA {
        let found = format!("schema {}", result.schema);
        return Err(wanted.error("", &found, "schema 1"));
    }
    let variant = wanted.choose(&result.variants)?;
    let name = format!("{} ({})", result.scenario, variant.variant);
    let source = format!("hitm sim, {} runs", variant.runs.len());
    let mut profile = Profile::new(name, source, Cycles::ZERO);
    let mut others: Vec<&str> = Vec::new();
    for run in &variant.runs {
        let work = run.work_cycles_mean.filter(|work| *work >= 1.0);
        let place = format!("run of seed {}: ", run.seed);
        let work = work.ok_or_else(|| wanted.error(&place, "no work_cycles_mean", NEWER))?;
        profile.period = Cycles(profile.period.0.saturating_add(work as u64));
        for line in &run.lines {
            if line.object == wanted.type_name {
                wanted.add(line, &place, &mut profile)?;
            } else if line.object_count == Some(1) && !line.object.contains("->") {
                others.push(&line.object);
            }
        }
    }
    if profile.rows().next().is_none() {
        others.sort_unstable();
        others.dedup();
        let found = format!("no access to {}", wanted.type_name);
        let expected = format!("one of {}", others.join(", "));
        return Err(wanted.error("", &found, &expected));
    }
    Ok((profile, result.machine))
}

const KIND: &str = "what hitm sim --format json writes";
const NEWER: &str = "it, which hitm sim of this version writes";

impl Simulated<'_> {
    fn error(&self, place: &str, found: &str, expected: &str) -> SimulatedProfileError {
        SimulatedProfileError {
            file: self.path.display().to_string(),
            place: place.to_owned(),
            found: found.to_owned(),
            expected: expected.to_owned(),
        }
    }

    /// Chooses the requested variant, or the only one, or the only one of the layout.
    fn choose<'v>(
        &self,
        variants: &'v [VariantJson],
    ) -> Result<&'v VariantJson, SimulatedProfileError> {
        let run = variants.iter().filter(|variant| !variant.runs.is_empty());
        let run: Vec<&VariantJson> = run.collect();
        let only = |is_wanted: &dyn Fn(&VariantJson) -> bool| {
            let mut found = run.iter().filter(|variant| is_wanted(variant));
            found.next().filter(|_| found.next().is_none()).copied()
        };
        let found = match self.variant {
            Some(name) => only(&|variant| variant.variant == name),
            None => only(&|_| true).or_else(|| only(&|variant| variant.layout == self.layout)),
        };
        found.ok_or_else(|| {
            if run.is_empty() {
                return self.error("", "no variant with runs", KIND);
            }
            let names: Vec<String> = run.iter().map(|run| format!("{:?}", run.variant)).collect();
            let found = match self.variant {
                Some(name) => format!("no variant {name:?}"),
                None => format!("{} variants", run.len()),
            };
            self.error(
                "",
                &found,
                &format!("--variant with one of {}", names.join(", ")),
            )
        })
    }

    fn add(
        &self,
        line: &LineJson,
        place: &str,
        profile: &mut Profile,
    ) -> Result<(), SimulatedProfileError> {
        match line.object_count {
            Some(1) => {}
            Some(count) => {
                let found = format!("{count} objects of type {} together", line.object);
                return Err(self.error(place, &found, "a type with one object"));
            }
            None => return Err(self.error(place, "a line without object_count", NEWER)),
        }
        for row in &line.rows {
            let place = format!("{place}{} by {}: ", row.member, row.function);
            let rmws = row.locked_count;
            let rmws = rmws.ok_or_else(|| self.error(&place, "no locked_count", NEWER))?;
            let cpus = row.cpus.as_deref();
            let cpus = cpus.ok_or_else(|| self.error(&place, "no cpus", NEWER))?;
            let cpus = CpuSet::parse(cpus).ok_or_else(|| {
                let found = format!("cpus {cpus:?}");
                self.error(&place, &found, "CPU numbers and ranges, such as 0-3 8")
            })?;
            let counts = Counts {
                loads: row.load_count.saturating_sub(rmws),
                stores: row.store_count.saturating_sub(rmws),
                rmws,
            };
            let key = RowKey {
                member: row.member.clone(),
                instance: 0,
                function: row.function.clone(),
                comm: String::new(),
                cpus,
            };
            profile.add(key, counts);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// A result with one variant for each layout, each with the same line.
    fn result(layouts: &[&str], object_count: u64, row: &str) -> String {
        let variant = |layout: &&str| {
            format!(
                r#"{{ "variant": "push {layout}", "layout": "{layout}", "runs": [ {{ "seed": 7,
                "work_cycles_mean": 1000.5, "lines": [
                {{ "object": "rq", "object_count": 4, "rows": [] }},
                {{ "object": "root_domain.span->", "object_count": 1, "rows": [] }},
                {{ "object": "root_domain", "object_count": {object_count}, "rows": [{row}] }} ] }} ] }}"#
            )
        };
        let variants: Vec<String> = layouts.iter().map(variant).collect();
        let variants = variants.join(",");
        format!(r#"{{ "schema": 1, "scenario": "s", "machine": "m", "variants": [{variants}] }}"#)
    }

    const ROW: &str = r#"{ "member": "rto_count", "function": "pull_rt_task", "load_count": 30,
        "store_count": 12, "locked_count": 10, "cpus": "0-3 8" }"#;

    fn check(text: &str, wanted: Simulated<'_>, expected: Expect) {
        expected.assert_eq(&match profile(text, &wanted) {
            Ok((profile, machine)) => format!("on {machine}\n{}", profile.to_csv()),
            Err(error) => error.to_string(),
        });
    }

    /// The profile of `root_domain`.
    fn root() -> Simulated<'static> {
        Simulated {
            path: Path::new("sim.json"),
            type_name: "root_domain",
            variant: None,
            layout: "b",
        }
    }

    #[test]
    fn a_locked_operation_is_no_load_and_no_store_of_a_profile() {
        check(
            &result(&["a"], 1, ROW),
            root(),
            expect![[r#"
                on m
                # schema: 1
                # name: s (push a)
                # source: hitm sim, 1 runs
                # period_cycles: 1000
                member,instance,function,comm,loads,stores,rmws,cpus
                rto_count,0,pull_rt_task,,20,2,10,0-3 8
            "#]],
        );
    }

    #[test]
    fn the_variant_of_the_layout_is_taken() {
        check(
            &result(&["a", "b"], 1, ROW),
            root(),
            expect![[r#"
            on m
            # schema: 1
            # name: s (push b)
            # source: hitm sim, 1 runs
            # period_cycles: 1000
            member,instance,function,comm,loads,stores,rmws,cpus
            rto_count,0,pull_rt_task,,20,2,10,0-3 8
        "#]],
        );
        let asked = Simulated {
            variant: Some("push a"),
            ..root()
        };
        check(
            &result(&["a", "b"], 1, ROW),
            asked,
            expect![[r#"
            on m
            # schema: 1
            # name: s (push a)
            # source: hitm sim, 1 runs
            # period_cycles: 1000
            member,instance,function,comm,loads,stores,rmws,cpus
            rto_count,0,pull_rt_task,,20,2,10,0-3 8
        "#]],
        );
        check(
            &result(&["a", "c"], 1, ROW),
            root(),
            expect![[
                r#"sim.json: found 2 variants, expected --variant with one of "push a", "push c""#
            ]],
        );
        let unknown = Simulated {
            variant: Some("pull"),
            ..root()
        };
        check(
            &result(&["a", "b"], 1, ROW),
            unknown,
            expect![[
                r#"sim.json: found no variant "pull", expected --variant with one of "push a", "push b""#
            ]],
        );
    }

    #[test]
    fn what_is_no_profile_is_named() {
        check(
            "{",
            root(),
            expect![
                "sim.json: found no result of a simulation (EOF while parsing an object at line 1 column 1), expected what hitm sim --format json writes"
            ],
        );
        check(
            r#"{ "schema": 2 }"#,
            root(),
            expect!["sim.json: found schema 2, expected schema 1"],
        );
        check(
            r#"{ "schema": 1, "scenarios": [] }"#,
            root(),
            expect![
                "sim.json: found no variant with runs, expected what hitm sim --format json writes"
            ],
        );
        check(
            &result(&["a"], 2, ROW),
            root(),
            expect![
                "sim.json: run of seed 7: found 2 objects of type root_domain together, expected a type with one object"
            ],
        );
        let other = Simulated {
            type_name: "cfs_rq",
            ..root()
        };
        check(
            &result(&["a"], 1, ROW),
            other,
            expect!["sim.json: found no access to cfs_rq, expected one of root_domain"],
        );
        let older = ROW.replace("\"locked_count\": 10,", "");
        check(
            &result(&["a"], 1, &older),
            root(),
            expect![
                "sim.json: run of seed 7: rto_count by pull_rt_task: found no locked_count, expected it, which hitm sim of this version writes"
            ],
        );
        let wrong = ROW.replace("0-3 8", "3-0");
        check(
            &result(&["a"], 1, &wrong),
            root(),
            expect![[
                r#"sim.json: run of seed 7: rto_count by pull_rt_task: found cpus "3-0", expected CPU numbers and ranges, such as 0-3 8"#
            ]],
        );
    }
}
