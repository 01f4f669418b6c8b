//! A Java machine of one class and a few objects, made by hand with the offsets of OpenJDK 17.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::{Exports, HotspotError, JavaMachine, Memory};

/// Bytes at addresses.
#[derive(Debug, Clone, Default)]
struct Made {
    bytes: BTreeMap<u64, u8>,
    next: u64,
}

impl Memory for Made {
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let end = at.saturating_add(into.len() as u64);
        if self.bytes.range(at..end).next().is_none() {
            return false;
        }
        for (number, byte) in into.iter_mut().enumerate() {
            *byte = self.bytes.get(&(at + number as u64)).copied().unwrap_or(0);
        }
        true
    }
}

const HEAP: u64 = 0x7_0000_0000;
const CLASS_BASE: u64 = 0x8_0000_0000;
const EXPORTS: Exports = Exports {
    structs: 0x1000,
    types: 0x1008,
    constants: 0x1010,
};

impl Made {
    fn put(&mut self, at: u64, bytes: &[u8]) {
        for (number, byte) in bytes.iter().enumerate() {
            self.bytes.insert(at + number as u64, *byte);
        }
    }

    fn word(&mut self, at: u64, word: u64) {
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
}

/// Members and their offsets; static variables and their addresses.
const MEMBERS: [(&str, &str, u64); 24] = [
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
    ("InstanceKlass", "_java_fields_count", 310),
    ("InstanceKlass", "_fields", 456),
    ("InstanceKlass", "_constants", 232),
    ("Array<u2>", "_data", 4),
    ("JVMFlag", "_name", 8),
    ("JVMFlag", "_addr", 0),
    ("CodeHeap", "_memory", 8),
    ("VirtualSpace", "_low", 16),
    ("VirtualSpace", "_high", 24),
    ("CodeHeap", "_log2_segment_size", 256),
];

const CONSTANTS: [(&str, u64); 7] = [
    ("FieldInfo::field_slots", 6),
    ("FieldInfo::access_flags_offset", 0),
    ("FieldInfo::name_index_offset", 1),
    ("FieldInfo::signature_index_offset", 2),
    ("FieldInfo::low_packed_offset", 4),
    ("FieldInfo::high_packed_offset", 5),
    ("FIELDINFO_TAG_SIZE", 2),
];

/// A machine with the class `a.Counters {long left, right; static int all}`, an object of it and an array of 4 longs.
fn made() -> Made {
    let mut made = Made {
        next: 0x10_0000,
        ..Made::default()
    };
    let heap = made.room(128);
    made.word(heap + 32, HEAP);
    made.word(heap + 40, 1 << 10);
    let variables = made.room(64);
    made.word(variables, heap);
    made.word(variables + 8, CLASS_BASE);
    let statics = [
        ("Universe", "_collectedHeap", variables),
        (
            "CompressedKlassPointers",
            "_narrow_klass._base",
            variables + 8,
        ),
        (
            "CompressedKlassPointers",
            "_narrow_klass._shift",
            variables + 16,
        ),
        ("ClassLoaderDataGraph", "_head", variables + 24),
        ("JVMFlag", "flags", variables + 32),
        ("JVMFlag", "numFlags", variables + 40),
    ];
    let mut structs = Vec::new();
    for (of, field, offset) in MEMBERS {
        let field = made.c_text(field);
        structs.push((of, vec![(8, field), (24, 0), (32, offset)]));
    }
    for (of, field, at) in statics {
        let field = made.c_text(field);
        structs.push((of, vec![(8, field), (24, 1), (40, at)]));
    }
    made.table(EXPORTS.structs, 48, &structs);
    let types = [
        ("ConstantPool", vec![(32, 72)]),
        ("JVMFlag", vec![(32, 24)]),
    ];
    made.table(EXPORTS.types, 40, &types);
    let constants = CONSTANTS.map(|(name, value)| (name, vec![(8, value)]));
    made.table(EXPORTS.constants, 16, &constants);
    classes(&mut made, variables);
    objects(&mut made);
    made
}

fn classes(made: &mut Made, variables: u64) {
    let loader = made.room(128);
    made.word(variables + 24, loader);
    let (counters, longs) = (CLASS_BASE + 0x1000, CLASS_BASE + 0x2000);
    made.put(counters, &[0; 512]);
    made.put(longs, &[0; 512]);
    made.word(loader + 56, counters);
    made.word(counters + 144, longs);
    for (class, name, layout) in [
        (counters, "a/Counters", 32),
        // An array whose header has 16 bytes, of elements of 2^3 bytes.
        (longs, "[J", 0xc010_0b03_u32 as i32),
    ] {
        let name = made.symbol(name);
        made.word(class + 24, name);
        made.int(class + 8, layout);
    }
    let pool = made.room(72 + 8 * 8);
    for (number, text) in ["", "left", "right", "all", "J", "I"]
        .into_iter()
        .enumerate()
    {
        let symbol = made.symbol(text);
        made.word(pool + 72 + 8 * number as u64, symbol);
    }
    made.word(counters + 232, pool);
    let fields = made.room(4 + 2 * 6 * 3);
    let rows: [(u16, u16, u16, u16); 3] = [(0, 1, 4, 16), (0, 2, 4, 24), (8, 3, 5, 112)];
    for (number, (flags, name, signature, offset)) in rows.into_iter().enumerate() {
        let at = fields + 4 + 12 * number as u64;
        made.half(at, flags);
        made.half(at + 2, name);
        made.half(at + 4, signature);
        // Two bits of a tag below the offset.
        made.half(at + 8, offset << 2 | 1);
    }
    made.word(counters + 456, fields);
    made.half(counters + 310, 3);
}

fn objects(made: &mut Made) {
    made.put(HEAP, &[0; 256]);
    for (at, class, length) in [(HEAP + 64, 0x1000, 0), (HEAP + 96, 0x2000, 4)] {
        made.word(at, 1);
        made.int(at + 8, class);
        made.int(at + 12, length);
    }
}

#[test]
fn objects_are_found_from_addresses_in_them() {
    let made = made();
    let machine = JavaMachine::attach(&made, EXPORTS).unwrap();
    let addresses = [
        HEAP + 8,
        HEAP + 80,
        HEAP + 88,
        HEAP + 120,
        HEAP + 152,
        0x10_0000,
    ];
    let found = machine.objects(addresses).unwrap();
    let told: Vec<_> = found
        .iter()
        .map(|one| (one.start - HEAP, one.size, &*one.class))
        .collect();
    assert_eq!(told, [(64, 32, "a.Counters"), (96, 48, "long[]")]);
    let fields = found[0].fields.iter();
    let fields: Vec<_> = fields
        .map(|field| (field.offset, field.size, field.name.as_str()))
        .collect();
    assert_eq!(fields, [(16, 8, "left"), (24, 8, "right")]);
    let elements = found[1].elements.unwrap();
    assert_eq!((elements.offset, elements.size), (16, 8));
}

#[test]
fn a_machine_that_lacks_something_says_what() {
    let empty = Made::default();
    let error = JavaMachine::attach(&empty, EXPORTS).unwrap_err();
    assert_eq!(error, HotspotError::Unreadable(0x1000));
    let made = made();
    let machine = JavaMachine::attach(&made, EXPORTS).unwrap();
    let error = machine.compiled(&mut |_| {}).unwrap_err();
    let said = "the Java machine does not describe CodeCache::_heaps (OpenJDK 17 does)";
    assert_eq!(error.to_string(), said);
    let mut young = made.clone();
    young.word(0x10_0000 + 128, 0);
    let error = JavaMachine::attach(&young, EXPORTS).unwrap_err();
    assert_eq!(error, HotspotError::NotStarted);
}

proptest! {
    /// Nothing that is wrong in the machine's memory is more than a missing name.
    #[test]
    fn any_damage_is_survived(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40)
    ) {
        let mut made = made();
        let places: Vec<u64> = made.bytes.keys().copied().collect();
        for (index, byte) in damage {
            made.bytes.insert(places[index.index(places.len())], byte);
        }
        if let Ok(machine) = JavaMachine::attach(&made, EXPORTS) {
            let _ = machine.objects((0..32).map(|word| HEAP + 8 * word));
            let _ = machine.compiled(&mut |_| {});
        }
    }
}
