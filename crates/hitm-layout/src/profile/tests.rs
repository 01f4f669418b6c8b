use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

const HEAD: &str = "# schema: 1\n# name: n\n# source: s\n# period_cycles: 1000\n";

fn check_error(text: &str, expected: Expect) {
    let error = Profile::parse(text, "x.csv").unwrap_err();
    expected.assert_eq(&error.to_string());
}

#[test]
fn a_table_is_read_and_same_keys_are_summed() {
    let text = format!(
        "{HEAD}# any comment\nmember,function,loads,stores,cpus\n\
         a,f,10,0,0-3 8\na,f,1,2,8 0-3\nb[1].c,g,0,7,2\n"
    );
    let profile = Profile::parse(&text, "x.csv").unwrap();
    let rows: Vec<String> = profile
        .rows()
        .map(|(key, counts)| {
            let Counts {
                loads,
                stores,
                rmws,
            } = counts;
            format!(
                "{} {} {loads} {stores} {rmws} on {}",
                key.member, key.function, key.cpus
            )
        })
        .collect();
    expect![[r#"
        a f 11 2 0 on 0-3 8
        b[1].c g 0 7 0 on 2"#]]
    .assert_eq(&rows.join("\n"));
    assert_eq!(profile.members(), ["a", "b[1].c"]);
    assert_eq!(profile.rows().next().unwrap().0.cpus.len(), 5);
}

#[test]
fn mistakes_are_named_with_line_and_column() {
    check_error(
        "",
        expect![
            "x.csv:1:1: the file: found its end, expected a line of column titles, such as member,function,loads,stores,cpus"
        ],
    );
    check_error(
        "member,function,loads,stores,cpus\n",
        expect![
            "x.csv:1:1: schema: found no such line, expected a line `# schema: ...` above the titles"
        ],
    );
    check_error(
        &HEAD.replace("schema: 1", "schema: 9"),
        expect![
            "x.csv:4:1: the file: found its end, expected a line of column titles, such as member,function,loads,stores,cpus"
        ],
    );
    let titles = format!("{HEAD}member,function,loads,stores,cpus\n");
    check_error(
        &titles,
        expect!["x.csv:5:1: the file: found no row, expected at least one row below the titles"],
    );
    check_error(
        &format!("{HEAD}member,function,loads,cpus\n"),
        expect!["x.csv:5:1: stores: found no such title, expected it in this line"],
    );
    check_error(
        &format!("{HEAD}member,function,loads,stores,cpus,hits\n"),
        expect![[
            r#"x.csv:5:35: title: found "hits", expected one of member, function, loads, stores, cpus, rmws, comm, instance"#
        ]],
    );
    check_error(
        &format!("{titles}a,f,1,2\n"),
        expect!["x.csv:6:1: row: found 4 fields, expected 5, as there are titles"],
    );
    check_error(
        &format!("{titles}a,f, 1,-2,0\n"),
        expect![[
            r#"x.csv:6:8: stores: found "-2", expected a whole number from 0 to 1125899906842624"#
        ]],
    );
    check_error(
        &format!("{titles}a,f,1,2,3-1\n"),
        expect![[
            r#"x.csv:6:9: cpus: found "3-1", expected CPU numbers and ranges with spaces between, such as `0-3 8`"#
        ]],
    );
    check_error(
        &format!("{titles}a,f,1,2,99999\n"),
        expect![[
            r#"x.csv:6:9: cpus: found "99999", expected CPU numbers and ranges with spaces between, such as `0-3 8`"#
        ]],
    );
    check_error(
        &format!("{titles},f,1,2,0\n"),
        expect!["x.csv:6:1: member: found nothing, expected the path of a member"],
    );
}

proptest! {
    #[test]
    fn any_profile_is_read_back_as_it_was_written(
        rows in proptest::collection::vec(
            ("[a-z]{1,3}(\\[[0-9]\\])?", 0u32..3, "[a-z_]{0,4}", 0u16..700, 0u64..9, 0u64..9, 0u64..9),
            1..20,
        ),
    ) {
        let mut profile = Profile::new("n", "s: with a colon", Cycles(77));
        for (member, instance, function, cpu, loads, stores, rmws) in rows {
            let key = RowKey {
                member,
                instance,
                function,
                comm: String::from("c"),
                cpus: CpuSet::one(CpuId(cpu)),
            };
            profile.add(key, Counts { loads, stores, rmws });
        }
        let read = Profile::parse(&profile.to_csv(), "written").unwrap();
        prop_assert_eq!(read, profile);
    }
}
