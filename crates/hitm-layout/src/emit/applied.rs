//! Unified diffs of one file, applied to its text, and made of two texts.

use super::diff::{Replacement, unified_diff};

/// Steps of a comparison after which texts count as different throughout: its memory grows with their square.
const STEPS_MAX: usize = 1_000;

/// The text that a unified diff makes of `old`. What stands before its first hunk is skipped. None where the diff is
/// not of this text.
pub fn patched(old: &str, diff: &str) -> Option<String> {
    let lines: Vec<&str> = old.split_inclusive('\n').collect();
    let mut out = String::with_capacity(old.len());
    let (mut at, mut is_added) = (0, false);
    let hunks = diff.split_inclusive('\n');
    for line in hunks.skip_while(|line| !line.starts_with("@@ -")) {
        if let Some(head) = line.strip_prefix("@@ -") {
            let start: usize = head.split([',', ' ']).next()?.parse().ok()?;
            let start = start.checked_sub(1)?;
            out.extend(lines.get(at..start)?.iter().copied());
            (at, is_added) = (start, false);
            continue;
        }
        match line.split_at_checked(1)? {
            (sign @ (" " | "-"), text) => {
                let own = *lines.get(at)?;
                if own.strip_suffix('\n').unwrap_or(own) != text.strip_suffix('\n').unwrap_or(text)
                {
                    return None;
                }
                at += 1;
                is_added = false;
                if sign == " " {
                    out += own;
                }
            }
            ("+", text) => {
                out += text;
                is_added = true;
            }
            ("\\", _) if is_added => out.truncate(out.strip_suffix('\n')?.len()),
            ("\\", _) => {}
            _ => return None,
        }
    }
    out.extend(lines.get(at..)?.iter().copied());
    Some(out)
}

/// A unified diff that makes `new` of `old`; empty where they are the same.
pub fn difference(file: &str, old: &str, new: &str) -> String {
    let (before, after): (Vec<&str>, Vec<&str>) =
        (old.split('\n').collect(), new.split('\n').collect());
    let pairs = before.iter().zip(&after);
    let head = pairs.take_while(|(a, b)| a == b).count();
    let pairs = before[head..].iter().rev().zip(after[head..].iter().rev());
    let tail = pairs.take_while(|(a, b)| a == b).count();
    let (own, other) = (
        &before[head..before.len() - tail],
        &after[head..after.len() - tail],
    );
    let mut replacements: Vec<Replacement> = Vec::new();
    for step in steps(own, other) {
        match replacements.last_mut() {
            Some(last) if last.start + last.count == head + step.old => {
                last.count += usize::from(step.is_removed);
                last.lines
                    .extend(step.added.map(|line| other[line].to_owned()));
            }
            _ => replacements.push(Replacement {
                start: head + step.old,
                count: usize::from(step.is_removed),
                lines: step
                    .added
                    .map(|line| other[line].to_owned())
                    .into_iter()
                    .collect(),
            }),
        }
    }
    unified_diff(file, old, &replacements)
}

/// A line that is removed before line `old`, or one that is added there.
struct Step {
    old: usize,
    is_removed: bool,
    added: Option<usize>,
}

/// The fewest removed and added lines, by the greedy algorithm of Myers; all lines where there are too many.
fn steps(old: &[&str], new: &[&str]) -> Vec<Step> {
    let (count, width) = (
        old.len() + new.len(),
        old.len().max(new.len()).min(STEPS_MAX),
    );
    // The furthest line of `old` on each diagonal, after each number of steps.
    let mut furthest = vec![0usize; 2 * width + 3];
    let mut history = Vec::new();
    let middle = width + 1;
    for steps in 0..=count.min(width) {
        history.push(furthest.clone());
        for diagonal in (middle - steps..=middle + steps).step_by(2) {
            let adds = diagonal == middle - steps
                || diagonal != middle + steps && furthest[diagonal - 1] < furthest[diagonal + 1];
            let mut x = match adds {
                true => furthest[diagonal + 1],
                false => furthest[diagonal - 1] + 1,
            };
            let y = |x: usize| (x + middle).checked_sub(diagonal);
            while x < old.len() && y(x).is_some_and(|y| new.get(y) == Some(&old[x])) {
                x += 1;
            }
            furthest[diagonal] = x;
            if x == old.len() && y(x) == Some(new.len()) {
                return traced(&history, middle, old.len(), new.len());
            }
        }
    }
    let removed = (0..old.len()).map(|line| Step {
        old: line,
        is_removed: true,
        added: None,
    });
    let added = (0..new.len()).map(|line| Step {
        old: old.len(),
        is_removed: false,
        added: Some(line),
    });
    removed.chain(added).collect()
}

/// The steps back from the ends of both texts.
fn traced(history: &[Vec<usize>], middle: usize, mut x: usize, mut y: usize) -> Vec<Step> {
    let mut out = Vec::new();
    for (steps, furthest) in history.iter().enumerate().skip(1).rev() {
        let diagonal = x + middle - y;
        let adds = diagonal == middle - steps
            || diagonal != middle + steps && furthest[diagonal - 1] < furthest[diagonal + 1];
        let from = if adds { diagonal + 1 } else { diagonal - 1 };
        x = furthest[from];
        y = x + middle - from;
        out.push(Step {
            old: x,
            is_removed: !adds,
            added: adds.then_some(y),
        });
    }
    out.reverse();
    out
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_difference_has_few_lines() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\n";
        let new = "a\nb\nx\nd\ne\nf\nh\ni\n";
        expect![[r#"
            --- a.c
            +++ a.c
            @@ -1,8 +1,8 @@
             a
             b
            -c
            +x
             d
             e
             f
            -g
             h
            +i
        "#]]
        .assert_eq(&difference("a.c", old, new));
        assert_eq!(difference("a.c", old, old), "");
    }

    #[test]
    fn a_diff_of_another_text_is_refused() {
        let diff = difference("a.c", "a\nb\nc\n", "a\nx\nc\n");
        assert_eq!(patched("a\nb\nc\n", &diff).as_deref(), Some("a\nx\nc\n"));
        for text in ["a\nc\n", "a\nb\n", "", "b\nb\nc\n"] {
            assert_eq!(patched(text, &diff), None, "{text:?}");
        }
        for diff in [
            "@@ -0,1 +1,1 @@\n a\n",
            "@@ -9,1 +1,1 @@\n",
            "@@ -x\n",
            "@@ -1,1 +1,1 @@\n?a\n",
        ] {
            assert_eq!(patched("a\n", diff), None, "{diff:?}");
        }
    }

    /// Texts of few different lines, so that they have much in common.
    fn text() -> impl Strategy<Value = String> {
        vec("[abc]{0,1}\n", 0..24).prop_map(|lines| lines.concat())
    }

    proptest! {
        #[test]
        fn a_difference_makes_the_new_text(old in text(), new in text(), end in "[ab]{0,1}") {
            // The last line may have no end, if it stays.
            let [old, new] = [old, new].map(|text| text + "-\n-\n" + &end);
            let diff = difference("a.c", &old, &new);
            prop_assert_eq!(patched(&old, &diff), Some(new));
        }

        #[test]
        fn no_diff_panics(old in text(), diff in "(@@ -[0-9]{1,2}[, ]|[ +-]|\\\\|[abc]|\n){0,20}") {
            let _ = patched(&old, &diff);
        }
    }
}
