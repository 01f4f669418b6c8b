//! All structures of a file, with wasted bytes and members that straddle lines.

use std::collections::BTreeSet;

use serde::Serialize;

use super::parts::parts;
use super::{Sums, TypesFile};

/// Selection of structures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListOptions {
    /// Bytes of a cache line.
    pub line_size: u64,
    /// Only those with more bytes than this in holes.
    pub holes_over: Option<u64>,
    /// Only those that take more lines than this.
    pub lines_over: Option<u64>,
    /// Only those with a member that lies in two lines and would fit in one.
    pub straddling: bool,
    /// Only those whose name matches: `*` stands for any characters, `?` for one.
    pub pattern: Option<String>,
}

/// One structure.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ListRow {
    /// Its name.
    pub name: String,
    /// `struct`, `class` or `union`.
    pub kind: &'static str,
    /// Bytes.
    pub size_bytes: u64,
    /// Cache lines that it takes when it begins at a line's start.
    pub line_count: u64,
    /// Holes between members.
    pub hole_count: usize,
    /// Bytes of the holes.
    pub hole_bytes: u64,
    /// Bits left over by bit-fields, between members.
    pub bit_hole_bits: u64,
    /// Bytes after the last member.
    pub padding_bytes: u64,
    /// Members that lie in two lines and would fit in one.
    pub straddling: Vec<String>,
}

/// The structures of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LayoutList {
    /// Version of this form.
    pub schema: u32,
    /// Name of the file.
    pub file: String,
    /// Bytes of a cache line.
    pub line_size_bytes: u64,
    /// The structures, by name.
    pub structs: Vec<ListRow>,
    /// Structures without a sound layout, each with its fault.
    pub faults: Vec<String>,
}

/// Lists the structures of a file. Those with the same name and the same sums are one row: each
/// unit that includes a header defines its structures again.
pub fn list(file: &mut TypesFile, options: &ListOptions) -> LayoutList {
    let mut rows = BTreeSet::new();
    let mut faults = Vec::new();
    let pattern: Option<Vec<char>> = options.pattern.as_ref().map(|text| text.chars().collect());
    let name = file.name().to_owned();
    file.each_definition(|name, store, layout| {
        let is_wanted = pattern.as_ref().is_none_or(|pattern| {
            let name: Vec<char> = name.chars().collect();
            matches(pattern, &name)
        });
        if !is_wanted {
            return;
        }
        let layout = match layout {
            Ok(layout) => layout,
            Err(error) => return faults.push(error.to_string()),
        };
        let sums = Sums::of(store, &layout, options.line_size);
        let members = parts(store, &layout).into_iter();
        let straddling = members.filter(|part| part.straddles(options.line_size));
        let row = ListRow {
            name: name.to_owned(),
            kind: layout.kind.keyword(),
            size_bytes: layout.size,
            line_count: sums.line_count,
            hole_count: sums.hole_count,
            hole_bytes: sums.hole_bytes,
            bit_hole_bits: sums.bit_hole_bits,
            padding_bytes: sums.padding_bytes,
            straddling: straddling.map(|part| part.name).collect(),
        };
        if options.wants(&row) {
            rows.insert(row);
        }
    });
    faults.sort();
    faults.dedup();
    LayoutList {
        schema: 1,
        file: name,
        line_size_bytes: options.line_size,
        structs: rows.into_iter().collect(),
        faults,
    }
}

impl ListOptions {
    fn wants(&self, row: &ListRow) -> bool {
        self.holes_over.is_none_or(|most| row.hole_bytes > most)
            && self.lines_over.is_none_or(|most| row.line_count > most)
            && (!self.straddling || !row.straddling.is_empty())
    }
}

/// Returns true if a name matches a pattern of `*` and `?`, in time linear in their product.
fn matches(pattern: &[char], name: &[char]) -> bool {
    let (mut at, mut in_name) = (0, 0);
    // Place of the last star, and the part of the name that was matched before it.
    let mut star: Option<(usize, usize)> = None;
    while in_name < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, in_name));
                at += 1;
            }
            Some(wanted) if *wanted == '?' || *wanted == name[in_name] => {
                at += 1;
                in_name += 1;
            }
            _ => {
                let Some((star_at, taken)) = star else {
                    return false;
                };
                // The star takes one more character.
                star = Some((star_at, taken + 1));
                at = star_at + 1;
                in_name = taken + 1;
            }
        }
    }
    pattern[at..].iter().all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let check = |pattern: &str, name: &str| {
            let chars = |text: &str| text.chars().collect::<Vec<char>>();
            matches(&chars(pattern), &chars(name))
        };
        assert!(check("*", "") && check("rq", "rq") && check("*_rq", "cfs_rq"));
        assert!(check("r?_rq", "rt_rq") && check("a*b*c", "axxbxbc"));
        assert!(!check("rq", "rqs") && !check("?q", "q") && !check("a*b", "abc"));
    }
}
