//! Perfetto traces, read back and checked: a reader that shares no code with the writer.
//!
//! Every violation of what a trace processor relies on is a panic with its packet.

use std::collections::BTreeMap;

/// A trace that has been checked.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct PerfettoTrace {
    /// Tracks by number: name and parent.
    pub tracks: BTreeMap<u64, (String, u64)>,
    /// Slices: track, begin, end and name.
    pub slices: Vec<(u64, u64, u64, String)>,
    /// Instants: track, time and name.
    pub instants: Vec<(u64, u64, String)>,
    /// Samples of counters: track, time and value.
    pub counters: Vec<(u64, u64, u64)>,
    /// Arrows: time and track of both ends.
    pub arrows: Vec<((u64, u64), (u64, u64))>,
    /// Values beside slices: name and text or number.
    pub annotations: Vec<(String, String)>,
}

/// A field: its number, and a number or bytes.
type Field<'a> = (u64, u64, &'a [u8]);

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().expect("a whole number");
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return value;
        }
    }
    panic!("a number of more than ten bytes");
}

fn fields(mut bytes: &[u8]) -> Vec<Field<'_>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let (value, len) = match tag & 7 {
            0 => (varint(&mut bytes), 0),
            1 => (0, 8),
            2 => (0, varint(&mut bytes) as usize),
            other => panic!("wire type {other}"),
        };
        let (content, rest) = bytes.split_at(len);
        bytes = rest;
        let value = match tag & 7 {
            1 => u64::from_le_bytes(content.try_into().expect("eight bytes")),
            _ => value,
        };
        found.push((tag >> 3, value, content));
    }
    found
}

fn number(fields: &[Field<'_>], wanted: u64) -> Option<u64> {
    fields
        .iter()
        .find(|field| field.0 == wanted)
        .map(|field| field.1)
}

fn content<'a>(fields: &[Field<'a>], wanted: u64) -> Option<&'a [u8]> {
    fields
        .iter()
        .find(|field| field.0 == wanted)
        .map(|field| field.2)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text is UTF-8")
}

#[derive(Default)]
struct Reader {
    trace: PerfettoTrace,
    /// By field of `InternedData` and number.
    interned: BTreeMap<(u64, u64), String>,
    has_state: bool,
    /// Open slices of each track, and its latest time.
    open: BTreeMap<u64, Vec<(u64, String)>>,
    latest: BTreeMap<u64, u64>,
    /// By arrow: its ends.
    arrows: BTreeMap<u64, [Option<(u64, u64)>; 2]>,
    counter_tracks: Vec<u64>,
}

/// Reads a trace.
///
/// # Panics
/// If it is not well formed: a string that was not interned, a track that was not described, times of a
/// track that go back, slices that do not nest, an arrow without both ends or against time.
pub fn read(bytes: &[u8]) -> PerfettoTrace {
    let mut reader = Reader::default();
    for (field, _, packet) in fields(bytes) {
        assert_eq!(field, 1, "a trace has packets only");
        reader.packet(packet);
    }
    for (track, open) in &reader.open {
        assert!(open.is_empty(), "track {track} has open slices: {open:?}");
    }
    for (id, ends) in &reader.arrows {
        let [Some(from), Some(to)] = ends else {
            panic!("arrow {id:#x} has one end: {ends:?}");
        };
        assert!(from.0 < to.0, "arrow {id:#x} goes back: {ends:?}");
        reader.trace.arrows.push((*from, *to));
    }
    reader.trace
}

impl Reader {
    fn packet(&mut self, packet: &[u8]) {
        let packet = fields(packet);
        assert_eq!(number(&packet, 10), Some(1), "one sequence of packets");
        let flags = number(&packet, 13).unwrap_or(0);
        self.has_state |= flags & 1 != 0;
        assert!(
            self.has_state || flags & 2 == 0,
            "state is needed and was not begun"
        );
        if let Some(data) = content(&packet, 12) {
            for (kind, _, entry) in fields(data) {
                let entry = fields(entry);
                let iid = number(&entry, 1).expect("a number");
                assert!(iid > 0, "number 0 is reserved");
                let value = text(content(&entry, 2).expect("a string"));
                let before = self.interned.insert((kind, iid), value);
                assert_eq!(before, None, "a number has one string");
            }
        }
        if let Some(track) = content(&packet, 60) {
            self.track(&fields(track));
        }
        if let Some(event) = content(&packet, 11) {
            let event = fields(event);
            let at = number(&packet, 8).expect("an event has a time");
            assert!(
                flags & 2 != 0 || number(&event, 10).is_none(),
                "names need state"
            );
            self.event(at, &event);
        }
    }

    fn track(&mut self, track: &[Field<'_>]) {
        let uuid = number(track, 1).expect("a track has a number");
        let nested = |field, name| {
            let inner = fields(content(track, field)?);
            content(&inner, name).map(text)
        };
        let name = content(track, 2).map(text);
        let name = name.or_else(|| nested(3, 6)).or_else(|| nested(4, 5));
        let parent = number(track, 5).unwrap_or(0);
        assert!(
            parent == 0 || self.trace.tracks.contains_key(&parent),
            "parent {parent}"
        );
        if content(track, 8).is_some() {
            self.counter_tracks.push(uuid);
        }
        let before = self
            .trace
            .tracks
            .insert(uuid, (name.expect("a track has a name"), parent));
        assert_eq!(before, None, "track {uuid} is described once");
    }

    fn string(&self, kind: u64, iid: u64) -> String {
        let found = self.interned.get(&(kind, iid));
        found
            .unwrap_or_else(|| panic!("string {iid} of kind {kind} was not interned"))
            .clone()
    }

    fn event(&mut self, at: u64, event: &[Field<'_>]) {
        let track = number(event, 11).expect("an event has a track");
        assert!(
            self.trace.tracks.contains_key(&track),
            "track {track} was not described"
        );
        let latest = self.latest.entry(track).or_default();
        assert!(
            *latest <= at,
            "times of track {track} go back from {latest} to {at}"
        );
        *latest = at;
        let name = number(event, 10).map(|iid| self.string(2, iid));
        if let Some(category) = number(event, 3) {
            self.string(1, category);
        }
        for (field, value, annotation) in event {
            match field {
                4 => self.annotation(&fields(annotation)),
                47 => self.arrow(*value, 0, at, track),
                48 => self.arrow(*value, 1, at, track),
                _ => {}
            }
        }
        let open = self.open.entry(track).or_default();
        match number(event, 9) {
            Some(1) => open.push((at, name.expect("a slice has a name"))),
            Some(2) => {
                let (begin, name) = open.pop().expect("an end has a begin");
                self.trace.slices.push((track, begin, at, name));
            }
            Some(3) => {
                let name = name.expect("an instant has a name");
                self.trace.instants.push((track, at, name));
            }
            Some(4) => {
                assert!(
                    self.counter_tracks.contains(&track),
                    "track {track} is no counter"
                );
                let value = number(event, 30).expect("a sample has a value");
                self.trace.counters.push((track, at, value));
            }
            other => panic!("an event of type {other:?}"),
        }
    }

    fn annotation(&mut self, annotation: &[Field<'_>]) {
        let name = self.string(3, number(annotation, 1).expect("an annotation has a name"));
        let value = match (number(annotation, 17), number(annotation, 3)) {
            (Some(iid), _) => self.string(29, iid),
            (None, value) => value.expect("an annotation has a value").to_string(),
        };
        self.trace.annotations.push((name, value));
    }

    fn arrow(&mut self, id: u64, end: usize, at: u64, track: u64) {
        let ends = self.arrows.entry(id).or_default();
        assert_eq!(ends[end], None, "arrow {id:#x} has two such ends");
        ends[end] = Some((at, track));
    }
}
