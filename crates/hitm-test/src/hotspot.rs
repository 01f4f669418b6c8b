//! Memory of a Java machine of one class, a few objects and one compiled method, as OpenJDK 17 and 25 lay it out.

use std::collections::BTreeMap;

const PAGE_BYTES: u64 = 4096;

/// Start of the machine's heap.
pub const HEAP: u64 = 0x7_0000_0000;
/// Addresses of its tables of structures, of types, of constants and of long constants.
pub const EXPORTS: [u64; 4] = [0x1000, 0x1008, 0x1010, 0x1018];

/// The Java machine that lays out the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Java {
    /// OpenJDK 17.
    Jdk17,
    /// OpenJDK 25.
    Jdk25,
    /// OpenJDK 25 with the class of an object in its mark.
    Jdk25Compact,
}

impl Java {
    /// All of them.
    pub const ALL: [Java; 3] = [Java::Jdk17, Java::Jdk25, Java::Jdk25Compact];

    fn is_new(self) -> bool {
        self != Java::Jdk17
    }
}

const CLASS_BASE: u64 = 0x8_0000_0000;
const COUNTERS: u64 = CLASS_BASE + 0x1000;
const LONGS: u64 = CLASS_BASE + 0x2000;
/// Start of what is given out one after the other, and of the static variables in it.
const ROOM: u64 = 0x10_0000;
const HEAP_BYTES: u64 = 128;
const VARIABLES: u64 = ROOM + HEAP_BYTES;

/// Bytes at addresses.
#[derive(Debug, Clone)]
pub struct JavaMemory {
    pages: BTreeMap<u64, Vec<u8>>,
    /// Addresses of the bytes that were put there.
    places: Vec<u64>,
    next: u64,
    java: Java,
}

impl JavaMemory {
    /// Memory without anything in it.
    pub fn empty() -> JavaMemory {
        JavaMemory {
            pages: BTreeMap::new(),
            places: Vec::new(),
            next: ROOM,
            java: Java::Jdk17,
        }
    }

    /// A machine with the class `a.Counters {long left, right; static int all}`, an object of it and an array of
    /// 4 longs; and, with code, the compiled method `a.Counters.left`, all of line 7.
    pub fn machine(java: Java, has_code: bool) -> JavaMemory {
        let mut made = JavaMemory::empty();
        made.java = java;
        let heap = made.room(HEAP_BYTES);
        made.word(heap + 32, HEAP);
        made.word(heap + 40, 1 << 10);
        let variables = made.room(64);
        assert_eq!(variables, VARIABLES, "it is what is given out next");
        made.word(variables, heap);
        made.word(variables + 8, CLASS_BASE);
        if java == Java::Jdk25Compact {
            made.int(variables + 16, COMPACT_SHIFT as i32);
            made.is_compact(variables);
        }
        made.tables(has_code);
        let pool = made.classes();
        made.objects();
        if has_code {
            made.code(pool);
        }
        made
    }

    /// Copies the bytes at an address; false if none of them is there.
    pub fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let mut is_there = false;
        for (number, byte) in into.iter_mut().enumerate() {
            let at = at.wrapping_add(number as u64);
            let page = self.pages.get(&(at / PAGE_BYTES));
            is_there |= page.is_some();
            *byte = page.map_or(0, |page| page[(at % PAGE_BYTES) as usize]);
        }
        is_there
    }

    /// Addresses of all bytes that mean something.
    pub fn places(&self) -> &[u64] {
        &self.places
    }

    /// Changes the bytes at an address.
    pub fn put(&mut self, at: u64, bytes: &[u8]) {
        for (at, byte) in (at..).zip(bytes) {
            let page = self.pages.entry(at / PAGE_BYTES);
            let page = page.or_insert_with(|| vec![0; PAGE_BYTES as usize]);
            page[(at % PAGE_BYTES) as usize] = *byte;
            self.places.push(at);
        }
    }

    /// Changes the eight bytes at an address.
    pub fn word(&mut self, at: u64, word: u64) {
        self.put(at, &word.to_le_bytes());
    }

    fn int(&mut self, at: u64, int: i32) {
        self.put(at, &int.to_le_bytes());
    }

    fn half(&mut self, at: u64, half: u16) {
        self.put(at, &half.to_le_bytes());
    }

    /// Room for so many bytes.
    fn room(&mut self, bytes: u64) -> u64 {
        let at = self.next;
        self.next += bytes.next_multiple_of(16);
        self.put(at, &vec![0; bytes as usize]);
        at
    }

    fn c_text(&mut self, text: &str) -> u64 {
        let at = self.room(text.len() as u64 + 1);
        self.put(at, text.as_bytes());
        at
    }

    fn symbol(&mut self, text: &str) -> u64 {
        let at = self.room(6 + text.len() as u64);
        self.half(at + 4, text.len() as u16);
        self.put(at + 6, text.as_bytes());
        at
    }

    /// A table of structures, types or constants: entries of words behind a name.
    fn table(&mut self, variable: u64, entry_bytes: u64, entries: &[(&str, Vec<(u64, u64)>)]) {
        let at = self.room(entry_bytes * (entries.len() as u64 + 1));
        self.word(variable, at);
        for (number, (name, words)) in entries.iter().enumerate() {
            let entry = at + number as u64 * entry_bytes;
            let name = self.c_text(name);
            self.word(entry, name);
            for (offset, word) in words {
                self.word(entry + offset, *word);
            }
        }
    }

    /// The flag that says that objects have compact headers.
    fn is_compact(&mut self, variables: u64) {
        let name = self.c_text("UseCompactObjectHeaders");
        let (flags, value) = (self.room(24), self.room(1));
        self.put(value, &[1]);
        self.word(flags, value);
        self.word(flags + 8, name);
        self.word(variables + 32, flags);
        self.word(variables + 40, 1);
    }

    fn tables(&mut self, has_code: bool) {
        let (of_fields, of_code) = match self.java.is_new() {
            true => (&NEW_FIELD_MEMBERS[..], &NEW_CODE_MEMBERS[..]),
            false => (&FIELD_MEMBERS[..], &OLD_CODE_MEMBERS[..]),
        };
        let of_code = CODE_MEMBERS.iter().chain(of_code).filter(|_| has_code);
        let mut structs = Vec::new();
        for (of, field, offset) in MEMBERS.iter().chain(of_fields).chain(of_code) {
            let field = self.c_text(field);
            structs.push((*of, vec![(8, field), (24, 0), (32, *offset)]));
        }
        for (of, field, offset) in &STATICS[..STATICS.len() - usize::from(!has_code)] {
            let field = match self.java.is_new() {
                true => field.trim_start_matches("_narrow_klass."),
                false => field,
            };
            let field = self.c_text(field);
            structs.push((*of, vec![(8, field), (24, 1), (40, VARIABLES + offset)]));
        }
        let [of_structs, of_types, of_constants, of_long_constants] = EXPORTS;
        self.table(of_structs, 48, &structs);
        let (sizes, constants, long_constants) = match self.java.is_new() {
            true => (&NEW_SIZES[..], &NEW_CONSTANTS[..], &NEW_MARKS[..]),
            false => (&OLD_SIZES[..], &CONSTANTS[..], &OLD_MARKS[..]),
        };
        let entries = |of: &[(&'static str, u64)], at: u64| -> Vec<(&'static str, Vec<_>)> {
            let entry = |(name, value): &(&'static str, u64)| (*name, vec![(at, *value)]);
            of.iter().map(entry).collect()
        };
        self.table(of_types, 40, &entries(&[&SIZES, sizes].concat(), 32));
        self.table(of_constants, 16, &entries(constants, 8));
        self.table(
            of_long_constants,
            16,
            &entries(&[&MARKS, long_constants].concat(), 8),
        );
    }

    /// Makes the classes; returns the pool of constants of the first.
    fn classes(&mut self) -> u64 {
        let loader = self.room(128);
        self.word(VARIABLES + 24, loader);
        self.put(COUNTERS, &[0; 512]);
        self.put(LONGS, &[0; 512]);
        self.word(loader + 56, COUNTERS);
        self.word(COUNTERS + 144, LONGS);
        for (class, name, layout) in [
            (COUNTERS, "a/Counters", 32),
            // An array whose header has 16 bytes, of elements of 2^3 bytes.
            (LONGS, "[J", 0xc010_0b03_u32 as i32),
        ] {
            let name = self.symbol(name);
            self.word(class + 24, name);
            self.int(class + 8, layout);
        }
        let pool = self.room(72 + 8 * 8);
        let texts = ["", "left", "right", "all", "J", "I", "Counters.java"];
        for (number, text) in (0..).zip(texts) {
            let symbol = self.symbol(text);
            self.word(pool + 72 + 8 * number, symbol);
        }
        self.word(COUNTERS + 232, pool);
        match self.java.is_new() {
            true => self.streamed_fields(),
            false => self.listed_fields(),
        }
        pool
    }

    /// Two counts, then name, signature, offset, access and flags of each field, and what its flags announce. A
    /// byte is one more than it stands for.
    fn streamed_fields(&mut self) {
        let stream = self.room(64);
        let mut numbers = vec![3, 0];
        // The second field has a generic signature, the third a value at the start.
        numbers.extend([1, 4, 16, 0, 0]);
        numbers.extend([2, 4, 24, 0, 4, 9]);
        numbers.extend([3, 5, 112, 8, 1, 7]);
        let bytes: Vec<u8> = numbers.iter().map(|number| number + 1).collect();
        self.put(stream + 4, &bytes);
        self.word(COUNTERS + 448, stream);
    }

    fn listed_fields(&mut self) {
        let fields = self.room(4 + 2 * 6 * 3);
        let rows: [(u16, u16, u16, u16); 3] = [(0, 1, 4, 16), (0, 2, 4, 24), (8, 3, 5, 112)];
        for (number, (flags, name, signature, offset)) in (0..).zip(rows) {
            let at = fields + 4 + 12 * number;
            self.half(at, flags);
            self.half(at + 2, name);
            self.half(at + 4, signature);
            // Two bits of a tag below the offset.
            self.half(at + 8, offset << 2 | 1);
        }
        self.word(COUNTERS + 456, fields);
        self.half(COUNTERS + 310, 3);
    }

    fn objects(&mut self) {
        self.put(HEAP, &[0; 256]);
        for (at, class, length) in [(HEAP + 64, 0x1000, 0), (HEAP + 96, 0x2000, 4)] {
            if self.java == Java::Jdk25Compact {
                let narrow = (class as u64) >> COMPACT_SHIFT;
                self.word(at, narrow << COMPACT_FROM_BIT | 1);
                self.int(at + 8, length);
            } else {
                self.word(at, 1);
                self.int(at + 8, class);
                self.int(at + 12, length);
            }
        }
    }

    /// One heap of code with one method in it, whose 64 bytes stop at two places.
    fn code(&mut self, pool: u64) {
        let (heaps, list, heap) = (self.room(16), self.room(8), self.room(272));
        self.word(VARIABLES + 48, heaps);
        self.int(heaps, 1);
        self.word(heaps + 8, list);
        self.word(list, heap);
        let block = self.room(512);
        self.word(heap + 8 + 16, block);
        self.word(heap + 8 + 24, block + 512);
        // Segments of 2^7 bytes, of which the block has four.
        self.int(heap + 256, 7);
        let header_bytes = if self.java.is_new() { 8 } else { 16 };
        self.word(block, 4);
        self.put(block + header_bytes / 2, &[1]);
        let blob = block + header_bytes;
        let kind = self.c_text("nmethod");
        self.word(blob + 32, kind);
        let method = self.method(pool);
        self.word(blob + 40, method);
        match self.java.is_new() {
            true => self.parts_apart(blob, block + 256, method),
            false => self.parts_in_a_row(blob, block + 256, method),
        }
    }

    fn parts_in_a_row(&mut self, blob: u64, code: u64, method: u64) {
        self.word(blob + 16, code);
        self.word(blob + 24, code + 64);
        let scopes = self.room(16);
        self.scopes(scopes);
        self.word(blob + 48, scopes);
        let places = self.room(16);
        self.stops(places);
        let metadata = self.room(8);
        self.word(metadata, method);
        for (at, what) in [(56, places), (60, places + 16), (64, metadata)] {
            self.int(blob + at, (what - blob) as i32);
        }
    }

    /// Tables that never change, and those that do, lie apart from the code.
    fn parts_apart(&mut self, blob: u64, code: u64, method: u64) {
        let (fixed, mutable) = (self.room(32), self.room(24));
        self.word(blob + 48, fixed);
        self.word(blob + 56, mutable);
        self.scopes(fixed);
        self.stops(fixed + 16);
        self.word(mutable + 16, method);
        let (code, end) = (code - blob, code + 64 - blob);
        let ints = [(64, code), (68, end), (72, 16), (76, 32), (80, 0), (84, 16)];
        for (at, offset) in ints {
            self.int(blob + at, offset as i32);
        }
    }

    /// No caller, the first method, bytecode 0.
    fn scopes(&mut self, at: u64) {
        let bytes = [0, 1, 1].map(|digit: u8| digit + u8::from(self.java.is_new()));
        self.put(at + 1, &bytes);
    }

    fn stops(&mut self, places: u64) {
        for (at, pc) in [(places, 7), (places + 8, 31)] {
            self.int(at, pc);
            self.int(at + 4, 1);
        }
    }

    fn method(&mut self, pool: u64) -> u64 {
        let (method, fixed) = (self.room(16), self.room(32));
        self.word(method + 8, fixed);
        self.word(fixed + 8, pool);
        self.half(fixed + 16, 1);
        // Four bytes of bytecodes, and a table of lines: bytecode 0 is of line 7.
        self.half(fixed + 18, 4);
        self.half(fixed + 20, 1);
        self.put(fixed + 24 + 4, &[7, 0]);
        self.word(pool + 8, COUNTERS);
        self.half(pool + 16, 6);
        method
    }
}

/// Members and their offsets.
const MEMBERS: [(&str, &str, u64); 21] = [
    ("CollectedHeap", "_reserved", 32),
    ("CollectedHeap", "_total_collections", 64),
    ("MemRegion", "_start", 0),
    ("MemRegion", "_word_size", 8),
    ("oopDesc", "_metadata._compressed_klass", 8),
    ("oopDesc", "_metadata._klass", 8),
    ("ClassLoaderData", "_next", 112),
    ("ClassLoaderData", "_klasses", 56),
    ("Klass", "_next_link", 144),
    ("Klass", "_name", 24),
    ("Klass", "_super", 120),
    ("Klass", "_layout_helper", 8),
    ("Symbol", "_length", 4),
    ("Symbol", "_body", 6),
    ("InstanceKlass", "_constants", 232),
    ("JVMFlag", "_name", 8),
    ("JVMFlag", "_addr", 0),
    ("CodeHeap", "_memory", 8),
    ("VirtualSpace", "_low", 16),
    ("VirtualSpace", "_high", 24),
    ("CodeHeap", "_log2_segment_size", 256),
];

/// Members that fields need.
const FIELD_MEMBERS: [(&str, &str, u64); 3] = [
    ("InstanceKlass", "_java_fields_count", 310),
    ("InstanceKlass", "_fields", 456),
    ("Array<u2>", "_data", 4),
];
const NEW_FIELD_MEMBERS: [(&str, &str, u64); 2] = [
    ("InstanceKlass", "_fieldinfo_stream", 448),
    ("Array<u1>", "_data", 4),
];

/// Members that compiled code needs.
const CODE_MEMBERS: [(&str, &str, u64); 12] = [
    ("GrowableArrayBase", "_len", 0),
    ("GrowableArray<int>", "_data", 8),
    ("HeapBlock::Header", "_length", 0),
    ("CodeBlob", "_name", 32),
    ("PcDesc", "_pc_offset", 0),
    ("PcDesc", "_scope_decode_offset", 4),
    ("Method", "_constMethod", 8),
    ("ConstMethod", "_constants", 8),
    ("ConstMethod", "_name_index", 16),
    ("ConstMethod", "_code_size", 18),
    ("ConstantPool", "_pool_holder", 8),
    ("ConstantPool", "_source_file_name_index", 16),
];
const OLD_CODE_MEMBERS: [(&str, &str, u64); 9] = [
    ("HeapBlock::Header", "_used", 8),
    ("CodeBlob", "_code_begin", 16),
    ("CodeBlob", "_code_end", 24),
    ("CompiledMethod", "_method", 40),
    ("CompiledMethod", "_scopes_data_begin", 48),
    ("nmethod", "_scopes_pcs_offset", 56),
    ("nmethod", "_dependencies_offset", 60),
    ("nmethod", "_metadata_offset", 64),
    ("ConstMethod", "_flags", 20),
];
const NEW_CODE_MEMBERS: [(&str, &str, u64); 11] = [
    ("HeapBlock::Header", "_used", 4),
    ("nmethod", "_method", 40),
    ("nmethod", "_immutable_data", 48),
    ("CodeBlob", "_mutable_data", 56),
    ("CodeBlob", "_code_offset", 64),
    ("CodeBlob", "_data_offset", 68),
    ("nmethod", "_scopes_pcs_offset", 72),
    ("nmethod", "_immutable_data_size", 76),
    ("nmethod", "_scopes_data_offset", 80),
    ("CodeBlob", "_relocation_size", 84),
    ("ConstMethod", "_flags._flags", 20),
];

/// Static variables and their offsets among the variables; the last one is of compiled code.
const STATICS: [(&str, &str, u64); 7] = [
    ("Universe", "_collectedHeap", 0),
    ("CompressedKlassPointers", "_narrow_klass._base", 8),
    ("CompressedKlassPointers", "_narrow_klass._shift", 16),
    ("ClassLoaderDataGraph", "_head", 24),
    ("JVMFlag", "flags", 32),
    ("JVMFlag", "numFlags", 40),
    ("CodeCache", "_heaps", 48),
];

const SIZES: [(&str, u64); 4] = [
    ("ConstantPool", 72),
    ("JVMFlag", 24),
    ("PcDesc", 8),
    ("ConstMethod", 24),
];
const OLD_SIZES: [(&str, u64); 1] = [("HeapBlock", 16)];

const NEW_SIZES: [(&str, u64); 1] = [("HeapBlock", 8)];

const CONSTANTS: [(&str, u64); 8] = [
    ("FieldInfo::field_slots", 6),
    ("FieldInfo::access_flags_offset", 0),
    ("FieldInfo::name_index_offset", 1),
    ("FieldInfo::signature_index_offset", 2),
    ("FieldInfo::low_packed_offset", 4),
    ("FieldInfo::high_packed_offset", 5),
    ("FIELDINFO_TAG_SIZE", 2),
    ("ConstMethod::_has_linenumber_table", 1),
];

const NEW_CONSTANTS: [(&str, u64); 4] = [
    ("FieldInfo::FieldFlags::_ff_initialized", 0),
    ("FieldInfo::FieldFlags::_ff_generic", 2),
    ("FieldInfo::FieldFlags::_ff_contended", 4),
    ("ConstMethodFlags::_misc_has_linenumber_table", 1),
];

/// Bits at which the parts of a mark begin.
const MARKS: [(&str, u64); 3] = [
    ("markWord::age_shift", 3),
    ("markWord::age_bits", 4),
    ("markWord::hash_bits", 31),
];
const OLD_MARKS: [(&str, u64); 1] = [("markWord::hash_shift", 8)];
const NEW_MARKS: [(&str, u64); 2] = [
    ("markWord::hash_shift", 11),
    ("markWord::klass_shift", COMPACT_FROM_BIT as u64),
];
/// First bit of the class in a compact mark, and the shift of classes there.
const COMPACT_FROM_BIT: u32 = 42;
const COMPACT_SHIFT: u32 = 10;
