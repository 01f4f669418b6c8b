//! C++ that follows the order of members without a list of their values: constructors, default
//! values, comparisons, structured bindings, and lists whose type is written elsewhere.

use super::EmitError;
use super::body::{Body, ItemKind};
use super::diff::Edit;
use super::initialisers::Holders;
use super::positions::Reordered;
use super::tokens::{Span, Tokens};

/// Edits of constructors. Fails where the new order would change what the program does.
pub(super) fn edits(
    tokens: &Tokens<'_>,
    body: &Body,
    reordered: &Reordered,
) -> Result<Vec<Edit>, EmitError> {
    check_defaults(tokens, body, reordered)?;
    let mut edits = Vec::new();
    for at in 0..tokens.len() {
        let is_inside = (body.open..body.close).contains(&at);
        let is_outside = tokens.before(at) == "::"
            && (0..at)
                .rev()
                .skip(1)
                .take(16)
                .any(|of| tokens.at(of) == reordered.name);
        let is_named = tokens.at(at) == reordered.name && tokens.at(at + 1) == "(";
        if is_named && (is_inside && tokens.before(at) != "~" || is_outside) {
            edits.extend(constructor(tokens, at + 1, reordered)?);
        }
    }
    if reordered.is_aggregate {
        let holders = Holders::new(tokens, body, reordered);
        check_untyped(tokens, body, reordered, &holders)?;
    }
    Ok(edits)
}

/// Fails when `value`, which `member` gets, uses a member that was there before it and is not any more.
fn check_uses(
    tokens: &Tokens<'_>,
    value: Span,
    member: usize,
    reordered: &Reordered,
    hidden: &[&str],
) -> Result<(), EmitError> {
    for at in value.from..value.end {
        let is_own = match tokens.before(at) {
            "." => false,
            "->" => tokens.at(at.wrapping_sub(2)) == "this",
            _ => !hidden.contains(&tokens.at(at)),
        };
        let used = is_own.then(|| reordered.index_of(tokens.at(at))).flatten();
        if let Some(used) = used.filter(|used| reordered.swaps(*used, member)) {
            let name = |index: usize| reordered.old[index].name.as_deref().unwrap_or_default();
            let (used, member) = (name(used), name(member));
            return Err(tokens.refuse(
                at,
                &format!("{member} made of {used}, which would come behind it"),
                &format!("a value that does not use {used}, or a layout that keeps {used} before {member}"),
            ));
        }
    }
    Ok(())
}

fn check_defaults(
    tokens: &Tokens<'_>,
    body: &Body,
    reordered: &Reordered,
) -> Result<(), EmitError> {
    for item in &body.items {
        if let ItemKind::Members(declared) = &item.kind {
            for declared in declared {
                let name = declared.name.as_deref();
                if let Some(member) = name.and_then(|name| reordered.index_of(name)) {
                    let value = Span {
                        from: declared.at + 1,
                        end: declared.span.end,
                    };
                    check_uses(tokens, value, member, reordered, &[])?;
                }
            }
        }
        let words = || (item.start..=item.last).map(|at| tokens.at(at));
        let is_compared = words().any(|word| word == "operator") && words().any(|word| word == "<");
        let is_default = is_compared && words().any(|word| word == "default");
        if matches!(item.kind, ItemKind::Function) && is_default {
            let found = "a comparison that follows the order of members";
            return Err(tokens.refuse(item.start, found, "one that is written out"));
        }
    }
    Ok(())
}

/// Puts the initialisers of the constructor whose parameters begin at `open` into the new order.
fn constructor(
    tokens: &Tokens<'_>,
    open: usize,
    reordered: &Reordered,
) -> Result<Vec<Edit>, EmitError> {
    let close = tokens.close(open);
    let parameters: Vec<&str> = (open..close).map(|at| tokens.at(at)).collect();
    let at = tokens.until(close + 1, &[":", "{", ";", "=", ",", "}", ")"]);
    if tokens.at(at) != ":" {
        return Ok(Vec::new());
    }
    // Initialisers of members, and the place of each in the new order.
    let mut old: Vec<(usize, Span)> = Vec::new();
    let mut from = at + 1;
    loop {
        let mut inner = from;
        while inner < tokens.len() && !matches!(tokens.at(inner), "(" | "{" | ";") {
            let angle = (tokens.at(inner) == "<").then(|| tokens.close_angle(inner, tokens.len()));
            inner = angle.flatten().unwrap_or(inner) + 1;
        }
        let end = tokens.close(inner) + 1;
        if end <= inner + 1 {
            let expected = "a constructor's list of members and values";
            return Err(tokens.refuse(from, "no value", expected));
        }
        if inner == from + 1
            && let Some(member) = reordered.index_of(tokens.at(from))
        {
            let value = Span { from: inner, end };
            check_uses(tokens, value, member, reordered, &parameters)?;
            old.push((reordered.place_of(member), Span { from, end }));
        }
        if tokens.at(end) != "," {
            break;
        }
        from = end + 1;
    }
    let mut new = old.clone();
    new.sort_by_key(|(place, _)| *place);
    let pairs = old.into_iter().zip(new).filter(|(old, new)| old != new);
    let edits = pairs.map(|((_, old), (_, new))| tokens.replace(old, new));
    Ok(edits.collect())
}

/// Fails at a list of values, or a structured binding, that may be the structure's and does not say so.
fn check_untyped(
    tokens: &Tokens<'_>,
    body: &Body,
    reordered: &Reordered,
    holders: &Holders,
) -> Result<(), EmitError> {
    let carriers = carriers(tokens, holders);
    for at in 0..tokens.len() {
        let found = match tokens.at(at) {
            "{" if is_untyped(tokens, at, holders, &carriers) => {
                "values whose type is written elsewhere"
            }
            "[" if is_binding(tokens, at, &carriers) => "names for members by their position",
            "(" if is_parenthesised(tokens, at, holders) => "values in round brackets",
            _ => continue,
        };
        if !(body.open..body.close).contains(&at) {
            let expected = format!(
                "{0}{{...}} or names, as {0} has its members in another order now",
                reordered.name
            );
            return Err(tokens.refuse(at, found, &expected));
        }
    }
    Ok(())
}

/// Names of what has the type, or has or gives something of it.
fn carriers<'t>(tokens: &Tokens<'t>, holders: &Holders) -> Vec<&'t str> {
    let mut names = Vec::new();
    for at in 0..tokens.len() {
        if holders.mention(tokens, at).is_none() {
            continue;
        }
        let mut behind = at + 1;
        while matches!(tokens.at(behind), "*" | "&" | ">" | "const" | ",") {
            behind += 1;
        }
        while tokens.is_word(behind) {
            names.push(tokens.at(behind));
            behind = match tokens.at(behind + 1) {
                "," => behind + 2,
                _ => break,
            };
        }
    }
    names
}

/// Returns true if the list at `open` may be of a type in `holders`, which is not written with it.
fn is_untyped(tokens: &Tokens<'_>, open: usize, holders: &Holders, carriers: &[&str]) -> bool {
    let close = tokens.close(open);
    if close <= open + 1 || tokens.at(open + 1) == "." {
        return false;
    }
    let carries = |from: usize, end: usize| (from..end).any(|at| carriers.contains(&tokens.at(at)));
    match tokens.before(open) {
        "return" | "co_return" => returns_one(tokens, open, holders),
        "=" => {
            let mut start = open - 1;
            while start > 0 && !matches!(tokens.before(start), ";" | "{" | "}") {
                start -= 1;
            }
            let declares = (start..open).any(|at| holders.mention(tokens, at).is_some());
            !declares && carries(start, open)
        }
        // A constructor's value of a member.
        word if carriers.contains(&word) => {
            matches!(tokens.at(open.wrapping_sub(2)), ":" | ",")
        }
        "(" | "," => {
            let Some(call) = tokens.around(open).filter(|at| tokens.at(*at) == "(") else {
                return false;
            };
            let mut start = call;
            while start > 0
                && (tokens.is_word(start - 1) || matches!(tokens.before(start), "." | "->" | "::"))
            {
                start -= 1;
            }
            let takes = |at: usize| {
                tokens.at(at) == tokens.before(call)
                    && tokens.at(at + 1) == "("
                    && (at + 2..tokens.close(at + 1))
                        .any(|at| holders.mention(tokens, at).is_some())
            };
            carries(start, call) || (0..tokens.len()).any(takes)
        }
        _ => false,
    }
}

/// Returns true if a function around `at` may give back a value of the types.
fn returns_one(tokens: &Tokens<'_>, at: usize, holders: &Holders) -> bool {
    tokens.heads_around(at, &[";", "{", "}"]).any(|mut head| {
        let is_function = tokens.has_flat(head.start, head.end, |word| word == "(");
        is_function && head.any(|at| holders.mention(tokens, at).is_some())
    })
}

/// Returns true for `auto [a, b] = one` where `one` may have the type.
fn is_binding(tokens: &Tokens<'_>, open: usize, carriers: &[&str]) -> bool {
    let before = match tokens.before(open) {
        "&" => tokens.before(open - 1),
        before => before,
    };
    let before = if before == "&" { "auto" } else { before };
    let mut end = tokens.close(open) + 1;
    while end < tokens.len() && !matches!(tokens.at(end), ";" | "{") {
        end += 1;
    }
    before == "auto" && (open..end).any(|at| carriers.contains(&tokens.at(at)))
}

/// Returns true for `Box(1, 2)` and `make_unique<Box>(1, 2)`, which C++20 takes for values of members.
fn is_parenthesised(tokens: &Tokens<'_>, open: usize, holders: &Holders) -> bool {
    let close = tokens.close(open);
    let has_several = tokens.split(open + 1, close.max(open + 1)).len() > 1;
    let of = match tokens.before(open) {
        ">" => open.checked_sub(2),
        _ => open.checked_sub(1),
    };
    let is_declared = matches!(tokens.at(close + 1), "{" | ":");
    has_several && !is_declared && of.is_some_and(|of| holders.mention(tokens, of).is_some())
}
