//! Links between pages, and the guide's table of contents.

use std::collections::BTreeSet;

use super::Checkout;

/// The table of contents of docs/, as mdBook reads it.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Links of pages to missing files.
pub(super) fn broken(checkout: &Checkout) -> Vec<String> {
    let mut places: BTreeSet<&str> = BTreeSet::new();
    for file in &checkout.files {
        // A link may lead to a folder.
        let ends = file.path.match_indices('/').map(|(end, _)| end);
        places.extend(ends.map(|end| &file.path[..end]));
        places.insert(&file.path);
    }
    let mut problems = Vec::new();
    for file in checkout
        .files
        .iter()
        .filter(|file| file.path.ends_with(".md"))
    {
        let text = file.text.as_deref().unwrap_or_default();
        for (line, target) in targets(text) {
            let is_there = resolved(&file.path, target).is_some_and(|path| places.contains(&*path));
            if !is_there {
                problems.push(format!("{}:{line} leads to {target}", file.path));
            }
        }
    }
    problems
}

/// Pages of docs/ that are missing in the table of contents.
pub(super) fn unreachable(checkout: &Checkout) -> Vec<String> {
    let Some(summary) = checkout.text(SUMMARY) else {
        return vec![format!("{SUMMARY} is missing")];
    };
    let listed = targets(summary).filter_map(|(_, target)| resolved(SUMMARY, target));
    let listed: BTreeSet<String> = listed.collect();
    let pages = checkout.files.iter().map(|file| &file.path);
    let pages = pages.filter(|path| path.starts_with("docs/") && path.ends_with(".md"));
    let missing = pages.filter(|path| *path != SUMMARY && !listed.contains(*path));
    missing.cloned().collect()
}

/// Targets of links to files, without their fragment, each with its line. Code blocks are skipped.
fn targets(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    let lines = (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    lines.flat_map(|(number, line)| {
        let targets = line.split("](").skip(1);
        let targets = targets.filter_map(|rest| rest.split_once(')'));
        let files = targets.filter_map(|(target, _)| target.split('#').next());
        let files = files.filter(|target| !target.is_empty() && !target.contains("://"));
        files.map(move |target| (number, target))
    })
}

/// Path from the root of `target` in the page at `page`. None if it leaves the checkout.
pub(crate) fn resolved(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::File;
    use super::*;

    fn checkout(files: &[(&str, &str)]) -> Checkout {
        Checkout {
            files: files
                .iter()
                .map(|(path, text)| File::of(path, text))
                .collect(),
            packages: Vec::new(),
        }
    }

    #[test]
    fn links_lead_to_files_and_folders() {
        let page = "[a](b.md#x) [c](../machines/) [web](https://example.org) [i](no.md)\n```\n[x](y)\n```\n";
        let found = broken(&checkout(&[
            ("docs/a.md", page),
            ("docs/b.md", ""),
            ("machines/m.toml", ""),
        ]));
        assert_eq!(found, ["docs/a.md:1 leads to no.md"]);
        assert_eq!(
            broken(&checkout(&[("a.md", "[up](../x.md)")])),
            ["a.md:1 leads to ../x.md"]
        );
    }

    #[test]
    fn pages_are_in_the_table_of_contents() {
        let files = [
            ("docs/SUMMARY.md", "- [A](a.md)"),
            ("docs/a.md", ""),
            ("docs/x/b.md", ""),
            ("c.md", ""),
        ];
        assert_eq!(unreachable(&checkout(&files)), ["docs/x/b.md"]);
    }
}
