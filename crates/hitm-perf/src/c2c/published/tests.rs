//! Texts of several versions of perf, quoted, wrapped and cut. The figures are made up, but for those that
//! say where they are from.

use super::*;

fn parse(text: &str) -> Published {
    Published::parse(text, "mail.txt").expect("a text of perf c2c report")
}

fn error(text: &str) -> String {
    let error = Published::parse(text, "mail.txt").expect_err("it is wrong");
    error.to_string()
}

/// Columns of Linux 6.1 to 6.12.
const NEW: &str = "\
=================================================
      Shared Cache Line Distribution Pareto
=================================================
#
#        ----- HITM -----  ------- Store Refs ------  --------- Data address ---------                      ---------- cycles ----------    Total       cpu                 Shared
#   Num  RmtHitm  LclHitm   L1 Hit  L1 Miss      N/A              Offset  Node  PA cnt        Code address  rmt hitm  lcl hitm      load  records       cnt         Symbol  Object         Source:Line  Node
# .....  .......  .......  .......  .......  .......  ..................  ....  ......  ..................  ........  ........  ........  .......  ........  .............  ..  ..................  ....
#
  ----------------------------------------------------------------------
      0      200       40     1000      100       10            0x602100
  ----------------------------------------------------------------------
          75.00%   50.00%    0.00%    0.00%    0.00%                 0x8     1       0            0x400b2e       900       300        50     2170         3  [.] reader(int, char)  fs  fs.c:42   0  1
            |
            ---reader
               start_thread

           0.00%    0.00%   99.90%  100.00%  100.00%                0x3f     1       0            0x400b40         0         0         0     1109         1  [.] writer  fs  fs.c:50   0
";

#[test]
fn a_row_has_its_part_of_the_lines_counts() {
    let text = parse(NEW);
    assert_eq!(text.lines.len(), 1);
    let line = &text.lines[0];
    let sums = (line.address, line.remote, line.local, line.stores);
    assert_eq!(sums, (Some(0x60_2100), 200, 40, 1110));
    let [reader, writer] = &line.rows[..] else {
        panic!("found {:?}", line.rows);
    };
    assert_eq!((reader.place, reader.offset), (12, 8));
    assert_eq!((reader.remote, reader.local, reader.stores), (150, 20, 0));
    assert_eq!(reader.cycles, [900, 300, 50]);
    assert_eq!((reader.records, reader.cpu_count), (Some(2170), Some(3)));
    assert_eq!(reader.symbol, "reader(int, char)");
    assert_eq!((&*reader.object, &*reader.source), ("fs", "fs.c:42"));
    // 150 * 900 + 20 * 300 + 2000 * 50
    assert_eq!((reader.loads(), reader.load_cycles()), (2170, 241_000));
    // 99.90 % of 1000, all of 100 and of 10.
    assert_eq!(
        (writer.offset, writer.stores, writer.loads()),
        (0x3f, 1109, 0)
    );
    assert_eq!(text.cpu_count_max(), 3);
}

#[test]
fn quotes_and_wrapped_lines_change_nothing() {
    let quoted = NEW.lines().map(|line| format!("> > {line}\n"));
    let without_places = |mut text: Published| {
        for line in &mut text.lines {
            line.place = 0;
            line.rows.iter_mut().for_each(|row| row.place = 0);
        }
        text
    };
    assert_eq!(parse(&quoted.collect::<String>()), parse(NEW));
    for width in [72, 76, 80, 100] {
        let wrapped = wrapped(NEW, width);
        assert!(wrapped.lines().count() > NEW.lines().count());
        assert_eq!(
            without_places(parse(&wrapped)),
            without_places(parse(NEW)),
            "{width}"
        );
    }
}

/// Breaks lines between words, as mail clients do.
fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let mut rest = line;
        while rest.len() > width {
            let blank = rest[..width]
                .rfind(' ')
                .filter(|at| !rest[..*at].trim().is_empty());
            let Some(at) = blank else { break };
            out += &format!("> {}\n", &rest[..at]);
            rest = rest[at..].trim_start();
        }
        out += &format!("> {rest}\n");
    }
    out
}

#[test]
fn old_versions_have_other_columns() {
    // Linux 4.10, with a thread's name of two words.
    let text = parse(
        "#        ----- HITM -----  -- Store Refs --        Data address                                            ---------- cycles ----------       cpu                  Shared\n\
         #   Num      Rmt      Lcl   L1 Hit  L1 Miss              Offset      Pid           Tid        Code address  rmt hitm  lcl hitm      load       cnt  Symbol          Object  Node\n\
         # .....  .......  .......  .......  .......  ..................  .......  ............  ..................  ........  ........  ........  ........  .............  ......  ....\n\
         #\n\
         \x20 -------------------------------------------------------------\n\
         \x20     0        4        2       10        5  0xffff881fa55b0140\n\
         \x20 -------------------------------------------------------------\n\
         \x20         50.00%  100.00%   50.00%   20.00%                0x18     4242  4243:Web Content  0xffffffff8122d5be      1000       500        40         2  [k] __d_lookup  [kernel.kallsyms]  0\n",
    );
    let row = &text.lines[0].rows[0];
    assert_eq!(text.lines[0].address, Some(0xffff_881f_a55b_0140));
    assert_eq!((row.remote, row.local, row.stores), (2, 2, 6));
    assert_eq!((row.code, row.records), (Some(0xffff_ffff_8122_d5be), None));
    assert_eq!((row.loads(), row.load_cycles()), (4, 3000));
    assert_eq!(
        (&*row.symbol, &*row.object),
        ("__d_lookup", "[kernel.kallsyms]")
    );
}

#[test]
fn peers_and_listed_cpus() {
    let text = parse(
        "#        -- Peer Snoop --  ------- Store Refs ------  --------- Data address ---------\n\
         #   Num      Rmt      Lcl   L1 Hit  L1 Miss      N/A              Offset  Node  PA cnt        Code address  rmt peer  lcl peer      load  records       cnt  Symbol  Object  Source:Line  Node{cpu list}\n\
         \x20     7       10       20        0        0        8            0x420180\n\
         \x20        100.00%    5.00%    0.00%    0.00%   50.00%                 0x0   N/A       0            0x400760       187       100        20      105         5  [.] inc  a.out  a.c:9   0{0-3}  1{64,\n\
         66}\n\
         \x20          0.00%   95.00%    0.00%    0.00%   50.00%                 0x4   N/A       0            0x400768         0       120         0       23         1  [.] inc  a.out  a.c:9   1{64}\n",
    );
    let [both, last] = &text.lines[0].rows[..] else {
        panic!("found {:?}", text.lines);
    };
    assert_eq!((both.remote, both.local, both.stores), (10, 1, 4));
    assert_eq!(
        (&both.cpus[..], &last.cpus[..]),
        (&[0, 1, 2, 3][..], &[64][..])
    );
    assert_eq!(last.local, 19);
}

#[test]
fn a_table_may_lack_columns_and_rows_may_be_cut() {
    // Columns that an author kept, and rows whose ends a mailer cut.
    let text = parse(
        "Before the patch:\n\
         #   Num  RmtHitm  LclHitm   L1 Hit              Offset      load  records  Symbol\n\
         \x20     0      353       44       62              0x1080\n\
         [...]\n\
         \x20          34.56%   29.55%    0.00%                0x38     25509      527  [k] cpupri_find_fitness\n\
         \x20          13.88%   11.36%   24.19%                0x38     30654\n\
         \n\
         5% of the time is lost there.\n",
    );
    let [find, set] = &text.lines[0].rows[..] else {
        panic!("found {:?}", text.lines);
    };
    assert_eq!((find.remote, find.local, find.loads()), (122, 13, 527));
    assert_eq!((set.remote, set.stores, set.records), (49, 15, None));
    assert_eq!(set.loads(), 54, "the HITM are all that is known");
}

#[test]
fn mistakes_have_a_line() {
    let head = "#   Num  RmtHitm  LclHitm   L1 Hit              Offset     load  records  Symbol\n";
    let line = "      0      353       44       62              0x1080\n";
    let cases = [
        (
            "nothing\n",
            "mail.txt:1: the text: found its end, expected the table Shared Cache Line Distribution Pareto",
        ),
        (
            head,
            "mail.txt:1: the Pareto: found no row, expected at least one row",
        ),
        (
            "#  Num  RmtHitm  Offset  Ratio\n",
            "mail.txt:1: title: found \"Ratio\", expected one of Num, RmtHitm,",
        ),
        (
            "#  Num  RmtHitm  LclHitm  Symbol\n",
            "mail.txt:1: titles: found \"Num  RmtHitm  LclHitm  Symbol\", expected a column Offset",
        ),
    ];
    for (text, expected) in cases {
        let found = error(text);
        assert!(found.starts_with(expected), "{found}");
    }
    let row = |row: &str| error(&format!("{head}{line}{row}\n"));
    assert_eq!(
        row("  34.56%  oops   0.00%   0x38  25509  527  [k] f"),
        "mail.txt:3: LclHitm: found \"oops\", expected a share such as 18.70%"
    );
    assert_eq!(
        row("  34.56%  29.55%   0.00%   0x138  25509  527  [k] f"),
        "mail.txt:3: Offset: found \"0x138\", expected an offset in a cache line, up to 0xff"
    );
    assert_eq!(
        row("  34.56%  29.55%   0.00%   0x38  -1  527  [k] f"),
        "mail.txt:3: load: found \"-1\", expected a whole number up to 2^50"
    );
    assert_eq!(
        row("  34.56%  29.55%   0.00%"),
        "mail.txt:3: row: found \"34.56% 29.55% 0.00%\", expected the offset in the line among its columns"
    );
    let orphan = format!("{head}  1.00%  1.00%  0.00%  0x38  1  1  [k] f\n");
    assert_eq!(
        error(&orphan),
        "mail.txt:2: row: found no line, expected the cache line with its counts above its rows"
    );
}

#[test]
fn of_two_tables_the_first_is_read() {
    let twice = format!("{NEW}With this change:\n{NEW}");
    let text = parse(&twice);
    assert_eq!(text.lines, parse(NEW).lines);
    assert_eq!(text.second, Some(24));
    // Without titles, by the numbers of the cache lines.
    let untitled = "\
        =================================================\n\
        \x20     Shared Cache Line Distribution Pareto\n\
        =================================================\n\
        \x20 ------------------------------------------\n\
        \x20     0      400      600      100       20  0xff11000000000040\n\
        \x20 ------------------------------------------\n\
        \x20   9.00%    7.00%   26.39%    5.00%    0x8     0       1  0xffffffff81234567       518       334       354     5490       160  [k] down_write   [kernel.kallsyms]  down_write+28  0  1\n";
    let text = parse(&format!("{untitled}\nAfter:\n{untitled}"));
    assert_eq!((text.lines.len(), text.second), (1, Some(14)));
    let row = &text.lines[0].rows[0];
    assert_eq!((row.remote, row.local, row.stores), (36, 42, 27));
    assert_eq!((row.records, row.cpu_count), (Some(5490), Some(160)));
    assert_eq!(
        (&*row.symbol, &*row.source),
        ("down_write", "down_write+28")
    );
}

#[test]
fn such_texts_are_known_by_their_head() {
    assert!(is_published(NEW.as_bytes()));
    assert!(is_published(
        b"> Hello,\n> #   Num      Rmt      Lcl   L1 Hit\n"
    ));
    assert!(is_published(
        b"            Trace Event Information              \n"
    ));
    assert!(!is_published(
        b"# schema: 1\n# source: perf c2c tables\nmember,function,loads,stores,cpus\n"
    ));
    assert!(!is_published(b"PERFILE2\0\0 Shared Data Cache Line Table"));
}
