//! Text as people read it: grouped numbers, and foreign text that cannot act on a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

/// A whole number with a comma between thousands: `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// So many things: `1 wait`, `1,234 waits`.
pub fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(count))
}

/// A subject with a note behind it: `process 7810 (copy)`. An empty one leaves the other alone: a process that ends
/// before its name is read has none, and a thread may take its own away.
pub fn with_note(subject: &str, note: &str) -> String {
    match (subject.is_empty(), note.is_empty()) {
        (false, false) => format!("{subject} ({note})"),
        (_, true) => subject.to_owned(),
        (true, false) => note.to_owned(),
    }
}

/// `text` with each character that acts on a terminal escaped as in Rust: `\n`, `\x1b`, `\u{202e}`.
///
/// Escaped are control characters (C0, DEL, C1), line and paragraph separators, controls of text
/// direction, and invisible marks and tags. Text without any comes back borrowed.
///
/// A backslash stays single. `\n` in a report may then stand for two characters or for a newline,
/// and JSON tells them apart. In return printable text never changes, and escaping twice is
/// escaping once. A cell may be escaped before it is measured and again with its line.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, is_unprintable, |out, character| {
        let _ = match character {
            '\n' => out.write_str("\\n"),
            '\r' => out.write_str("\\r"),
            '\t' => out.write_str("\\t"),
            '\0'..='\x7f' => write!(out, "\\x{:02x}", u32::from(character)),
            _ => write!(out, "\\u{{{:x}}}", u32::from(character)),
        };
    })
}

/// JSON with the characters that [`printable`] escapes written as `\u001b`: the same values, and
/// nothing that acts on a terminal. Newlines between values stay.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    let is_unprintable = |character| character != '\n' && is_unprintable(character);
    escaped(json, is_unprintable, |out, character| {
        for unit in character.encode_utf16(&mut [0; 2]) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    })
}

/// `text` with each character of a kind written by `escape`.
fn escaped(
    text: &str,
    is_escaped: impl Fn(char) -> bool,
    escape: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    // Most text is printable ASCII, which a pass over bytes tells.
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~');
    if text.bytes().all(is_plain) || !text.chars().any(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match is_escaped(character) {
            true => escape(&mut out, character),
            false => out.push(character),
        }
    }
    Cow::Owned(out)
}

/// Returns true if a character does something else than to show itself.
const fn is_unprintable(character: char) -> bool {
    matches!(character,
        '\0'..='\x1f'
        | '\x7f'..='\u{9f}'
        // Arabic letter mark, marks of direction.
        | '\u{61c}' | '\u{200e}' | '\u{200f}'
        // Line and paragraph separator, embeddings and overrides of direction.
        | '\u{2028}'..='\u{202e}'
        // Isolates of direction, deprecated format characters.
        | '\u{2066}'..='\u{206f}'
        // Byte order mark, interlinear annotations, tags.
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1,000");
        assert_eq!(grouped(123_456_789), "123,456,789");
    }

    #[test]
    fn what_is_not_known_has_no_brackets() {
        assert_eq!(with_note("process 7810", "copy"), "process 7810 (copy)");
        assert_eq!(with_note("process 7810", ""), "process 7810");
        assert_eq!(with_note("", "7810"), "7810");
    }

    #[test]
    fn controls_are_written_as_rust_writes_them() {
        let check = |text: &str, expected: &str| assert_eq!(printable(text), expected);
        check("a\nb\r\tc", r"a\nb\r\tc");
        check("\x1b]0;title\x07", r"\x1b]0;title\x07");
        check("\0\x7f\u{85}\u{9b}31m", r"\x00\x7f\u{85}\u{9b}31m");
        check("\u{2028}\u{2029}", r"\u{2028}\u{2029}");
        check("user\u{202e}nimda", r"user\u{202e}nimda");
        check(
            "\u{61c}\u{200e}\u{2066}\u{feff}",
            r"\u{61c}\u{200e}\u{2066}\u{feff}",
        );
        check("\u{e0041}", r"\u{e0041}");
    }

    #[test]
    fn what_shows_itself_is_borrowed() {
        for text in ["", "std::vec<int>", r"a\nb", "größe 数 \u{1f600}", "\u{a0}"] {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn json_keeps_its_lines_and_its_values() {
        let json = "{\n  \"name\": \"\u{7f}\u{9b}\u{e0041}\"\n}\n";
        let expected = "{\n  \"name\": \"\\u007f\\u009b\\udb40\\udc41\"\n}\n";
        assert_eq!(printable_json(json), expected);
    }

    /// Text in which every second character or so is one that is escaped.
    fn hostile() -> impl Strategy<Value = String> {
        let edges = prop::sample::select(vec![
            '\0',
            '\n',
            '\t',
            '\r',
            '\x1b',
            '\x7f',
            '\u{80}',
            '\u{9b}',
            '\u{9f}',
            '\u{a0}',
            '\\',
            '\u{200e}',
            '\u{2028}',
            '\u{202e}',
            '\u{2069}',
            '\u{feff}',
            '\u{e007f}',
        ]);
        let one = prop_oneof![edges, any::<char>()];
        prop::collection::vec(one, 0..40).prop_map(String::from_iter)
    }

    proptest! {
        #[test]
        fn nothing_survives_that_acts_on_a_terminal(text in hostile()) {
            let shown = printable(&text);
            prop_assert!(!shown.chars().any(|c| c.is_control() || is_unprintable(c)));
            prop_assert_eq!(printable(&shown), shown.as_ref());
            let is_clean = !text.chars().any(is_unprintable);
            prop_assert_eq!(is_clean, matches!(printable(&text), Cow::Borrowed(_)));
        }

        #[test]
        fn what_shows_itself_stays_in_order(text in hostile()) {
            let shown = printable(&text);
            let mut left = shown.chars();
            for kept in text.chars().filter(|c| !is_unprintable(*c)) {
                prop_assert!(left.any(|c| c == kept), "{kept:?} is missing in {shown}");
            }
        }
    }
}
