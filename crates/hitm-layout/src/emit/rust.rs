//! Rust: `#[repr(C)]`, explicit padding, and assertions.

use super::diff::{Edit, edited};
use super::fields::{Fields, fields_of};
use super::literals;
use super::names::{bare, check_rust_struct};
use super::tokens::{Lexis, Tokens};
use super::{Emission, EmitError, LINE, Source, Step, steps};
use crate::layout_file::FileMember;

/// The structure as Rust, with assertions that keep it. `declarations` of the emission are the types
/// of the members here. Fails for an instance of a generic structure, whose parameters are not in the
/// debug information.
pub fn rust_struct(emission: &Emission<'_>) -> Result<String, EmitError> {
    check_rust_struct(&emission.layout.name)?;
    let mut out = format!("{}\npub struct {} {{\n", repr(LINE), emission.layout.name);
    let declare = |index: usize, file: &FileMember| {
        format!("    pub {}: {},", file.name, emission.declarations[index])
    };
    for line in fields(emission, &paddings(emission, false), declare) {
        out += &(line + "\n");
    }
    Ok(out + "}\n\n" + &asserts(emission) + "\n")
}

fn repr(align: u64) -> String {
    format!("#[repr(C, align({align}))]")
}

/// A field that only takes up room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Padding {
    /// The member that it comes before.
    before: usize,
    pub(super) name: String,
    of: String,
    value: String,
}

impl Padding {
    /// The padding as fields of a literal.
    pub(super) fn values(paddings: &[Padding]) -> String {
        let values = paddings.iter();
        let values = values.map(|padding| format!("{}: {}", padding.name, padding.value));
        values.collect::<Vec<_>>().join(", ")
    }
}

/// The padding that the layout needs. Arrays of up to 32 bytes have every trait that may be derived.
fn paddings(emission: &Emission<'_>, is_short: bool) -> Vec<Padding> {
    const SHORT: u64 = 32;
    let mut out: Vec<Padding> = Vec::new();
    let mut end = 0u64;
    for step in steps(emission) {
        let Step::Member { index, file, .. } = step else {
            continue;
        };
        let align = emission.subject.members[index].align.max(1);
        // An alignment of its own would need a type of its own: bytes do it as well.
        if file.offset_bytes > end.next_multiple_of(align) {
            let bytes = file.offset_bytes - end;
            let parts: Vec<u64> = match is_short && bytes > SHORT {
                true => (0..bytes)
                    .step_by(SHORT as usize)
                    .map(|at| SHORT.min(bytes - at))
                    .collect(),
                false => vec![bytes],
            };
            let text = |open: &str| {
                let parts: Vec<String> = parts
                    .iter()
                    .map(|part| format!("[{open}; {part}]"))
                    .collect();
                match parts.len() {
                    1 => parts.concat(),
                    _ => format!("({})", parts.join(", ")),
                }
            };
            out.push(Padding {
                before: index,
                name: format!("_padding{}", out.len()),
                of: text("u8"),
                value: text("0"),
            });
        }
        end = file.offset_bytes + file.size_bytes;
    }
    out
}

/// A diff that puts the fields of the structure into the order of the layout, each with its comments
/// and attributes, pads them, adds assertions behind the structure, and the padding to the structure's
/// literals and patterns in the same file.
pub fn patch_rust(emission: &Emission<'_>, source: Source<'_>) -> Result<String, EmitError> {
    let tokens = Tokens::new(source.file, source.text, Lexis::Rust);
    let name = bare(&emission.layout.name);
    let found = fields_of(&tokens, name)?;
    let by_member = found.by_member(&tokens, emission)?;
    let new = emission.layout.members.iter().map(|member| &member.name);
    let is_moved = new.ne(found.fields.iter().map(|field| &field.name));
    let ordered = found.derives(&tokens, &["PartialOrd", "Ord"]);
    if let Some(at) = ordered.filter(|_| is_moved) {
        let derived = "a derived order, which follows that of the fields";
        return Err(tokens.refuse(at, derived, "an order that is written out"));
    }
    let is_short = found.derives(&tokens, &["Default", "Serialize", "Deserialize"]);
    let paddings = paddings(emission, is_short.is_some());
    let lines = fields(emission, &paddings, |index, _| {
        found.text(&tokens, by_member[index])
    });
    let (start, end) = found.span(&tokens);
    let mut edits = vec![Edit {
        start,
        end,
        text: format!("\n{}\n{}", lines.join("\n"), found.indent(&tokens)),
    }];
    edits.extend(representation(&tokens, &found)?);
    let end = tokens.get(found.close).end;
    edits.push(Edit::insert(end, asserted(emission)));
    edits.extend(literals::edits(&tokens, &found, name, &paddings)?);
    let mut notes = String::new();
    if !paddings.is_empty() {
        let values = Padding::values(&paddings);
        notes += &format!("Literals of {name} in other files need {values}.\n");
    }
    if (is_moved || !paddings.is_empty())
        && found.derives(&tokens, &["Debug", "Serialize"]).is_some()
    {
        notes += &format!(
            "What is derived for {name} shows its fields in their new order, with the padding.\n"
        );
    }
    Ok(notes + &edited(source.file, source.text, edits))
}

/// Edits that give the structure its representation, in place of another.
fn representation(tokens: &Tokens<'_>, found: &Fields) -> Result<Vec<Edit>, EmitError> {
    let mut align = LINE;
    let mut edits = Vec::new();
    for (from, end) in &found.attributes {
        let words = || (*from..*end).map(|at| tokens.at(at));
        if tokens.at(from + 2) != "repr" {
            continue;
        }
        if words().any(|word| word == "packed" || word == "transparent") {
            let found = tokens.slice(*from, *end);
            return Err(tokens.refuse(*from, found, "a structure that is not packed"));
        }
        let own = words().filter_map(|word| word.parse::<u64>().ok()).max();
        align = align.max(own.unwrap_or(0));
        let (start, end) = (tokens.get(*from).start, tokens.get(end - 1).end);
        let rest = &tokens.text[end..];
        let line = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
        edits.push(Edit {
            start,
            end: end + line,
            text: String::new(),
        });
    }
    let start = tokens.get(found.head).start;
    let text = format!("{}\n{}", repr(align), found.indent(tokens));
    edits.push(Edit::insert(start, text));
    Ok(edits)
}

/// Assertions behind the structure; none where its parameters are types that they cannot name.
fn asserted(emission: &Emission<'_>) -> String {
    const PRIMITIVES: [&str; 17] = [
        "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize",
        "f32", "f64", "bool", "char", "str",
    ];
    let name = &emission.layout.name;
    let parameters = &name[bare(name).len()..];
    let words = parameters.split(|c: char| !c.is_alphanumeric() && c != '_');
    let mut words = words.filter(|word| !word.is_empty());
    match words.all(|word| PRIMITIVES.contains(&word)) {
        true => format!("\n\n{}", asserts(emission)),
        false => String::new(),
    }
}

/// The lines between the braces; `declare` writes a field.
fn fields(
    emission: &Emission<'_>,
    paddings: &[Padding],
    mut declare: impl FnMut(usize, &FileMember) -> String,
) -> Vec<String> {
    let layout = emission.layout;
    let mut out = Vec::new();
    for step in steps(emission) {
        let Step::Member { index, file, .. } = step else {
            continue;
        };
        if let Some(padding) = paddings.iter().find(|padding| padding.before == index) {
            out.push(format!("    {}: {},", padding.name, padding.of));
        }
        if file.offset_bytes.is_multiple_of(LINE) {
            let line = file.offset_bytes / LINE;
            let mut in_line = layout.members.iter();
            let is_alone =
                in_line.all(|other| other.offset_bytes / LINE != line || other.name == file.name);
            out.push(format!("    // Line {line}."));
            if is_alone {
                let of = emission.declarations.get(index).map_or("_", |of| of);
                out.push(format!(
                    "    // Alone on it, as crossbeam_utils::CachePadded<{of}> would have it:"
                ));
                out.push(String::from(
                    "    // that needs no padding by hand, and takes two lines on x86-64 and AArch64.",
                ));
            }
        }
        out.push(declare(index, file));
    }
    out
}

/// Assertions that fail to compile when a member moves.
fn asserts(emission: &Emission<'_>) -> String {
    let layout = emission.layout;
    let mut out = String::from("const _: () = {\n");
    for member in &layout.members {
        out += &format!(
            "    assert!(core::mem::offset_of!({}, {}) == {});\n",
            layout.name, member.name, member.offset_bytes
        );
    }
    let (name, size) = (&layout.name, layout.size_bytes);
    out + &format!("    assert!(size_of::<{name}>() == {size});\n}};")
}
