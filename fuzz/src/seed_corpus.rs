//! Writes small inputs for the fuzz targets to begin with: complete files, and files with the
//! damage that the reader knows about. Run from the root of the repository.

use std::fs;
use std::path::Path;

use arbitrary::Unstructured;

fn main() -> std::io::Result<()> {
    let reader = Path::new("fuzz/corpus/trace_reader");
    let codec = Path::new("fuzz/corpus/trace_codec");
    fs::create_dir_all(reader)?;
    fs::create_dir_all(codec)?;
    for seed in 0..20u64 {
        let bytes = noise(seed, 200 << (seed % 6));
        fs::write(codec.join(format!("noise-{seed}")), &bytes)?;
        let Ok(records) = hitm_fuzz::records(&mut Unstructured::new(&bytes)) else {
            continue;
        };
        let (file, _) = hitm_fuzz::file(records);
        fs::write(reader.join(format!("whole-{seed}")), &file)?;
        let half = file.len() / 2;
        fs::write(reader.join(format!("cut-{seed}")), &file[..half])?;
        let mut changed = file.clone();
        changed[half] ^= 1;
        fs::write(reader.join(format!("changed-{seed}")), &changed)?;
    }
    copy_all("machines", "fuzz/corpus/machine_toml")?;
    copy_all("layouts", "fuzz/corpus/layout_file")?;
    copy_all("crates/hitm/tests/fixtures/hwloc", "fuzz/corpus/hwloc_xml")
}

/// Takes every file of a directory as an input.
fn copy_all(from: &str, to: &str) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), Path::new(to).join(entry.file_name()))?;
    }
    Ok(())
}

/// `len` bytes of xorshift: the same for the same seed.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(next).collect()
}
