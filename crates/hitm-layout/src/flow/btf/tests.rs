//! Members by BTF, instruction by instruction. Encodings are the GNU assembler's and llvm-mc's.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use hitm_test::btf::{Assembler, Info, kind};

use super::*;

/// Instructions, each with its bytes.
type Code = &'static [(&'static str, &'static [u8])];

/// The types and functions of a small kernel.
fn kernel() -> Assembler {
    let mut btf = Assembler::new(false);
    let int = btf.int("int", 4);
    let long = btf.int("long int", 8);
    let raw = btf.structure("raw_spinlock", 4, &[("val", int, 0)]);
    let lock = btf.structure("spinlock", 4, &[("rlock", raw, 0)]);
    let inode = btf.structure("inode", 16, &[("size", long, 0), ("nlink", int, 64)]);
    let inodes = btf.of(kind::PTR, "", inode);
    let members = [
        ("count", long, 0),
        ("flags", long, 64),
        ("inode", inodes, 128),
    ];
    let file = btf.structure("file", 24, &members);
    let table = btf.structure("fdtable", 8, &[("max", int, 0)]);
    let tables = btf.of(kind::PTR, "", table);
    let members = [
        ("count", int, 0),
        ("next", int, 32),
        ("file_lock", lock, 64),
        ("fdt", tables, 128),
    ];
    let files = btf.structure("files_struct", 24, &members);
    let to_files = btf.of(kind::PTR, "", files);
    let to_entity = btf.next_id() + 1;
    let members = [("parent", to_entity, 0), ("runs", int, 64)];
    let entity = btf.structure("sched_entity", 16, &members);
    btf.of(kind::PTR, "", entity);
    let members = [
        ("state", long, 0),
        ("files", to_files, 64),
        ("se", entity, 128),
    ];
    let task = btf.structure("task_struct", 32, &members);
    let to_task = btf.of(kind::PTR, "", task);
    let to_file = btf.of(kind::PTR, "", file);
    let to_raw = btf.of(kind::PTR, "", raw);
    let queue = btf.structure("rq", 8, &[("lock", lock, 0), ("running", int, 32)]);
    let mut variables = Vec::new();
    for (name, of, offset) in [
        ("current_task", to_task, 0x40),
        ("this_cpu_off", long, 0x48),
        ("runqueues", queue, 0x80),
    ] {
        let id = btf.record(name, Info::of(kind::VAR), of, &[1]);
        variables.extend([id, offset, 8]);
    }
    let section = Info::new(kind::DATASEC, false, 3);
    btf.record(".data..percpu", section, 0x1000, &variables);
    btf.function("open_file", int, &[to_file]);
    btf.function("results", int, &[to_task]);
    btf.function("take", 0, &[]);
    btf.function("groups", 0, &[to_task]);
    btf.function("queues", 0, &[int]);
    btf.function("get_files", to_files, &[to_task]);
    btf.function("lock", 0, &[to_raw]);
    let pair = btf.structure("pair", 16, &[("file", to_file, 0), ("task", to_task, 64)]);
    let large = btf.structure("large", 24, &[("pair", pair, 0), ("more", long, 128)]);
    let named = btf.of(kind::TYPEDEF, "inode_t", inodes);
    let fixed = btf.of(kind::CONST, "", named);
    btf.function("by_value", 0, &[pair, large, fixed, to_files]);
    btf
}

/// Functions by address.
fn name_of(address: u64) -> Option<String> {
    let name = match address {
        0x1000 => "__fentry__",
        0x1100 => "get_files.isra.0",
        0x1200 => "unknown",
        0x1300 => "lock",
        0x3000 => "__per_cpu_offset",
        _ => return None,
    };
    Some(name.to_owned())
}

fn flow(btf: &Assembler, architecture: Architecture) -> BtfFlow<fn(u64) -> Option<String>> {
    let btf = BtfFile::parse(btf.finish().into(), None, "the kernel").unwrap();
    BtfFlow::new(btf, architecture, name_of)
}

fn bytes_of(code: Code) -> Vec<u8> {
    code.iter().flat_map(|insn| insn.1).copied().collect()
}

/// The instructions that access a member, and the calls that are given a pointer into an object.
fn show<N: Fn(u64) -> Option<String>>(
    flow: &mut BtfFlow<N>,
    name: &str,
    begin: u64,
    code: Code,
) -> String {
    let bytes = bytes_of(code);
    let code_bytes = CodeBytes {
        begin,
        bytes: &bytes,
    };
    let function = KernelFunction {
        name,
        code: code_bytes,
    };
    let mut text = String::new();
    let mut at = begin;
    for (source, bytes) in code {
        let after = at + bytes.len() as u64;
        if let Some(found) = flow.access(&function, at) {
            let _ = writeln!(text, "{source:30} {}", flow.path(&found).text);
        }
        for number in 0..8 {
            if let Some(found) = flow.argument(&function, after, number) {
                let place = (flow.name(&found), found.offset);
                let _ = writeln!(text, "{source:30} {number}: {}+{}", place.0, place.1);
            }
        }
        at = after;
    }
    text
}

fn check(name: &str, begin: u64, code: Code, expected: &Expect) {
    let mut flow = flow(&kernel(), Architecture::X86_64);
    expected.assert_eq(&show(&mut flow, name, begin, code));
}

/// A function that is given a file, behind the call of a tracer.
const OPEN_FILE: Code = &[
    ("endbr64", &[0xf3, 0x0f, 0x1e, 0xfa]),
    ("call fentry", &[0xe8, 0xf7, 0x0f, 0xff, 0xff]),
    ("mov 0x10(%rdi),%rax", &[0x48, 0x8b, 0x47, 0x10]),
    ("mov 0x8(%rax),%ecx", &[0x8b, 0x48, 0x08]),
    ("lea 0x8(%rdi),%rbx", &[0x48, 0x8d, 0x5f, 0x08]),
    ("lock incl -0x8(%rbx)", &[0xf0, 0xff, 0x43, 0xf8]),
    ("ret", &[0xc3]),
];

/// A function that is given a task, and calls others.
const RESULTS: Code = &[
    ("push %rbx", &[0x53]),
    ("mov %rdi,%rbx", &[0x48, 0x89, 0xfb]),
    ("call get_files", &[0xe8, 0xd7, 0x10, 0xff, 0xff]),
    ("mov 0x10(%rax),%rdx", &[0x48, 0x8b, 0x50, 0x10]),
    ("mov (%rdx),%ecx", &[0x8b, 0x0a]),
    ("mov 0x8(%rbx),%rdx", &[0x48, 0x8b, 0x53, 0x08]),
    ("mov 0x4(%rdi),%ecx", &[0x8b, 0x4f, 0x04]),
    ("call unknown", &[0xe8, 0xc5, 0x11, 0xff, 0xff]),
    ("mov (%rax),%ecx", &[0x8b, 0x08]),
    ("pop %rbx", &[0x5b]),
    ("ret", &[0xc3]),
];

/// A function that takes the lock of its task's files.
const TAKE: Code = &[
    ("call fentry", &[0xe8, 0xbb, 0x0f, 0xff, 0xff]),
    ("push %rbx", &[0x53]),
    (
        "mov %gs:0x40,%rax",
        &[0x65, 0x48, 0x8b, 0x04, 0x25, 0x40, 0x00, 0x00, 0x00],
    ),
    ("mov 0x8(%rax),%rbx", &[0x48, 0x8b, 0x58, 0x08]),
    ("lea 0x8(%rbx),%rdi", &[0x48, 0x8d, 0x7b, 0x08]),
    ("call lock", &[0xe8, 0xa4, 0x12, 0xff, 0xff]),
    ("mov 0x10(%rbx),%rax", &[0x48, 0x8b, 0x43, 0x10]),
    ("mov %rbx,%rdi", &[0x48, 0x89, 0xdf]),
    ("call unknown", &[0xe8, 0x98, 0x11, 0xff, 0xff]),
    ("mov 0x4(%rdi),%eax", &[0x8b, 0x47, 0x04]),
    ("pop %rbx", &[0x5b]),
    ("ret", &[0xc3]),
];

/// A function that is given a file, with code that a jump leads to when it is patched in.
const PATCHED: Code = &[
    ("push %rbx", &[0x53]),
    ("mov %rdi,%rbx", &[0x48, 0x89, 0xfb]),
    ("mov 0x8(%rbx),%eax", &[0x8b, 0x43, 0x08]),
    ("pop %rbx", &[0x5b]),
    ("ret", &[0xc3]),
    ("mov $0x7,%edi", &[0xbf, 0x07, 0x00, 0x00, 0x00]),
    ("call unknown", &[0xe8, 0x6d, 0x11, 0xff, 0xff]),
    ("mov $0x0,%ebx", &[0xbb, 0x00, 0x00, 0x00, 0x00]),
    ("jmp patched+0x4", &[0xeb, 0xea]),
];

/// A function that is given the number of a CPU, and changes its queue and that of the CPU that runs.
const QUEUES: Code = &[
    ("movslq %edi,%rdi", &[0x48, 0x63, 0xff]),
    (
        "mov $0x80,%rbx",
        &[0x48, 0xc7, 0xc3, 0x80, 0x00, 0x00, 0x00],
    ),
    (
        "add 0x3000(,%rdi,8),%rbx",
        &[0x48, 0x03, 0x1c, 0xfd, 0x00, 0x30, 0x00, 0x00],
    ),
    (
        "movl $0x1,0x4(%rbx)",
        &[0xc7, 0x43, 0x04, 0x01, 0x00, 0x00, 0x00],
    ),
    (
        "mov 0x3000(,%rdi,8),%rax",
        &[0x48, 0x8b, 0x04, 0xfd, 0x00, 0x30, 0x00, 0x00],
    ),
    (
        "movl $0x1,0x84(%rax)",
        &[0xc7, 0x80, 0x84, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00],
    ),
    (
        "mov $0x80,%rcx",
        &[0x48, 0xc7, 0xc1, 0x80, 0x00, 0x00, 0x00],
    ),
    (
        "add %gs:0x48,%rcx",
        &[0x65, 0x48, 0x03, 0x0c, 0x25, 0x48, 0x00, 0x00, 0x00],
    ),
    (
        "movl $0x1,0x4(%rcx)",
        &[0xc7, 0x41, 0x04, 0x01, 0x00, 0x00, 0x00],
    ),
    ("lea (%rbx),%rdi", &[0x48, 0x8d, 0x3b]),
    ("call lock", &[0xe8, 0x16, 0x12, 0xff, 0xff]),
    ("ret", &[0xc3]),
];

/// A function that is given structures.
const BY_VALUE: Code = &[
    ("mov (%rdi),%eax", &[0x8b, 0x07]),
    ("mov (%rsi),%eax", &[0x8b, 0x06]),
    ("mov (%rdx),%eax", &[0x8b, 0x02]),
    ("mov 0x4(%rcx),%eax", &[0x8b, 0x41, 0x04]),
    ("ret", &[0xc3]),
];

/// The kernel's bpf_get_current_task, and a load from the task.
const CURRENT: Code = &[
    (
        "mov %gs:0x1000(%rip),%rax",
        &[0x65, 0x48, 0x8b, 0x05, 0x00, 0x10, 0x00, 0x00],
    ),
    ("mov 0x8(%rax),%rax", &[0x48, 0x8b, 0x40, 0x08]),
    ("ret", &[0xc3]),
];

/// A function that is given a file, and takes the lock of its task's files.
const AARCH64: Code = &[
    ("bti c", &[0x5f, 0x24, 0x03, 0xd5]),
    ("mov x9, x30", &[0xe9, 0x03, 0x1e, 0xaa]),
    ("bl fentry", &[0xfe, 0xc3, 0xff, 0x97]),
    ("ldr x1, [x0, #16]", &[0x01, 0x08, 0x40, 0xf9]),
    ("ldr w2, [x1, #8]", &[0x22, 0x08, 0x40, 0xb9]),
    ("mrs x3, sp_el0", &[0x03, 0x41, 0x38, 0xd5]),
    ("ldr x4, [x3, #8]", &[0x64, 0x04, 0x40, 0xf9]),
    ("add x0, x4, #8", &[0x80, 0x20, 0x00, 0x91]),
    ("bl lock", &[0xb8, 0xc4, 0xff, 0x97]),
    ("mrs x5, tpidr_el1", &[0x85, 0xd0, 0x38, 0xd5]),
    ("mov x6, #128", &[0x06, 0x10, 0x80, 0xd2]),
    ("add x6, x6, x5", &[0xc6, 0x00, 0x05, 0x8b]),
    ("ldr w7, [x6, #4]", &[0xc7, 0x04, 0x40, 0xb9]),
    ("ret", &[0xc0, 0x03, 0x5f, 0xd6]),
];

/// A function that is given a task, and goes through the groups of tasks that it is in.
const GROUPS: Code = &[
    ("lea 0x10(%rdi),%rbx", &[0x48, 0x8d, 0x5f, 0x10]),
    ("incl 0x8(%rbx)", &[0xff, 0x43, 0x08]),
    ("mov (%rbx),%rbx", &[0x48, 0x8b, 0x1b]),
    ("test %rbx,%rbx", &[0x48, 0x85, 0xdb]),
    ("jne groups+0x4", &[0x75, 0xf5]),
    ("ret", &[0xc3]),
];

#[test]
fn a_parameter_and_what_its_members_point_at() {
    check(
        "open_file",
        0x10000,
        OPEN_FILE,
        &expect![[r#"
        mov 0x10(%rdi),%rax            file.inode
        mov 0x8(%rax),%ecx             inode.nlink
        lock incl -0x8(%rbx)           file.count
    "#]],
    );
}

#[test]
fn results_of_calls_and_what_calls_leave() {
    check(
        "results",
        0x10020,
        RESULTS,
        &expect![[r#"
        call get_files                 0: task_struct+0
        mov 0x10(%rax),%rdx            files_struct.fdt
        mov (%rdx),%ecx                fdtable.max
        mov 0x8(%rbx),%rdx             task_struct.files
        call unknown                   2: files_struct+0
    "#]],
    );
}

#[test]
fn the_function_that_takes_a_lock_says_which_object_has_it() {
    check(
        "take",
        0x10040,
        TAKE,
        &expect![[r#"
        mov 0x8(%rax),%rbx             task_struct.files
        call lock                      0: files_struct+8
        mov 0x10(%rbx),%rax            files_struct.fdt
        call unknown                   0: files_struct+0
    "#]],
    );
}

/// Code that nothing leads to does not take away what is known where it jumps.
#[test]
fn jumps_that_are_patched_in() {
    check(
        "open_file",
        0x10080,
        PATCHED,
        &expect![[r#"
        mov 0x8(%rbx),%eax             file.flags
    "#]],
    );
}

#[test]
fn variables_of_each_cpu() {
    check(
        "queues",
        0x100a0,
        QUEUES,
        &expect![[r#"
        movl $0x1,0x4(%rbx)            rq.running
        movl $0x1,0x84(%rax)           rq.running
        movl $0x1,0x4(%rcx)            rq.running
        call lock                      0: rq+0
        call lock                      3: rq+0
    "#]],
    );
}

#[test]
fn structures_in_registers() {
    check(
        "by_value",
        0x10100,
        BY_VALUE,
        &expect![[r#"
        mov (%rdi),%eax                file.count
        mov (%rsi),%eax                task_struct.state
        mov (%rdx),%eax                inode.size
        mov 0x4(%rcx),%eax             files_struct.next
    "#]],
    );
}

#[test]
fn aarch64() {
    let mut flow = flow(&kernel(), Architecture::Aarch64);
    let text = show(&mut flow, "open_file", 0x10000, AARCH64);
    expect![[r#"
        ldr x1, [x0, #16]              file.inode
        ldr w2, [x1, #8]               inode.nlink
        ldr x4, [x3, #8]               task_struct.files
        bl lock                        0: files_struct+8
        bl lock                        1: inode+0
        bl lock                        3: task_struct+0
        bl lock                        4: files_struct+0
        ldr w7, [x6, #4]               rq.running
    "#]]
    .assert_eq(&text);
}

/// A pointer into an object, or to such a part alone, is one to the part.
#[test]
fn parts_of_objects_and_such_alone() {
    check(
        "groups",
        0x10000,
        GROUPS,
        &expect![[r#"
        incl 0x8(%rbx)                 sched_entity.runs
        mov (%rbx),%rbx                sched_entity.parent
    "#]],
    );
}

/// Linux 6.15 and later have them among all other addresses.
#[test]
fn variables_of_each_cpu_are_where_the_kernel_has_them() {
    let mut flow = flow(&kernel(), Architecture::X86_64);
    let (begin, code) = (0x10120, CURRENT);
    assert_eq!(show(&mut flow, "current", begin, code), "");
    let bytes = bytes_of(code);
    flow.set_current(CodeBytes {
        begin,
        bytes: &bytes,
    });
    expect![[r#"
        mov 0x8(%rax),%rax             task_struct.files
    "#]]
    .assert_eq(&show(&mut flow, "current", begin, code));
    assert_eq!(show(&mut flow, "queues", 0x100a0, QUEUES), "");
}

#[test]
fn functions_of_one_name_with_several_prototypes_are_not_known() {
    let mut btf = kernel();
    let long = btf.int("long int", 8);
    btf.function("open_file", long, &[long]);
    let mut flow = flow(&btf, Architecture::X86_64);
    assert_eq!(show(&mut flow, "open_file", 0x10000, OPEN_FILE), "");
    // Another name has no entry.
    assert_eq!(show(&mut flow, "open_file.cold", 0x10000, OPEN_FILE), "");
}

/// Prototypes that no compiler makes are none, or have fewer parameters.
#[test]
fn damaged_prototypes() {
    let mut btf = kernel();
    let end = btf.next_id();
    btf.of(kind::FUNC, "of_itself", end);
    btf.of(kind::FUNC, "of_nothing", 0);
    btf.of(kind::FUNC, "of_a_structure", 3);
    let many = vec![1; 0xffff];
    btf.function("of_many", 1, &many);
    btf.function("of_strange", u32::MAX, &[u32::MAX, 0, end]);
    for _ in 0..100 {
        btf.function("of_a_crowd", 1, &[1]);
    }
    let mut flow = flow(&btf, Architecture::X86_64);
    for name in [
        "of_itself",
        "of_nothing",
        "of_a_structure",
        "of_many",
        "of_strange",
        "of_a_crowd",
    ] {
        assert_eq!(show(&mut flow, name, 0x10000, OPEN_FILE), "", "{name}");
    }
    let parameters = |name, flow: &mut BtfFlow<_>| {
        let found = flow.btf().prototype(name);
        found.map(|prototype| prototype.parameters.len())
    };
    assert_eq!(parameters("of_many", &mut flow), Some(8));
    assert_eq!(parameters("of_a_crowd", &mut flow), None);
}

#[test]
fn no_code_is_no_function() {
    let mut flow = flow(&kernel(), Architecture::X86_64);
    for begin in [0, 0x10000, u64::MAX] {
        assert_eq!(show(&mut flow, "open_file", begin, &[]), "");
    }
}
