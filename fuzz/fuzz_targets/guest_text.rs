//! Any bytes as a guest's description of itself: its list of symbols, the agent's list of a
//! program's memory, and the recorder's list of moved objects.
#![no_main]

use hitm_kernel::KernelSymbols;
use hitm_trace::Record;
use hitm_weave::Relocation;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let addresses = bytes.chunks_exact(8).map(|chunk| {
        let word: [u8; 8] = chunk.try_into().expect("chunks have eight bytes");
        u64::from_le_bytes(word)
    });

    let symbols = KernelSymbols::parse(&text);
    for address in addresses.clone() {
        if let Some((name, offset)) = symbols.at(address) {
            assert!(text.contains(name) && offset <= address);
        }
        symbols.in_image(address);
    }
    let shift = addresses.clone().next().unwrap_or(1 << 21);
    let moved = symbols.clone().shifted(shift);
    assert_eq!(
        moved.address("runqueues").is_some(),
        symbols.address("runqueues").is_some()
    );

    for record in hitm::vm::records_of_agent(&text, &str::to_owned) {
        match record {
            Record::Mapping(mapping) => assert!(!mapping.range.is_empty()),
            Record::Region(_) => {}
            other => panic!("the agent tells no {other:?}"),
        }
    }

    if let Ok(moves) = Relocation::parse(&text, u64::MAX) {
        let written = moves.to_text();
        let again = Relocation::parse(&written, u64::MAX).expect("what is written parses");
        assert_eq!(again.to_text(), written);
    }
});
