//! A Java machine that is made by hand, as it is and damaged.

use hitm_test::hotspot::{EXPORTS as TABLES, HEAP, Java, JavaMemory};
use proptest::prelude::*;

use crate::{Compiled, Exports, Frame, HotspotError, JavaMachine, Memory, Place};

const EXPORTS: Exports = Exports {
    structs: TABLES[0],
    types: TABLES[1],
    constants: TABLES[2],
    long_constants: TABLES[3],
};

#[derive(Debug, Clone)]
struct Made(JavaMemory);

impl Memory for Made {
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        self.0.read(at, into)
    }
}

fn made() -> Made {
    Made(JavaMemory::machine(Java::Jdk17, false))
}

#[test]
fn objects_are_found_from_addresses_in_them() {
    for java in Java::ALL {
        let made = Made(JavaMemory::machine(java, false));
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
        let wanted = [(64, 32, "a.Counters"), (96, 48, "long[]")];
        assert_eq!(told, wanted, "{java:?}");
        let fields = found[0].fields.iter();
        let fields: Vec<_> = fields
            .map(|field| (field.offset, field.size, field.name.as_str()))
            .collect();
        assert_eq!(fields, [(16, 8, "left"), (24, 8, "right")], "{java:?}");
        let elements = found[1].elements.unwrap();
        assert_eq!((elements.offset, elements.size), (16, 8));
    }
}

#[test]
fn compiled_code_has_methods_and_lines() {
    for java in Java::ALL {
        let made = Made(JavaMemory::machine(java, true));
        let machine = JavaMachine::attach(&made, EXPORTS).unwrap();
        let mut found = Vec::new();
        machine.compiled(&mut |one| found.push(one)).unwrap();
        let start = found[0].code.start;
        let frame = Frame {
            method: "a.Counters.left".to_owned(),
            file: "a/Counters.java".to_owned(),
            line: 7,
        };
        let place = Place {
            code: start..start + 32,
            frames: vec![frame],
        };
        let expected = Compiled {
            code: start..start + 64,
            name: "a.Counters.left".to_owned(),
            places: vec![place],
        };
        assert_eq!(found, [expected], "{java:?}");
    }
}

#[test]
fn a_place_of_no_method_has_no_line() {
    // Caller, method and bytecode of the only place, as the machine packs them: the method becomes none.
    let mut memory = JavaMemory::machine(Java::Jdk17, true);
    let is_place = |at: &u64| {
        let mut bytes = [0; 4];
        memory.read(*at, &mut bytes) && bytes == [0, 1, 1, 0]
    };
    let places: Vec<u64> = memory.places().iter().copied().filter(is_place).collect();
    for at in places {
        memory.put(at, &[0, 0, 1]);
    }
    let made = Made(memory);
    if let Ok(machine) = JavaMachine::attach(&made, EXPORTS) {
        let mut found = Vec::new();
        machine.compiled(&mut |one| found.push(one)).unwrap();
        assert!(found.iter().all(|one| one.places.is_empty()), "{found:?}");
    }
}

#[test]
fn a_machine_that_lacks_something_says_what() {
    let empty = Made(JavaMemory::empty());
    let error = JavaMachine::attach(&empty, EXPORTS).unwrap_err();
    assert_eq!(error, HotspotError::Unreadable(0x1000));
    let made = made();
    let machine = JavaMachine::attach(&made, EXPORTS).unwrap();
    let error = machine.compiled(&mut |_| {}).unwrap_err();
    let said = "the Java machine does not describe CodeCache::_heaps (OpenJDK 17 and 25 do)";
    assert_eq!(error.to_string(), said);
    let mut young = made.clone();
    young.0.word(0x10_0000 + 128, 0);
    let error = JavaMachine::attach(&young, EXPORTS).unwrap_err();
    assert_eq!(error, HotspotError::NotStarted);
}

proptest! {
    /// Nothing that is wrong in the machine's memory is more than a missing name.
    #[test]
    fn any_damage_is_survived(
        java in prop::sample::select(&Java::ALL[..]),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40)
    ) {
        let mut made = JavaMemory::machine(java, true);
        let places = made.places().to_vec();
        for (index, byte) in damage {
            made.put(places[index.index(places.len())], &[byte]);
        }
        let made = Made(made);
        if let Ok(machine) = JavaMachine::attach(&made, EXPORTS) {
            let _ = machine.objects((0..32).map(|word| HEAP + 8 * word));
            let _ = machine.compiled(&mut |_| {});
        }
    }
}
