//! Names that the tables of a runtime tell: its objects with their fields, and the source lines of code that it
//! compiled.
//!
//! They stand in the kept map beside the functions, in lines that begin with a word:
//! `object START SIZE NAME` (or `statics`), with `field OFFSET SIZE NAME` and `elements OFFSET SIZE` behind it;
//! `method FILE<tab>NAME`, numbered from 0; `at START SIZE METHOD:LINE ...`, the innermost method first. Numbers
//! but those of methods and lines are hexadecimal.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use hitm_trace::PROCESS_SHIFT;

use crate::recording::{Budget, CodeLabel, DataLabel};

/// Owner of the memory in which a Java machine keeps objects.
pub const JAVA_HEAP: &str = "Java heap";
/// The same of static fields.
pub const JAVA_STATICS: &str = "static fields in the Java heap";
/// Tables of names that take these, in a report's notes.
const OBJECTS: &str = "objects of a runtime";
const PLACES: &str = "source lines of generated code";
/// Offset of an object's class, behind its first word.
const CLASS_OFFSET: u64 = 8;
/// Methods around an instruction that are read.
const FRAMES_MAX: usize = 64;

/// An object of a runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Address of its first byte.
    pub start: u64,
    /// Its bytes.
    pub size: u64,
    /// Name of its class.
    pub class: Arc<str>,
    /// True if it holds the static fields of that class.
    pub is_static: bool,
    /// Its fields by offset.
    pub fields: Vec<Part>,
    /// Of an array: offset of the first element and bytes of each.
    pub elements: Option<(u64, u64)>,
}

/// A field of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Offset in the object.
    pub offset: u64,
    /// Its bytes.
    pub size: u64,
    /// Its name.
    pub name: String,
}

impl Object {
    /// Label of the byte at an address in it.
    fn label(&self, address: u64) -> DataLabel {
        let offset = address - self.start;
        let holds = |part: &&Part| {
            offset
                .checked_sub(part.offset)
                .is_some_and(|at| at < part.size)
        };
        let field = self.fields.iter().find(holds);
        let element = self.elements.and_then(|(first, size)| {
            let index = offset.checked_sub(first)?.checked_div(size)?;
            Some((index, self.start + first + index * size, size))
        });
        let member = match (field, element) {
            (Some(field), _) => format!(".{}", field.name),
            (None, Some((index, ..))) => format!("[{index}]"),
            // The word of hash, age and lock, and the class, by the names that HotSpot's source has for them.
            (None, None) if offset < CLASS_OFFSET => ".<mark>".to_owned(),
            (None, None) if offset == CLASS_OFFSET => ".<klass>".to_owned(),
            (None, None) => format!("+{offset:#x}"),
        };
        DataLabel {
            object: self.class.to_string(),
            object_addr: self.start,
            object_size: self.size,
            member,
            element: element.map(|(_, start, size)| (start, size)),
            origin: match self.is_static {
                true => JAVA_STATICS.to_owned(),
                false => JAVA_HEAP.to_owned(),
            },
        }
    }
}

/// Names that one program's runtime told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// Its objects, as far as anybody asked for them.
    pub objects: Vec<Object>,
    /// Code that it compiled, by functions.
    pub functions: Vec<(Range<u64>, String)>,
    /// The same by source lines: instructions, and the functions that they are in, the innermost first.
    pub places: Vec<(Range<u64>, Vec<CodeLabel>)>,
    /// Sentences about what is missing.
    pub notes: Vec<String>,
}

/// Lines of a kept map that tell names.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) text: String,
    methods: BTreeMap<(String, String), usize>,
}

impl Lines {
    /// Adds an object of a process, in its part of the address space.
    pub(super) fn add_object(&mut self, process: u32, object: &Object) {
        let word = if object.is_static {
            "statics"
        } else {
            "object"
        };
        let start = in_process(process, object.start);
        let name = one_line(&object.class);
        self.add(format_args!("{word} {start:x} {:x} {name}", object.size));
        for field in &object.fields {
            let name = one_line(&field.name);
            self.add(format_args!(
                "field {:x} {:x} {name}",
                field.offset, field.size
            ));
        }
        if let Some((first, size)) = object.elements {
            self.add(format_args!("elements {first:x} {size:x}"));
        }
    }

    /// Adds instructions of a process with the functions that they are in.
    pub(super) fn add_place(&mut self, process: u32, code: &Range<u64>, frames: &[CodeLabel]) {
        let mut line = format!(
            "at {:x} {:x}",
            in_process(process, code.start),
            code.end - code.start
        );
        for frame in frames.iter().take(FRAMES_MAX) {
            let method = self.method(frame);
            let _ = write!(line, " {method}:{}", frame.line);
        }
        self.add(format_args!("{line}"));
    }

    fn method(&mut self, frame: &CodeLabel) -> usize {
        let key = (one_line(&frame.file), one_line(&frame.function));
        if let Some(known) = self.methods.get(&key) {
            return *known;
        }
        let number = self.methods.len();
        self.add(format_args!("method {}\t{}", key.0, key.1));
        self.methods.insert(key, number);
        number
    }

    fn add(&mut self, line: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.text, "{line}");
    }
}

fn in_process(process: u32, address: u64) -> u64 {
    address | u64::from(process) << PROCESS_SHIFT
}

/// A name that ends no line and no field of one.
fn one_line(name: &str) -> String {
    name.replace(['\n', '\r', '\t'], " ")
}

/// Names that runtimes told, as a report looks them up.
#[derive(Debug, Default)]
pub(super) struct Tellings {
    objects: BTreeMap<u64, Object>,
    /// Files and names of functions.
    methods: Vec<(Arc<str>, Arc<str>)>,
    /// By first address: the address behind the last instruction; functions and lines.
    places: BTreeMap<u64, (u64, Vec<(usize, u32)>)>,
}

impl Tellings {
    /// Reads the lines of a kept map that tell names; others are passed over.
    pub(super) fn parse(text: &str, budget: &mut Budget) -> Tellings {
        let mut found = Tellings::default();
        // The object that fields belong to.
        let mut open: Option<Object> = None;
        for line in text.lines() {
            let Some((word, rest)) = line.split_once(' ') else {
                continue;
            };
            match word {
                "object" | "statics" => {
                    found.close(open.take(), budget);
                    open = object(rest, word == "statics");
                }
                "field" => {
                    if let (Some(object), Some((offset, size, name))) =
                        (&mut open, super::function(rest))
                    {
                        object.fields.push(Part {
                            offset,
                            size,
                            name: name.to_owned(),
                        });
                    }
                }
                "elements" => {
                    if let Some(object) = &mut open {
                        object.elements = pair(rest).filter(|(_, size)| *size > 0);
                    }
                }
                "method" => {
                    let (file, name) = rest.split_once('\t').unwrap_or(("", rest));
                    found.methods.push((file.into(), name.into()));
                }
                "at" => found.add_place(rest, budget),
                _ => {}
            }
        }
        found.close(open, budget);
        found
    }

    fn close(&mut self, object: Option<Object>, budget: &mut Budget) {
        let Some(object) = object else { return };
        let fields = object
            .fields
            .iter()
            .map(|field| field.name.len() + size_of::<Part>());
        let bytes = size_of::<Object>() + object.class.len() + fields.sum::<usize>();
        if budget.admits(OBJECTS, bytes) {
            self.objects.insert(object.start, object);
        }
    }

    fn add_place(&mut self, rest: &str, budget: &mut Budget) {
        let mut words = rest.splitn(3, ' ');
        let mut hex = || u64::from_str_radix(words.next()?, 16).ok();
        let (Some(start), Some(size)) = (hex(), hex()) else {
            return;
        };
        let Some(end) = start.checked_add(size).filter(|end| *end > start) else {
            return;
        };
        let frames = words.next().unwrap_or_default().split(' ').take(FRAMES_MAX);
        let frames = frames.filter_map(|frame| {
            let (method, line) = frame.split_once(':')?;
            let method = method
                .parse()
                .ok()
                .filter(|number| *number < self.methods.len())?;
            Some((method, line.parse().ok()?))
        });
        let frames: Vec<(usize, u32)> = frames.collect();
        let bytes = size_of_val(&frames[..]) + size_of::<(u64, u64, Vec<u8>)>();
        if !frames.is_empty() && budget.admits(PLACES, bytes) {
            self.places.insert(start, (end, frames));
        }
    }

    /// Label of the byte at an address.
    pub(super) fn data(&self, address: u64) -> Option<DataLabel> {
        let (_, object) = self.objects.range(..=address).next_back()?;
        let is_inside = address - object.start < object.size;
        is_inside.then(|| object.label(address))
    }

    /// Functions that the instruction at an address is in, the innermost first; none if nothing is known of it.
    pub(super) fn code(&self, address: u64) -> Vec<CodeLabel> {
        let place = self.places.range(..=address).next_back();
        let Some((_, (_, frames))) = place.filter(|(_, (end, _))| address < *end) else {
            return Vec::new();
        };
        let label = |(method, line): &(usize, u32)| CodeLabel {
            function: self.methods[*method].1.to_string(),
            file: self.methods[*method].0.to_string(),
            line: *line,
        };
        frames.iter().map(label).collect()
    }
}

/// Parses two hexadecimal numbers.
fn pair(text: &str) -> Option<(u64, u64)> {
    let (first, second) = text.split_once(' ')?;
    let hex = |digits| u64::from_str_radix(digits, 16).ok();
    Some((hex(first)?, hex(second)?))
}

fn object(rest: &str, is_static: bool) -> Option<Object> {
    let (start, size, class) = super::function(rest)?;
    start.checked_add(size).map(|_| Object {
        start,
        size,
        class: class.into(),
        is_static,
        fields: Vec::new(),
        elements: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters() -> Object {
        let field = |offset, name: &str| Part {
            offset,
            size: 8,
            name: name.into(),
        };
        Object {
            start: 0x7000,
            size: 32,
            class: "a.Counters".into(),
            is_static: false,
            fields: vec![field(16, "left"), field(24, "right")],
            elements: None,
        }
    }

    fn frame(function: &str, file: &str, line: u32) -> CodeLabel {
        CodeLabel {
            function: function.into(),
            file: file.into(),
            line,
        }
    }

    #[test]
    fn what_is_told_is_read_back() {
        let mut lines = Lines::default();
        lines.add_object(2, &counters());
        let array = Object {
            start: 0x8000,
            size: 48,
            class: "long[]".into(),
            elements: Some((16, 8)),
            fields: Vec::new(),
            ..counters()
        };
        lines.add_object(2, &array);
        let inlined = [frame("A.hit", "a/A.java", 3), frame("A.run", "a/A.java", 9)];
        lines.add_place(2, &(0x100..0x110), &inlined);
        lines.add_place(2, &(0x110..0x118), &inlined[1..]);
        let told = Tellings::parse(&lines.text, &mut Budget::default());
        let at = |address: u64| {
            told.data(2 << PROCESS_SHIFT | address)
                .map(|label| label.whole())
        };
        assert_eq!(at(0x7014).as_deref(), Some("a.Counters.left"));
        assert_eq!(at(0x7018).as_deref(), Some("a.Counters.right"));
        assert_eq!(at(0x7000).as_deref(), Some("a.Counters.<mark>"));
        assert_eq!((at(0x7020), at(0x6fff)), (None, None));
        assert_eq!(at(0x8020).as_deref(), Some("long[][2]"));
        let code = |address: u64| told.code(2 << PROCESS_SHIFT | address);
        assert_eq!(code(0x10f), inlined);
        assert_eq!(code(0x110), inlined[1..]);
        assert_eq!(code(0x118), []);
        // Addresses of another process.
        assert_eq!((told.data(0x7014), told.code(0x100)), (None, Vec::new()));
    }

    proptest::proptest! {
        #[test]
        fn any_lines_are_read(
            lines in proptest::collection::vec("(object|statics|field|elements|method|at) [0-9a-f:\t -]{0,40}", 0..20)
        ) {
            let told = Tellings::parse(&lines.join("\n"), &mut Budget::default());
            for address in [0, 1, 0xfff, u64::MAX] {
                let _ = (told.data(address), told.code(address));
            }
        }
    }
}
