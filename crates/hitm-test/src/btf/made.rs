//! BTF with types that refer to anything: themselves, later ones, none at all.

use super::{Assembler, Info, kind};
use crate::Choices;

/// Types of one file.
const TYPES_MAX: usize = 200;
/// Names of types: callers look up `s`, the others collide with it and with each other.
const NAMES: [&str; 10] = [
    "s",
    "",
    "t",
    "int",
    "a",
    "b",
    "a",
    "\u{1b}[31m",
    "x y",
    "root_domain",
];
const COUNTS: [usize; 12] = [1, 1, 2, 3, 0, 2, 4, 8, 30, 31, 32, 255];

/// A file that begins at the first id.
pub fn made(choices: &mut Choices<'_>) -> Vec<u8> {
    let mut assembler = Assembler::new(choices.one_in(8));
    types(choices, &mut assembler);
    finish(choices, &assembler)
}

/// A file, and another that extends it.
pub fn made_split(choices: &mut Choices<'_>) -> (Vec<u8>, Vec<u8>) {
    let mut base = Assembler::new(choices.one_in(8));
    let half = choices.rest().len() / 2;
    types(&mut Choices::new(choices.bytes(half)), &mut base);
    let mut module = Assembler::split(&base);
    types(choices, &mut module);
    (base.finish(), finish(choices, &module))
}

/// The bytes; one file in eight has some changed.
fn finish(choices: &mut Choices<'_>, assembler: &Assembler) -> Vec<u8> {
    let mut bytes = assembler.finish();
    if choices.one_in(8) {
        let at = choices.word(2) as usize % bytes.len();
        bytes[at] ^= choices.byte();
    }
    bytes
}

fn types(choices: &mut Choices<'_>, to: &mut Assembler) {
    // Something sound to refer to.
    let int = to.int("int", 4);
    to.structure("s", 8, &[("a", int, 0), ("b", int, 32)]);
    let mut count = 0;
    while !choices.is_empty() && count < TYPES_MAX {
        one(choices, to);
        count += 1;
    }
}

/// An id: of a type before, of itself, of one to come, or of none.
fn id(choices: &mut Choices<'_>, to: &Assembler) -> u32 {
    match choices.below(16) {
        15 => choices.half(),
        14 => to.next_id(),
        13 => to.next_id().wrapping_add(choices.byte().into()),
        _ => to.next_id().saturating_sub(1 + choices.below(8) as u32),
    }
}

/// A size or an offset: a small one more often than not.
fn size(choices: &mut Choices<'_>) -> u32 {
    match choices.below(4) {
        0 => choices.half(),
        _ => choices.pick(&[4, 8, 16, 64, 1, 2, 128, 0]),
    }
}

fn one(choices: &mut Choices<'_>, to: &mut Assembler) {
    let name = choices.pick(&NAMES);
    let target = id(choices, to);
    match choices.below(20) {
        0 => {
            let size = choices.pick(&[4, 1, 8, 16, 0, 3, u32::MAX]);
            let word = match choices.one_in(4) {
                true => choices.half(),
                false => size.wrapping_mul(8),
            };
            to.record(name, Info::of(kind::INT), size, &[word]);
        }
        1 => {
            let count = choices.half();
            to.array(target, count);
        }
        2..=7 => aggregate(choices, to, name),
        8 => enumeration(choices, to, name),
        9 => {
            to.record(name, Info::new(kind::FWD, choices.one_in(2), 0), 0, &[]);
        }
        10..=13 => {
            let kinds = [
                kind::TYPEDEF,
                kind::PTR,
                kind::CONST,
                kind::VOLATILE,
                kind::RESTRICT,
                kind::TYPE_TAG,
                kind::FUNC,
            ];
            to.of(choices.pick(&kinds), name, target);
        }
        14 => words(choices, to, kind::FUNC_PROTO, name, target),
        15 => words(choices, to, kind::DATASEC, name, target),
        16 => {
            to.record(name, Info::of(kind::VAR), target, &[choices.half()]);
        }
        17 => {
            to.record(name, Info::of(kind::FLOAT), size(choices), &[]);
        }
        18 => {
            to.record(name, Info::of(kind::DECL_TAG), target, &[choices.half()]);
        }
        19 if choices.one_in(8) => {
            let kind = choices.below(32) as u32;
            let words = [choices.half(), choices.half(), choices.half()];
            let used = choices.below(4);
            to.record(
                name,
                Info::new(kind, choices.one_in(2), used as u32),
                target,
                &words[..used],
            );
        }
        _ => {
            let count = 1 + choices.below(16);
            to.array(1, count as u32);
        }
    }
}

/// A structure or union: members one behind the other, or anywhere.
fn aggregate(choices: &mut Choices<'_>, to: &mut Assembler, name: &str) {
    let count = choices.pick(&COUNTS);
    let is_packed = choices.one_in(2);
    let has_flag = choices.one_in(4);
    let mut members = Vec::new();
    let mut at = 0u32;
    for nth in 0..count {
        let target = match (nth < 16, choices.below(4)) {
            (true, 0) => id(choices, to),
            (true, 1) => 2,
            _ => 1,
        };
        let place = if is_packed { at } else { size(choices) };
        let bits = u32::from(has_flag) * (choices.below(65) as u32);
        members.push((
            choices.pick(&NAMES),
            target,
            place & 0x00ff_ffff | bits << 24,
        ));
        at += if bits > 0 { bits } else { 32 };
    }
    let total = match choices.below(4) {
        0 => size(choices),
        _ => at.div_ceil(8),
    };
    let kind = choices.pick(&[kind::STRUCT, kind::STRUCT, kind::UNION]);
    to.aggregate(name, Info::new(kind, has_flag, 0), total, &members);
}

fn enumeration(choices: &mut Choices<'_>, to: &mut Assembler, name: &str) {
    let kind = choices.pick(&[kind::ENUM, kind::ENUM64]);
    let size = choices.pick(&[4, 8, 1, 2, 0, u32::MAX]);
    words(choices, to, kind, name, size);
}

/// A record whose parts have two or three words each. One in sixteen has more parts than it says.
fn words(choices: &mut Choices<'_>, to: &mut Assembler, kind: u32, name: &str, size_or_type: u32) {
    let count = choices.pick(&COUNTS);
    let each = match kind {
        kind::ENUM | kind::FUNC_PROTO => 2,
        _ => 3,
    };
    let mut extra = Vec::new();
    for nth in 0..count {
        let offset = to.string(choices.pick(&NAMES));
        let mut part = [offset, nth as u32, choices.half()];
        if kind == kind::DATASEC {
            part = [id(choices, to), nth as u32 * 8, 8];
        }
        if kind == kind::FUNC_PROTO {
            part[1] = id(choices, to);
        }
        extra.extend(&part[..each]);
    }
    let said = count + usize::from(choices.one_in(128));
    to.record(
        name,
        Info::new(kind, choices.one_in(4), said as u32),
        size_or_type,
        &extra,
    );
}

#[cfg(test)]
mod tests {
    use hitm_layout::{BtfFile, Bytes};

    use super::*;
    use crate::noise;

    #[test]
    fn most_files_parse_and_have_structures_with_layouts() {
        let (mut parsed, mut layouts) = (0, 0);
        for seed in 0..200 {
            let bytes = noise(seed, 400);
            let file = made(&mut Choices::new(&bytes));
            assert_eq!(file, made(&mut Choices::new(&bytes)));
            let Ok(mut file) = BtfFile::parse(Bytes::from(file), None, "made") else {
                continue;
            };
            parsed += 1;
            for definition in file.definitions() {
                layouts += u32::from(file.definition_layout(&definition).is_ok());
            }
        }
        assert!(
            parsed > 50 && layouts > 200,
            "{parsed} files, {layouts} layouts"
        );
    }

    #[test]
    fn a_module_goes_on_from_its_base() {
        let bytes = noise(3, 300);
        let both = (0..40).filter(|seed| {
            let bytes = noise(*seed, 300);
            let (base, module) = made_split(&mut Choices::new(&bytes));
            let base = BtfFile::parse(Bytes::from(base), None, "base");
            base.is_ok_and(|base| BtfFile::parse(Bytes::from(module), Some(&base), "m").is_ok())
        });
        assert!(both.count() > 3);
        let (base, module) = made_split(&mut Choices::new(&bytes));
        assert!(base.starts_with(&module[..4]));
    }
}
