//! Packets of a trace, and the strings that they intern.

use std::io::{self, Write};

use hitm_base::{Clock, Cycles, printable};
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

use super::wire::Message;

/// Field numbers of Perfetto's protos/perfetto/trace/trace_packet.proto and what it includes.
mod field {
    pub(super) const PACKET: u32 = 1;
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE_ID: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const INTERNED_DATA: u32 = 12;
    pub(super) const SEQUENCE_FLAGS: u32 = 13;
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;

    pub(super) const EVENT_CATEGORY: u32 = 3;
    pub(super) const EVENT_ANNOTATION: u32 = 4;
    pub(super) const EVENT_TYPE: u32 = 9;
    pub(super) const EVENT_NAME: u32 = 10;
    pub(super) const EVENT_TRACK: u32 = 11;
    pub(super) const EVENT_COUNTER: u32 = 30;
    pub(super) const EVENT_FLOW: u32 = 47;
    pub(super) const EVENT_FLOW_END: u32 = 48;

    pub(super) const ANNOTATION_NAME: u32 = 1;
    pub(super) const ANNOTATION_UINT: u32 = 3;
    pub(super) const ANNOTATION_STRING: u32 = 17;

    pub(super) const INTERNED_IID: u32 = 1;
    pub(super) const INTERNED_TEXT: u32 = 2;
}

/// The one sequence of packets.
const SEQUENCE: u64 = 1;
/// Flags of packets: interned state begins, or is needed.
const STATE_BEGINS: u64 = 1;
const STATE_NEEDED: u64 = 2;

/// Types of events.
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

/// Kinds of interned strings, which count from 1 each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Category,
    EventName,
    AnnotationName,
    AnnotationText,
}

impl Kind {
    const COUNT: usize = 4;

    /// Field of `InternedData`.
    fn field(self) -> u32 {
        match self {
            Kind::Category => 1,
            Kind::EventName => 2,
            Kind::AnnotationName => 3,
            Kind::AnnotationText => 29,
        }
    }
}

/// A value beside a slice.
#[derive(Debug, Clone, Copy)]
pub(super) enum Annotation<'a> {
    Text(&'static str, &'a str),
    Uint(&'static str, u64),
}

/// An arrow that begins or ends at an event.
#[derive(Debug, Clone, Copy)]
pub(super) enum Arrow {
    From(u64),
    To(u64),
}

/// Category and name of a slice or an instant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Label<'a> {
    pub(super) category: &'static str,
    pub(super) name: &'a str,
}

/// A place in a trace: a track, and a time on it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    pub(super) track: u64,
    pub(super) at: Cycles,
}

/// Contents of a slice's begin or an instant.
struct Named<'a> {
    kind: u64,
    label: Label<'a>,
    annotations: &'a [Annotation<'a>],
    arrow: Option<Arrow>,
}

/// Writes packets.
#[derive(Debug)]
pub(super) struct Output<W> {
    out: W,
    clock: Clock,
    packet: Message,
    interned: [IndexSet<String, FxBuildHasher>; Kind::COUNT],
    /// Strings that this packet is the first to use.
    new: Vec<(Kind, u64)>,
    pub(super) bytes: u64,
    pub(super) slices: u64,
    pub(super) instants: u64,
    pub(super) counter_samples: u64,
    pub(super) tracks: u64,
}

impl<W: Write> Output<W> {
    pub(super) fn new(out: W, clock: Clock) -> io::Result<Output<W>> {
        let mut output = Output {
            out,
            clock,
            packet: Message::default(),
            interned: Default::default(),
            new: Vec::new(),
            bytes: 0,
            slices: 0,
            instants: 0,
            counter_samples: 0,
            tracks: 0,
        };
        output.packet(|packet| {
            packet.uint(field::SEQUENCE_FLAGS, STATE_BEGINS);
        })?;
        Ok(output)
    }

    /// Adds a track, and returns its number.
    pub(super) fn track(&mut self, fill: impl FnOnce(&mut Message)) -> io::Result<u64> {
        self.tracks += 1;
        let uuid = self.tracks;
        self.packet(|packet| {
            packet.message(field::TRACK_DESCRIPTOR, |track| {
                track.uint(1, uuid);
                fill(track);
            });
        })?;
        Ok(uuid)
    }

    pub(super) fn begin(
        &mut self,
        point: Point,
        label: Label<'_>,
        annotations: &[Annotation<'_>],
    ) -> io::Result<()> {
        self.slices += 1;
        let event = Named {
            kind: SLICE_BEGIN,
            label,
            annotations,
            arrow: None,
        };
        self.named(point, &event)
    }

    pub(super) fn instant(
        &mut self,
        point: Point,
        label: Label<'_>,
        arrow: Arrow,
    ) -> io::Result<()> {
        self.instants += 1;
        let event = Named {
            kind: INSTANT,
            label,
            annotations: &[],
            arrow: Some(arrow),
        };
        self.named(point, &event)
    }

    pub(super) fn end(
        &mut self,
        point: Point,
        arrows: impl Iterator<Item = u64>,
    ) -> io::Result<()> {
        let at = self.nanos(point.at);
        self.packet(|packet| {
            packet.uint(field::TIMESTAMP, at);
            packet.message(field::TRACK_EVENT, |event| {
                event.uint(field::EVENT_TYPE, SLICE_END);
                event.uint(field::EVENT_TRACK, point.track);
                for arrow in arrows {
                    event.fixed64(field::EVENT_FLOW, arrow);
                }
            });
        })
    }

    pub(super) fn count(&mut self, point: Point, value: u64) -> io::Result<()> {
        self.counter_samples += 1;
        let at = self.nanos(point.at);
        self.packet(|packet| {
            packet.uint(field::TIMESTAMP, at);
            packet.message(field::TRACK_EVENT, |event| {
                event.uint(field::EVENT_TYPE, COUNTER);
                event.uint(field::EVENT_TRACK, point.track);
                // The trace has signed numbers.
                event.uint(field::EVENT_COUNTER, value.min(i64::MAX as u64));
            });
        })
    }

    pub(super) fn finish(mut self) -> io::Result<Output<W>> {
        self.out.flush()?;
        Ok(self)
    }

    /// Virtual time in nanoseconds: the trace's unit.
    pub(super) fn nanos(&self, at: Cycles) -> u64 {
        let nanos = u128::from(at.0) * 1_000_000 / u128::from(self.clock.khz());
        // Traces have signed times.
        nanos.min(i64::MAX as u128) as u64
    }

    fn named(&mut self, point: Point, named: &Named<'_>) -> io::Result<()> {
        let Named {
            kind,
            label,
            annotations,
            arrow,
        } = *named;
        let at = self.nanos(point.at);
        let category = self.intern(Kind::Category, label.category);
        let name = self.intern(Kind::EventName, label.name);
        let mut values = Vec::with_capacity(annotations.len());
        for annotation in annotations {
            values.push(match annotation {
                Annotation::Text(name, text) => {
                    let name = self.intern(Kind::AnnotationName, name);
                    let text = self.intern(Kind::AnnotationText, text);
                    (name, field::ANNOTATION_STRING, text)
                }
                Annotation::Uint(name, value) => {
                    let name = self.intern(Kind::AnnotationName, name);
                    (name, field::ANNOTATION_UINT, *value)
                }
            });
        }
        self.packet(|packet| {
            packet.uint(field::TIMESTAMP, at);
            packet.uint(field::SEQUENCE_FLAGS, STATE_NEEDED);
            packet.message(field::TRACK_EVENT, |event| {
                event.uint(field::EVENT_CATEGORY, category);
                for (name, value_field, value) in values {
                    event.message(field::EVENT_ANNOTATION, |annotation| {
                        annotation.uint(field::ANNOTATION_NAME, name);
                        annotation.uint(value_field, value);
                    });
                }
                event.uint(field::EVENT_TYPE, kind);
                event.uint(field::EVENT_NAME, name);
                event.uint(field::EVENT_TRACK, point.track);
                match arrow {
                    Some(Arrow::From(id)) => event.fixed64(field::EVENT_FLOW, id),
                    Some(Arrow::To(id)) => event.fixed64(field::EVENT_FLOW_END, id),
                    None => event,
                };
            });
        })
    }

    /// Returns the number of a string.
    fn intern(&mut self, kind: Kind, text: &str) -> u64 {
        let strings = &mut self.interned[kind as usize];
        if let Some(index) = strings.get_index_of(text) {
            return index as u64 + 1;
        }
        let (index, _) = strings.insert_full(text.to_owned());
        let iid = index as u64 + 1;
        self.new.push((kind, iid));
        iid
    }

    fn packet(&mut self, fill: impl FnOnce(&mut Message)) -> io::Result<()> {
        let (interned, new) = (&self.interned, &self.new);
        self.packet.clear();
        self.packet.message(field::PACKET, |packet| {
            packet.uint(field::SEQUENCE_ID, SEQUENCE);
            if !new.is_empty() {
                packet.message(field::INTERNED_DATA, |data| {
                    for (kind, iid) in new {
                        let text = &interned[*kind as usize][*iid as usize - 1];
                        data.message(kind.field(), |entry| {
                            entry.uint(field::INTERNED_IID, *iid);
                            entry.text(field::INTERNED_TEXT, &printable(text));
                        });
                    }
                });
            }
            fill(packet);
        });
        self.new.clear();
        self.bytes += self.packet.bytes().len() as u64;
        self.out.write_all(self.packet.bytes())
    }
}
