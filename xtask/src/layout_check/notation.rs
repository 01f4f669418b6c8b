//! pahole's notation, reduced to its facts: names, offsets, sizes, holes, boundaries, totals.

use std::collections::BTreeMap;

/// Facts of each structure, by its head (`struct rq`). Of several with one head the first is kept.
pub(super) fn split(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    let mut current: Option<(String, Vec<String>)> = None;
    for line in text.lines() {
        match &mut current {
            None => {
                let head = line.strip_suffix(" {");
                let is_head = |head: &&str| !head.starts_with('\t');
                current = head
                    .filter(is_head)
                    .map(|head| (head.to_owned(), Vec::new()));
            }
            Some((_, facts)) if !line.starts_with('}') => facts.extend(fact(line)),
            Some(_) => {
                let (head, facts) = current.take().expect("just seen");
                found.entry(head).or_insert(facts);
            }
        }
    }
    found
}

/// Returns the fact of a line, if it has one.
fn fact(line: &str) -> Option<String> {
    let line = line.trim();
    let Some((code, comment)) = line.split_once("/*") else {
        // `};` of an inner structure has a comment; `struct {` and values of enumerations have no
        // facts.
        return None;
    };
    let comment: Vec<&str> = comment.trim_end_matches("*/").split_whitespace().collect();
    let comment = comment.join(" ");
    // The numbers of bit-fields tell how they share bytes; alignments are inferred.
    if comment.starts_with("Bitfield combined") || comment.starts_with("Force") {
        return None;
    }
    if comment.starts_with("forced alignments") {
        return None;
    }
    Some(format!("{} {comment}", declared(code)))
}

/// Name that code declares: the last word before its dimensions, bits or parameters.
fn declared(code: &str) -> String {
    let code = without_attributes(code);
    let code = code.trim().trim_end_matches(';');
    let bits = code.rsplit_once(':').map(|(_, bits)| format!(":{bits}"));
    if let Some(rest) = code.strip_prefix("} *") {
        return format!("*{rest}");
    }
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    // The name of a pointer to a function stands before the first closing parenthesis.
    let code = match code.find("(*") {
        Some(at) => code[at..].split([')', '[']).next().unwrap_or_default(),
        None => code.split(['[', ':']).next().unwrap_or_default(),
    };
    let name = code.rsplit(|character| !is_word(character)).next();
    format!("{}{}", name.unwrap_or_default(), bits.unwrap_or_default())
}

/// Code without `__attribute__((…))`.
fn without_attributes(code: &str) -> String {
    let mut parts = code.split(" __attribute__((");
    let first = parts.next().unwrap_or_default();
    let rest = parts.map(|part| {
        let end = part.find("))").map_or(part.len(), |at| at + 2);
        // `__aligned__(64)` closes once more.
        part[end..].trim_start_matches(')')
    });
    std::iter::once(first).chain(rest).collect()
}

/// Returns true if pahole prints the structure behind a pointer. hitm does not: it has no name.
pub(super) fn has_pointed_at(facts: &[String]) -> bool {
    facts.iter().any(|fact| fact.starts_with('*'))
}

/// The first line in which two lists of facts differ.
pub(super) fn first_difference(theirs: &[String], ours: &[String]) -> Option<String> {
    let none = String::from("nothing");
    (0..theirs.len().max(ours.len())).find_map(|index| {
        let (theirs, ours) = (theirs.get(index), ours.get(index));
        (theirs != ours).then(|| {
            let (theirs, ours) = (theirs.unwrap_or(&none), ours.unwrap_or(&none));
            format!("pahole says \"{theirs}\", hitm \"{ours}\"")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_names_and_numbers() {
        let text = "\
struct s {
\tint                        a:3;                  /*     0: 0  4 */

\t/* XXX 29 bits hole, try to pack */

\tvoid                       (*call)(int, long);   /*     8     8 */
\tstruct t                   list[3] __attribute__((__aligned__(64))); /*    64    24 */
\tstruct {
\t} __attribute__((__packed__)) tail;               /*    88     0 */

\t/* size: 88, cachelines: 2, members: 3 */
\t/* forced alignments: 1 */
} __attribute__((__aligned__(64)));
";
        let found = split(text);
        let facts = [
            "a:3 0: 0 4",
            " XXX 29 bits hole, try to pack",
            "call 8 8",
            "list 64 24",
            "tail 88 0",
            " size: 88, cachelines: 2, members: 3",
        ];
        assert_eq!(found["struct s"], facts);
        let mut other = found["struct s"].clone();
        assert_eq!(first_difference(&found["struct s"], &other), None);
        other[2] = String::from("call 9 8");
        assert_eq!(
            first_difference(&found["struct s"], &other).as_deref(),
            Some("pahole says \"call 8 8\", hitm \"call 9 8\"")
        );
    }
}
