//! Numbers and strings as perf.data has them, little-endian.

pub(super) fn put32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub(super) fn put64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// A string of a record: ends with a zero and fills whole words.
pub(super) fn put_padded(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.resize(
        out.len() - text.len() + (text.len() + 1).next_multiple_of(8),
        0,
    );
}

/// A string of a feature section: its length in bytes, zeros included, and the bytes.
pub(super) fn put_string(out: &mut Vec<u8>, text: &str) {
    let len = (text.len() + 1).next_multiple_of(64);
    put32(out, len as u32);
    out.extend_from_slice(text.as_bytes());
    out.resize(out.len() - text.len() + len, 0);
}
