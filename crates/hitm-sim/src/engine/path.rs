//! Paths of members in a layout (`a.b[3].c`), and the strides of their elements.

use super::config::SimError;
use crate::layout::{Layouts, Member, StructLayout};

/// Target of a path: a member, the index of an element in it, and its place in the struct.
pub(super) struct Target<'l> {
    pub(super) member: &'l Member,
    pub(super) index: Option<u64>,
    pub(super) offset_bytes: u64,
}

/// Bytes from one node's or CPU's elements to the next one's.
pub(super) fn group_stride(member: &Member, groups: u64) -> u64 {
    if member.stride_bytes > 0 && member.count <= 1 {
        member.stride_bytes
    } else {
        member.size_bytes / groups.max(1)
    }
}

/// Bytes from one element of an array to the next.
pub(super) fn element_stride(member: &Member, groups: u64) -> u64 {
    if member.stride_bytes > 0 {
        member.stride_bytes
    } else {
        member.size_bytes / (member.count.max(1) * groups.max(1))
    }
}

/// The member at `path` of a struct.
pub(super) fn resolve<'l>(
    layouts: &'l Layouts,
    type_name: &'l str,
    path: &str,
) -> Result<Target<'l>, SimError> {
    let mut type_name = type_name;
    let mut offset_bytes = 0;
    let mut steps = path.split('.').peekable();
    while let Some(step) = steps.next() {
        let (name, index) = parse_step(step);
        let problem = |problem: String| SimError::Layout {
            type_name: type_name.to_owned(),
            problem,
        };
        let layout = layouts
            .get(type_name)
            .ok_or_else(|| problem(format!("not in the table, needed for {path}")))?;
        if let Some(index) = index
            && let Some(target) = split_array(layout, name, index, steps.clone())
        {
            return Ok(Target {
                offset_bytes: offset_bytes + target.offset_bytes,
                ..target
            });
        }
        let member = layout
            .member(name)
            .ok_or_else(|| problem(format!("no member {name}, which the model uses")))?;
        if member.count.max(1) <= index.unwrap_or(0) && member.per.is_none() {
            return Err(problem(format!(
                "{name} has {} elements, the model uses number {}",
                member.count,
                index.unwrap_or(0)
            )));
        }
        offset_bytes += member.offset_bytes;
        if steps.peek().is_none() {
            return Ok(Target {
                member,
                index,
                offset_bytes,
            });
        }
        offset_bytes += index.unwrap_or(0) * element_stride(member, 1);
        type_name = member
            .type_name
            .as_deref()
            .ok_or_else(|| problem(format!("{name} is no struct, but the model uses {path}")))?;
    }
    unreachable!("a path has at least one step")
}

/// A member of an array's element where the layout has the array split: `vectors[3].count` is element 3
/// of a member `vectors.count`.
fn split_array<'l, 's>(
    layout: &'l StructLayout,
    name: &str,
    index: u64,
    rest: impl Iterator<Item = &'s str>,
) -> Option<Target<'l>> {
    let mut whole = name.to_owned();
    for step in rest {
        whole.push('.');
        whole.push_str(step);
    }
    let member = layout.member(&whole)?;
    (index < member.count && member.per.is_none() && whole != name).then(|| Target {
        member,
        // The offset is the element's: what is left of the array is that one.
        index: Some(0),
        offset_bytes: member.offset_bytes + index * element_stride(member, 1),
    })
}

/// `name` or `name[index]`. Paths are written in the model, not in input.
fn parse_step(step: &str) -> (&str, Option<u64>) {
    match step.strip_suffix(']').and_then(|step| step.split_once('[')) {
        Some((name, index)) => {
            let index = index.parse().expect("the model writes numbers as indices");
            (name, Some(index))
        }
        None => (step, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_layout_lacks_is_named() {
        let layouts = Layouts::new([StructLayout::new("thing", 8, 8, vec![])]);
        let problem = resolve(&layouts, "thing", "rto_mask").err().unwrap();
        assert_eq!(
            problem.to_string(),
            "layout of struct thing: no member rto_mask, which the model uses"
        );
    }

    #[test]
    fn an_array_may_be_split_by_its_members() {
        let count = Member::plain("vectors.count", 64, 4 * 20).array(20);
        let mask = Member::cpumask("vectors.mask", 192).array(20);
        let mask = Member {
            size_bytes: 8 * 20,
            ..mask
        };
        let thing = StructLayout::new("thing", 512, 64, vec![count, mask]);
        let layouts = Layouts::new([thing]);
        let offset = |path| resolve(&layouts, "thing", path).map(|target| target.offset_bytes);
        assert_eq!(offset("vectors[3].count"), Ok(64 + 3 * 4));
        assert_eq!(offset("vectors[19].mask"), Ok(192 + 19 * 8));
        let problem = offset("vectors[20].count").unwrap_err().to_string();
        assert!(problem.contains("no member vectors"), "{problem}");
    }

    #[test]
    fn an_index_leads_to_its_element() {
        let vector = StructLayout::new("vector", 16, 8, vec![Member::plain("count", 8, 4)]);
        let vectors = Member::nested("vectors", 56, 16 * 20, "vector").array(20);
        let thing = StructLayout::new("thing", 512, 64, vec![vectors]);
        let layouts = Layouts::new([vector, thing]);
        let target = resolve(&layouts, "thing", "vectors[3].count").unwrap();
        assert_eq!(target.offset_bytes, 56 + 3 * 16 + 8);
        let problem = resolve(&layouts, "thing", "vectors[20].count");
        assert!(problem.err().unwrap().to_string().contains("20 elements"));
    }
}
