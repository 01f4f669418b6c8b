//! The kinds of records as the document shows them.

use std::fmt::Write;

use hitm_trace::shape::{Kind, Member, Quantity, Shape};
use hitm_trace::{CALLERS_MAX, Record};

/// The form of a member, and its bytes.
#[derive(PartialEq)]
struct Form {
    name: &'static str,
    bytes: String,
}

/// A number as a power of two and a little, where it is close to one.
pub(super) fn power(number: u64) -> String {
    for less in 1..=2 {
        let above = u128::from(number) + less;
        if above.is_power_of_two() && above > 1 << 8 {
            return format!("2^{} - {less}", above.trailing_zeros());
        }
    }
    number.to_string()
}

fn form(shape: &Shape) -> Form {
    let plain = |name, bytes: &str| Form {
        name,
        bytes: bytes.to_owned(),
    };
    match shape {
        Shape::Number { quantity, most } => number(*quantity, *most),
        Shape::Signed => plain("signed", "varint: zigzag of the number"),
        Shape::Text => plain("text", "varint length and UTF-8"),
        Shape::Bytes => plain("bytes", "varint length and that many bytes; may be empty"),
        Shape::Flag => plain("flag", "byte: bit 0"),
        Shape::Stack => Form {
            name: "stack",
            bytes: format!(
                "varint count, at most {CALLERS_MAX}, and that many code addresses, innermost call first"
            ),
        },
        Shape::Range => plain(
            "range",
            "two varints: the first address, and the first one after it",
        ),
        Shape::SizedRange => plain(
            "sized range",
            "two varints: the first address, and the bytes",
        ),
        Shape::Choice { is_byte: true, .. } => {
            plain("choice", "byte: the number of one of the rows below")
        }
        Shape::Choice { is_byte: false, .. } => {
            plain("wide choice", "varint: the number of one of the rows below")
        }
        Shape::Parts(_) => plain("parts", "the members below"),
        Shape::Many(_) => plain(
            "list",
            "varint count, and that many times the members below",
        ),
        Shape::Steps => plain(
            "steps",
            "varint count, and that many steps ([below](#work-and-turns))",
        ),
        Shape::Callers => plain(
            "callers",
            "varint 0, then a stack whose addresses are each zigzag of its difference to the one before (first: \
             to 0), which enters the block's dictionary of this kind; or the index in that dictionary plus 1",
        ),
        Shape::MaybeCallers => plain(
            "callers, if any",
            "as callers, or nothing: the payload ends",
        ),
    }
}

fn number(quantity: Quantity, most: u64) -> Form {
    let (name, bytes) = match quantity {
        Quantity::Any => ("number", "varint"),
        Quantity::Thread => ("thread", "varint,"),
        Quantity::Cpu => ("CPU", "varint,"),
        Quantity::Time => ("time", "varint: cycles,"),
        Quantity::Id => ("short number", "varint,"),
        Quantity::Count => ("count", "varint,"),
        Quantity::Address => ("address", "varint"),
        Quantity::RangeAddress => (
            "range's address",
            "varint: an address from which the record's range could be as well",
        ),
        Quantity::Code => ("code address", "varint"),
        Quantity::LineStep => (
            "line",
            "varint: zigzag of the line minus the one before (first: minus 0); a line is",
        ),
        Quantity::ThreadAndFlag => (
            "thread and flag",
            "varint: 2 x thread, plus the flag; a thread is",
        ),
    };
    let bytes = match most {
        u64::MAX => bytes.to_owned(),
        _ => format!("{bytes} at most {}", power(most)),
    };
    Form { name, bytes }
}

/// A doc comment as prose: links of Rust are names.
fn prose(doc: &str) -> String {
    doc.trim().replace("[`", "`").replace("`]", "`")
}

fn since(version: u16) -> String {
    match version {
        0 => String::new(),
        minor => format!(" (since 1.{minor})"),
    }
}

/// Rows of a member and of those inside of it, and the forms that they need.
#[derive(Default)]
struct Rows {
    text: String,
    forms: Vec<Form>,
}

impl Rows {
    fn row(&mut self, name: &str, form: &str, doc: &str, version: u16) {
        let doc = prose(doc);
        let doc = doc.strip_suffix('.').unwrap_or(&doc);
        writeln!(self.text, "| `{name}` | {form} | {doc}{} |", since(version)).unwrap();
    }

    fn member(&mut self, name: &str, member: &Member) {
        let form = form(&member.shape);
        self.row(name, form.name, member.doc, member.since);
        if !self.forms.contains(&form) {
            self.forms.push(form);
        }
        self.inside(name, &member.shape);
    }

    fn inside(&mut self, name: &str, shape: &Shape) {
        match shape {
            Shape::Parts(members) => self.members(&format!("{name}."), members),
            Shape::Many(members) => self.members(&format!("{name}[]."), members),
            Shape::Choice { choices, .. } => {
                let begin = self.text.len();
                for choice in choices {
                    let chosen = format!("{name} = {}", choice.number);
                    self.row(&chosen, "", choice.doc, choice.since);
                    self.members(&format!("{chosen}: "), &choice.members);
                }
                self.shorten(name, begin);
            }
            _ => {}
        }
    }

    /// Replaces rows of a choice, from `begin` on, that another kind has word for word.
    fn shorten(&mut self, name: &str, begin: usize) {
        if self.text[..begin].contains(&self.text[begin..]) {
            self.text.truncate(begin);
            writeln!(self.text, "| `{name} = ...` |  | As above |").unwrap();
        }
    }

    fn members(&mut self, before: &str, members: &[Member]) {
        for member in members {
            self.member(&format!("{before}{}", member.name), member);
        }
    }

    fn kind(&mut self, kind: &Kind) {
        let (title, doc) = (kind.title, prose(kind.doc));
        write!(
            self.text,
            "\n#### Kind {}: {title}{}\n",
            kind.number,
            since(kind.since)
        )
        .unwrap();
        write!(
            self.text,
            "{doc}\n\n| member | form | what |\n|---|---|---|\n"
        )
        .unwrap();
        match &kind.payload {
            Shape::Parts(members) => self.members("", members),
            shape => {
                let whole = Member {
                    name: title,
                    doc: "The whole payload.",
                    since: 0,
                    shape: shape.clone(),
                };
                self.member(title, &whole);
            }
        }
    }
}

/// The forms, and then each kind with its members.
pub(super) fn text() -> String {
    let mut rows = Rows::default();
    Record::kinds().iter().for_each(|kind| rows.kind(kind));
    let mut text = String::from("| form | bytes |\n|---|---|\n");
    rows.forms.sort_by_key(|form| form.name.to_lowercase());
    for form in &rows.forms {
        writeln!(text, "| {} | {} |", form.name, form.bytes).unwrap();
    }
    text + &rows.text
}
