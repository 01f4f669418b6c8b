//! The feature sections of a file.

use super::out::Out;
use super::{Content, Event, Layout};

pub(super) fn attr(out: &mut Out, event: &Event) {
    const LEN: u32 = 112;
    let start = out.bytes.len();
    out.u32(4);
    out.u32(LEN);
    out.u64(0x1cd);
    out.u64(100);
    out.u64(event.sample_type);
    out.u64(4);
    // mmap, comm, task, sample_id_all, mmap2
    let flags: u64 = 1 << 8 | 1 << 9 | 1 << 13 | 1 << 18 | 1 << 23;
    out.u64(if out.is_big_endian {
        flags.reverse_bits()
    } else {
        flags
    });
    out.bytes.resize(start + LEN as usize, 0);
}

fn build_ids(content: &Content, out: &mut Out) {
    for (path, build_id) in &content.build_ids {
        let is_kernel = path.starts_with("[kernel");
        out.record(67, if is_kernel { 1 } else { 2 }, |out| {
            out.u32(u32::MAX);
            let start = out.bytes.len();
            out.bytes.extend(build_id);
            out.bytes.resize(start + 24, 0);
            out.padded(path, 64);
        });
    }
}

fn cpu_list(content: &Content, node: u32) -> String {
    let per_node = content.cpus / content.nodes;
    format!("{}-{}", node * per_node, (node + 1) * per_node - 1)
}

fn topology(content: &Content, out: &mut Out) {
    let per_node = content.cpus / content.nodes;
    out.u32(content.nodes);
    (0..content.nodes).for_each(|node| out.counted(&cpu_list(content, node)));
    out.u32(content.cpus);
    (0..content.cpus).for_each(|cpu| out.counted(&cpu.to_string()));
    for cpu in 0..content.cpus {
        out.u32(cpu % per_node);
        out.u32(cpu / per_node);
    }
}

/// Version, size of a block, nodes; for each node its number and its blocks, as bits of one word.
fn memory(content: &Content, out: &mut Out) {
    let blocks = content.memory.iter().enumerate();
    [1, 1 << 30, u64::from(content.nodes)]
        .into_iter()
        .for_each(|word| out.u64(word));
    for node in 0..content.nodes {
        let own = blocks.clone().filter(|(_, owner)| **owner == node);
        let bits = own.fold(0u64, |bits, (block, _)| bits | 1 << block);
        let len = content.memory.len() as u64;
        [u64::from(node), len, len, bits]
            .into_iter()
            .for_each(|word| out.u64(word));
    }
}

pub(super) fn features(content: &Content, layout: Layout) -> Vec<(u8, Vec<u8>)> {
    let section = |write: &dyn Fn(&mut Out)| {
        let mut out = Out::new(layout);
        write(&mut out);
        out.bytes
    };
    let mut features = vec![
        (2, section(&|out| build_ids(content, out))),
        (6, section(&|out| out.counted(content.arch))),
        (
            7,
            section(&|out| {
                out.u32(content.cpus);
                out.u32(content.cpus);
            }),
        ),
        (9, section(&|out| out.counted(content.cpuid))),
        (
            12,
            section(&|out| {
                out.u32(content.events.len() as u32);
                out.u32(112);
                for (index, event) in content.events.iter().enumerate() {
                    attr(out, event);
                    out.u32(1);
                    out.counted(event.name);
                    out.u64(10 + index as u64);
                }
            }),
        ),
        (13, section(&|out| topology(content, out))),
        (
            14,
            section(&|out| {
                out.u32(content.nodes);
                for node in 0..content.nodes {
                    out.u32(node);
                    out.u64(1 << 20);
                    out.u64(1 << 10);
                    out.counted(&cpu_list(content, node));
                }
            }),
        ),
    ];
    if !content.memory.is_empty() {
        features.push((22, section(&|out| memory(content, out))));
    }
    if layout.compressed_piece > 0 {
        // Version, type (zstd), level, ratio, and the most bytes in one record.
        features.push((
            27,
            section(&|out| {
                [1, 1, 1, 2, 1 << 20]
                    .into_iter()
                    .for_each(|word| out.u32(word))
            }),
        ));
    }
    for (bit, section) in &content.sections {
        features.retain(|(known, _)| known != bit);
        features.push((*bit, section.clone()));
    }
    features.sort_by_key(|(bit, _)| *bit);
    features
}
