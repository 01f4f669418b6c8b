//! Bytes of a perf.data file under construction, of either byte order.

use super::Layout;

#[derive(Debug)]
pub(super) struct Out {
    pub(super) bytes: Vec<u8>,
    pub(super) is_big_endian: bool,
}

impl Out {
    pub(super) fn new(layout: Layout) -> Out {
        Out {
            bytes: Vec::new(),
            is_big_endian: layout.is_big_endian,
        }
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.number(value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.number(value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.number(value.to_le_bytes());
    }

    fn number<const N: usize>(&mut self, mut bytes: [u8; N]) {
        if self.is_big_endian {
            bytes.reverse();
        }
        self.bytes.extend(bytes);
    }

    /// A string with zeros behind it, to a multiple of `unit`.
    pub(super) fn padded(&mut self, text: &str, unit: usize) {
        self.bytes.extend(text.as_bytes());
        self.bytes.push(0);
        self.bytes
            .resize(self.bytes.len().next_multiple_of(unit), 0);
    }

    /// A record around what `body` writes.
    pub(super) fn record(&mut self, kind: u32, misc: u16, body: impl FnOnce(&mut Out)) {
        let mut inner = Out {
            bytes: Vec::new(),
            is_big_endian: self.is_big_endian,
        };
        body(&mut inner);
        let len = (8 + inner.bytes.len()) as u16;
        self.u32(kind);
        self.u16(misc);
        self.u16(len);
        self.bytes.extend(inner.bytes);
    }

    pub(super) fn counted(&mut self, text: &str) {
        let len = (text.len() + 1).next_multiple_of(64);
        self.u32(len as u32);
        let start = self.bytes.len();
        self.bytes.extend(text.as_bytes());
        self.bytes.resize(start + len, 0);
    }
}
