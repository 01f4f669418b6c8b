//! A look at the tags of an XML text before it is parsed: what would cost the parser more than time and
//! memory linear in the text is refused.

use super::{ATTRIBUTES_MAX, DEPTH_MAX};

/// One tag.
struct Tag {
    /// Bytes from `<` to `>`.
    length: usize,
    attribute_count: usize,
    has_namespace: bool,
}

/// Returns the place of an element that is nested too deeply, has too many attributes or names a
/// namespace, and which of them. Reads tags as the parser does; where the text is not XML, the parser
/// stops at the same place or earlier.
pub(super) fn excess(xml: &str) -> Option<(usize, String)> {
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(found) = xml[at..].find('<') {
        let start = at + found;
        let tag = &xml[start..];
        let skipped = [
            ("<!--", "-->"),
            ("<![CDATA[", "]]>"),
            ("<?", "?>"),
            ("<!", ">"),
        ];
        if let Some((open, close)) = skipped.iter().find(|(open, _)| tag.starts_with(open)) {
            at = start + open.len() + tag[open.len()..].find(close)? + close.len();
            continue;
        }
        let read = Tag::read(tag)?;
        at = start + read.length;
        let text = &tag[..read.length];
        if read.attribute_count > ATTRIBUTES_MAX {
            let found = format!("more than {ATTRIBUTES_MAX} attributes of one element");
            return Some((start, found));
        }
        if text.starts_with("</") {
            depth = depth.saturating_sub(1);
        } else {
            depth += usize::from(!text.ends_with("/>"));
        }
        if depth > DEPTH_MAX {
            let found = format!("more than {DEPTH_MAX} elements within each other");
            return Some((start, found));
        }
        // Each element with a namespace copies those around it.
        if read.has_namespace {
            return Some((start, "an XML namespace".to_owned()));
        }
    }
    None
}

impl Tag {
    /// Reads the tag at the start of `text`, whose quoted values may hold any character.
    fn read(text: &str) -> Option<Tag> {
        let mut tag = Tag {
            length: 0,
            attribute_count: 0,
            has_namespace: false,
        };
        let mut quote = None;
        for (offset, byte) in text.bytes().enumerate() {
            match (quote, byte) {
                (None, b'>') => {
                    tag.length = offset + 1;
                    return Some(tag);
                }
                (None, b'"' | b'\'') => quote = Some(byte),
                (None, b'=') => tag.attribute_count += 1,
                (None, b'x') => tag.has_namespace |= text[offset..].starts_with("xmlns"),
                (Some(open), _) if open == byte => quote = None,
                _ => {}
            }
        }
        None
    }
}
