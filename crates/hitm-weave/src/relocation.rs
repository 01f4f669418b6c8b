//! Members that were moved to other places, while a machine runs: from the addresses that the program
//! uses to those that are priced.
//!
//! The facade makes the table from a layout file and hands it to the recorder as text:
//!
//! ```text
//! map                              a structure; its spans follow, by FROM
//! span FROM TO SIZE                bytes that stay together, from and to the structure's start
//! object START SIZE FRESH          an object of the last structure, and where it is priced
//! ```
//! Numbers are hexadecimal. Bytes between spans go along with the span before them, as in a replay.

use std::fmt::Write as _;

/// Bytes that stay together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MovedSpan {
    /// The first byte in the compiled structure.
    pub from: u64,
    /// The first byte in the other layout.
    pub to: u64,
    /// Bytes.
    pub size: u64,
}

/// An object whose members are moved.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Moved {
    start: u64,
    end: u64,
    fresh: u64,
    map: usize,
}

/// The moves of a machine's objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Relocation {
    maps: Vec<Vec<MovedSpan>>,
    /// By address; they do not overlap.
    objects: Vec<Moved>,
}

impl Relocation {
    /// Adds a structure; its spans come by `from`. The objects that follow are of it.
    pub fn add_map(&mut self, spans: impl IntoIterator<Item = MovedSpan>) {
        self.maps.push(spans.into_iter().collect());
    }

    /// Adds an object of the last structure: `size` bytes at `start`, priced at `fresh`.
    ///
    /// # Panics
    /// Panics when no structure was added.
    pub fn add_object(&mut self, start: u64, size: u64, fresh: u64) {
        let map = self
            .maps
            .len()
            .checked_sub(1)
            .expect("a structure comes first");
        let object = Moved {
            start,
            end: start.saturating_add(size),
            fresh,
            map,
        };
        let at = self.objects.partition_point(|other| other.start < start);
        self.objects.insert(at, object);
    }

    /// Reads the text form. `mask` is applied to addresses.
    pub fn parse(text: &str, mask: u64) -> Result<Relocation, String> {
        let mut relocation = Relocation::default();
        for line in text.lines() {
            let bad = || format!("found '{line}', expected map, span or object");
            let mut words = line.split_ascii_whitespace();
            let kind = words.next().ok_or_else(bad)?;
            let numbers: Vec<u64> = words
                .map(|word| u64::from_str_radix(word, 16).map_err(|_| bad()))
                .collect::<Result<_, _>>()?;
            match (kind, numbers.as_slice()) {
                ("map", []) => relocation.maps.push(Vec::new()),
                ("span", &[from, to, size]) => {
                    let span = MovedSpan { from, to, size };
                    relocation.maps.last_mut().ok_or_else(bad)?.push(span);
                }
                ("object", &[start, size, fresh]) if !relocation.maps.is_empty() => {
                    relocation.add_object(start & mask, size, fresh & mask);
                }
                _ => return Err(bad()),
            }
        }
        Ok(relocation)
    }

    /// The text form.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (index, spans) in self.maps.iter().enumerate() {
            text.push_str("map\n");
            for span in spans {
                let MovedSpan { from, to, size } = span;
                let _ = writeln!(text, "span {from:x} {to:x} {size:x}");
            }
            for object in self.objects.iter().filter(|object| object.map == index) {
                let (start, fresh) = (object.start, object.fresh);
                let size = object.end - start;
                let _ = writeln!(text, "object {start:x} {size:x} {fresh:x}");
            }
        }
        text
    }

    /// Returns true if an access at `addr` may touch a moved object. Quick; false is certain.
    #[inline(always)]
    pub fn may_cover(&self, addr: u64) -> bool {
        match (self.objects.first(), self.objects.last()) {
            // An access that begins before an object may reach into it.
            (Some(first), Some(last)) => addr + 64 > first.start && addr < last.end,
            _ => false,
        }
    }

    /// Calls `piece` with the address and size of each piece in which `size` bytes at `addr` are priced,
    /// in order.
    pub fn pieces(&self, addr: u64, size: u64, mut piece: impl FnMut(u64, u64)) {
        let end = addr.saturating_add(size);
        let mut at = addr;
        // Neighbours that stay neighbours stay one access.
        let mut open: Option<(u64, u64)> = None;
        while at < end {
            let (to, room) = self.place(at);
            let length = room.min(end - at).max(1);
            open = match open {
                Some((start, before)) if start + before == to => Some((start, before + length)),
                Some((start, before)) => {
                    piece(start, before);
                    Some((to, length))
                }
                None => Some((to, length)),
            };
            at += length;
        }
        if let Some((start, length)) = open {
            piece(start, length);
        }
    }

    /// Returns the address at which the byte at `addr` is priced, and how many bytes from it on
    /// stay together.
    fn place(&self, addr: u64) -> (u64, u64) {
        let after = self.objects.partition_point(|object| object.start <= addr);
        let object = after.checked_sub(1).map(|index| &self.objects[index]);
        let Some(object) = object.filter(|object| addr < object.end) else {
            let next = self.objects.get(after);
            return (addr, next.map_or(u64::MAX, |object| object.start - addr));
        };
        let offset = addr - object.start;
        let spans = &self.maps[object.map];
        let after = spans.partition_point(|span| span.from <= offset);
        let next = spans
            .get(after)
            .map_or(object.end - object.start, |span| span.from);
        let room = next.saturating_sub(offset).max(1);
        let Some(span) = after.checked_sub(1).map(|index| spans[index]) else {
            return (object.fresh + offset, room);
        };
        let into = offset - span.from;
        let inside = if into < span.size {
            span.size - into
        } else {
            room
        };
        (object.fresh + span.to + into, inside.min(room))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Relocation {
        let mut relocation = Relocation::default();
        let span = |from, to, size| MovedSpan { from, to, size };
        relocation.add_map([span(0, 0, 4), span(4, 64, 4), span(8, 68, 8)]);
        relocation.add_object(0x1000, 16, 0x9000);
        relocation.add_object(0x400, 16, 0x8000);
        relocation
    }

    fn pieces(addr: u64, size: u64) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        example().pieces(addr, size, |to, size| found.push((to, size)));
        found
    }

    #[test]
    fn members_go_to_their_places() {
        assert_eq!(pieces(0x1000, 4), [(0x9000, 4)]);
        assert_eq!(pieces(0x404, 4), [(0x8040, 4)]);
        // Two members that moved apart, and two that stay neighbours.
        assert_eq!(pieces(0x1000, 8), [(0x9000, 4), (0x9040, 4)]);
        assert_eq!(pieces(0x1004, 12), [(0x9040, 12)]);
        // What is no object stays, also beside one.
        assert_eq!(pieces(0x2000, 8), [(0x2000, 8)]);
        assert_eq!(pieces(0xffc, 8), [(0xffc, 4), (0x9000, 4)]);
    }

    #[test]
    fn the_quick_test_misses_nothing() {
        let relocation = example();
        assert!(relocation.may_cover(0x3fc) && relocation.may_cover(0x100f));
        assert!(!relocation.may_cover(0x1010) && !relocation.may_cover(0x100));
        assert!(!Relocation::default().may_cover(0));
    }

    #[test]
    fn text_there_and_back() {
        let relocation = example();
        assert_eq!(
            Relocation::parse(&relocation.to_text(), u64::MAX),
            Ok(relocation)
        );
        let error = |text: &str| Relocation::parse(text, u64::MAX).unwrap_err();
        assert!(error("object 1 2 3").contains("object 1 2 3"));
        assert!(error("map\nspan 1 2").contains("span 1 2"));
        assert!(error("map\nspan 1 2 xyz").contains("xyz"));
    }
}
