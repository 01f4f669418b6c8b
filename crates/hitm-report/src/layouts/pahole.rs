//! A layout in the notation that pahole made common: members as C, each with its offset and size in
//! a comment, and comments for cache lines, holes and padding.
//!
//! The places of words and columns are pahole 1.24's, so that eyes and scripts that know them work
//! on. Structures and unions without a name stand in full where they are members.

use std::fmt::Write as _;

use hitm_base::printable;
use hitm_layout::structs::ShowOptions;
use hitm_layout::{
    AggregateKind, ForcedAlignments, Gap, Member, MemberKind, Shape, StructLayout, TypeId,
    TypeKind, TypeStore,
};

use crate::Printout;

/// Columns of a member's type, where it is not indented further.
const TYPE_WIDTH: usize = 26;

/// Columns of a member's type and name together.
const MEMBER_WIDTH: usize = 48;

/// Columns of a tab.
const TAB: usize = 8;

/// Members that are written at most: structures in structures multiply, without bound in a file that
/// no compiler made.
const MAX_MEMBERS: usize = 1 << 16;

/// The text of a layout. `name` is the one that it was found by; it stands where the layout has no
/// name.
pub fn layout_text(
    store: &TypeStore,
    layout: &StructLayout,
    name: &str,
    options: &ShowOptions,
) -> Printout {
    let mut printer = Printer {
        store,
        options,
        out: Printout::new(),
        line: 0,
        needs_blank: false,
        members_left: MAX_MEMBERS,
    };
    let name = layout.name.as_deref().unwrap_or(name);
    let head = format!("{} {name} {{", layout.kind.keyword());
    printer.out.line(&head);
    let body = printer.body(layout, 0, 1);
    if layout.kind != AggregateKind::Union {
        printer.totals(layout, &body);
    }
    if printer.members_left == 0 {
        printer.out.line("\t/* further members left out */");
    }
    printer
        .out
        .line(&format!("}}{};", attributes(&body.forced)));
    printer.out
}

struct Printer<'a> {
    store: &'a TypeStore,
    options: &'a ShowOptions,
    out: Printout,
    /// The cache line that was reached, counted from the start of the outermost structure.
    line: u64,
    /// True if a blank line must come before the next text.
    needs_blank: bool,
    members_left: usize,
}

/// Facts about a structure that are collected while its members are written.
struct Body {
    shape: Shape,
    forced: ForcedAlignments,
    /// Members whose type ends with padding, and the sum of its bytes.
    paddings: (usize, u64),
}

/// Place at which a member is written.
struct Spot {
    /// Bytes from the outermost structure to the one that has it.
    base: u64,
    indent: usize,
    /// True if it ends the outermost structure.
    is_last: bool,
    /// The alignment that was demanded for it.
    forced: Option<u64>,
}

fn attributes(forced: &ForcedAlignments) -> String {
    let mut text = String::new();
    if forced.is_packed {
        text.push_str(" __attribute__((__packed__))");
    }
    if let Some(whole) = forced.whole {
        let _ = write!(text, " __attribute__((__aligned__({whole})))");
    }
    text
}

fn tabs(indent: usize) -> String {
    "\t".repeat(indent)
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

impl Printer<'_> {
    /// Writes the members of a structure that begins `base` bytes into the outermost one.
    fn body(&mut self, layout: &StructLayout, base: u64, indent: usize) -> Body {
        let mut body = Body {
            shape: self.store.shape(layout),
            forced: self.store.forced_alignments(layout),
            paddings: (0, 0),
        };
        let is_union = layout.kind == AggregateKind::Union;
        self.gap(&body.shape.before, indent);
        for (index, member) in layout.members.iter().enumerate() {
            if self.members_left == 0 {
                break;
            }
            self.members_left -= 1;
            let last = index.checked_sub(1).map(|last| &layout.members[last]);
            if let Some(last) = last.filter(|_| !is_union) {
                if self.place(last) != self.place(member) {
                    self.boundary(base + self.place(member), indent);
                }
                self.bit_field_notes(last, &body.shape.behind[index - 1], member, indent);
            }
            self.blank();
            // pahole notes a flexible array at the end of the outermost structure only.
            let is_last = indent == 1 && index + 1 == layout.members.len();
            let line = self.line;
            let spot = Spot {
                base,
                indent,
                is_last,
                forced: body.forced.members[index],
            };
            self.member(member, &spot);
            if is_union {
                // The members of a union lie over each other: each counts lines from its start.
                self.line = line;
            }
            let padding = self.padding_of(member);
            if padding > 0 && !is_union {
                body.paddings.0 += 1;
                body.paddings.1 += padding;
                let plural = plural(padding);
                let note = format!("XXX last struct has {padding} byte{plural} of padding");
                self.note(&note, indent);
            }
            self.gap(&body.shape.behind[index], indent);
        }
        // Nothing follows in the braces of a member's structure: its brace needs no blank line.
        self.needs_blank &= indent == 1;
        body
    }

    /// Writes a blank line, if one must come here.
    fn blank(&mut self) {
        if std::mem::take(&mut self.needs_blank) {
            self.out.blank();
        }
    }

    /// Writes a comment between blank lines; comments that follow each other share them.
    fn note(&mut self, text: &str, indent: usize) {
        if !std::mem::replace(&mut self.needs_blank, true) {
            self.out.blank();
        }
        self.out.line(&format!("{}/* {text} */", tabs(indent)));
    }

    /// The byte that pahole gives for a member: for a bit-field that of its unit.
    fn place(&self, member: &Member) -> u64 {
        match member.kind {
            MemberKind::BitField => {
                let unit = self.store.unit_bits(member);
                member.bit_offset / unit * unit / 8
            }
            _ => member.byte_offset(),
        }
    }

    /// Notes a gap.
    fn gap(&mut self, gap: &Gap, indent: usize) {
        for (amount, unit) in [(gap.bits, "bit"), (gap.bytes, "byte")] {
            if amount > 0 {
                let plural = plural(amount);
                let note = format!("XXX {amount} {unit}{plural} hole, try to pack");
                self.note(&note, indent);
            }
        }
    }

    /// Notes that a new cache line begins before or at `offset`.
    fn boundary(&mut self, offset: u64, indent: usize) {
        let line = offset / self.options.line_size;
        if line <= self.line {
            return;
        }
        self.line = line;
        let start = line * self.options.line_size;
        let ago = match offset - start {
            0 => String::new(),
            ago => format!(" was {ago} byte{} ago", plural(ago)),
        };
        self.blank();
        let tabs = tabs(indent);
        self.out.line(&format!(
            "{tabs}/* --- cacheline {line} boundary ({start} bytes){ago} --- */"
        ));
    }

    /// Notes what is special between a member and the one before it.
    fn bit_field_notes(&mut self, last: &Member, gap: &Gap, member: &Member, indent: usize) {
        if last.bit_size == 0 {
            return;
        }
        let tabs = tabs(indent);
        let (place, last_place) = (self.place(member), self.place(last));
        let is_bit_field = member.kind == MemberKind::BitField;
        let was_bit_field = last.kind == MemberKind::BitField;
        if gap.bits > 0 && is_bit_field {
            let mut bits = gap.bits;
            if place != last_place {
                self.out.blank();
                self.out.line(&format!(
                    "{tabs}/* Force alignment to the next boundary: */"
                ));
                bits = 0;
            }
            let type_name = printable(&member.type_name);
            self.out
                .line(&format!("{tabs}{type_name:<TYPE_WIDTH$} :{bits};"));
        }
        let moves_back = place < last_place;
        if moves_back || place == last_place && !was_bit_field && is_bit_field {
            self.note("Bitfield combined with previous fields", indent);
        } else if place > last_place && place - last_place < self.byte_size(last) {
            self.note("Bitfield combined with next fields", indent);
        }
    }

    /// The bytes that pahole gives for a member: for a bit-field those of its unit.
    fn byte_size(&self, member: &Member) -> u64 {
        match member.kind {
            MemberKind::BitField => self.store.unit_bits(member) / 8,
            _ => member.bit_size / 8,
        }
    }

    fn member(&mut self, member: &Member, spot: &Spot) {
        let Spot {
            base,
            indent,
            is_last,
            ..
        } = *spot;
        let tabs = tabs(indent);
        let comment = self.comment(member, base);
        let width = MEMBER_WIDTH.saturating_sub((indent - 1) * TAB);
        let mut text = match self.to_expand(member) {
            Some((inner, layout)) => {
                let head = match self.store.get(inner).name.as_ref() {
                    _ if layout.name.is_none() => {
                        let qualified = &self.store.get(member.type_id).name;
                        let is_const = qualified.starts_with("const ");
                        let qualifier = if is_const { "const " } else { "" };
                        format!("{qualifier}{}", layout.kind.keyword())
                    }
                    name => name.to_owned(),
                };
                self.out.line(&format!("{tabs}{head} {{"));
                let base = base + member.byte_offset();
                let body = self.body(&layout, base, indent + 1);
                let declared = self.declared(member, is_last);
                let gap = if declared.is_empty() { "" } else { " " };
                format!("}}{}{gap}{declared}", attributes(&body.forced))
            }
            None if self.is_unnamed_enum(member) => {
                let (_, declared) = self.type_and_name(member, is_last);
                self.enumerators(member.type_id, indent);
                format!("}} {declared}")
            }
            None => {
                let (type_name, declared) = self.type_and_name(member, is_last);
                let (type_name, declared) = (stars_apart(&type_name), stars_apart(&declared));
                let type_name = printable(&type_name);
                let type_width = TYPE_WIDTH.saturating_sub((indent - 1) * TAB);
                format!("{type_name:<type_width$} {declared}")
            }
        };
        if let Some(forced) = spot.forced {
            let _ = write!(text, " __attribute__((__aligned__({forced})))");
        }
        text.push(';');
        let text = printable(&text);
        self.out.line(&format!("{tabs}{text:<width$} {comment}"));
    }

    /// Returns true if a member's type is an enumeration without a name, whose values are known.
    fn is_unnamed_enum(&self, member: &Member) -> bool {
        let found = self.store.get(member.type_id);
        matches!(found.kind, TypeKind::Enum)
            && found.name.ends_with("(anonymous)")
            && !self.store.enumerators(member.type_id).is_empty()
    }

    fn enumerators(&mut self, id: TypeId, indent: usize) {
        let tabs = tabs(indent);
        let all = self.store.enumerators(id);
        let names: Vec<_> = all.iter().map(|one| printable(&one.name)).collect();
        let width = names.iter().map(|name| name.len()).max().unwrap_or(0);
        self.out.line(&format!("{tabs}enum {{"));
        for (name, one) in names.iter().zip(all) {
            let line = format!("{tabs}\t{name:<width$} = {},", one.value);
            self.out.line(&line);
        }
    }

    fn comment(&self, member: &Member, base: u64) -> String {
        let (place, size) = (base + self.place(member), self.byte_size(member));
        match member.kind {
            MemberKind::BitField => {
                let bit = member.bit_offset - self.place(member) * 8;
                format!("/* {place:>5}:{bit:>2} {size:>2} */")
            }
            _ => format!("/* {place:>5} {size:>5} */"),
        }
    }

    /// The structure that stands in full where a member is: one without a name, with `expand` any.
    fn to_expand(&self, member: &Member) -> Option<(TypeId, std::sync::Arc<StructLayout>)> {
        let mut id = member.type_id;
        loop {
            match &self.store.get(id).kind {
                TypeKind::Array { element, .. } => id = *element,
                TypeKind::Alias(target) if self.options.expand || self.is_qualifier(id) => {
                    id = *target;
                }
                TypeKind::Aggregate(layout) => {
                    let wanted = self.options.expand || layout.name.is_none();
                    return wanted.then(|| (id, layout.clone()));
                }
                _ => return None,
            }
        }
    }

    /// Returns true if another name of a type only adds `const` or the like to one without a name.
    fn is_qualifier(&self, id: TypeId) -> bool {
        self.store.get(id).name.ends_with(" (anonymous)")
    }

    /// The name of a member that stands behind its structure: with the dimensions of an array.
    fn declared(&self, member: &Member, is_last: bool) -> String {
        let name = member.name.as_deref().unwrap_or_default();
        let mut dimensions = String::new();
        let mut id = member.type_id;
        loop {
            match &self.store.get(id).kind {
                TypeKind::Array { element, count } => {
                    dimensions.push_str(&dimension(*count, is_last && dimensions.is_empty()));
                    id = *element;
                }
                TypeKind::Alias(target) => id = *target,
                _ => return format!("{name}{dimensions}"),
            }
        }
    }

    /// The two columns of a member. What belongs to the declared name stands with it: dimensions, and
    /// the star of a pointer to a function.
    fn type_and_name(&self, member: &Member, is_last: bool) -> (String, String) {
        let found = self.store.get(member.type_id);
        let (before, after) = found.name_around();
        let name = member.name.as_deref().unwrap_or_default();
        if member.kind == MemberKind::Base {
            return (before.to_owned(), "<base>".to_owned());
        }
        if member.kind == MemberKind::BitField {
            return (before.to_owned(), format!("{name}:{}", member.bit_size));
        }
        let after = match after.strip_prefix("[0]") {
            Some(rest) if is_last => format!("[]{rest}"),
            _ => after.to_owned(),
        };
        match before.rfind("(*") {
            Some(at) if after.contains(')') => {
                let (of_type, of_name) = before.split_at(at);
                let is_word = of_name.ends_with(|last: char| last.is_alphanumeric());
                let gap = if is_word { " " } else { "" };
                let of_type = of_type.trim_end().to_owned();
                (of_type, format!("{of_name}{gap}{name}{after}"))
            }
            _ => (before.to_owned(), format!("{name}{after}")),
        }
    }

    /// The padding at the end of a member's type, if that is a structure, and no typedef of one:
    /// those are not looked into.
    fn padding_of(&self, member: &Member) -> u64 {
        match &self.store.get(member.type_id).kind {
            TypeKind::Aggregate(layout) if layout.kind != AggregateKind::Union => {
                self.store.shape(layout).padding
            }
            _ => 0,
        }
    }

    fn totals(&mut self, layout: &StructLayout, body: &Body) {
        let line_size = self.options.line_size;
        let shape = &body.shape;
        let ((holes, sum_holes), (bit_holes, sum_bit_holes)) = (shape.holes(), shape.bit_holes());
        let mut lines = vec![format!(
            "size: {}, cachelines: {}, members: {}",
            layout.size,
            layout.cachelines(line_size),
            layout.members.len()
        )];
        if holes + bit_holes > 0 {
            if shape.sum_members > 0 {
                let holes = match holes {
                    0 => String::new(),
                    _ => format!(", holes: {holes}, sum holes: {sum_holes}"),
                };
                lines.push(format!("sum members: {}{holes}", shape.sum_members));
            }
            if shape.sum_bit_fields > 0 {
                let bits = shape.sum_bit_fields;
                let rest = match bit_holes {
                    0 => format!(" ({} bytes)", bits / 8),
                    _ => format!(", bit holes: {bit_holes}, sum bit holes: {sum_bit_holes} bits"),
                };
                lines.push(format!("sum bitfield members: {bits} bits{rest}"));
            }
        }
        if shape.padding > 0 {
            lines.push(format!("padding: {}", shape.padding));
        }
        if body.paddings.0 > 0 {
            let (count, sum) = body.paddings;
            lines.push(format!("paddings: {count}, sum paddings: {sum}"));
        }
        if shape.bit_padding > 0 {
            lines.push(format!("bit_padding: {} bits", shape.bit_padding));
        }
        lines.extend(forced_line(body));
        if !layout.size.is_multiple_of(line_size) {
            let last = layout.last_cacheline(line_size);
            lines.push(format!("last cacheline: {last} bytes"));
        }
        self.out.blank();
        for line in lines {
            self.out.line(&format!("\t/* {line} */"));
        }
    }
}

/// Pointers to pointers as pahole writes them: `char * *`.
fn stars_apart(text: &str) -> String {
    let mut apart = String::with_capacity(text.len());
    for character in text.chars() {
        if character == '*' && apart.ends_with('*') {
            apart.push(' ');
        }
        apart.push(character);
    }
    apart
}

/// The line that counts members aligned beyond what their types need, and the holes that come from
/// it.
fn forced_line(body: &Body) -> Option<String> {
    let forced = &body.forced.members;
    let count = forced.iter().flatten().count();
    if count == 0 {
        return None;
    }
    let before = |index: usize| match index.checked_sub(1) {
        Some(last) => body.shape.behind[last].bytes,
        None => body.shape.before.bytes,
    };
    let indices = (0..forced.len()).filter(|index| forced[*index].is_some());
    let holes: Vec<u64> = indices.map(before).filter(|hole| *hole > 0).collect();
    let mut line = format!("forced alignments: {count}");
    if !holes.is_empty() {
        let sum: u64 = holes.iter().sum();
        let _ = write!(
            line,
            ", forced holes: {}, sum forced holes: {sum}",
            holes.len()
        );
    }
    Some(line)
}

fn dimension(count: Option<u64>, may_be_flexible: bool) -> String {
    match count {
        None => "[]".to_owned(),
        Some(0) if may_be_flexible => "[]".to_owned(),
        Some(count) => format!("[{count}]"),
    }
}
