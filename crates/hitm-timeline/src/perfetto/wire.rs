//! Protocol buffers, as far as a trace needs them.

/// A message under construction.
#[derive(Debug, Default)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    pub(super) fn uint(&mut self, field: u32, value: u64) -> &mut Message {
        self.varint(u64::from(field) << 3);
        self.varint(value);
        self
    }

    pub(super) fn fixed64(&mut self, field: u32, value: u64) -> &mut Message {
        self.varint(u64::from(field) << 3 | 1);
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(super) fn text(&mut self, field: u32, text: &str) -> &mut Message {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
        self
    }

    pub(super) fn message(&mut self, field: u32, fill: impl FnOnce(&mut Message)) -> &mut Message {
        self.varint(u64::from(field) << 3 | 2);
        let at = self.bytes.len();
        self.bytes.push(0);
        fill(self);
        let len = self.bytes.len() - at - 1;
        if len < 0x80 {
            self.bytes[at] = len as u8;
        } else {
            let end = self.bytes.len();
            self.varint(len as u64);
            // The length goes in front of the content, over the byte that was left for it.
            let length = self.bytes.split_off(end);
            self.bytes.splice(at..=at, length);
        }
        self
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As protoc encodes them.
    #[test]
    fn fields_and_lengths() {
        let mut message = Message::default();
        message.uint(1, 150).text(2, "testing").fixed64(47, 1);
        let wanted = [
            &[0x08, 0x96, 0x01, 0x12, 0x07][..],
            b"testing",
            &[0xf9, 0x02, 1, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(message.bytes(), wanted.concat());
        message.clear();
        let long = "x".repeat(200);
        message.message(3, |inner| {
            inner.text(1, &long);
        });
        let head = [0x1a, 0xcb, 0x01, 0x0a, 0xc8, 0x01];
        assert_eq!(message.bytes()[..6], head);
        assert_eq!(message.bytes().len(), 206);
    }
}
