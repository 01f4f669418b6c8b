//! Memory of a Java machine.

use hitm_hotspot::{Exports, JavaMachine, Memory};
use hitm_test::hotspot::{EXPORTS, HEAP, Java, JavaMemory};

/// Bytes of a change: a place, and what comes there.
const CHANGE_BYTES: usize = 3;

struct Made(JavaMemory);

impl Memory for Made {
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        self.0.read(at, into)
    }
}

/// Reads a machine some of whose bytes are others. Objects and code have the names that they can have; code lies
/// where it is said to lie, line by line.
pub fn damaged(bytes: &[u8]) {
    let (java, bytes) = match bytes {
        [] => (Java::Jdk17, bytes),
        [first, rest @ ..] => (Java::ALL[usize::from(*first) % Java::ALL.len()], rest),
    };
    let mut memory = JavaMemory::machine(java, true);
    let places = memory.places().to_vec();
    for change in bytes.chunks_exact(CHANGE_BYTES) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]]));
        memory.put(places[place % places.len()], &change[2..]);
    }
    let made = Made(memory);
    let [structs, types, constants, long_constants] = EXPORTS;
    let exports = Exports {
        structs,
        types,
        constants,
        long_constants,
    };
    let Ok(machine) = JavaMachine::attach(&made, exports) else {
        return;
    };
    let _ = machine.collections_at();
    if let Ok(objects) = machine.objects((0..32).map(|word| HEAP + 8 * word)) {
        assert!(objects.is_sorted_by_key(|object| object.start));
    }
    let _ = machine.compiled(&mut |found| {
        let mut end = found.code.start;
        for place in &found.places {
            assert!(end <= place.code.start && place.code.start < place.code.end, "{found:?}");
            end = place.code.end;
        }
        assert!(end <= found.code.end, "{found:?}");
    });
}
