//! Maps of generated code.

use hitm_recording::generated::GeneratedCode;

/// The last function of a map is found at its address.
pub fn check(text: &str) {
    let code = GeneratedCode::of_text(text);
    let Some((address, name)) = code.last() else {
        return;
    };
    assert_eq!(code.at(address), Some(name));
}
