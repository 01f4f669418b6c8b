//! The advisor's prediction against the engine's result for a stream drawn from the profile.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use expect_test::expect;
use hitm_base::machine::preset;
use hitm_base::{Cycles, Machine};
use hitm_layout::advise::{Demand, LineCost, Options, Subject};
use hitm_layout::layout_file::{LayoutFile, LayoutTable, shipped};
use hitm_layout::profile::Profile;

use super::*;
use crate::{EnginePrices, Question, ask};

fn machine(name: &str) -> Machine {
    Machine::from_toml(preset(name).unwrap(), name).unwrap()
}

fn table(name: &str) -> LayoutTable {
    let parsed = |name: &str| LayoutFile::parse(shipped(name).unwrap(), name).unwrap();
    let base = LayoutTable::new(&parsed("linux-6.12")).unwrap();
    base.overlay(&parsed(name)).unwrap()
}

/// Smallest relative difference of two predictions that must be ordered; less is within the model's
/// error.
const ORDERED: f64 = 0.25;

/// A layout, its prediction without footprint, and its replay.
type Row = (String, Replayed, Replayed);

/// The model's cost of a layout, in the replay's terms.
fn predicted(cost: &LineCost) -> Replayed {
    Replayed {
        transfers: cost.transfers,
        latency: cost.latency,
        stall: cost.stall,
    }
}

/// Lists predicted and replayed figures of layouts. Where predictions differ, the replay must order
/// the layouts alike.
fn compared(rows: &[Row]) -> String {
    let mut out = String::new();
    for (name, predicted, replayed) in rows {
        writeln!(
            out,
            "{name}: transfers {:.0} and {:.0}, latency {:.0} and {:.0}, stall {:.0} and {:.0}, ratio {:.2}",
            predicted.transfers,
            replayed.transfers,
            predicted.latency,
            replayed.latency,
            predicted.stall,
            replayed.stall,
            predicted.cycles() / replayed.cycles()
        )
        .unwrap();
    }
    for (name, predicted, replayed) in rows {
        for (other, other_predicted, other_replayed) in rows {
            if predicted.cycles() * (1.0 + ORDERED) < other_predicted.cycles() {
                let agrees = replayed.cycles() < other_replayed.cycles();
                assert!(agrees, "{name} is not better than {other}:\n{out}");
            }
        }
    }
    out
}

#[test]
fn root_domain_layouts_are_ordered_as_the_replay_orders_them() {
    let machine = machine("xeon-480");
    let text = include_str!("../../../../profiles/root-domain-c2c.csv");
    let mut profile = Profile::parse(text, "root-domain-c2c.csv").unwrap();
    let base = table("linux-6.12");
    let subject = Subject::from_table(&base, "root_domain", &[]).unwrap();
    let mut out = String::new();
    for (period, periods) in [(30_000, 60), (300_000, 20)] {
        profile.period = Cycles(period);
        let bases = BTreeMap::new();
        let question = Question {
            subject: &subject,
            profile: &profile,
            machine: &machine,
            bases: &bases,
            is_partial: false,
        };
        let in_table = |table: &LayoutTable, path: &str| {
            let place = table.place("root_domain", path)?;
            Some((place.offset_bytes, place.size_bytes))
        };
        let locate = |path: &str| in_table(&base, path);
        let advice = ask(&question, &locate, &Options::default(), &|_, _| {}).unwrap();
        let best = advice.candidates.last().unwrap();
        let ours = LayoutFile {
            name: "ours".into(),
            description: "ours".into(),
            source: "the advisor".into(),
            structs: vec![best.layout.clone()],
        };
        let demand = Demand::new(&profile, &EnginePrices::new(machine.clone())).unwrap();
        let layouts = [
            ("now", base.clone()),
            ("restructured", table("root-domain-restructured")),
            ("ours", base.clone().overlay(&ours).unwrap()),
        ];
        let rows: Vec<Row> = layouts
            .iter()
            .map(|(name, table)| {
                let size = table.get("root_domain").unwrap().size_bytes;
                let weighed = demand
                    .weigh_layout(size, &bases, &|path| in_table(table, path))
                    .unwrap();
                let replayed = replay(
                    &profile,
                    &machine,
                    &|path| in_table(table, path),
                    periods,
                    1,
                )
                .unwrap();
                ((*name).to_owned(), predicted(&weighed.cost), replayed)
            })
            .collect();
        writeln!(out, "period {period}").unwrap();
        out += &compared(&rows);
    }
    expect![[r#"
        period 30000
        now: transfers 2626 and 1983, latency 78392457 and 63873678, stall 77090592 and 59929463, ratio 1.28
        restructured: transfers 1889 and 1751, latency 52764249 and 46367842, stall 51841255 and 45439340, ratio 1.14
        ours: transfers 1889 and 1746, latency 52764249 and 45840522, stall 51841255 and 44908195, ratio 1.15
        period 300000
        now: transfers 2870 and 2997, latency 990988 and 2699068, stall 62661 and 1715228, ratio 0.10
        restructured: transfers 1990 and 2054, latency 475728 and 598472, stall 51794 and 216260, ratio 0.40
        ours: transfers 1820 and 1844, latency 495826 and 686774, stall 55838 and 302905, ratio 0.32
    "#]]
    .assert_eq(&out);
}

#[test]
fn small_structures_are_ordered_as_the_replay_orders_them() {
    let machine = machine("broadwell-4s");
    let profile = Profile::parse(
        "# schema: 1\n# name: t\n# source: made up\n# period_cycles: 100000\n\
         member,function,loads,stores,rmws,cpus\n\
         flag,run,3000,0,0,1-3 24-27\ncounter,run,0,0,500,0\nstat,count,0,400,0,48-51\nlock,take,0,0,300,0-3\n",
        "t.csv",
    )
    .unwrap();
    let demand = Demand::new(&profile, &EnginePrices::new(machine.clone())).unwrap();
    let names = ["flag", "counter", "stat", "lock"];
    // All assignments of the four members to two lines, as bits, and one line each.
    let mut rows = Vec::new();
    for split in [
        0b0000u64,
        0b0001,
        0b0010,
        0b0100,
        0b0111,
        0b0011,
        0b0110,
        0b1111_0000,
    ] {
        let locate = |path: &str| {
            let index = names.iter().position(|name| *name == path)? as u64;
            let line = if split > 0b1111 {
                index
            } else {
                split >> index & 1
            };
            Some((line * 64 + index * 8, 8))
        };
        let weighed = demand.weigh_layout(256, &BTreeMap::new(), &locate).unwrap();
        let replayed = replay(&profile, &machine, &locate, 20, 1).unwrap();
        rows.push((format!("{split:08b}"), predicted(&weighed.cost), replayed));
    }
    expect![[r#"
        00000000: transfers 2295 and 2599, latency 3359091 and 2970393, stall 2851611 and 2484177, ratio 1.15
        00000001: transfers 890 and 1002, latency 593221 and 557143, stall 454222 and 411942, ratio 1.10
        00000010: transfers 1805 and 2026, latency 2324505 and 2421713, stall 1833054 and 1963225, ratio 0.94
        00000100: transfers 1969 and 2529, latency 779363 and 1544096, stall 557817 and 1247588, ratio 0.46
        00000111: transfers 2284 and 2544, latency 2633349 and 2535491, stall 2146326 and 2077456, ratio 1.03
        00000011: transfers 1675 and 2244, latency 596108 and 969431, stall 367917 and 652544, ratio 0.57
        00000110: transfers 1651 and 1888, latency 594396 and 891184, stall 349959 and 615620, ratio 0.59
        11110000: transfers 501 and 528, latency 57576 and 61212, stall 25747 and 26867, ratio 0.95
    "#]].assert_eq(&compared(&rows));
}
