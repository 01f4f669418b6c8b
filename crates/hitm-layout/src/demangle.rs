//! Names of C++ and Rust symbols for people, in bounded time and space.

use std::fmt::{self, Write};

/// Longest name that is kept. Longer ones are cut: mangled names can expand exponentially.
pub(crate) const MAX_NAME: usize = 4096;

/// Longest mangled name that is looked at.
const MAX_MANGLED: usize = 16 * 1024;

/// The readable form of a symbol, without parameters and without the compiler's hash; the symbol
/// itself when it is not mangled.
pub(crate) fn demangle(symbol: &str) -> String {
    if symbol.len() > MAX_MANGLED {
        return cut(symbol).to_owned();
    }
    if is_rust(symbol)
        && let Ok(rust) = rustc_demangle::try_demangle(symbol)
    {
        let mut out = BoundedText::default();
        if write!(out, "{rust:#}").is_ok() {
            return out.text;
        }
    }
    if symbol.starts_with("_Z")
        && let Some(cpp) = demangle_cpp(symbol)
    {
        return cpp;
    }
    // Compilers clone local objects and functions under `name.0`, `name.isra.0`.
    cut(symbol).to_owned()
}

/// Returns true if the name is one of Rust's. Its legacy scheme looks like C++, but for the hash
/// that ends the path.
fn is_rust(symbol: &str) -> bool {
    const HASH: usize = 16;
    let has_hash = |at: usize| {
        let hash = symbol.as_bytes().get(at + 3..at + 3 + HASH);
        hash.is_some_and(|hash| hash.iter().all(u8::is_ascii_hexdigit))
    };
    symbol.starts_with("_R") || symbol.match_indices("17h").any(|(at, _)| has_hash(at))
}

fn demangle_cpp(symbol: &str) -> Option<String> {
    let parse = cpp_demangle::ParseOptions::default().recursion_limit(64);
    let parsed = cpp_demangle::Symbol::new_with_options(symbol, &parse).ok()?;
    let show = cpp_demangle::DemangleOptions::new()
        .no_params()
        .no_return_type()
        .recursion_limit(64);
    let mut out = BoundedText::default();
    parsed.structured_demangle(&mut out, &show).ok()?;
    Some(out.text.replace("_GLOBAL__N_1", "(anonymous namespace)"))
}

/// `text`, cut to [`MAX_NAME`] bytes at a character's boundary.
pub(crate) fn cut(text: &str) -> &str {
    if text.len() <= MAX_NAME {
        return text;
    }
    let mut end = MAX_NAME;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Text that refuses to grow beyond [`MAX_NAME`].
#[derive(Default)]
struct BoundedText {
    text: String,
}

impl fmt::Write for BoundedText {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.text.len() + part.len() > MAX_NAME {
            return Err(fmt::Error);
        }
        self.text.push_str(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::demangle;

    #[test]
    fn names_of_three_languages() {
        assert_eq!(demangle("main"), "main");
        assert_eq!(demangle("_ZN2ns7Counter4hitsE"), "ns::Counter::hits");
        assert_eq!(demangle("_ZN2ns4bumpEi"), "ns::bump");
        assert_eq!(
            demangle("_ZN3net12_GLOBAL__N_16hiddenE"),
            "net::(anonymous namespace)::hidden"
        );
        assert_eq!(demangle("_ZZN2ns4bumpEiE5calls"), "ns::bump(int)::calls");
        assert_eq!(
            demangle("_ZN4demo5STATS17h0123456789abcdefE"),
            "demo::STATS"
        );
        assert_eq!(demangle("_RNvCs1234_4demo5STATS"), "demo::STATS");
    }

    #[test]
    fn a_name_that_doubles_at_each_step_stays_short() {
        // Each pair's arguments are the previous pair twice: 2^30 names when written out.
        let mut symbol = String::from("_Z1f");
        symbol.push_str("St4pairIiiE");
        for step in 0..30 {
            let previous = if step == 0 {
                "S0_".to_owned()
            } else {
                format!("S{}_", base36(step))
            };
            symbol.push_str(&format!("St4pairI{previous}{previous}E"));
        }
        assert!(demangle(&symbol).len() <= super::MAX_NAME);
    }

    fn base36(number: u32) -> String {
        char::from_digit(number % 36, 36)
            .unwrap()
            .to_ascii_uppercase()
            .to_string()
    }
}
