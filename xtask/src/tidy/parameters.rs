//! The rule about parameters of functions: two values that go together have a struct with names.

use super::File;

/// Parameters that are tuples, by their pattern or by their type. Closures may have them.
pub(super) fn tuples(file: &File, text: &str) -> Vec<String> {
    if !file.path.ends_with(".rs") {
        return Vec::new();
    }
    let is_comment = |line: &str| line.trim_start().starts_with("//");
    let lines = text.lines();
    let lines = lines.map(|line| if is_comment(line) { "" } else { line });
    let code = lines.collect::<Vec<&str>>().join("\n");
    let mut problems = Vec::new();
    for (at, word) in code.match_indices("fn ") {
        if code[..at].ends_with(is_of_word) {
            continue;
        }
        let number = code[..at].matches('\n').count() + 1;
        let all = parameters(&code[at + word.len()..]).into_iter();
        let tuples = all.filter(|parameter| has_tuple(parameter));
        problems.extend(tuples.map(|parameter| {
            let words: Vec<&str> = parameter.split_whitespace().collect();
            format!(":{number} has the parameter {}", words.join(" "))
        }));
    }
    problems
}

fn is_of_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The parameters of the function whose name the text begins with.
fn parameters(text: &str) -> Vec<&str> {
    let text = text.trim_start_matches(is_of_word);
    let generics = text.strip_prefix('<').and_then(split);
    let text = generics.map_or(text, |(_, rest)| rest);
    let found = text.strip_prefix('(').and_then(split);
    found.map_or(Vec::new(), |(parameters, _)| parameters)
}

fn has_tuple(parameter: &str) -> bool {
    match parameter.split_once(':') {
        Some((pattern, of)) => is_tuple(pattern) || is_tuple(of),
        None => false,
    }
}

/// Returns true for a pattern or a type that is a tuple, or borrows one.
fn is_tuple(text: &str) -> bool {
    let text = text.trim_start_matches(|c: char| c == '&' || c.is_whitespace());
    let text = match text.strip_prefix('\'') {
        Some(lifetime) => lifetime.split_once(' ').map_or("", |(_, rest)| rest),
        None => text,
    };
    let text = text.strip_prefix("mut ").unwrap_or(text);
    let list = text.strip_prefix('(').and_then(split);
    list.is_some_and(|(parts, _)| parts.len() > 1)
}

/// The parts of a list between its commas, and the text behind the bracket that ends it.
pub(super) fn split(list: &str) -> Option<(Vec<&str>, &str)> {
    let (mut parts, mut first, mut depth) = (Vec::new(), 0, 0);
    let mut before = ' ';
    for (at, character) in list.char_indices() {
        match character {
            '>' if before == '-' => {}
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' if depth > 0 => depth -= 1,
            ')' | ']' | '}' | '>' => {
                parts.push(&list[first..at]);
                return Some((parts, &list[at + 1..]));
            }
            ',' if depth == 0 => {
                parts.push(&list[first..at]);
                first = at + 1;
            }
            _ => {}
        }
        before = character;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Problems of a function with these parameters.
    fn problems(parameters: &str) -> Vec<String> {
        let text = format!("\n{} name{parameters} {{}}\n", "fn");
        tuples(&File::of("one.rs", &text), &text)
    }

    #[test]
    fn a_tuple_is_found_by_its_pattern_and_by_its_type() {
        let found = problems("<T: Fn(u8, u8) -> u8>(&self, one: T,\n    (a, b): (u8,\n u8))");
        assert_eq!(found, [":2 has the parameter (a, b): (u8, u8)"]);
        for tuple in ["(at: (u8, u8))", "(at: &'a mut (u8, u8), other: u8)"] {
            assert_eq!(problems(tuple).len(), 1, "{tuple}");
        }
    }

    #[test]
    fn what_only_looks_like_one_is_none() {
        for fine in [
            "(done: &(dyn Fn(u8, u8) + Sync))",
            "(nothing: ())",
            "(each: impl Fn((u8, u8)) -> (u8, u8), rows: &[(u8, u8)])",
            "(Pair { a, b }: Pair, [c, d]: [u8; 2])",
            "(Id(a): Id)",
        ] {
            assert_eq!(problems(fine), [""; 0], "{fine}");
        }
    }
}
