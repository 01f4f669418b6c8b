use hitm_bpf::KernelPeek;

use crate::with_bpf;

/// Address of a function in /proc/kallsyms.
fn address_of(name: &str) -> u64 {
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap();
    let line = symbols.lines().find(|line| line.ends_with(name)).unwrap();
    u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
}

#[test]
fn the_kernels_code_is_read_and_what_is_no_memory_is_refused() {
    with_bpf("the kernel's memory", || {
        let peek = KernelPeek::load().unwrap();
        let text = address_of(" _text");
        let whole = peek.read(text, 10_000).unwrap();
        assert_eq!(whole.len(), 10_000);
        assert!(whole.iter().any(|byte| *byte != 0));
        assert_eq!(peek.read(text + 5_000, 100).unwrap(), whole[5_000..5_100]);
        assert!(peek.read(text, 0).unwrap().is_empty());
        assert!(peek.read(0x1000, 8).is_err());
        assert!(peek.read(u64::MAX - 4, 8).is_err());
    });
}
