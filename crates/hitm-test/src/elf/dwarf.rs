//! An assembler for `.debug_info` and `.debug_abbrev`: a tree of entries with any attributes, which
//! may refer to each other in any direction.

use std::collections::BTreeMap;

use crate::unsigned;

/// Tags of entries, as DWARF numbers them.
pub mod tag {
    #![expect(missing_docs, reason = "the names are DWARF's")]
    pub const ARRAY: u16 = 0x01;
    pub const CLASS: u16 = 0x02;
    pub const ENUMERATION: u16 = 0x04;
    pub const LEXICAL_BLOCK: u16 = 0x0b;
    pub const MEMBER: u16 = 0x0d;
    pub const POINTER: u16 = 0x0f;
    pub const REFERENCE: u16 = 0x10;
    pub const COMPILE_UNIT: u16 = 0x11;
    pub const STRUCTURE: u16 = 0x13;
    pub const SUBROUTINE_TYPE: u16 = 0x15;
    pub const TYPEDEF: u16 = 0x16;
    pub const UNION: u16 = 0x17;
    pub const VARIANT: u16 = 0x19;
    pub const INHERITANCE: u16 = 0x1c;
    pub const INLINED_SUBROUTINE: u16 = 0x1d;
    pub const SUBRANGE: u16 = 0x21;
    pub const BASE: u16 = 0x24;
    pub const CONST: u16 = 0x26;
    pub const ENUMERATOR: u16 = 0x28;
    pub const SUBPROGRAM: u16 = 0x2e;
    pub const VARIANT_PART: u16 = 0x33;
    pub const VARIABLE: u16 = 0x34;
    pub const VOLATILE: u16 = 0x35;
    pub const NAMESPACE: u16 = 0x39;
    pub const PARTIAL_UNIT: u16 = 0x3c;
    pub const IMPORTED_UNIT: u16 = 0x3d;
    pub const ATOMIC: u16 = 0x47;
    pub const SKELETON_UNIT: u16 = 0x4a;
}

/// Attributes, as DWARF numbers them.
pub mod attribute {
    #![expect(missing_docs, reason = "the names are DWARF's")]
    pub const LOCATION: u16 = 0x02;
    pub const NAME: u16 = 0x03;
    pub const BYTE_SIZE: u16 = 0x0b;
    pub const BIT_OFFSET: u16 = 0x0c;
    pub const BIT_SIZE: u16 = 0x0d;
    pub const STMT_LIST: u16 = 0x10;
    pub const LOW_PC: u16 = 0x11;
    pub const HIGH_PC: u16 = 0x12;
    pub const LANGUAGE: u16 = 0x13;
    pub const DISCR: u16 = 0x15;
    pub const DISCR_VALUE: u16 = 0x16;
    pub const CONST_VALUE: u16 = 0x1c;
    pub const LOWER_BOUND: u16 = 0x22;
    pub const UPPER_BOUND: u16 = 0x2f;
    pub const ABSTRACT_ORIGIN: u16 = 0x31;
    pub const COUNT: u16 = 0x37;
    pub const DATA_MEMBER_LOCATION: u16 = 0x38;
    pub const DECL_FILE: u16 = 0x3a;
    pub const DECL_LINE: u16 = 0x3b;
    pub const DECLARATION: u16 = 0x3c;
    pub const ENCODING: u16 = 0x3e;
    pub const SPECIFICATION: u16 = 0x47;
    pub const TYPE: u16 = 0x49;
    pub const CALL_FILE: u16 = 0x58;
    pub const CALL_LINE: u16 = 0x59;
    pub const IMPORT: u16 = 0x18;
    pub const SIGNATURE: u16 = 0x69;
    pub const DATA_BIT_OFFSET: u16 = 0x6b;
    pub const ADDR_BASE: u16 = 0x73;
    pub const DWO_NAME: u16 = 0x76;
    pub const ALIGNMENT: u16 = 0x88;
    pub const GNU_DWO_NAME: u16 = 0x2130;
    pub const GNU_DWO_ID: u16 = 0x2131;
}

/// The value of an attribute, with the form that it is written in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// One byte.
    Data1(u8),
    /// Two bytes.
    Data2(u16),
    /// Four bytes.
    Data4(u32),
    /// Eight bytes.
    Data8(u64),
    /// An unsigned LEB128.
    Unsigned(u64),
    /// A signed LEB128.
    Signed(i64),
    /// A text in its place.
    Text(String),
    /// An offset into `.debug_str`.
    TextAt(u32),
    /// An entry of the same unit, by its number.
    Entry(usize),
    /// An offset in the unit.
    Offset(u32),
    /// An offset in `.debug_info`.
    Global(u32),
    /// An offset in the `.debug_info` of the file that dwz made.
    Shared(u32),
    /// An offset in the `.debug_str` of the file that dwz made.
    SharedText(u32),
    /// A type unit's signature.
    Signature(u64),
    /// An address.
    Address(u64),
    /// An expression.
    Expression(Vec<u8>),
    /// An offset into another section.
    Section(u32),
    /// The attribute is there.
    Present,
    /// An index into `.debug_str_offsets`.
    TextIndex(u64),
}

impl Value {
    fn form(&self) -> u16 {
        match self {
            Value::Data1(_) => 0x0b,
            Value::Data2(_) => 0x05,
            Value::Data4(_) => 0x06,
            Value::Data8(_) => 0x07,
            Value::Unsigned(_) => 0x0f,
            Value::Signed(_) => 0x0d,
            Value::Text(_) => 0x08,
            Value::TextAt(_) => 0x0e,
            Value::Entry(_) | Value::Offset(_) => 0x13,
            Value::Global(_) => 0x10,
            Value::Shared(_) => 0x1f20,
            Value::SharedText(_) => 0x1f21,
            Value::Signature(_) => 0x20,
            Value::Address(_) => 0x01,
            Value::Expression(_) => 0x18,
            Value::Section(_) => 0x17,
            Value::Present => 0x19,
            Value::TextIndex(_) => 0x1a,
        }
    }
}

/// Attributes and their values.
type Attributes = Vec<(u16, Value)>;

#[derive(Debug, Clone)]
struct Entry {
    tag: u16,
    attributes: Attributes,
    children: Vec<usize>,
}

/// One unit. Entry 0 is its root.
#[derive(Debug, Clone)]
pub struct Dwarf {
    version: u16,
    /// `DW_UT_*`, which version 5 has in the header.
    unit_type: u8,
    /// The identity of a split unit, or the signature of a type unit.
    id: u64,
    entries: Vec<Entry>,
}

impl Dwarf {
    /// A unit of this version, 3 to 5, whose root has this tag.
    pub fn new(version: u16, tag: u16, attributes: Attributes) -> Dwarf {
        let root = Entry {
            tag,
            attributes,
            children: Vec::new(),
        };
        Dwarf {
            version,
            unit_type: 1,
            id: 0,
            entries: vec![root],
        }
    }

    /// Makes a unit of version 5 a type unit (2, or 6 in a split file), a skeleton (4) or a split unit
    /// (5) with this identity. A type unit is of entry 1.
    pub fn kind(&mut self, unit_type: u8, id: u64) {
        self.unit_type = unit_type;
        self.id = id;
    }

    /// Entries so far.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there is no entry; there is always the root.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds an entry below another and returns its number.
    pub fn entry(&mut self, parent: usize, tag: u16, attributes: Attributes) -> usize {
        let number = self.entries.len();
        self.entries.push(Entry {
            tag,
            attributes,
            children: Vec::new(),
        });
        self.entries[parent].children.push(number);
        number
    }

    /// `.debug_info` and `.debug_abbrev`.
    pub fn finish(&self) -> (Vec<u8>, Vec<u8>) {
        let mut references = Vec::new();
        let mut info = vec![0; 4];
        info.extend(self.version.to_le_bytes());
        if self.version >= 5 {
            info.extend([self.unit_type, 8, 0, 0, 0, 0]);
            if matches!(self.unit_type, 2 | 4..=6) {
                info.extend(self.id.to_le_bytes());
            }
            if matches!(self.unit_type, 2 | 6) {
                references.push((info.len(), 1));
                info.extend([0; 4]);
            }
        } else {
            info.extend([0, 0, 0, 0, 8]);
        }
        let mut writer = Writer {
            dwarf: self,
            info,
            forms: BTreeMap::new(),
            abbreviations: Vec::new(),
            places: vec![0; self.entries.len()],
            references,
        };
        writer.write(0);
        let Writer {
            mut info,
            mut abbreviations,
            places,
            references,
            ..
        } = writer;
        for (at, entry) in references {
            let place = places.get(entry).copied().unwrap_or(u32::MAX);
            info[at..at + 4].copy_from_slice(&place.to_le_bytes());
        }
        let length = info.len() as u32 - 4;
        info[..4].copy_from_slice(&length.to_le_bytes());
        abbreviations.push(0);
        (info, abbreviations)
    }
}

/// Tag, whether there are children, attributes and their forms.
type Abbreviation = (u16, bool, Vec<(u16, u16)>);

struct Writer<'a> {
    dwarf: &'a Dwarf,
    info: Vec<u8>,
    forms: BTreeMap<Abbreviation, u64>,
    abbreviations: Vec<u8>,
    /// Offset of each entry.
    places: Vec<u32>,
    /// Four bytes that are to hold the offset of an entry.
    references: Vec<(usize, usize)>,
}

impl Writer<'_> {
    /// Writes an entry and those below it. Entries may nest at any depth, so a list of the open
    /// ones replaces the stack.
    fn write(&mut self, root: usize) {
        let dwarf = self.dwarf;
        self.write_one(root);
        let mut open = vec![dwarf.entries[root].children.iter()];
        if dwarf.entries[root].children.is_empty() {
            return;
        }
        while let Some(children) = open.last_mut() {
            match children.next() {
                Some(&child) => {
                    self.write_one(child);
                    let below = &dwarf.entries[child].children;
                    if !below.is_empty() {
                        open.push(below.iter());
                    }
                }
                None => {
                    self.info.push(0);
                    open.pop();
                }
            }
        }
    }

    fn write_one(&mut self, number: usize) {
        let entry = &self.dwarf.entries[number];
        self.places[number] = self.info.len() as u32;
        let forms = entry.attributes.iter();
        let forms = forms.map(|(name, value)| (*name, value.form())).collect();
        let code = self.code((entry.tag, !entry.children.is_empty(), forms));
        unsigned(&mut self.info, code);
        for (_, value) in &entry.attributes {
            self.value(value);
        }
    }

    /// The number of an abbreviation, written when it is new.
    fn code(&mut self, abbreviation: Abbreviation) -> u64 {
        if let Some(known) = self.forms.get(&abbreviation) {
            return *known;
        }
        let code = self.forms.len() as u64 + 1;
        let out = &mut self.abbreviations;
        unsigned(out, code);
        unsigned(out, abbreviation.0.into());
        out.push(abbreviation.1.into());
        for (name, form) in &abbreviation.2 {
            unsigned(out, (*name).into());
            unsigned(out, (*form).into());
        }
        out.extend([0, 0]);
        self.forms.insert(abbreviation, code);
        code
    }

    fn value(&mut self, value: &Value) {
        let out = &mut self.info;
        match value {
            Value::Data1(value) => out.push(*value),
            Value::Data2(value) => out.extend(value.to_le_bytes()),
            Value::Data8(value) | Value::Signature(value) | Value::Address(value) => {
                out.extend(value.to_le_bytes());
            }
            Value::Unsigned(value) | Value::TextIndex(value) => {
                unsigned(out, *value);
            }
            Value::Signed(value) => signed(out, *value),
            Value::Text(text) => {
                out.extend(text.bytes().filter(|byte| *byte != 0).chain([0]));
            }
            Value::Entry(number) => {
                self.references.push((out.len(), *number));
                out.extend([0; 4]);
            }
            Value::Data4(value)
            | Value::TextAt(value)
            | Value::Offset(value)
            | Value::Global(value)
            | Value::Shared(value)
            | Value::SharedText(value)
            | Value::Section(value) => out.extend(value.to_le_bytes()),
            Value::Expression(bytes) => {
                unsigned(out, bytes.len() as u64);
                out.extend(bytes);
            }
            Value::Present => {}
        }
    }
}

/// Appends a signed LEB128.
pub(super) fn signed(out: &mut Vec<u8>, mut value: i64) {
    while !(-64..64).contains(&value) {
        out.push(value as u8 & 0x7f | 0x80);
        value >>= 7;
    }
    out.push(value as u8 & 0x7f);
}
