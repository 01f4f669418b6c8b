//! A layout as JSON has it: docs/formats/layout.md describes it.

use serde::Serialize;

use super::{ShowOptions, StructsError, Sums, TypesFile};
use crate::{Member, MemberKind, StructLayout, TypeStore};

/// Depth to which `expand` shows members: files that no compiler made may nest without end.
const MAX_DEPTH: usize = 16;

/// Limit on the members that are written.
const MAX_MEMBERS: usize = 1 << 16;

/// A structure as JSON has it: docs/formats/layout.md says what each member is.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the format's page has them")]
pub struct Shown {
    pub schema: u32,
    pub file: String,
    #[serde(rename = "type")]
    pub name: String,
    pub kind: &'static str,
    pub declared_at: Option<String>,
    pub size_bytes: u64,
    pub alignment_bytes: u64,
    pub is_packed: bool,
    pub line_size_bytes: u64,
    #[serde(flatten)]
    pub sums: Sums,
    pub bit_padding_bits: u64,
    pub sum_members_bytes: u64,
    pub sum_bit_fields_bits: u64,
    pub last_line_bytes: u64,
    pub members: Vec<ShownMember>,
}

/// A member of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the format's page has them")]
pub struct ShownMember {
    pub name: Option<String>,
    #[serde(rename = "type")]
    pub type_name: String,
    pub declaration: String,
    pub kind: &'static str,
    pub declared_at: Option<String>,
    pub offset_bytes: u64,
    pub size_bytes: u64,
    pub bit_offset: u64,
    pub bit_size: u64,
    pub line: u64,
    pub forced_alignment_bytes: Option<u64>,
    pub hole_after_bytes: u64,
    pub bit_hole_after_bits: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<Vec<ShownMember>>,
}

/// A member of a structure, or of a member, in a flat list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberRow {
    /// Names from the outermost structure's member down, joined by dots; a member without a name is
    /// left out, and one that is nothing else has an empty path.
    pub path: String,
    /// Depth, 0 for a member of the structure itself.
    pub depth: u64,
    /// The member, without its own.
    pub member: ShownMember,
}

/// The members of a structure as rows, each before its own members.
///
/// # Errors
/// The file has no such structure.
pub fn member_rows(
    file: &mut TypesFile,
    name: &str,
    options: &ShowOptions,
) -> Result<Vec<MemberRow>, StructsError> {
    let layout = file.struct_layout(name)?;
    let mut shower = Shower {
        store: file.types(),
        options,
        members_left: MAX_MEMBERS,
    };
    let members = shower.members(&layout, 0, MAX_DEPTH);
    let mut rows = Vec::new();
    flatten(members, "", 0, &mut rows);
    Ok(rows)
}

fn flatten(members: Vec<ShownMember>, above: &str, depth: u64, rows: &mut Vec<MemberRow>) {
    for mut member in members {
        let path = match (above, &member.name) {
            (above, None) => above.to_owned(),
            ("", Some(name)) => name.clone(),
            (above, Some(name)) => format!("{above}.{name}"),
        };
        let inner = member.members.take().unwrap_or_default();
        rows.push(MemberRow {
            path: path.clone(),
            depth,
            member,
        });
        flatten(inner, &path, depth + 1, rows);
    }
}

/// A layout with all that JSON shows of it.
///
/// # Errors
/// The file has no such structure.
pub fn shown(
    file: &mut TypesFile,
    name: &str,
    options: &ShowOptions,
) -> Result<Shown, StructsError> {
    let layout = file.struct_layout(name)?;
    let file_name = file.name().to_owned();
    let store = file.types();
    let shape = store.shape(&layout);
    let forced = store.forced_alignments(&layout);
    let mut shower = Shower {
        store,
        options,
        members_left: MAX_MEMBERS,
    };
    Ok(Shown {
        schema: 1,
        file: file_name,
        name: layout
            .name
            .as_deref()
            .unwrap_or(super::bare(name))
            .to_owned(),
        kind: layout.kind.keyword(),
        declared_at: layout.decl.as_ref().map(ToString::to_string),
        size_bytes: layout.size,
        alignment_bytes: forced.alignment(),
        is_packed: forced.is_packed,
        line_size_bytes: options.line_size,
        sums: Sums::of(store, &layout, options.line_size),
        bit_padding_bits: shape.bit_padding,
        sum_members_bytes: shape.sum_members,
        sum_bit_fields_bits: shape.sum_bit_fields,
        last_line_bytes: layout.last_cacheline(options.line_size),
        members: shower.members(&layout, 0, MAX_DEPTH),
    })
}

struct Shower<'a> {
    store: &'a TypeStore,
    options: &'a ShowOptions,
    members_left: usize,
}

impl Shower<'_> {
    /// Members of a structure that begins `base` bits into the outermost one.
    fn members(&mut self, layout: &StructLayout, base: u64, depth: usize) -> Vec<ShownMember> {
        let shape = self.store.shape(layout);
        let forced = self.store.forced_alignments(layout);
        let mut shown = Vec::new();
        for (index, member) in layout.members.iter().enumerate() {
            if self.members_left == 0 {
                break;
            }
            self.members_left -= 1;
            let bit_offset = base + member.bit_offset;
            let gap = shape.behind[index];
            shown.push(ShownMember {
                name: member.name.as_deref().map(str::to_owned),
                type_name: member.type_name.to_string(),
                declaration: self.declaration(member),
                kind: kind_of(member.kind),
                declared_at: member.decl.as_ref().map(ToString::to_string),
                offset_bytes: bit_offset / 8,
                size_bytes: member.byte_end() - member.byte_offset(),
                bit_offset,
                bit_size: member.bit_size,
                line: bit_offset / 8 / self.options.line_size,
                forced_alignment_bytes: forced.members[index],
                hole_after_bytes: gap.bytes,
                bit_hole_after_bits: gap.bits,
                members: self.inner(member, bit_offset, depth),
            });
        }
        shown
    }

    /// Members of a member: of an anonymous structure, and with `expand` of any structure.
    fn inner(&mut self, member: &Member, base: u64, depth: usize) -> Option<Vec<ShownMember>> {
        let layout = self.store.layout(member.type_id)?.clone();
        let wanted = layout.name.is_none() || self.options.expand;
        (wanted && depth > 0).then(|| self.members(&layout, base, depth - 1))
    }

    fn declaration(&self, member: &Member) -> String {
        let name = member.name.as_deref().unwrap_or_default();
        let declaration = self.store.get(member.type_id).declare(name);
        match member.kind {
            MemberKind::BitField => format!("{declaration}:{}", member.bit_size),
            _ => declaration,
        }
    }
}

const fn kind_of(kind: MemberKind) -> &'static str {
    match kind {
        MemberKind::Field => "field",
        MemberKind::BitField => "bit-field",
        MemberKind::Base => "base",
        MemberKind::Variant => "variant",
    }
}
