//! Names of places in data and code.

use hitm_layout::DataLocation;

/// A variable or a heap block, and the part of it that is accessed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DataLabel {
    /// The object: a symbol (`f`), a heap block (`heap block of 192 B from main (main.c:12)`), a stack.
    pub object: String,
    /// Address of the object's first byte.
    pub object_addr: u64,
    /// Size of the object in bytes, 0 when unknown.
    pub object_size: u64,
    /// The part, to be written behind the object: `.x`, `[3].count`, `+0x30`; empty when unknown.
    pub member: String,
    /// Of an array: address and size in bytes of the accessed element.
    pub element: Option<(u64, u64)>,
    /// Of an object with the name of its type: whose memory that is, and how the type is known.
    pub origin: String,
}

impl DataLabel {
    /// The label of a variable's byte.
    pub(super) fn of(location: DataLocation) -> DataLabel {
        let object = location.object;
        let member = location.path.text.strip_prefix(&object.name);
        DataLabel {
            member: member.unwrap_or_default().to_owned(),
            object: object.name,
            object_addr: object.start,
            object_size: object.size,
            ..DataLabel::default()
        }
    }

    /// Object and member.
    pub fn whole(&self) -> String {
        format!("{}{}", self.object, self.member)
    }

    /// Objects of all of a kind: `runqueues[3]` as `runqueues[]`.
    pub fn kind(&self) -> String {
        without_numbers(&self.object)
    }

    /// Object and member of all of a kind: `runqueues[3].lock` as `runqueues[].lock`.
    pub fn without_numbers(&self) -> String {
        without_numbers(&self.whole())
    }
}

/// The text without what stands in brackets.
pub fn without_numbers(text: &str) -> String {
    let mut kept = String::new();
    let mut is_inside = false;
    for c in text.chars() {
        is_inside &= c != ']';
        if !is_inside {
            kept.push(c);
        }
        is_inside |= c == '[';
    }
    kept
}

/// Place of an instruction in the source.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CodeLabel {
    /// The function, inlined ones included (the innermost), or `file+offset` when no name is known.
    pub function: String,
    /// Source file, empty when unknown.
    pub file: String,
    /// Line in the file, 0 when unknown.
    pub line: u32,
}

impl CodeLabel {
    /// `file:line` with the directories left out; empty when the file is unknown.
    pub fn source_short(&self) -> String {
        let file = self.file.rsplit('/').next().unwrap_or_default();
        CodeLabel::join(file, self.line)
    }

    /// `file:line` as in the debug information; empty when the file is unknown.
    pub fn source(&self) -> String {
        CodeLabel::join(&self.file, self.line)
    }

    /// Returns true for source that comes with a language, as Rust's, C++'s and Java's libraries.
    pub fn is_of_language(&self) -> bool {
        let of_java = ["java/", "javax/", "jdk/", "sun/"];
        let is_java = self.file.ends_with(".java");
        if is_java && of_java.iter().any(|package| self.file.starts_with(package)) {
            return true;
        }
        // The latter as rustc names them where they are inlined.
        let parts = [
            "/rustc/",
            "/rustlib/src/",
            "/include/c++/",
            "library/alloc/src/",
            "library/core/src/",
            "library/std/src/",
        ];
        parts.iter().any(|part| self.file.contains(part))
    }

    fn join(file: &str, line: u32) -> String {
        match (file, line) {
            ("", _) => String::new(),
            (file, 0) => file.to_owned(),
            (file, line) => format!("{file}:{line}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_numbers() {
        let without_numbers = |object: &str, member: &str| {
            let name = DataLabel {
                object: object.into(),
                member: member.into(),
                ..DataLabel::default()
            };
            name.without_numbers()
        };
        assert_eq!(
            without_numbers("runqueues[3]", ".cfs[0].x"),
            "runqueues[].cfs[].x"
        );
        assert_eq!(without_numbers("jiffies", ""), "jiffies");
    }
}
