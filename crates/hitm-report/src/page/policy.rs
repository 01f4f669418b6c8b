//! The page's Content-Security-Policy: its own script and style, by their hashes, and nothing else.

use sha2::{Digest, Sha256};

/// The policy for a page with one script and one style.
pub(super) fn of(script: &str, style: &str) -> String {
    format!(
        "default-src 'none'; script-src {}; style-src {}; img-src data: blob:; base-uri 'none'; \
         form-action 'none'",
        source(script),
        source(style)
    )
}

/// An element's text as a source expression.
fn source(text: &str) -> String {
    format!("'sha256-{}'", base64(&Sha256::digest(text.as_bytes())))
}

/// RFC 4648, section 4, with padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            match digit <= chunk.len() {
                true => text.push(DIGITS[(word >> (18 - 6 * digit) & 63) as usize] as char),
                false => text.push('='),
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of RFC 4648, section 10.
    #[test]
    fn base64_as_in_its_standard() {
        let vectors = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ];
        for (text, expected) in vectors {
            assert_eq!(base64(text.as_bytes()), expected);
        }
    }
}
