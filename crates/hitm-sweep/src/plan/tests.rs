use expect_test::{Expect, expect};
use hitm_test::{Choices, noise, text};
use proptest::prelude::*;

use super::*;

const HEAD: &str = "schema = 1\nname = \"p\"\nscenarios = \"a.toml\"\n";

fn parse(rest: &str) -> Result<Plan, PlanError> {
    Plan::parse(&format!("{HEAD}{rest}"), "plan.toml")
}

fn settings(plan: &Plan, number: u64) -> String {
    let point = plan.point(number);
    let settings = point.settings.iter();
    let settings: Vec<String> = settings
        .map(|setting| format!("{}={}", setting.key, setting.value.toml()))
        .collect();
    format!("{} {}", plan.sources[point.source].0, settings.join(" "))
}

#[test]
fn points_are_every_combination_in_the_order_of_the_file() {
    let plan = parse(
        "seeds = 2\n[[vary]]\nkeys = [\"machine\", \"machine.cpus\"]\n\
         values = [[\"m\", 8], [\"n\", 16]]\n\
         [[vary]]\nkey = \"kernel.tick\"\nfrom = \"100/s\"\nto = \"300/s\"\nsteps = 3\n",
    )
    .unwrap();
    let all: Vec<String> = (0..plan.point_count())
        .map(|n| settings(&plan, n))
        .collect();
    let expected = expect![[r#"
        a.toml machine="m" machine.cpus=8 kernel.tick="100/s"
        a.toml machine="m" machine.cpus=8 kernel.tick="200/s"
        a.toml machine="m" machine.cpus=8 kernel.tick="300/s"
        a.toml machine="n" machine.cpus=16 kernel.tick="100/s"
        a.toml machine="n" machine.cpus=16 kernel.tick="200/s"
        a.toml machine="n" machine.cpus=16 kernel.tick="300/s""#]];
    expected.assert_eq(&all.join("\n"));
    assert_eq!(plan.seeds().collect::<Vec<_>>(), [1, 2]);
    let per_second = KeyType::Integer(Unit::PerSecond);
    let machine = ("machine", KeyType::Text);
    let cpus = ("machine.cpus", KeyType::Integer(Unit::None));
    assert_eq!(plan.keys(), [machine, cpus, ("kernel.tick", per_second)]);
}

#[test]
fn samples_are_points_of_ranges() {
    let plan = parse(
        "[sample]\nmethod = \"sobol\"\npoints = 4\n\
         [[sample.range]]\nkey = \"a\"\nfrom = 0\nto = 100\n\
         [[sample.range]]\nkey = \"b\"\nfrom = \"1us\"\nto = \"100us\"\nscale = \"log\"\n",
    )
    .unwrap();
    let all: Vec<String> = (0..plan.point_count())
        .map(|n| settings(&plan, n))
        .collect();
    let expected = expect![[r#"
        a.toml a=0 b="1us"
        a.toml a=50 b="10us"
        a.toml a=75 b="3162ns"
        a.toml a=25 b="31623ns""#]];
    expected.assert_eq(&all.join("\n"));
}

fn check_error(rest: &str, expected: Expect) {
    expected.assert_eq(&parse(rest).unwrap_err().to_string());
}

#[test]
fn mistakes_have_a_place() {
    check_error(
        "colour = 1\n",
        expect![[
            r#"plan.toml:4:1: colour: found an unknown key, expected one of schema, name, description, scenarios, recordings, quick, first_seed, seeds, metrics, vary, sample"#
        ]],
    );
    check_error(
        "[[vary]]\nkey = \"a\"\nfrom = 3\nto = 3\nsteps = 2\n",
        expect!["plan.toml:7:6: vary[0].to: found 3 to 3, expected more than `from`"],
    );
    check_error(
        "[[vary]]\nkey = \"a\"\nvalues = []\n",
        expect!["plan.toml:6:10: vary[0].values: found 0 values, expected 1 to 10000 values"],
    );
    check_error(
        "[[vary]]\nkey = \"a\"\nfrom = 1\nto = 3\nsteps = 7\n",
        expect!["plan.toml:8:9: vary[0].steps: found 7, expected at most 3: values would repeat"],
    );
    check_error(
        "[[vary]]\nkey = \"a\"\nvalues = [1]\n[[vary]]\nkey = \"a\"\nvalues = [2]\n",
        expect!["plan.toml:8:7: a: found a key that is varied already, expected each key once"],
    );
    check_error(
        "seeds = 1000000000\n",
        expect!["plan.toml:4:9: seeds: found 1000000000 runs, expected at most 1000000 runs"],
    );
    let axis =
        |key: &str| format!("[[vary]]\nkey = \"{key}\"\nfrom = 1\nto = 10000\nsteps = 10000\n");
    check_error(
        &format!("{}{}", axis("a"), axis("b")),
        expect!["plan.toml:10:7: b: found 100000000 points, expected at most 1000000 runs"],
    );
    check_error(
        "recordings = \"a.hitm\"\n",
        expect![
            "plan.toml:4:14: recordings: found `scenarios` and `recordings`, expected one of them"
        ],
    );
}

/// Asserts the invariants of any text; `fuzz/` asserts the same.
fn check_any(text: &str) {
    match Plan::parse(text, "fuzz") {
        Ok(plan) => {
            assert!((1..=RUNS_MAX).contains(&(plan.point_count() * plan.seed_count)));
            let last = plan.point(plan.point_count() - 1);
            assert_eq!(last.settings.len(), plan.keys().len());
            assert_eq!(last.source, plan.sources.len() - 1);
        }
        Err(error) => assert!(error.place.line > 0 && error.place.column > 0),
    }
}

#[test]
fn made_plans_are_sound_and_unsound() {
    let made = |seed: u64| text::plan(&mut Choices::new(&noise(seed, 300)));
    let is_sound = |seed: &u64| Plan::parse(&made(*seed), "made").is_ok();
    let sound = (0..300).filter(is_sound).count();
    assert!((20..280).contains(&sound), "{sound}");
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        check_any(&text);
        check_any(&format!("{HEAD}{text}"));
    }

    #[test]
    fn no_made_plan_panics(seed in any::<u64>()) {
        check_any(&text::plan(&mut Choices::new(&noise(seed, 300))));
    }

    #[test]
    fn points_differ(one in 1u64..5, other in 1u64..5, seed in 0u64..100) {
        let plan = parse(&format!(
            "[[vary]]\nkey = \"a\"\nfrom = 0\nto = 50\nsteps = {}\n\
             [[vary]]\nkey = \"b\"\nfrom = 0.5\nto = 7.5\nsteps = {}\n\
             [sample]\nmethod = \"latin-hypercube\"\npoints = 5\nseed = {seed}\n\
             [[sample.range]]\nkey = \"c\"\nfrom = 0\nto = 1000000\n",
            one + 1, other + 1,
        )).unwrap();
        let count = plan.point_count();
        prop_assert_eq!(count, (one + 1) * (other + 1) * 5);
        let mut all: Vec<String> = (0..count).map(|n| settings(&plan, n)).collect();
        all.sort();
        all.dedup();
        prop_assert_eq!(all.len() as u64, count);
    }
}
