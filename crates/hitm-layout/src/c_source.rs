//! A structure as C that compiles on its own and asserts its own layout.
//!
//! Everything inside the structure is defined in full, in the order that C needs; what is only
//! pointed at is declared. Alignments and packing are those that explain where members lie
//! ([`TypeStore::forced_alignments`]); a gap that they do not explain is filled with named padding.
//! Enumerations are written as integers of their size, because two files may have two enumerations
//! with the same values' names.
//!
//! Not written, and why: variants of Rust's enums and C++ virtual bases, which C has no words for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::emit::names::in_comment;
use crate::types::{
    AggregateKind, ForcedAlignments, Member, MemberKind, StructLayout, TypeId, TypeKind, TypeStore,
};

/// Members that are written at most.
const MAX_MEMBERS: usize = 1 << 16;

/// The C source of a structure. `name` stands where the layout has no name. An error says what C
/// cannot express.
pub fn c_source(store: &TypeStore, layout: &StructLayout, name: &str) -> Result<String, String> {
    let mut writer = Writer {
        store,
        names: BTreeMap::new(),
        taken: BTreeSet::new(),
        declared: BTreeSet::new(),
        definitions: String::new(),
        members_left: MAX_MEMBERS,
    };
    let own = layout.name.as_deref().unwrap_or(name);
    let tag = writer.free_name(&identifier(own));
    let words = format!("{} {tag}", keyword_of(layout.kind));
    let body = writer.aggregate(layout, &words, 0)?;
    let mut out = String::from("#include <stdbool.h>\n#include <stddef.h>\n\n");
    for tag in &writer.declared {
        let _ = writeln!(out, "{tag};");
    }
    if !writer.declared.is_empty() {
        out.push('\n');
    }
    out.push_str(&writer.definitions);
    let _ = writeln!(out, "{body};\n");
    assertions(&mut out, layout, &words);
    Ok(out)
}

struct Writer<'a> {
    store: &'a TypeStore,
    /// Types that are defined, with the words that name them.
    names: BTreeMap<TypeId, String>,
    /// Names of C that are used.
    taken: BTreeSet<String>,
    /// Structures and unions that are only pointed at.
    declared: BTreeSet<String>,
    definitions: String,
    members_left: usize,
}

/// `class` is a word of C++ only.
const fn keyword_of(kind: AggregateKind) -> &'static str {
    match kind {
        AggregateKind::Class => "struct",
        other => other.keyword(),
    }
}

/// A structure's members while they are written.
struct Body {
    out: String,
    /// Bits that C has placed so far.
    end: u64,
    forced: ForcedAlignments,
    tabs: String,
}

impl Body {
    /// Fills bits: up to the next byte with a bit-field without a name, then with bytes.
    fn fill(&mut self, gap: u64) {
        let tabs = &self.tabs;
        let bits = ((8 - self.end % 8) % 8).min(gap);
        if bits > 0 {
            let _ = writeln!(self.out, "{tabs}unsigned char :{bits};");
        }
        let (bytes, rest) = ((gap - bits) / 8, (gap - bits) % 8);
        if bytes > 0 {
            let at = (self.end + bits) / 8;
            let _ = writeln!(self.out, "{tabs}unsigned char padding_at_{at}_[{bytes}];");
        }
        if rest > 0 {
            let _ = writeln!(self.out, "{tabs}unsigned char :{rest};");
        }
        self.end += gap;
    }
}

impl Writer<'_> {
    /// A structure with its members in braces, without a semicolon.
    fn aggregate(
        &mut self,
        layout: &StructLayout,
        head: &str,
        indent: usize,
    ) -> Result<String, String> {
        let has_variants = layout.members.iter().any(|m| m.kind == MemberKind::Variant);
        if has_variants || !layout.virtual_bases.is_empty() {
            return Err(format!("{head}: C has no variants and no virtual bases"));
        }
        let mut body = Body {
            out: format!("{head} {{\n"),
            end: 0,
            forced: self.store.forced_alignments(layout),
            tabs: "\t".repeat(indent + 1),
        };
        for (index, member) in layout.members.iter().enumerate() {
            let left = self.members_left.checked_sub(1);
            self.members_left = left.ok_or_else(|| format!("{head}: too many members"))?;
            if layout.kind != AggregateKind::Union {
                self.pad(&mut body, member, index)?;
            }
            let declaration = self.member(member, index, indent + 1)?;
            let aligned = body.forced.members[index].map(aligned).unwrap_or_default();
            let tabs = &body.tabs;
            let _ = writeln!(body.out, "{tabs}{declaration}{aligned};");
            body.end = body.end.max(member.bit_offset + member.bit_size);
        }
        pad_end(&mut body, layout);
        let mut out = body.out;
        let _ = write!(out, "{}}}", "\t".repeat(indent));
        if body.forced.is_packed {
            out.push_str(" __attribute__((packed))");
        }
        out.push_str(&body.forced.whole.map(aligned).unwrap_or_default());
        Ok(out)
    }

    /// Fills the gap before a member, where its alignment does not.
    fn pad(&self, body: &mut Body, member: &Member, index: usize) -> Result<(), String> {
        let unit = self.store.unit_bits(member);
        let is_packed = body.forced.is_packed;
        let reached = if member.kind == MemberKind::BitField {
            let fits = body.end % unit + member.bit_size <= unit;
            match is_packed || fits {
                true => body.end,
                false => body.end.next_multiple_of(unit),
            }
        } else {
            let own = match is_packed {
                true => 1,
                false => self.store.get(member.type_id).alignment,
            };
            let alignment = own.max(body.forced.members[index].unwrap_or(1));
            body.end.next_multiple_of(8 * alignment)
        };
        if reached == member.bit_offset {
            return Ok(());
        }
        let Some(gap) = member.bit_offset.checked_sub(body.end) else {
            let name = member.name.as_deref().unwrap_or(&member.type_name);
            return Err(format!("member {name} overlaps the one before it"));
        };
        body.fill(gap);
        Ok(())
    }

    fn member(&mut self, member: &Member, index: usize, indent: usize) -> Result<String, String> {
        let name = match (&member.name, member.kind) {
            (Some(name), _) => identifier(name),
            (None, MemberKind::Base) => format!("base_{index}_"),
            (None, _) => String::new(),
        };
        let bits = match member.kind {
            MemberKind::BitField => format!(":{}", member.bit_size),
            _ => String::new(),
        };
        self.declare(member.type_id, &(name + &bits), indent)
    }

    /// A declaration of `name` with a type, whose parts are defined before.
    fn declare(&mut self, id: TypeId, name: &str, indent: usize) -> Result<String, String> {
        let found = self.store.get(id);
        match &found.kind {
            TypeKind::Array { element, count } => {
                let count = count.unwrap_or(0);
                self.declare(*element, &format!("{name}[{count}]"), indent)
            }
            TypeKind::Alias(target) => self.declare_alias(id, *target, name, indent),
            TypeKind::Aggregate(layout) if layout.name.is_none() => {
                let layout = layout.clone();
                let body = self.aggregate(&layout, keyword_of(layout.kind), indent)?;
                Ok(format!("{body} {name}").trim_end().to_owned())
            }
            TypeKind::Aggregate(layout) => {
                let layout = layout.clone();
                let words = self.define(id, &layout)?;
                // A member without a name of a type with one is Microsoft's extension of C.
                let name = if name.is_empty() { "unnamed_" } else { name };
                Ok(format!("{words} {name}"))
            }
            TypeKind::Pointer => Ok(self.pointer(id, name)),
            TypeKind::Enum => Ok(in_words(found.size, &found.name)? + " " + name),
            TypeKind::Base => Ok(base(found.size, &found.name)? + " " + name),
            TypeKind::Broken(fault) => Err(format!("{}: {fault}", found.name)),
        }
    }

    /// A typedef is kept by its name, a qualifier left out.
    fn declare_alias(
        &mut self,
        id: TypeId,
        target: TypeId,
        name: &str,
        indent: usize,
    ) -> Result<String, String> {
        let own = self.store.get(id).name.to_string();
        if own == "bool" {
            return Ok(format!("bool {name}"));
        }
        if own != identifier(&own) {
            return self.declare(target, name, indent);
        }
        if let Some(words) = self.names.get(&id) {
            return Ok(format!("{words} {name}"));
        }
        let free = self.free_name(&own);
        let definition = self.declare(target, &free, 0)?;
        let _ = writeln!(self.definitions, "typedef {definition};\n");
        self.names.insert(id, free.clone());
        Ok(format!("{free} {name}"))
    }

    /// Defines a structure, once. Answers the words that name it.
    fn define(&mut self, id: TypeId, layout: &StructLayout) -> Result<String, String> {
        if let Some(words) = self.names.get(&id) {
            return Ok(words.clone());
        }
        let own = layout.name.as_deref().unwrap_or_default();
        let tag = self.free_name(&identifier(own));
        let words = format!("{} {tag}", keyword_of(layout.kind));
        let body = self.aggregate(layout, &words, 0)?;
        let _ = writeln!(self.definitions, "{body};\n");
        self.names.insert(id, words.clone());
        Ok(words)
    }

    /// A pointer, by the text of its type where that names structures and numbers only. What else it
    /// may point at has no definition here.
    fn pointer(&mut self, id: TypeId, name: &str) -> String {
        let found = self.store.get(id);
        let mut tags = Vec::new();
        if is_plain(&found.name, &mut tags) {
            self.declared.extend(tags);
            return found.declare(name);
        }
        let text = in_comment(&found.name);
        format!("void *{name} /* {text} */")
    }

    /// A name that is not used yet: this one, or this one with a number.
    fn free_name(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        let mut number = 2;
        while !self.taken.insert(name.clone()) {
            name = format!("{wanted}_{number}");
            number += 1;
        }
        name
    }
}

fn aligned(alignment: u64) -> String {
    format!(" __attribute__((aligned({alignment})))")
}

/// Fills what comes after the last member, where the alignment of the whole does not.
fn pad_end(body: &mut Body, layout: &StructLayout) {
    let bits = layout.size * 8;
    let reached = body.end.next_multiple_of(8 * body.forced.alignment());
    if reached == bits || bits <= body.end {
        return;
    }
    if layout.kind == AggregateKind::Union {
        let tabs = &body.tabs;
        let _ = writeln!(body.out, "{tabs}unsigned char size_[{}];", layout.size);
    } else {
        body.fill(bits - body.end);
    }
}

/// A name as C allows it.
fn identifier(name: &str) -> String {
    let mut fitting = name.replace(|character: char| !character.is_ascii_alphanumeric(), "_");
    if fitting.is_empty() || fitting.starts_with(|first: char| first.is_ascii_digit()) {
        fitting.insert(0, '_');
    }
    fitting
}

/// Words that name numbers in C.
const NUMBERS: [&str; 14] = [
    "char", "short", "int", "long", "signed", "unsigned", "float", "double", "_Bool", "void",
    "const", "volatile", "__int128", "bool",
];

/// Returns true if the text of a type has only numbers and structures with names; those go to
/// `tags`.
fn is_plain(text: &str, tags: &mut Vec<String>) -> bool {
    let mut words = text.split(|character: char| " *()[],".contains(character));
    while let Some(word) = words.next() {
        if word == "struct" || word == "union" {
            match words.next() {
                Some(tag) if !tag.is_empty() && tag == identifier(tag) => {
                    tags.push(format!("{word} {tag}"));
                }
                _ => return false,
            }
        } else if !word.is_empty() && !NUMBERS.contains(&word) && word != "..." && !is_count(word) {
            return false;
        }
    }
    true
}

fn is_count(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

/// A number as C names it.
fn base(size: Option<u64>, name: &str) -> Result<String, String> {
    let is_c = name.split(' ').all(|word| NUMBERS.contains(&word));
    match is_c {
        true => Ok(name.to_owned()),
        false => in_words(size, name),
    }
}

/// An integer of a size, with the name of the type that it stands for.
fn in_words(size: Option<u64>, name: &str) -> Result<String, String> {
    Ok(format!(
        "{} /* {} */",
        number(size, name)?,
        in_comment(name)
    ))
}

/// An integer of a size.
fn number(size: Option<u64>, name: &str) -> Result<&'static str, String> {
    match size {
        Some(1) => Ok("unsigned char"),
        Some(2) => Ok("unsigned short"),
        Some(4) => Ok("unsigned int"),
        Some(8) => Ok("unsigned long long"),
        Some(16) => Ok("unsigned __int128"),
        _ => Err(format!("{name}: C has no number of its size")),
    }
}

/// Asserts the size, and the offset of each member that has a name and an address.
fn assertions(out: &mut String, layout: &StructLayout, words: &str) {
    let size = layout.size;
    let _ = writeln!(out, "_Static_assert(sizeof({words}) == {size}, \"size\");");
    for member in &layout.members {
        let (Some(name), MemberKind::Field) = (&member.name, member.kind) else {
            continue;
        };
        let (name, offset) = (identifier(name), member.byte_offset());
        let _ = writeln!(
            out,
            "_Static_assert(offsetof({words}, {name}) == {offset}, \"{name}\");"
        );
    }
}
