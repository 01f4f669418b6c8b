//! The body of a structure in C or C++: its members and what else is declared in it.

use super::EmitError;
use super::conditions::{Condition, condition_at, is_definition};
use super::declarator::{Declared, declarator};
use super::opened::Opened;
use super::tokens::{Span, Tokens};

/// Words with something in brackets behind them that is not what they declare.
const ATTRIBUTES: [&str; 9] = [
    "__attribute__",
    "__attribute",
    "alignas",
    "_Alignas",
    "decltype",
    "typeof",
    "__typeof__",
    "_Atomic",
    "__declspec",
];

/// A structure as debug information knows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'k> {
    pub(super) name: &'k str,
    /// Names of its members.
    pub(super) members: &'k [&'k str],
}

/// A structure as its file declares it. Tokens are given by index.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) open: usize,
    pub(super) close: usize,
    pub(super) items: Vec<Item>,
    /// Access before the first specifier.
    pub(super) access: String,
    /// Anonymous structures whose items are among these, outer ones first.
    pub(super) opened: Vec<Opened>,
    /// Conditions of the preprocessor around some of the items.
    pub(super) conditions: Vec<Condition>,
    /// Items without a name, each with the index of the subject's member that it is.
    pub(super) whole: Vec<(usize, usize)>,
}

/// One declaration in a structure.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) start: usize,
    /// The last token.
    pub(super) last: usize,
    pub(super) kind: ItemKind,
    /// The access specifier that is in force, without its colon.
    pub(super) access: String,
    /// The condition of the preprocessor that it is under.
    pub(super) condition: Option<Condition>,
}

#[derive(Debug)]
pub(super) enum ItemKind {
    Members(Vec<Declared>),
    Function,
    /// A type, a static member, `using`, `friend`, an assertion, a definition of the preprocessor.
    Other,
}

/// Returns true if the tokens at `open` begin the body of a structure called `name`, or of one without
/// a name that `typedef` gives that one.
pub(super) fn is_body_of(tokens: &Tokens<'_>, open: usize, name: &str) -> bool {
    let close = tokens.close(open);
    let Some(head) = head_of(tokens, open) else {
        return false;
    };
    match named(tokens, head + 1, open) {
        Some(own) => own == name,
        None => {
            let end = tokens.until(close + 1, &[";"]);
            tokens.before(head) == "typedef" && tokens.has_flat(close + 1, end, |word| word == name)
        }
    }
}

/// The keyword of the structure whose body begins at `open`.
pub(super) fn head_of(tokens: &Tokens<'_>, open: usize) -> Option<usize> {
    let mut at = open;
    while let Some(before) = at.checked_sub(1) {
        at = tokens.open(before);
        match tokens.at(at) {
            "struct" | "class" | "union" if tokens.before(at) != "enum" => {
                // A structure that only returns or initialises something is none.
                let flat = tokens.flat(at + 1, open);
                let is_other = tokens
                    .texts(&flat)
                    .any(|word| matches!(word, "=" | "*" | "&"));
                let mut calls = flat.iter().filter(|at| tokens.at(**at) == "(");
                let is_call = calls.any(|at| !is_attribute(tokens, at - 1));
                return (!is_other && !is_call).then_some(at);
            }
            ";" | "{" | "}" => return None,
            _ => {}
        }
    }
    None
}

/// The name in the head of a structure: the last word before its bases that is no attribute.
pub(super) fn named<'t>(tokens: &Tokens<'t>, from: usize, open: usize) -> Option<&'t str> {
    let mut name = None;
    for at in tokens.flat(from, open) {
        match tokens.at(at) {
            ":" => break,
            "final" => {}
            _ if tokens.is_word(at) && tokens.at(at + 1) != "(" => name = Some(tokens.at(at)),
            _ => {}
        }
    }
    name
}

fn is_attribute(tokens: &Tokens<'_>, at: usize) -> bool {
    let word = tokens.at(at);
    // Macros for attributes are `__aligned(64)`, `GUARDED_BY(lock)`.
    ATTRIBUTES.contains(&word) || word.starts_with("__") || word == "("
}

/// The structure whose body begins at `open`.
pub(super) fn body_at(
    tokens: &Tokens<'_>,
    open: usize,
    known: Known<'_>,
) -> Result<Body, EmitError> {
    let close = tokens.close(open);
    if close == open {
        let found = "brackets that do not match";
        return Err(tokens.refuse(open, found, "each bracket closed once"));
    }
    let is_class = head_of(tokens, open).is_some_and(|head| tokens.at(head) == "class");
    let default = String::from(if is_class { "private" } else { "public" });
    let mut access = default.clone();
    let (mut items, mut at) = (Vec::new(), open + 1);
    let mut conditions: Vec<Condition> = Vec::new();
    while at < close {
        let within = conditions.last().copied().filter(|of| at <= of.closing);
        if within.is_some_and(|of| at == of.closing) {
            at += 1;
            continue;
        }
        if tokens.is_directive(at)
            && let Some(condition) = condition_at(tokens, at)?
        {
            conditions.push(condition);
            at += 1;
            continue;
        }
        if let Some(colon) = label(tokens, at) {
            if within.is_some() {
                let found = "an access specifier under a condition";
                return Err(tokens.refuse(at, found, "one for all conditions"));
            }
            access = tokens.slice(at, colon).to_owned();
            at = colon + 1;
            continue;
        }
        let (last, kind) = match tokens.is_directive(at) {
            true => directive(tokens, at)?,
            false => item(tokens, at, close, known)?,
        };
        items.push(Item {
            start: at,
            last,
            kind,
            access: access.clone(),
            condition: within,
        });
        at = last + 1;
    }
    Ok(Body {
        open,
        close,
        items,
        access: default,
        opened: Vec::new(),
        conditions,
        whole: Vec::new(),
    })
}

/// The colon of an access specifier.
fn label(tokens: &Tokens<'_>, at: usize) -> Option<usize> {
    let is_access = matches!(
        tokens.at(at),
        "public" | "private" | "protected" | "signals" | "Q_SIGNALS"
    );
    let colon = match tokens.at(at + 1) {
        "slots" | "Q_SLOTS" => at + 2,
        _ => at + 1,
    };
    (is_access && tokens.at(colon) == ":").then_some(colon)
}

/// The last token and the kind of a preprocessor line.
fn directive(tokens: &Tokens<'_>, at: usize) -> Result<(usize, ItemKind), EmitError> {
    if !is_definition(tokens, at) {
        let found = "a preprocessor line among the members";
        return Err(tokens.refuse(at, found, "conditions around whole declarations"));
    }
    Ok((at, ItemKind::Other))
}

/// The last token and the kind of the declaration from `start` on, in a structure that ends at `close`.
fn item(
    tokens: &Tokens<'_>,
    start: usize,
    close: usize,
    known: Known<'_>,
) -> Result<(usize, ItemKind), EmitError> {
    let mut scan = Scan::default();
    let mut at = start;
    while at < close && tokens.at(at) != ";" {
        if scan.ends_at(tokens, start, at, known.members) {
            break;
        }
        if tokens.is_directive(at) {
            directive(tokens, at)?;
            let found = "a preprocessor line in a declaration";
            return Err(tokens.refuse(at, found, "a whole declaration"));
        }
        at = match tokens.at(at) {
            "<" if !scan.has_value => tokens.close_angle(at, close).unwrap_or(at),
            _ => tokens.close(at),
        } + 1;
    }
    if at >= close {
        let is_call = tokens.at(start + 1) == "(" && tokens.close(start + 1) + 1 == close;
        let is_macro = tokens.is_word(start) && (is_call || start + 1 == close);
        return Err(match is_macro {
            true => unknown_macro(tokens, start),
            false => tokens.refuse(start, "no semicolon", "the end of a declaration"),
        });
    }
    let mut last = tokens.close(at);
    if tokens.at(last) == "}" && tokens.at(last + 1) == ";" {
        last += 1;
    }
    let kind = match scan.is_function {
        true if scan.is_macro(tokens, start) && tokens.at(start) != known.name => {
            macro_kind(tokens, start, last, known.members)?
        }
        true => ItemKind::Function,
        false => member_kind(tokens, start, last, known.members)?,
    };
    Ok((last, kind))
}

/// Place up to which a declaration has been read.
#[derive(Debug, Default)]
struct Scan {
    is_function: bool,
    /// Behind the colon of a constructor's initialisers.
    is_initialising: bool,
    has_value: bool,
    has_body: bool,
    /// A member's name was met: brackets behind it are those of an attribute.
    has_name: bool,
}

impl Scan {
    /// Takes in the token at `at` of the declaration from `start` on; true if it is the body of a function.
    fn ends_at(&mut self, tokens: &Tokens<'_>, start: usize, at: usize, known: &[&str]) -> bool {
        match tokens.at(at) {
            "operator" => self.is_function = true,
            "=" => self.has_value = true,
            "(" if at > start && !self.has_value && !self.has_body && !self.has_name => {
                self.is_function |= is_call(tokens, start, at);
            }
            ":" if self.is_function => self.is_initialising = true,
            "{" if self.is_function => {
                let is_value = tokens.is_word(at - 1) && !is_behind_function(tokens.before(at))
                    || tokens.before(at) == ">";
                return !(self.is_initialising && is_value);
            }
            "{" => self.has_body = true,
            word if known.contains(&word) && tokens.at(at + 1) != "(" => self.has_name = true,
            _ => {}
        }
        false
    }

    /// Returns true for `NAME(...)` alone, and for `NAME(...) attributes`.
    fn is_macro(&self, tokens: &Tokens<'_>, start: usize) -> bool {
        let is_plain = tokens.is_word(start) && tokens.at(start + 1) == "(";
        is_plain && !self.is_initialising && tokens.at(tokens.close(start + 1) + 1) != "{"
    }
}

/// Returns true if the bracket at `at`, in the declaration from `start` on, has the parameters of a
/// function or of a macro.
fn is_call(tokens: &Tokens<'_>, start: usize, at: usize) -> bool {
    let behind = tokens.close(at) + 1;
    let is_declarator = matches!(tokens.at(at + 1), "*" | "&" | "^")
        || tokens.is_word(at + 1) && tokens.at(at + 2) == "::" && tokens.at(at + 3) == "*";
    // A macro before a declaration, on its line, is an attribute.
    let is_leading = at == start + 1
        && tokens.line(behind) == tokens.line(at)
        && tokens.is_word(behind)
        && !is_behind_function(tokens.at(behind));
    tokens.is_word(at - 1) && !is_declarator && !is_leading && !is_attribute(tokens, at - 1)
}

fn is_behind_function(word: &str) -> bool {
    matches!(
        word,
        "const" | "noexcept" | "override" | "final" | "mutable" | "try" | "volatile"
    )
}

/// A member that a macro declares: one of its arguments is the name.
fn macro_kind(
    tokens: &Tokens<'_>,
    start: usize,
    last: usize,
    known: &[&str],
) -> Result<ItemKind, EmitError> {
    let inner = start + 2..tokens.close(start + 1);
    let mut names = inner.filter(|at| known.contains(&tokens.at(*at)));
    let Some(at) = names.next() else {
        return Err(unknown_macro(tokens, start));
    };
    if names.next().is_some() {
        let found = format!("several members in the macro {}", tokens.at(start));
        return Err(tokens.refuse(start, &found, "each member in a declaration of its own"));
    }
    Ok(ItemKind::Members(vec![Declared {
        name: Some(tokens.at(at).to_owned()),
        at,
        span: Span {
            from: start,
            end: last,
        },
        is_array: true,
        is_pointer: false,
        is_gap: false,
    }]))
}

fn unknown_macro(tokens: &Tokens<'_>, at: usize) -> EmitError {
    let found = format!("the macro {}", tokens.at(at));
    tokens.refuse(at, &found, "a declaration that names its member")
}

/// Members, or a type that is declared for itself. `last` is the semicolon.
fn member_kind(
    tokens: &Tokens<'_>,
    start: usize,
    last: usize,
    known: &[&str],
) -> Result<ItemKind, EmitError> {
    let is_other = match tokens.at(start) {
        "using" | "typedef" | "friend" | "static_assert" | "_Static_assert" | "template"
        | "static" | ";" => true,
        _ => {
            let flat = tokens.flat(start, last);
            let mut before_value = tokens.texts(&flat).take_while(|word| *word != "=");
            before_value.any(|word| word == "static")
        }
    };
    if is_other {
        return Ok(ItemKind::Other);
    }
    let parts = tokens.split(start, last);
    let mut declared = Vec::new();
    for (number, part) in parts.into_iter().enumerate() {
        match declarator(tokens, part, number == 0, known) {
            Some(found) => declared.push(found),
            None => return Ok(ItemKind::Other),
        }
    }
    Ok(ItemKind::Members(declared))
}
