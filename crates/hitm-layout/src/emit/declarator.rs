//! One declarator of a declaration in C or C++: the name, with the signs around it.

use super::tokens::{Span, Tokens};

/// Words that qualify what is declared, and name nothing.
const QUALIFIERS: [&str; 10] = [
    "const",
    "volatile",
    "restrict",
    "__restrict",
    "_Atomic",
    "unsigned",
    "signed",
    "mutable",
    "inline",
    "constexpr",
];

/// Declaration of one declarator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Declared {
    /// None for an anonymous structure or union.
    pub(super) name: Option<String>,
    /// Token of the name.
    pub(super) at: usize,
    /// The declarator's tokens, from its pointers to its initialiser.
    pub(super) span: Span,
    pub(super) is_array: bool,
    /// A pointer, a reference, or a function behind one.
    pub(super) is_pointer: bool,
    /// Bits without a name, which only keep others apart.
    pub(super) is_gap: bool,
}

/// A type that is declared in braces where something is declared to be of it.
struct Defined {
    /// Its opening brace, as an index of the flat tokens.
    open: usize,
    /// True if it must not be taken for an anonymous member.
    is_only_type: bool,
}

fn defined_type(tokens: &Tokens<'_>, flat: &[usize]) -> Option<Defined> {
    let open = tokens.texts(flat).position(|word| word == "{")?;
    let is_keyword = |word| matches!(word, "struct" | "class" | "union" | "enum");
    let keyword = tokens.texts(&flat[..open]).position(is_keyword)?;
    let head = &flat[keyword + 1..open];
    let is_plain = |at: &&usize| tokens.is_word(**at) && tokens.at(*at + 1) != "(";
    let before_bases = head.iter().take_while(|at| tokens.at(**at) != ":");
    let names: Vec<&usize> = before_bases.filter(is_plain).collect();
    // `struct pair both{1, 2}` gives a value to a member.
    let is_enum = tokens.at(flat[keyword]) == "enum";
    let is_type = names.len() <= 1 || is_enum || head.len() > names.len();
    is_type.then_some(Defined {
        open,
        is_only_type: !names.is_empty() || is_enum,
    })
}

/// One declarator; none where only a type is declared.
pub(super) fn declarator(
    tokens: &Tokens<'_>,
    part: Span,
    is_first: bool,
    known: &[&str],
) -> Option<Declared> {
    let from = part.from;
    let mut flat = tokens.flat(from, part.end);
    let of_type = is_first.then(|| defined_type(tokens, &flat)).flatten();
    if let Some(defined) = &of_type {
        flat.drain(..defined.open + 2);
    }
    let begins_value = |word| matches!(word, "=" | "{" | ":");
    let value = tokens.texts(&flat).position(begins_value);
    let is_bits = value.is_some_and(|value| tokens.at(flat[value]) == ":");
    flat.truncate(value.unwrap_or(flat.len()));
    let is_known = |at: usize| known.contains(&tokens.at(at));
    let found = name_in(tokens, &flat, known);
    let (at, is_pointer, is_unnamed) = match (found, &of_type) {
        (Some((at, is_pointer)), Some(_)) if known.is_empty() || is_known(at) => {
            (at, is_pointer, false)
        }
        // What stands behind the brace is an attribute.
        (_, Some(defined)) if defined.is_only_type => return None,
        (_, Some(_)) => (from, false, true),
        // A type and a width: bits that only keep others apart.
        (Some((at, _)), None)
            if is_bits && !is_known(at) && (flat.len() < 2 || !known.is_empty()) =>
        {
            (at, false, true)
        }
        (Some((at, is_pointer)), None) => (at, is_pointer, false),
        (None, None) if is_bits => (from, false, true),
        (None, None) => return None,
    };
    let mut first = match is_first {
        true => at,
        false => from,
    };
    while is_first
        && first > from
        && matches!(tokens.before(first), "*" | "&" | "(" | "const" | "volatile")
        && flat
            .iter()
            .any(|star| *star < first && matches!(tokens.at(*star), "*" | "&" | "("))
    {
        first -= 1;
    }
    Some(Declared {
        name: (!is_unnamed).then(|| tokens.at(at).to_owned()),
        at,
        span: Span {
            from: first,
            end: part.end,
        },
        is_array: flat
            .iter()
            .any(|at| tokens.at(*at) == "[" && tokens.at(at + 1) != "["),
        is_pointer,
        is_gap: is_bits && is_unnamed,
    })
}

/// The token that names a declarator, and whether it is a pointer: a known member, else the last word
/// that is no attribute.
fn name_in(tokens: &Tokens<'_>, flat: &[usize], known: &[&str]) -> Option<(usize, bool)> {
    let group = flat.iter().copied().find(|at| {
        tokens.at(*at) == "("
            && (matches!(tokens.at(at + 1), "*" | "&" | "^") || tokens.at(at + 2) == "::")
    });
    if let Some(open) = group {
        let inner = tokens.flat(open + 1, tokens.close(open));
        return name_in(tokens, &inner, known).map(|(at, _)| (at, true));
    }
    let is_pointer = tokens.texts(flat).any(|sign| matches!(sign, "*" | "&"));
    let words = flat.iter().copied().filter(|at| {
        tokens.is_word(*at) && tokens.at(at + 1) != "(" && !QUALIFIERS.contains(&tokens.at(*at))
    });
    let words: Vec<usize> = words.collect();
    let mut known = words
        .iter()
        .rev()
        .filter(|at| known.contains(&tokens.at(**at)));
    let at = known.next().or(words.last());
    at.map(|at| (*at, is_pointer))
}
