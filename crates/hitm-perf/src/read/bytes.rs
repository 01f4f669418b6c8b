//! Numbers and strings of either byte order.

/// The byte order of the machine that wrote the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ByteOrder {
    /// Least significant byte first.
    #[default]
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    pub(super) fn word(self, bytes: [u8; 8]) -> u64 {
        match self {
            ByteOrder::Little => u64::from_le_bytes(bytes),
            ByteOrder::Big => u64::from_be_bytes(bytes),
        }
    }
}

/// Takes bytes from the front; `None` when there are too few.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes<'a> {
    rest: &'a [u8],
    order: ByteOrder,
}

impl<'a> Bytes<'a> {
    pub(super) fn new(bytes: &'a [u8], order: ByteOrder) -> Bytes<'a> {
        Bytes { rest: bytes, order }
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub(super) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(len)?;
        self.rest = tail;
        Some(head)
    }

    #[inline]
    pub(super) fn skip(&mut self, len: u64) -> Option<()> {
        self.take(usize::try_from(len).ok()?).map(drop)
    }

    #[inline]
    pub(super) fn u64(&mut self) -> Option<u64> {
        let (head, tail) = self.rest.split_first_chunk::<8>()?;
        self.rest = tail;
        Some(self.order.word(*head))
    }

    #[inline]
    pub(super) fn u32(&mut self) -> Option<u32> {
        let (head, tail) = self.rest.split_first_chunk::<4>()?;
        self.rest = tail;
        Some(match self.order {
            ByteOrder::Little => u32::from_le_bytes(*head),
            ByteOrder::Big => u32::from_be_bytes(*head),
        })
    }

    #[inline]
    pub(super) fn u16(&mut self) -> Option<u16> {
        let (head, tail) = self.rest.split_first_chunk::<2>()?;
        self.rest = tail;
        Some(match self.order {
            ByteOrder::Little => u16::from_le_bytes(*head),
            ByteOrder::Big => u16::from_be_bytes(*head),
        })
    }

    /// A string of a record: up to the first zero, or to the end of the record.
    pub(super) fn text(&self) -> String {
        let end = self.rest.iter().position(|byte| *byte == 0);
        String::from_utf8_lossy(&self.rest[..end.unwrap_or(self.rest.len())]).into_owned()
    }

    /// A string of a feature section: its length, then so many bytes with zeros at the end.
    pub(super) fn counted_text(&mut self) -> Option<String> {
        let len = self.u32()?;
        let bytes = self.take(len as usize)?;
        Some(Bytes::new(bytes, self.order).text())
    }
}
