//! Source files of the programs that `hitm fix` edits.

use hitm_layout::emit::{
    Source, Style, align_rust, align_variables, declares_go, declares_rust, difference, guards,
    patch_array, patched,
};

/// Edits that only insert text keep all other bytes; a search for promises names lines of the file.
pub fn check(text: &str) {
    for file in ["a.c", "a.cpp", "a.rs", "a.go"] {
        let source = Source { file, text };
        let lines = text.matches('\n').count() + 1;
        assert!(
            guards("slot", source)
                .iter()
                .all(|guard| guard.line <= lines)
        );
    }
    let source = Source { file: "a", text };
    declares_go(text, "main.slot");
    if let Ok(diff) = align_rust("slot", source) {
        assert!(declares_rust(text, "slot"));
        inserted(text, &diff, "#[repr(align(64))]");
    }
    if let Ok(Some(diff)) = align_variables(&["slot"], source, Style::C) {
        inserted(text, &diff, "_Alignas(64) ");
    }
    // Without the array it is an error.
    let _ = patch_array("slot", source, Style::C);
    let other = text.replace("slot", "slots");
    let diff = difference("a", text, &other);
    // A diff ends each line that it adds.
    if text.ends_with('\n') {
        assert_eq!(patched(text, &diff).as_deref(), Some(other.as_str()));
    }
    // Any text as a diff: none, or a text.
    let _ = patched("slot\n", text);
}

/// The new text is the old one with one more piece.
fn inserted(text: &str, diff: &str, piece: &str) {
    let Some(new) = patched(text, diff) else {
        assert!(diff.is_empty() || !text.ends_with('\n'));
        return;
    };
    let count = |of: &str| of.matches(piece.trim_end()).count();
    assert_eq!(count(&new), count(text) + 1);
    let without_blanks = |of: &str| -> String {
        of.replace(piece.trim_end(), "")
            .split_whitespace()
            .collect()
    };
    assert_eq!(without_blanks(&new), without_blanks(text));
}
