//! Files that people write, and those of other programs about machines, of which one number grows.

use std::fmt::Write as _;

use serde_json::json;

use super::{Files, Input, programs};
use crate::recording::MACHINE;

const ADVISE: &str = "layout advise s -i x.toml -p profile.csv --machine milan-2s";
const COMPARE: &str = "layout compare s -i x.toml -l other.toml -p profile.csv --machine milan-2s";
const REVIEW: &str = "review x.toml other.toml";
const CHECK: &str = "layout check program --rules rules.toml";
const SHOW_MACHINE: &str = "machine show x.toml";
const IMPORT: &str = "machine import x.xml -o x.toml";
const SIM: &str = "sim x.toml";
const SWEEP: &str = "sweep plan.toml -o out --dry-run";
const PLACE: &str = "place status --journals journals";

pub(super) const INPUTS: &[Input] = &[
    Input {
        number: "structures of a layout file",
        size: 2500,
        make: |size| layouts(&structures(size), &profile(2)),
        readers: &[ADVISE, COMPARE, REVIEW],
    },
    Input {
        number: "members of a layout file",
        size: 3000,
        make: |size| layouts(&members(size), &profile(2)),
        readers: &[ADVISE, COMPARE, REVIEW],
    },
    Input {
        number: "structures of a layout file within each other",
        size: 1000,
        make: |size| layouts(&structures_within(size), &profile(2)),
        readers: &[ADVISE, REVIEW],
    },
    Input {
        number: "rows of a profile",
        size: 20_000,
        make: |size| layouts(&members(64), &profile(size)),
        readers: &[ADVISE, COMPARE],
    },
    Input {
        number: "variants of a simulation's JSON",
        size: 2000,
        make: |size| layouts(&members(64), &simulation(size)),
        readers: &[ADVISE],
    },
    Input {
        number: "rules",
        size: 3000,
        make: rules,
        readers: &[CHECK],
    },
    Input {
        number: "members of a rule",
        size: 2000,
        make: members_of_a_rule,
        readers: &[CHECK],
    },
    Input {
        number: "packages of a machine file",
        size: 16,
        make: machine,
        readers: &[SHOW_MACHINE],
    },
    Input {
        number: "packages of hwloc's XML",
        size: 20,
        make: hwloc,
        readers: &[IMPORT],
    },
    Input {
        number: "words about hwloc's machine",
        size: 20_000,
        make: hwloc_words,
        readers: &[IMPORT],
    },
    Input {
        number: "workloads of a scenario",
        size: 60,
        make: workloads,
        readers: &[SIM],
    },
    Input {
        number: "published figures of a scenario",
        size: 60,
        make: published,
        readers: &[SIM],
    },
    Input {
        number: "tasks of rt-app",
        size: 500,
        make: |size| rt_app(size, 1),
        readers: &[SIM],
    },
    Input {
        number: "events of an rt-app task",
        size: 10_000,
        make: |size| rt_app(1, size),
        readers: &[SIM],
    },
    Input {
        number: "values of a plan",
        size: 50,
        make: plan,
        readers: &[SWEEP],
    },
    Input {
        number: "placements in a journal",
        size: 2000,
        make: journals,
        readers: &[PLACE],
    },
];

fn layouts(structures: &str, profile: &str) -> Files {
    let text = |name: &str| {
        format!("schema = 1\nname = \"{name}\"\ndescription = \"d\"\nsource = \"s\"\n{structures}")
    };
    let other = text("other")
        + "[[struct]]\nname = \"another\"\nsize_bytes = 8\n\
           members = [{ name = \"m\", offset_bytes = 0, size_bytes = 8 }]\n";
    vec![
        ("x.toml".to_owned(), text("x").into()),
        ("other.toml".to_owned(), other.into()),
        ("profile.csv".to_owned(), profile.into()),
    ]
}

/// A structure of so many members that are numbers, and `last`, which is another one.
fn structure(name: &str, count: usize, last: Option<Last>) -> String {
    let size = 8 * count + last.as_ref().map_or(0, |last| last.size);
    let mut text = format!("[[struct]]\nname = \"{name}\"\nsize_bytes = {size}\nmembers = [\n");
    for number in 0..count {
        let offset = 8 * number;
        let _ = writeln!(
            text,
            "{{ name = \"m{number}\", offset_bytes = {offset}, size_bytes = 8 }},"
        );
    }
    if let Some(Last { size, of }) = last {
        let offset = 8 * count;
        let _ = writeln!(
            text,
            "{{ name = \"last\", offset_bytes = {offset}, size_bytes = {size}, type = \"s{of}\" }},"
        );
    }
    text + "]\n"
}

/// A member of a structure's size; the structure's name has a number.
struct Last {
    size: usize,
    of: usize,
}

fn structures(size: usize) -> String {
    let others = (0..size).map(|number| structure(&format!("s{number}"), 2, None));
    structure("s", 4, None) + &others.collect::<String>()
}

fn members(size: usize) -> String {
    structure("s", size.max(2), None)
}

/// Each has the one before as its last member.
fn structures_within(size: usize) -> String {
    let mut text = structure("s0", 2, None);
    for number in 1..=size {
        let name = match number == size {
            true => "s".to_owned(),
            false => format!("s{number}"),
        };
        let last = Last {
            size: 16 * number,
            of: number - 1,
        };
        text += &structure(&name, 2, Some(last));
    }
    text
}

fn profile(size: usize) -> String {
    let mut text = "# schema: 1\n# name: p\n# source: made\n# period_cycles: 1000000\n\
                    member,function,loads,stores,rmws,cpus\n"
        .to_owned();
    for number in 0..size {
        let (member, cpu) = (number % 2, number % 4);
        let _ = writeln!(text, "m{member},f{},100,{number},0,{cpu}", number / 2);
    }
    text
}

fn simulation(size: usize) -> String {
    let run = |seed: usize| {
        let row = |member: &str| {
            json!({
                "member": member, "function": format!("f{seed}"), "load_count": 100,
                "store_count": 10, "locked_count": 0, "cpus": "0-1",
            })
        };
        let lines = json!([{ "object": "s", "object_count": 1, "rows": [row("m0"), row("m1")] }]);
        json!({ "seed": seed, "work_cycles_mean": 1_000_000, "lines": lines })
    };
    let runs: Vec<_> = (0..size).map(run).collect();
    let variant = json!({ "variant": "v", "layout": "x", "runs": runs });
    json!({ "schema": 1, "scenario": "s", "machine": "milan-2s", "variants": [variant] })
        .to_string()
}

fn rules(size: usize) -> Files {
    let mut text = "schema = 1\n".to_owned();
    for number in 0..size {
        let _ = write!(
            text,
            "[[rule]]\nstruct = \"s\"\nseparate = [[\"m{number}\"], [\"m0\", \"m1\"]]\n"
        );
    }
    with_program(size + 2, text)
}

fn members_of_a_rule(size: usize) -> Files {
    let members: Vec<String> = (0..size.max(2))
        .map(|number| format!("\"m{number}\""))
        .collect();
    let (first, second) = members.split_at(members.len() / 2);
    let (first, second, all) = (first.join(", "), second.join(", "), members.join(", "));
    let text = format!(
        "schema = 1\n[[rule]]\nstruct = \"s\"\nseparate = [[{first}], [{second}]]\n\
         no_straddle = [{all}]\nwithin_lines = {{ members = [{all}], lines = 1 }}\n"
    );
    with_program(size.max(2), text)
}

fn with_program(member_count: usize, rules: String) -> Files {
    vec![
        ("program".to_owned(), programs::with_members(member_count)),
        ("rules.toml".to_owned(), rules.into()),
    ]
}

fn machine(size: usize) -> Files {
    let text = MACHINE.replace("packages = 2", &format!("packages = {}", size.max(2)));
    vec![("x.toml".to_owned(), text.into())]
}

fn hwloc_file(packages: usize, words: usize) -> Files {
    let mut text =
        "<topology version=\"2.0\">\n<object type=\"Machine\" os_index=\"0\">\n".to_owned();
    for number in 0..words {
        let _ = writeln!(text, "<info name=\"n{number}\" value=\"v\"/>");
    }
    for package in 0..packages {
        let _ = writeln!(
            text,
            "<object type=\"Package\" os_index=\"{package}\"><object type=\"NUMANode\" os_index=\"{package}\"/>\
             <object type=\"L3Cache\" cache_size=\"33554432\" depth=\"3\" cache_linesize=\"64\" \
             cache_associativity=\"16\" cache_type=\"0\">"
        );
        // Packages differ, so that they are not folded.
        for core in 0..2 + package % 3 {
            let number = 8 * package + core;
            let _ = writeln!(
                text,
                "<object type=\"Core\" os_index=\"{core}\"><object type=\"PU\" os_index=\"{number}\"/></object>"
            );
        }
        text += "</object></object>\n";
    }
    text += "</object>\n</topology>\n";
    vec![("x.xml".to_owned(), text.into())]
}

fn hwloc(size: usize) -> Files {
    hwloc_file(size, 1)
}

fn hwloc_words(size: usize) -> Files {
    hwloc_file(2, size)
}

const SCENARIO: &str = "schema = 1\nname = \"x\"\ndescription = \"made\"\nsource = \"made\"\n\
                        [machine]\npreset = \"broadwell-4s\"\ncpus = 4\n";

fn scenario(workloads: &str) -> Files {
    let text = format!("{SCENARIO}{workloads}[run]\nduration = \"1ms\"\n");
    vec![("x.toml".to_owned(), text.into())]
}

fn workloads(size: usize) -> Files {
    let one = |number: usize| {
        format!(
            "[[workload]]\nkind = \"cyclictest\"\nname = \"w{number}\"\nthreads = 1\ninterval = \"1ms\"\n"
        )
    };
    scenario(&(0..size).map(one).collect::<String>())
}

fn published(size: usize) -> Files {
    let mut files = scenario("[[workload]]\nkind = \"hogs\"\nthreads = 1\n");
    for number in 0..size {
        let figure = format!(
            "[[published]]\nid = \"time.kernel_of_busy\"\nvalue = {number}\nunit = \"u\"\nsource = \"made\"\n"
        );
        files[0].1.extend(figure.bytes());
    }
    files
}

/// So many tasks, each with so many pairs of events and a mutex of its own.
fn rt_app(tasks: usize, events: usize) -> Files {
    let task = |task: usize| {
        let event = |number: usize| {
            format!(
                "\"lock{number}\": \"m{task}_{number}\", \"run{number}\": 1, \"unlock{number}\": \"m{task}_{number}\""
            )
        };
        let events: Vec<String> = (0..events).map(event).collect();
        format!("\"t{task}\": {{ \"loop\": 1, {} }}", events.join(", "))
    };
    let tasks: Vec<String> = (0..tasks).map(task).collect();
    let text = format!("{{ \"tasks\": {{ {} }} }}", tasks.join(",\n"));
    let scenario = format!(
        "{SCENARIO}[[workload]]\nkind = \"rt-app\"\nfile = \"x.json\"\n[run]\nduration = \"50ms\"\n"
    );
    vec![
        ("x.toml".to_owned(), scenario.into()),
        ("x.json".to_owned(), text.into()),
    ]
}

fn plan(size: usize) -> Files {
    let mut files = scenario("[[workload]]\nkind = \"hogs\"\nthreads = 1\n");
    let values: Vec<String> = (0..size)
        .map(|number| format!("\"{}/s\"", 100 + number))
        .collect();
    let values = values.join(", ");
    let plan = format!(
        "schema = 1\nname = \"p\"\nscenarios = [\"x.toml\"]\n\
         [[vary]]\nkey = \"kernel.tick\"\nvalues = [{values}]\n"
    );
    files.push(("plan.toml".to_owned(), plan.into()));
    files
}

fn journals(size: usize) -> Files {
    let one = |number: usize| {
        let name = format!("journals/{}-1.journal", 1_000_000 + number);
        (name, b"not a journal\n".to_vec())
    };
    (0..size).map(one).collect()
}
