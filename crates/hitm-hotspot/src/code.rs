//! Compiled code: methods, and the source lines of their instructions.
//!
//! The compilers describe the places where a method may stop: calls, checks and polls (`PcDesc`). An instruction
//! belongs to the next such place, as HotSpot's own profilers have it. With `-XX:+DebugNonSafepoints` there are
//! many more of them.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::bytes::Packed;
use crate::sections::Tables;
use crate::{HotspotError, JavaMachine};

/// Heaps of code that are followed: JDK 17 has three.
const HEAPS_MAX: i32 = 64;
/// Blobs of code that are followed.
const BLOBS_MAX: usize = 1 << 20;
/// Described places of a method that are followed.
const PLACES_MAX: u64 = 1 << 20;
/// Methods inlined into each other that are followed.
const INLINED_MAX: usize = 64;
/// Frames and entries of tables of lines that are read for all methods: 10,000 methods of 200 places have some 100
/// million. Places beyond have no lines.
const STEPS_MAX: u64 = 1 << 30;

/// Something in the cache of compiled code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiled {
    /// Its instructions.
    pub code: Range<u64>,
    /// The method, `Counters.countLeft`; what the Java machine calls code of another kind.
    pub name: String,
    /// Instructions by source line, ascending; none for other code.
    pub places: Vec<Place>,
}

/// Instructions of one source line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The instructions.
    pub code: Range<u64>,
    /// The methods that they are in, by inlining: the innermost first.
    pub frames: Vec<Frame>,
}

/// A method and a line of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The method, `Counters.countLeft`.
    pub method: String,
    /// Its source file in the folder of its package, `java/lang/Thread.java`; empty when unknown.
    pub file: String,
    /// The line; 0 when unknown.
    pub line: u32,
}

/// A method with what its lines are found by.
#[derive(Debug, Clone)]
struct Method {
    name: String,
    file: String,
    lines_at: Option<u64>,
}

/// Methods that were asked for.
#[derive(Debug)]
struct Methods {
    by_address: BTreeMap<u64, Method>,
    /// Of [`STEPS_MAX`].
    steps_left: u64,
}

impl JavaMachine<'_> {
    /// Passes everything in the cache of compiled code. What cannot be read is passed over.
    ///
    /// # Errors
    /// Tables that lack what is needed.
    pub fn compiled(&self, take: &mut dyn FnMut(Compiled)) -> Result<(), HotspotError> {
        let mut methods = Methods {
            by_address: BTreeMap::new(),
            steps_left: STEPS_MAX,
        };
        for blob in self.blobs()? {
            if let Ok(Some(found)) = self.blob(blob, &mut methods) {
                take(found);
            }
        }
        Ok(())
    }

    /// Addresses of all blobs of code.
    fn blobs(&self) -> Result<Vec<u64>, HotspotError> {
        let (tables, view) = (&self.tables, &self.view);
        let heaps = view.word(tables.variable("CodeCache", "_heaps")?)?;
        let count = view.int(heaps.wrapping_add(tables.offset("GrowableArrayBase", "_len")?))?;
        let list = view.word(heaps.wrapping_add(tables.offset("GrowableArray<int>", "_data")?))?;
        let memory = tables.offset("CodeHeap", "_memory")?;
        let (low, high) = (
            tables.offset("VirtualSpace", "_low")?,
            tables.offset("VirtualSpace", "_high")?,
        );
        let shift = tables.offset("CodeHeap", "_log2_segment_size")?;
        let (length, used) = (
            tables.offset("HeapBlock::Header", "_length")?,
            tables.offset("HeapBlock::Header", "_used")?,
        );
        let header = tables.size("HeapBlock")?;
        let mut found = Vec::new();
        for number in 0..count.clamp(0, HEAPS_MAX) {
            let heap = view.word(list.wrapping_add(8 * number as u64))?;
            let space = heap.wrapping_add(memory);
            let end = view.word(space.wrapping_add(high))?;
            let segment_bits = view.int(heap.wrapping_add(shift))? as u32;
            let mut block = view.word(space.wrapping_add(low))?;
            while block < end && found.len() < BLOBS_MAX {
                // The length fills what is before the flag: 8 bytes, 4 in later machines.
                let segments = match used.wrapping_sub(length) {
                    4 => u64::from(view.int(block.wrapping_add(length))? as u32),
                    _ => view.word(block.wrapping_add(length))?,
                };
                if view.byte(block.wrapping_add(used))? != 0 {
                    found.push(block.wrapping_add(header));
                }
                match segments
                    .checked_shl(segment_bits)
                    .and_then(|bytes| block.checked_add(bytes))
                {
                    Some(next) if next > block => block = next,
                    _ => break,
                }
            }
        }
        Ok(found)
    }

    fn blob(&self, blob: u64, methods: &mut Methods) -> Result<Option<Compiled>, HotspotError> {
        let (tables, view) = (&self.tables, &self.view);
        let code = self.instructions(blob)?;
        let kind = blob.wrapping_add(tables.offset("CodeBlob", "_name")?);
        let kind = view.c_text(view.word(kind)?)?;
        if code.is_empty() {
            return Ok(None);
        }
        let is_method = ["nmethod", "native nmethod"].contains(&kind.as_str());
        let method = match is_method {
            true => self.method_of(blob)?,
            false => 0,
        };
        if method == 0 {
            let name = kind;
            let places = Vec::new();
            return Ok(Some(Compiled { code, name, places }));
        }
        let name = self.method(method, methods)?.name;
        // A method without lines still has its name.
        let places = self.places(blob, &code, methods).unwrap_or_default();
        Ok(Some(Compiled { code, name, places }))
    }

    /// The instructions of a method by their lines.
    fn places(
        &self,
        blob: u64,
        code: &Range<u64>,
        methods: &mut Methods,
    ) -> Result<Vec<Place>, HotspotError> {
        let (tables, view) = (&self.tables, &self.view);
        let of = self.tables_of(blob)?;
        let (first, end) = (of.places.start, of.places.end);
        let size = tables.size("PcDesc")?.max(1);
        let pc = tables.offset("PcDesc", "_pc_offset")?;
        let scope = tables.offset("PcDesc", "_scope_decode_offset")?;
        let mut places: Vec<Place> = Vec::new();
        let mut from = code.start;
        for number in 0..(end.saturating_sub(first) / size).min(PLACES_MAX) {
            let at = first.wrapping_add(number.wrapping_mul(size));
            let to = code
                .start
                .saturating_add_signed(view.int(at.wrapping_add(pc))?.into());
            // The place itself is the last instruction of its line; its bytes are not known, so the next one
            // begins behind its first byte.
            let range = from..to.saturating_add(1).min(code.end);
            let scope = view.int(at.wrapping_add(scope))?;
            if methods.steps_left == 0 {
                break;
            }
            if range.is_empty() || scope <= 0 {
                continue;
            }
            from = range.end;
            let frames = self.frames(&of, scope as u32, methods)?;
            match places.last_mut() {
                Some(last) if last.frames == frames && last.code.end == range.start => {
                    last.code.end = range.end
                }
                _ => places.push(Place {
                    code: range,
                    frames,
                }),
            }
        }
        Ok(places)
    }

    /// The methods around a described place: pairs of method and bytecode, each with the place of the next one out.
    fn frames(
        &self,
        of: &Tables,
        mut scope: u32,
        methods: &mut Methods,
    ) -> Result<Vec<Frame>, HotspotError> {
        let packing = self.packing();
        let mut frames = Vec::new();
        while scope != 0 && frames.len() < INLINED_MAX {
            methods.steps_left = methods.steps_left.saturating_sub(1);
            let mut packed = Packed::new(&self.view, of.scopes.wrapping_add(scope.into()), packing);
            let around = packed.unsigned()?;
            let number = packed.unsigned()?;
            let bytecode = (packed.unsigned()? as i32).wrapping_sub(1);
            let place = u64::from(number).wrapping_sub(1).wrapping_mul(8);
            let at = of.metadata.wrapping_add(place);
            let method = self.method(self.view.word(at)?, methods)?;
            let line = match method.lines_at {
                Some(at) => Packed::new(&self.view, at, packing)
                    .line_of(bytecode.max(0), &mut methods.steps_left)?,
                None => None,
            };
            frames.push(Frame {
                method: method.name,
                file: method.file,
                line: line.unwrap_or(0),
            });
            scope = around;
        }
        Ok(frames)
    }

    fn method(&self, at: u64, methods: &mut Methods) -> Result<Method, HotspotError> {
        if let Some(known) = methods.by_address.get(&at) {
            return Ok(known.clone());
        }
        let found = self.read_method(at)?;
        methods.by_address.insert(at, found.clone());
        Ok(found)
    }

    fn read_method(&self, at: u64) -> Result<Method, HotspotError> {
        let (tables, view) = (&self.tables, &self.view);
        let fixed = view.word(at.wrapping_add(tables.offset("Method", "_constMethod")?))?;
        let member = |name| {
            let offset = tables.offset("ConstMethod", name)?;
            Ok::<u64, HotspotError>(fixed.wrapping_add(offset))
        };
        let pool = view.word(member("_constants")?)?;
        let holder =
            view.word(pool.wrapping_add(tables.offset("ConstantPool", "_pool_holder")?))?;
        let class = self.with_classes(|classes| self.class_name(classes, holder))?;
        let method = self.constant_symbol(pool, view.half(member("_name_index")?)?)?;
        let file_at = pool.wrapping_add(tables.offset("ConstantPool", "_source_file_name_index")?);
        let file = match view.half(file_at)? {
            0 => String::new(),
            number => in_package(&class, &self.constant_symbol(pool, number)?),
        };
        let code_bytes = u64::from(view.half(member("_code_size")?)?);
        let has_lines = self.has_lines(fixed)?;
        let lines_at = fixed
            .wrapping_add(tables.size("ConstMethod")?)
            .wrapping_add(code_bytes);
        Ok(Method {
            name: format!("{class}.{method}"),
            file,
            lines_at: has_lines.then_some(lines_at),
        })
    }

    /// Returns true if a table of lines follows the bytecodes of a method, by its lower 16 flags.
    fn has_lines(&self, fixed: u64) -> Result<bool, HotspotError> {
        let tables = &self.tables;
        let flags = tables.offset("ConstMethod", "_flags");
        let flags = flags.or_else(|_| tables.offset("ConstMethod", "_flags._flags"))?;
        let bit = tables.constant("ConstMethod::_has_linenumber_table");
        let bit =
            bit.or_else(|_| tables.constant("ConstMethodFlags::_misc_has_linenumber_table"))?;
        let flags = self.view.half(fixed.wrapping_add(flags))?;
        Ok(flags & bit as u16 != 0)
    }
}

/// A source file in the folder of its class's package.
fn in_package(class: &str, file: &str) -> String {
    match class.rsplit_once('.') {
        Some((package, _)) => format!("{}/{file}", package.replace('.', "/")),
        None => file.to_owned(),
    }
}
