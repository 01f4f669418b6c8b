//! Plans of many runs, and the results of single ones.

use hitm_sweep::name::Naming;
use hitm_sweep::plan::{Plan, RUNS_MAX};
use hitm_sweep::result::{RunResult, with_checksum};

/// A mistake has a place; a plan has no more runs than allowed, and each of its points has a value for
/// every key.
pub fn check(text: &str) {
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

/// A text that reads as a result reads back as written.
pub fn check_result(text: &str) {
    let name = Naming::new(1).name();
    let whole = with_checksum(format!("hitm-sweep-result 2 {name}\n{text}\n"));
    let texts = [text.to_owned(), whole];
    for result in texts
        .iter()
        .filter_map(|text| RunResult::decode(text, name))
    {
        let read = RunResult::decode(&result.encode(name), name);
        // A figure that is no number differs from itself.
        assert_eq!(format!("{read:?}"), format!("{:?}", Some(result)));
    }
}
