//! Writes small inputs for the fuzz targets to begin with: complete files, files with the damage that
//! the reader knows about, and what the compilers of this host make. Run from the root of the repository.

use std::fs;
use std::path::Path;
use std::process::Command;

use hitm_test::perf_data::{self as generator, vendors};
use hitm_test::{Choices, noise, recording};

fn main() -> std::io::Result<()> {
    let reader = Path::new("fuzz/corpus/trace_reader");
    fs::create_dir_all(reader)?;
    for seed in 0..20u64 {
        let bytes = noise(seed, 200 << (seed % 6));
        let (file, _) = recording::file(recording::records(&mut Choices::new(&bytes)));
        fs::write(reader.join(format!("whole-{seed}")), &file)?;
        let half = file.len() / 2;
        fs::write(reader.join(format!("cut-{seed}")), &file[..half])?;
        let mut changed = file.clone();
        changed[half] ^= 1;
        fs::write(reader.join(format!("changed-{seed}")), &changed)?;
    }
    programs(Path::new("fuzz/corpus/elf_dwarf"))?;
    perf_files()?;
    copy_all("machines", "fuzz/corpus/machine_toml")?;
    copy_all("layouts", "fuzz/corpus/layout_file")?;
    copy_all("profiles", "fuzz/corpus/profile_csv")?;
    copy_all(
        "crates/hitm-cli/tests/fixtures/published",
        "fuzz/corpus/perf_c2c_text",
    )?;
    written("fuzz/corpus/layout_rules", "every-rule", RULES)?;
    written("fuzz/corpus/guest_text", "each", GUEST)?;
    written("fuzz/corpus/journal", "each", JOURNAL)?;
    written("fuzz/corpus/live_recording", "kernel", LIVE_KERNEL)?;
    written("fuzz/corpus/live_recording", "program", LIVE_PROGRAM)?;
    written("fuzz/corpus/sim_profile", "one-line", SIMULATED)?;
    copy_all("plans", "fuzz/corpus/plan")?;
    copy_all("examples", "fuzz/corpus/source_edits")?;
    copy_all("scenarios/000-root-domain", "fuzz/corpus/scenario")?;
    copy_all("scenarios/001-rt-balancing", "fuzz/corpus/scenario")?;
    copy_all(
        "crates/hitm-machine/tests/fixtures/hwloc",
        "fuzz/corpus/hwloc_xml",
    )?;
    MADE.iter().try_for_each(|target| noises(target))
}

/// Targets whose bytes are choices.
const MADE: [&str; 14] = [
    "canary",
    "made_btf",
    "made_elf_dwarf",
    "made_layout",
    "made_machine",
    "made_perf_data",
    "made_perf_script",
    "made_plan",
    "made_replay",
    "made_rt_app",
    "made_scenario",
    "made_trace",
    "replay",
    "trace_codec",
];

/// Writes noise of several lengths.
fn noises(target: &str) -> std::io::Result<()> {
    let folder = Path::new("fuzz/corpus").join(target);
    fs::create_dir_all(&folder)?;
    for seed in 0..60u64 {
        let bytes = noise(seed, 16 << (seed % 6));
        fs::write(folder.join(format!("noise-{seed}")), bytes)?;
    }
    Ok(())
}

/// A rule of each kind.
const RULES: &str = "schema = 1\nline_size_bytes = 64\n[[rule]]\nstruct = \"rq\"\n\
    separate = [[\"a\"], [\"b\", \"c\"]]\nwithin_lines = { members = [\"a\"], lines = 1 }\n\
    size_max_bytes = 64\nno_straddle = [\"b\"]\n";

/// Lines of each list.
const GUEST: &str = "0000000000036040 A runqueues\nffffffff81000000 T _text\nffffffff82000000 B _end\n\
    M 00400000-00401000 r-xp 00001000 00:02 1234   /hitm/bin/fifo_pool\nP 4c6000 1a2b000 3\n\
    V 0xffffc90000008000-0xffffc9000000d000   20480 dup_task_struct+0x5f/0x2d0 pages=4 vmalloc\n\
    map\nspan 0 40 8\nobject ffff888000000000 80 1000\n";

/// A record of each kind; the target adds the head and the checksums.
const JOURNAL: &str = "control /cg/a%20b/cgroup.subtree_control\ngroup /cg/a%20b/hitm-7-900\n\
    process 10 5 10 9 whole free 0-15\ntask 11 5 10 bound 0-3,8\nguard 8 901\n";

/// A live recording of one rwsem, by samples and by tracepoints.
const LIVE_KERNEL: &str = r#"{"hitm_live":1,"kernel":"6","cpu_count":4,"target":"t","layers":[],"missing":[],
"period_ns":1000000,"duration_ns":9,"lost_count":3,"threads":[{"pid":7,"tid":7,"comm":"a","start_ticks":1}],
"names":["f","down_write","rwsem_down_write_slowpath"],
"stacks":[{"kernel":[2,1,0],"user":[]},{"kernel":[0],"user":[]}],
"objects":[{"file":{"inode":"8:1:7","path":"/f"}},{"futex":{"pid":7,"address":4096}}],
"samples":[{"thread":0,"stack":0,"object":0,"count":40},{"thread":0,"stack":1,"count":60}],
"waits":[{"thread":0,"stack":0,"lock":64,"count":5,"wait_ns":90000000,"longest_ns":7}]}"#;

/// A live recording of one mutex of a program.
const LIVE_PROGRAM: &str = r#"{"hitm_live":1,"kernel":"6","cpu_count":4,"target":"t","layers":[],"missing":[],
"period_ns":0,"duration_ns":9,"lost_count":0,"threads":[],"names":[],"stacks":[],"objects":[],"samples":[],
"program":{"processes":[{"pid":7,"parent":1,"comm":"a"}],"locks":[{"process":0,"address":4096,"kind":"mutex","variable":"v",
"call_site":{"address":1,"module":{"path":"/p","offset":1},"name":"f"},"wait_site":null,"acquisitions":9,
"contended":3,"refused":0,"signals":0,"handovers":2,"wait_ns":5,"wait_max_ns":4,"held_ns":7,"held_max_ns":7,
"held_contended_ns":7,"ran_held_contended_ns":7,"ran_cycle_contended_ns":17,"ran_held_ns":7,"ran_cycle_ns":17,
"threads":[7],"thread_count":1}],"threads":[],"losses":{"loaded":1,"acquisitions":0,"operations":0,
"stale_holds":0,"processes":0,"threads":0,"modules":0}}}"#;

/// A result of `hitm sim` with what a profile needs.
const SIMULATED: &str = r#"{ "schema": 1, "scenario": "s", "machine": "m", "variants": [
    { "variant": "v", "layout": "l", "runs": [ { "seed": 1, "work_cycles_mean": 1000.5, "lines": [
    { "object": "root_domain", "object_count": 1, "rows": [ { "member": "rto_count", "function": "f",
    "load_count": 3, "store_count": 2, "locked_count": 1, "cpus": "0-3 8" } ] } ] } ] } ] }"#;

/// Writes one input.
fn written(folder: &str, name: &str, text: &str) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(Path::new(folder).join(name), text)
}

/// Source of the seed for `elf_dwarf`.
const SOURCE: &str = "enum e { A, B };\nunion u { int i; char c[9]; };\n\
    struct s { char c; int b : 3, d : 9; union { long l; struct { short x, y; }; }; struct s *n;\n\
    union u u[2][3]; enum e e; void (*f)(struct s *); long tail[]; };\n\
    typedef struct s t;\nt object = {1};\n\
    static inline int inner(int x) { return x + object.b; }\n\
    int outer(int x) { static t local; return inner(x) + local.c; }\n";

/// Small shared libraries in each form of debug information: alone, and before the file that holds
/// what they leave out.
fn programs(to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    let work = to.join("../elf_dwarf_work");
    fs::create_dir_all(&work)?;
    fs::write(work.join("s.c"), SOURCE)?;
    let run = |program: &str, flags: &[&str]| {
        let status = Command::new(program)
            .current_dir(&work)
            .args(flags)
            .status();
        status.is_ok_and(|status| status.success())
    };
    let forms: [&[&str]; 8] = [
        &["-gdwarf-3"],
        &["-gdwarf-4"],
        &["-gdwarf-5"],
        &["-gdwarf-4", "-fdebug-types-section"],
        &["-gdwarf-5", "-fdebug-types-section"],
        &["-gdwarf-4", "-gsplit-dwarf", "-fdebug-types-section"],
        &["-gdwarf-5", "-gsplit-dwarf"],
        &["-gdwarf-5", "-gsplit-dwarf", "-fdebug-types-section"],
    ];
    for (number, form) in forms.into_iter().enumerate() {
        let common = ["-O2", "-fPIC", "-shared", "-nostdlib", "-o", "s.so", "s.c"];
        if !run("cc", &[&common[..], form].concat()) {
            continue;
        }
        let program = fs::read(work.join("s.so"))?;
        fs::write(to.join(format!("form-{number}")), &program)?;
        for format in ["zlib", "zlib-gnu", "zstd"] {
            let flag = format!("--compress-debug-sections={format}");
            if run("objcopy", &[&flag, "s.so", "packed.so"]) {
                let to = to.join(format!("form-{number}-{format}"));
                fs::copy(work.join("packed.so"), to)?;
            }
        }
        if form.contains(&"-gsplit-dwarf") {
            // The `llvm-dwp` of LLVM 14 does not end on version 5's lists of ranges.
            let packed =
                form.contains(&"-gdwarf-4") && run("llvm-dwp", &["-e", "s.so", "-o", "s.dwp"]);
            let others = if packed {
                &["s.so-s.dwo", "s.dwp"][..]
            } else {
                &["s.so-s.dwo"]
            };
            for other in others {
                let other_bytes = fs::read(work.join(other))?;
                let length = (program.len() as u32).to_le_bytes();
                let both = [&length[..], &program, &other_bytes].concat();
                fs::write(to.join(format!("form-{number}-{other}")), both)?;
            }
        }
    }
    Ok(())
}

/// perf.data of each vendor in each layout, and a line of each kind of perf's text.
fn perf_files() -> std::io::Result<()> {
    let folder = Path::new("fuzz/corpus/perf_data");
    fs::create_dir_all(folder)?;
    let of_vendor = [
        (
            "x86_64",
            vendors::intel(),
            generator::bits::WEIGHT | generator::bits::CALLCHAIN | generator::bits::PHYS_ADDR,
        ),
        ("x86_64", vendors::amd(), generator::bits::WEIGHT_STRUCT),
        (
            "aarch64",
            vendors::arm(),
            generator::bits::WEIGHT | generator::bits::CALLCHAIN,
        ),
    ];
    for (vendor, (arch, words, weight)) in of_vendor.iter().enumerate() {
        let mut content = vendors::content(arch, "vendor,1,2,3", words, *weight);
        content.samples.truncate(40);
        content.memory = vec![0, 1, 0, 0, 1];
        content.happened = vec![
            (1_010_000, generator::Happened::Ended(100, 101)),
            (1_020_000, generator::Happened::Ended(100, 100)),
            (1_030_000, generator::Happened::Began(100)),
            (1_030_000, generator::Happened::Named(100, "other")),
            (
                1_030_000,
                generator::Happened::Mapped(generator::Mapped {
                    pid: 100,
                    start: vendors::CODE,
                    len: 0x1000,
                    path: "/other",
                }),
            ),
        ];
        for layout in 0..8usize {
            let mut form = generator::Layout::PLAIN;
            form.is_big_endian = layout & 1 != 0;
            form.is_pipe = layout & 2 != 0;
            if layout & 4 != 0 {
                form.compressed_piece = 700;
            }
            let layout = form;
            let name = format!("{vendor}-{layout:?}").replace([' ', '{', '}', ':', ','], "");
            fs::write(folder.join(name), generator::generate(&content, layout))?;
        }
    }
    let folder = Path::new("fuzz/corpus/perf_script");
    fs::create_dir_all(folder)?;
    let line = "100/101 [002]  1.000104: cpu/mem-loads,ldlat=30/P: 7f00 183601808042 |OP LOAD|SNP HitM\
        |BLK  N/A  361  401370 main+0x10\n";
    fs::write(folder.join("lines"), format!("# perf\n{line}{line}"))
}

/// Takes every file of a directory as an input, without the folders inside.
fn copy_all(from: &str, to: &str) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), Path::new(to).join(entry.file_name()))?;
        }
    }
    Ok(())
}
