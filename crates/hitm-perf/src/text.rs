//! Texts of bounded length.

/// The text without what is behind `len_max` bytes; a character is left out as a whole.
pub(crate) fn cut(text: &str, len_max: usize) -> &str {
    let lens = (0..=text.len().min(len_max)).rev();
    let len = lens.into_iter().find(|len| text.is_char_boundary(*len));
    &text[..len.unwrap_or(0)]
}
