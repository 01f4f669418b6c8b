//! The rule about loads of the simulated kernel: a value that is read decides something.

use super::File;
use super::parameters::split;

/// Statements that load a word and use no value of it.
pub(super) fn discarded(file: &File, text: &str) -> Vec<String> {
    if !file.path.starts_with("crates/hitm-sim/src/kernel/") {
        return Vec::new();
    }
    let is_comment = |line: &str| line.trim_start().starts_with("//");
    let lines = text.lines();
    let lines = lines.map(|line| if is_comment(line) { "" } else { line });
    let text = lines.collect::<Vec<&str>>().join("\n");
    let mut problems = Vec::new();
    for (at, call) in text.match_indices(".load(") {
        let start = text[..at].rfind([';', '{', '}']).map_or(0, |end| end + 1);
        let head = text[start..at].trim();
        let of_place = |c: char| c.is_alphanumeric() || "_.()\n ".contains(c);
        let is_statement = head.chars().all(of_place) && !head.starts_with("return ");
        let rest = split(&text[at + call.len()..]).map_or("", |(_, rest)| rest);
        let rest = rest.trim_start().strip_prefix(".await");
        if is_statement && rest.is_some_and(|rest| rest.starts_with(';')) {
            let number = text[..at].matches('\n').count() + 1;
            problems.push(format!(":{number} discards what it loads"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_whose_value_is_not_used_is_found() {
        let path = "crates/hitm-sim/src/kernel/rq.rs";
        let found = |text: &str| discarded(&File::of(path, text), text);
        let used =
            "let a = engine.load(site, place).await;\nif engine.load(f(1), b[c]).await == 0 {}";
        assert!(found(used).is_empty());
        assert!(found("return engine.load(site, place).await;").is_empty());
        let not =
            "{\n    // Why.\n    self.engine\n        .load(site, b[c(1)])\n        .await;\n}";
        assert_eq!(found(not), [":4 discards what it loads"]);
    }
}
