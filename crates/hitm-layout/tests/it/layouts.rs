//! Layouts against the compiler's own `offsetof` and `sizeof`. The fixtures `layouts.*` hold the
//! hard cases of their languages and print where every member is. Debug information must say the
//! same in each form that the compilers can write it in.

use hitm_test::process::Command;
use std::collections::BTreeMap;

use hitm_layout::{MemberKind, ObjectFile, StructLayout, TypeStore};

use crate::fixture::{Fixture, load};

/// A member's name, and its first bit and its bits.
type Place = (String, u64, u64);

/// The members of a structure, those of bases and anonymous members as its own. Tables of virtual
/// functions are left out: programs cannot ask where they are.
fn flatten(store: &TypeStore, layout: &StructLayout, start: u64, places: &mut Vec<Place>) {
    for member in &layout.members {
        let at = start + member.bit_offset;
        match (&member.name, store.layout(member.type_id)) {
            (None, Some(inner)) => flatten(store, inner, at, places),
            (Some(name), _) if name.starts_with("_vptr") => {
                assert_eq!((member.bit_offset, member.bit_size), (0, 64), "{name}");
            }
            (name, _) => {
                let name = name.as_deref().unwrap_or("?").to_owned();
                places.push((name, at, member.bit_size));
            }
        }
    }
}

/// Output of a fixture about one structure.
#[derive(Default)]
struct Printed {
    size: u64,
    places: Vec<Place>,
    virtual_bases: Vec<String>,
}

fn printed(output: &str) -> Vec<(String, Printed)> {
    let mut all: Vec<(String, Printed)> = Vec::new();
    for line in output.lines() {
        let fields: Vec<&str> = line.split('|').collect();
        let number = |at: usize| fields[at].parse::<u64>().unwrap();
        match fields[0] {
            "struct" => {
                let (name, size) = (fields[1].to_owned(), number(2));
                let printed = Printed {
                    size,
                    ..Printed::default()
                };
                all.push((name, printed));
            }
            "member" => {
                let place = (fields[1].to_owned(), number(2), number(3));
                all.last_mut().unwrap().1.places.push(place);
            }
            "virtual" => {
                let bases = &mut all.last_mut().unwrap().1.virtual_bases;
                bases.push(fields[1].to_owned());
            }
            "variant" => {}
            other => panic!("the fixture printed {other}"),
        }
    }
    all
}

/// Compares all structures that the fixture prints. Answers how many members were compared.
fn compare(fixture: &Fixture, context: &str) -> usize {
    let path = fixture.program.to_str().unwrap();
    let file = ObjectFile::parse(load(path).unwrap(), path).unwrap();
    compare_file(file, &fixture.run(), context)
}

/// Compares all structures of an output of a fixture with those of a file.
fn compare_file(mut file: ObjectFile, output: &str, context: &str) -> usize {
    file.attach_debug_files(&mut load);
    let mut compared = 0;
    for (name, mut wanted) in printed(output) {
        let layout = file.struct_layout(&name);
        let layout = layout.unwrap_or_else(|error| {
            panic!("{context}: {error}: {:?}", file.diagnostics());
        });
        let mut found = Vec::new();
        flatten(file.types(), &layout, 0, &mut found);
        found.sort();
        wanted.places.sort();
        assert_eq!(found, wanted.places, "{context}: {name}");
        assert_eq!(layout.size, wanted.size, "{context}: {name}");
        let bases: Vec<&str> = layout.virtual_bases.iter().map(|base| &**base).collect();
        assert_eq!(bases, wanted.virtual_bases, "{context}: {name}");
        check_totals(&layout, &format!("{context}: {name}"));
        check_declarations(&layout, &format!("{context}: {name}"));
        compared += found.len();
    }
    compared += compare_variants(&mut file, output, context);
    assert_eq!(file.diagnostics(), [], "{context}");
    compared
}

/// Holes, padding and the bits of members are all of a structure's bits.
fn check_totals(layout: &StructLayout, context: &str) {
    let mut covered = vec![false; usize::try_from(layout.size * 8).unwrap()];
    for member in &layout.members {
        let bits = member.bit_offset..member.bit_offset + member.bit_size;
        bits.for_each(|bit| covered[bit as usize] = true);
    }
    let free = covered.iter().filter(|covered| !**covered).count() as u64;
    let holes: u64 = layout.holes().iter().map(|hole| hole.bit_size).sum();
    assert_eq!(holes + layout.padding_bits(), free, "{context}");
}

/// Checks the declarations' places by the fixture's own source.
fn check_declarations(layout: &StructLayout, context: &str) {
    let Some(decl) = &layout.decl else {
        // rustc says where types are only when asked.
        assert!(context.starts_with("rustc"), "{context}");
        return;
    };
    assert!(decl.file.contains("layouts.c"), "{context}: {decl}");
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/fixtures");
    let name = decl.file.rsplit('/').next().unwrap();
    let source = std::fs::read_to_string(source.join(name)).unwrap();
    let lines: Vec<&str> = source.lines().collect();
    for member in layout.members.iter().filter(|member| member.name.is_some()) {
        let name = member.name.as_deref().unwrap();
        let is_written = !name.starts_with("_vptr");
        if let (Some(decl), true) = (&member.decl, is_written) {
            let line = lines[decl.line as usize - 1];
            assert!(line.contains(name), "{context}: {name}: {line}");
        }
        assert!(member.decl.is_some() || !is_written, "{context}: {name}");
    }
}

/// Compares the variants of Rust enums with the bytes of values of them.
fn compare_variants(file: &mut ObjectFile, output: &str, context: &str) -> usize {
    let mut compared = 0;
    for line in output.lines().filter(|line| line.starts_with("variant|")) {
        let context = format!("{context}: {line}");
        let fields: Vec<&str> = line.split('|').collect();
        let bytes = from_hex(fields[3]);
        let layout = file.struct_layout(fields[1]).expect(&context);
        assert_eq!(layout.size, bytes.len() as u64, "{context}");
        let variants: Vec<_> = layout
            .members
            .iter()
            .filter(|member| member.kind == MemberKind::Variant)
            .collect();
        // An enum of one variant needs nothing that tells variants apart.
        let name = match &layout.discriminant {
            Some(discriminant) => {
                let value = number_at(&bytes, discriminant.bit_offset, discriminant.bit_size);
                let mut list = discriminant.variants.iter();
                let named = list.find(|(_, values)| values.iter().any(|v| v.contains(&value)));
                let mut list = discriminant.variants.iter();
                let otherwise = list.find(|(_, values)| values.is_empty());
                named.or(otherwise).expect(&context).0.to_string()
            }
            None => variants[0].name.as_deref().unwrap().to_owned(),
        };
        assert_eq!(name, fields[2], "{context}: {layout:#?}");
        let variant = variants.iter().find(|v| v.name.as_deref() == Some(&name));
        let variant = variant.expect(&context);
        let payload = file.types().layout(variant.type_id).expect(&context);
        let fields = fields[4].split(',').filter(|field| !field.is_empty());
        for field in fields {
            let (name, wanted) = field.split_once('=').unwrap();
            let mut members = payload.members.iter();
            let member = members.find(|m| m.name.as_deref() == Some(name));
            let member = member.unwrap_or_else(|| panic!("{context}: {payload:#?}"));
            let at = (variant.bit_offset + member.bit_offset) / 8;
            let end = at + member.bit_size / 8;
            assert_eq!(
                bytes[at as usize..end as usize],
                from_hex(wanted),
                "{context}"
            );
            compared += 1;
        }
        compared += 1;
    }
    compared
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits = (0..text.len()).step_by(2);
    digits
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

fn number_at(bytes: &[u8], bit_offset: u64, bit_size: u64) -> u128 {
    let (start, end) = (bit_offset / 8, (bit_offset + bit_size) / 8);
    let bytes = &bytes[start as usize..end as usize];
    let mut wide = [0; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    u128::from_le_bytes(wide)
}

/// Compares an object file that is not linked with what its program prints.
fn compare_object(object: &Fixture, program: &Fixture, context: &str) -> usize {
    let path = object.program.to_str().unwrap();
    let bytes = load(path).unwrap();
    assert!(
        ObjectFile::parse(bytes.clone(), path).is_err(),
        "{context}: it has no addresses"
    );
    let file = ObjectFile::parse_types(bytes, path).unwrap();
    compare_file(file, &program.run(), context)
}

/// Returns true if a compiler is there and takes the flags.
fn takes(compiler: &str, flags: &[&str]) -> bool {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("empty.c");
    std::fs::write(&source, "int empty;\n").unwrap();
    let output = Command::new(compiler)
        .current_dir(directory.path())
        .args(flags)
        .args(["-c", "-o", "empty.o", "empty.c"])
        .output();
    output.is_ok_and(|output| output.status.success())
}

/// Compiles a fixture in each combination of debug formats that the compiler takes, and compares.
fn compare_all(compiler: &str, source: &str, flags: &[&str]) -> BTreeMap<usize, usize> {
    let mut counts = BTreeMap::new();
    let versions = ["-gdwarf-2", "-gdwarf-3", "-gdwarf-4", "-gdwarf-5"];
    let types = ["-fno-debug-types-section", "-fdebug-types-section"];
    let split = ["-gno-split-dwarf", "-gsplit-dwarf"];
    let compression = ["-gz=none", "-gz=zlib", "-gz=zstd"];
    for version in versions {
        for types in types {
            for split in split {
                for compression in compression {
                    let format = [version, types, split, compression, "-w"];
                    let is_old = version < "-gdwarf-4";
                    let is_extra = types == "-fdebug-types-section" || split == "-gsplit-dwarf";
                    if is_old && is_extra || !takes(compiler, &format) {
                        continue;
                    }
                    let all: Vec<&str> = flags.iter().chain(&format).copied().collect();
                    let fixture = Fixture::compile(compiler, source, &all);
                    let context = format!("{compiler} {}", all.join(" "));
                    let members = compare(&fixture, &context);
                    *counts.entry(members).or_default() += 1;
                    for unlinked in [&["-c"][..], &["-r", "-nostdlib"]] {
                        let all: Vec<&str> = all.iter().chain(unlinked).copied().collect();
                        let object = Fixture::compile(compiler, source, &all);
                        let context = format!("{context} {}", unlinked.join(" "));
                        assert_eq!(compare_object(&object, &fixture, &context), members);
                    }
                }
            }
        }
    }
    counts
}

/// Every combination compared all members, and there were some.
fn check_counts(counts: &BTreeMap<usize, usize>, members: usize, at_least: usize) {
    let list: Vec<_> = counts.iter().collect();
    assert_eq!(list.len(), 1, "{counts:?}");
    assert_eq!(*list[0].0, members, "{counts:?}");
    assert!(*list[0].1 >= at_least, "{counts:?}");
}

#[test]
fn c_by_the_hosts_compiler() {
    check_counts(&compare_all("cc", "layouts.c", &["-O1"]), 108, 20);
}

#[test]
fn cpp_by_the_hosts_compiler() {
    let flags = ["-O1", "-std=c++20"];
    check_counts(&compare_all("c++", "layouts.cpp", &flags), 79, 20);
}

#[test]
fn c_and_cpp_by_clang() {
    if !takes("clang", &["-g"]) {
        return;
    }
    check_counts(&compare_all("clang", "layouts.c", &["-O1"]), 108, 10);
    // Without the flag types are only declared where their constructors or tables are not.
    let flags = ["-O1", "-std=c++20", "-fstandalone-debug"];
    check_counts(&compare_all("clang++", "layouts.cpp", &flags), 79, 10);
}

#[test]
fn rust() {
    for level in ["0", "2"] {
        for split in ["off", "unpacked", "packed"] {
            let level = format!("-Copt-level={level}");
            let split = format!("-Csplit-debuginfo={split}");
            let flags = ["--edition=2024", "-Cdebuginfo=2", &level, &split];
            let fixture = Fixture::compile("rustc", "layouts.rs", &flags);
            let context = format!("rustc {}", flags.join(" "));
            assert_eq!(compare(&fixture, &context), 103);
        }
    }
}
