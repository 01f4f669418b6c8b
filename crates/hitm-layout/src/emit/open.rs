//! Opened structures as source: their members become members of the structure around them.
//!
//! C has no word for a structure whose members lie apart, so `outer.inner.x` becomes
//! `outer.inner_x`. Users of the old name must use the new one. For C, [`semantic_patch`] does it:
//! Coccinelle rewrites uses through pointers and values. What takes the whole of `inner`, such as a
//! function that is given its address, is found by the compiler and must be rewritten by hand.

use std::collections::BTreeSet;

use super::EmitError;
use super::anonymous::names_in;
use super::declare::member_at;
use super::names::check_path;
use crate::advise::Subject;
use crate::layout_file::FileStruct;
use crate::types::{StructLayout, TypeStore};

/// A subject and its layout with members that C can declare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flattened {
    /// The subject, its members renamed.
    pub subject: Subject,
    /// The layout, its members renamed.
    pub layout: FileStruct,
    /// Old and new use of each member: `rt.highest_prio`, `rt_highest_prio`.
    pub renames: Vec<(String, String)>,
}

/// Gives members of opened structures, which are made of `of`, names without dots. Fails when one has a
/// name that source cannot have.
pub fn flattened(
    subject: &Subject,
    layout: &FileStruct,
    of: &StructLayout,
    store: &TypeStore,
) -> Result<Flattened, EmitError> {
    let is_nested = |name: &str| !name.starts_with('(') && name.contains('.');
    let names = subject.members.iter().map(|member| &*member.file.name);
    let plain = names.filter(|name| !is_nested(name)).map(str::to_owned);
    let mut flat = Flattened {
        subject: subject.clone(),
        layout: layout.clone(),
        renames: Vec::new(),
    };
    let mut taken: BTreeSet<String> = plain.collect();
    for member in &mut flat.subject.members {
        let old = member.file.name.clone();
        if !is_nested(&old) {
            continue;
        }
        // A member without a name gets one: its members could not keep theirs otherwise.
        let mut new = old
            .replace(".(anonymous at ", "_anonymous")
            .replace(')', "");
        new = new.replace('.', "_");
        while !taken.insert(new.clone()) {
            new.push('_');
        }
        for placed in &mut flat.layout.members {
            if placed.name == old {
                placed.name.clone_from(&new);
            }
        }
        match old.split_once(".(anonymous at ") {
            None => flat.renames.push((old, new.clone())),
            Some((outer, _)) => {
                let inner = member_at(of, store, &member.file).map(|member| member.type_id);
                let inner = inner.and_then(|id| store.layout(id));
                for name in inner.map_or_else(Vec::new, |inner| names_in(inner, store)) {
                    let pair = (format!("{outer}.{name}"), format!("{new}.{name}"));
                    flat.renames.push(pair);
                }
            }
        }
        member.file.name = new;
    }
    for (old, new) in &flat.renames {
        check_path(old)?;
        check_path(new)?;
    }
    Ok(flat)
}

/// A semantic patch for Coccinelle that rewrites uses of renamed members in C. What Coccinelle takes
/// for the same by default, `p[1].x` for `p->x`, would lose the index here.
pub fn semantic_patch(name: &str, renames: &[(String, String)]) -> String {
    let mut out = String::new();
    let through_pointer = ("disable ptr_to_array", "*E", "->");
    for (rule, declared, access) in [through_pointer, ("", "E", ".")] {
        out += &format!("@{rule}@\nstruct {name} {declared};\n@@\n(\n");
        let rules = renames.iter().map(|(old, new)| {
            let (old, new) = (format!("E{access}{old}"), format!("E{access}{new}"));
            format!("- {old}\n+ {new}\n")
        });
        out += &rules.collect::<Vec<_>>().join("|\n");
        out += ")\n\n";
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn each_use_of_a_member_is_rewritten() {
        let renames = [
            ("in.hot".to_owned(), "in_hot".to_owned()),
            ("in.cold".to_owned(), "in_cold".to_owned()),
        ];
        expect![[r#"
            @disable ptr_to_array@
            struct outer *E;
            @@
            (
            - E->in.hot
            + E->in_hot
            |
            - E->in.cold
            + E->in_cold
            )

            @@
            struct outer E;
            @@
            (
            - E.in.hot
            + E.in_hot
            |
            - E.in.cold
            + E.in_cold
            )
        "#]]
        .assert_eq(&semantic_patch("outer", &renames));
    }
}
