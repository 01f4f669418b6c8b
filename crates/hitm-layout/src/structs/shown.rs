//! A layout as JSON has it: docs/formats/layout.md describes it.

use serde::Serialize;

use super::{ShowOptions, StructsError, Sums, TypesFile};
use crate::{Member, MemberKind, StructLayout, TypeStore};

/// Depth to which `expand` shows members: files that no compiler made may nest without end.
const MAX_DEPTH: u64 = 16;

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
    /// Names from the outermost structure's member down, joined by dots; a member without a name is
    /// left out, and one that is nothing else has an empty path.
    #[serde(skip)]
    pub path: String,
    /// Depth, 0 for a member of the structure itself.
    #[serde(skip)]
    pub depth: u64,
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

/// The members of a structure as rows, each before its own members.
///
/// # Errors
/// The file has no such structure.
pub fn member_rows(
    file: &mut TypesFile,
    name: &str,
    options: &ShowOptions,
) -> Result<Vec<ShownMember>, StructsError> {
    let layout = file.struct_layout(name)?;
    let mut rows = Vec::new();
    flatten(Shower::shown(file.types(), &layout, options), &mut rows);
    Ok(rows)
}

fn flatten(members: Vec<ShownMember>, rows: &mut Vec<ShownMember>) {
    for mut member in members {
        let inner = member.members.take();
        rows.push(member);
        flatten(inner.unwrap_or_default(), rows);
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
        members: Shower::shown(store, &layout, options),
    })
}

struct Shower<'a> {
    store: &'a TypeStore,
    options: &'a ShowOptions,
    members_left: usize,
}

/// The structure around members.
struct Around<'a> {
    /// Its first bit in the outermost one.
    base: u64,
    path: &'a str,
    /// Depth of its members.
    depth: u64,
}

impl Shower<'_> {
    /// The members of a structure.
    fn shown(store: &TypeStore, layout: &StructLayout, options: &ShowOptions) -> Vec<ShownMember> {
        let mut shower = Shower {
            store,
            options,
            members_left: MAX_MEMBERS,
        };
        let around = Around {
            base: 0,
            path: "",
            depth: 0,
        };
        shower.members(layout, &around)
    }

    fn members(&mut self, layout: &StructLayout, around: &Around<'_>) -> Vec<ShownMember> {
        let shape = self.store.shape(layout);
        let forced = self.store.forced_alignments(layout);
        let mut shown = Vec::new();
        for (index, member) in layout.members.iter().enumerate() {
            if self.members_left == 0 {
                break;
            }
            self.members_left -= 1;
            let bit_offset = around.base + member.bit_offset;
            let gap = shape.behind[index];
            let path = match (around.path, &member.name) {
                (above, None) => above.to_owned(),
                ("", Some(name)) => name.to_string(),
                (above, Some(name)) => format!("{above}.{name}"),
            };
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
                depth: around.depth,
                members: self.inner(member, bit_offset, &path, around.depth + 1),
                path,
            });
        }
        shown
    }

    /// Members of a member: of an anonymous structure, and with `expand` of any structure.
    fn inner(
        &mut self,
        member: &Member,
        base: u64,
        path: &str,
        depth: u64,
    ) -> Option<Vec<ShownMember>> {
        let layout = self.store.layout(member.type_id)?;
        let wanted = layout.name.is_none() || self.options.expand;
        let around = Around { base, path, depth };
        (wanted && depth <= MAX_DEPTH).then(|| self.members(layout, &around))
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
