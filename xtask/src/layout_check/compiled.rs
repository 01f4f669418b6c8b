//! The second reading: a C compiler measures the header that bpftool writes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use hitm_layout::{AggregateKind, BtfFile, MemberKind, StructLayout, TypeStore, c_source};

use super::Counts;
use super::kernel::Kernel;

/// Head of the probes' source.
const PRELUDE: &str = "#define BPF_NO_PRESERVE_ACCESS_INDEX\n#include \"vmlinux.h\"\n\
         int printf(const char *, ...);\n\
         static void row(unsigned long offset, unsigned long size)\n\
         { printf(\"%lu %lu\\n\", offset, size); }\n\
         static void bits(const unsigned char *bytes, unsigned long size)\n\
         { unsigned long first = 0, count = 0; for (unsigned long bit = 0; bit < size * 8; bit++)\n\
         if (bytes[bit / 8] >> bit % 8 & 1) { if (!count) first = bit; count++; }\n\
         row(first, count); }\n";

/// One measured quantity, with hitm's value.
struct Probe {
    /// `struct rq.lock`; the structure alone for its size.
    what: String,
    /// C that prints the compiler's values.
    row: String,
    /// Bits from the start, and bits.
    ours: (u64, u64),
}

/// Facts from bpftool's raw dump about the names behind `struct`, `union` and `enum`.
#[derive(Default)]
struct Tags {
    /// Number of definitions of a name: C has one name space for all three.
    count_by_name: BTreeMap<String, usize>,
    /// Enumerations smaller than `int`: bpftool 7.1 does not write that into the header.
    small_enums: BTreeMap<String, &'static str>,
}

impl Tags {
    /// Reads lines such as `[7] ENUM 'rw_hint' encoding=UNSIGNED size=1 vlen=6`.
    fn of(kernel: &Kernel) -> Result<Tags> {
        let output = Command::new("bpftool")
            .args(["btf", "dump", "file"])
            .arg(&kernel.raw)
            .output()
            .context("cannot run bpftool")?;
        let mut tags = Tags::default();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let mut words = line.split_whitespace();
            let kind = words.nth(1).unwrap_or_default();
            if !["STRUCT", "UNION", "ENUM", "ENUM64"].contains(&kind) {
                continue;
            }
            let name = words.next().unwrap_or_default().trim_matches('\'');
            *tags.count_by_name.entry(name.to_owned()).or_default() += 1;
            let mode = match (kind, words.find(|word| word.starts_with("size="))) {
                ("ENUM", Some("size=1")) => "byte",
                ("ENUM", Some("size=2")) => "HI",
                _ => continue,
            };
            tags.small_enums.insert(name.to_owned(), mode);
        }
        Ok(tags)
    }

    /// The header, with the sizes of small enumerations.
    fn mended(&self, header: &str) -> String {
        let mut mended = String::with_capacity(header.len());
        let mut mode = None;
        for line in header.lines() {
            let opened = line
                .strip_prefix("enum ")
                .and_then(|rest| rest.strip_suffix(" {"));
            mode = opened.map_or(mode, |name| self.small_enums.get(name));
            match (line, mode.take_if(|_| line == "};")) {
                (_, Some(mode)) => {
                    let _ = writeln!(mended, "}} __attribute__((mode({mode})));");
                }
                (line, None) => {
                    mended.push_str(line);
                    mended.push('\n');
                }
            }
        }
        mended
    }
}

/// Compares sizes, offsets and bits of all structures with the compiler's.
pub(super) fn compare(
    kernel: &Kernel,
    file: &mut BtfFile,
    names: &[String],
    work: &Path,
    counts: &mut Counts,
) -> Result<()> {
    let tags = Tags::of(kernel)?;
    write_header(kernel, &tags, work)?;
    let is_unique = |name: &&String| {
        tags.count_by_name
            .get(*name)
            .is_none_or(|count| *count == 1)
    };
    let names: Vec<&String> = names.iter().filter(is_unique).collect();
    let mut source = String::from(PRELUDE);
    let mut probes = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let layout = file.struct_layout(name)?;
        let words = match (&layout.name, layout.kind) {
            (None, _) => (*name).clone(),
            (Some(tag), AggregateKind::Union) => format!("union {tag}"),
            (Some(tag), _) => format!("struct {tag}"),
        };
        let _ = writeln!(source, "static void probe_{index}(void) {{");
        let _ = writeln!(
            source,
            "static union {{ {words} v; unsigned char b[sizeof({words}) + 1]; }} u;"
        );
        let first = probes.len();
        probes.push(Probe {
            what: words.clone(),
            row: format!("row(0, sizeof({words}) * 8);\n"),
            ours: (0, layout.size * 8),
        });
        measure(file.types(), &layout, &words, 0, &mut probes);
        source.extend(probes[first..].iter().map(|probe| probe.row.as_str()));
        source.push_str("}\n");
        counts.compiled += 1;
    }
    source.push_str("int main(void) {\n");
    for index in 0..names.len() {
        let _ = writeln!(source, "probe_{index}();");
    }
    source.push_str("return 0; }\n");
    let measured = build_and_run(work, &source)?;
    ensure!(
        measured.len() == probes.len(),
        "{} rows for {} probes",
        measured.len(),
        probes.len()
    );
    for (probe, theirs) in probes.iter().zip(measured) {
        if probe.ours != theirs {
            let (what, ours) = (&probe.what, probe.ours);
            counts.differences.push(format!(
                "{what}: the compiler says bits {theirs:?}, hitm {ours:?}"
            ));
        }
    }
    let is_member = |probe: &&Probe| probe.what.contains('.');
    let members = probes.iter().filter(is_member).count();
    counts.members += members;
    counts.bit_fields += source.matches("bits(u.b").count();
    Ok(())
}

/// Writes bpftool's header.
fn write_header(kernel: &Kernel, tags: &Tags, work: &Path) -> Result<()> {
    let header = Command::new("bpftool")
        .args(["btf", "dump", "file"])
        .arg(&kernel.raw)
        .args(["format", "c"])
        .output()
        .context("cannot run bpftool")?;
    ensure!(
        header.status.success(),
        "bpftool cannot dump {}",
        kernel.raw.display()
    );
    let header = tags.mended(&String::from_utf8_lossy(&header.stdout));
    std::fs::write(work.join("vmlinux.h"), header)?;
    Ok(())
}

/// Writes a probe for each member, with those of anonymous structures.
fn measure(
    store: &TypeStore,
    layout: &StructLayout,
    words: &str,
    base: u64,
    probes: &mut Vec<Probe>,
) {
    for member in &layout.members {
        let bit_offset = base + member.bit_offset;
        let Some(name) = &member.name else {
            if let Some(inner) = store.layout(member.type_id) {
                measure(store, inner, words, bit_offset, probes);
            }
            continue;
        };
        let row = if member.kind == MemberKind::BitField {
            format!(
                "__builtin_memset(&u, 0, sizeof u); u.v.{name} = -1; bits(u.b, sizeof({words}));\n"
            )
        } else if member.bit_size == 0 {
            format!("row(__builtin_offsetof({words}, {name}) * 8, 0);\n")
        } else {
            format!("row(__builtin_offsetof({words}, {name}) * 8, sizeof(u.v.{name}) * 8);\n")
        };
        probes.push(Probe {
            row,
            what: format!("{words}.{name}"),
            ours: (bit_offset, member.bit_size),
        });
    }
}

/// Compiles and runs the probes; returns a pair of numbers for each.
fn build_and_run(work: &Path, source: &str) -> Result<Vec<(u64, u64)>> {
    std::fs::write(work.join("probes.c"), source)?;
    let compiled = Command::new("cc")
        .current_dir(work)
        .args(["-std=gnu11", "-w", "-O0", "-o", "probes", "probes.c"])
        .output()
        .context("cannot run cc")?;
    if !compiled.status.success() {
        let errors = String::from_utf8_lossy(&compiled.stderr).into_owned();
        let first: Vec<&str> = errors.lines().take(10).collect();
        bail!("probes.c does not compile: {}", first.join("\n"));
    }
    let output = Command::new(work.join("probes")).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let row = |line: &str| {
        let (offset, size) = line.split_once(' ').context("a row has two numbers")?;
        Ok((offset.parse()?, size.parse()?))
    };
    text.lines().map(row).collect()
}

/// Writes a structure as C and has its assertions checked.
pub(super) fn as_c(file: &mut BtfFile, name: &str, work: &Path, counts: &mut Counts) -> Result<()> {
    let layout = file.struct_layout(name)?;
    counts.as_c += 1;
    let source = match c_source(file.types(), &layout, name) {
        Ok(source) => source,
        Err(cause) => {
            counts
                .differences
                .push(format!("{name} is not written as C: {cause}"));
            return Ok(());
        }
    };
    std::fs::write(work.join("shown.c"), source)?;
    let output = Command::new("cc")
        .current_dir(work)
        .args(["-fsyntax-only", "shown.c"])
        .output()?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let first = errors
            .lines()
            .find(|line| line.contains("error"))
            .unwrap_or("");
        counts.differences.push(format!("{name} as C: {first}"));
    }
    Ok(())
}
