//! Outputs about simulations, sweeps and machine models.

use super::Output;
use super::form::{Form, Members, list, or_null, rows};
use crate::fields;
use crate::sim::fields as sim;

pub(super) fn outputs() -> Vec<Output> {
    let of = Output::new;
    let simulation = "docs/formats/sim.md";
    let machine = "docs/formats/machine.md";
    vec![
        of("sim", "hitm sim --format json", simulation, simulated()),
        of(
            "reproduce",
            "hitm reproduce --format json",
            simulation,
            reproduced(),
        ),
        of(
            "sensitivity",
            "hitm reproduce --sensitivity --format json",
            simulation,
            sensitivity(),
        ),
        of(
            "sweep",
            "hitm report -i SWEEP --format json",
            "docs/formats/sweep.md",
            sweep(),
        ),
        of(
            "machine",
            "hitm machine show --format json",
            machine,
            shown_machine(),
        ),
        Output::new(
            "machine-list",
            "hitm machine list --format json",
            machine,
            machines(),
        ),
    ]
}

fn versioned() -> Members {
    Members::default().with("schema", Form::Whole)
}

fn scenario(members: Members, variant: Members) -> Members {
    let crossing = Members::of(sim::crossing::ALL)
        .with("comparisons", rows(sim::comparison::ALL))
        .with(
            "ranking",
            list(
                Members::default()
                    .with("layout", Form::Text)
                    .with("value", Form::Number),
            ),
        );
    members
        .and(sim::scenario::ALL)
        .with("variants", list(variant))
        .with("comparisons", rows(sim::comparison::ALL))
        .with("crossing", or_null(crossing))
}

fn variant() -> Members {
    Members::of(sim::variant::ALL).with("metrics", rows(sim::metric::ALL))
}

fn simulated() -> Members {
    let line = || list(Members::of(sim::line::ALL).with("rows", rows(sim::row::ALL)));
    let workload = Members::default()
        .with("name", Form::Text)
        .with("passed", or_null(Form::Flag))
        .with_all(&["output", "failure"], &or_null(Form::Text));
    let function = Members::default()
        .with("function", Form::Text)
        .with("cycles", Form::Whole);
    let run = Members::of(sim::outcome::ALL)
        .with("cpus", rows(sim::peak::ALL))
        .with("workloads", list(workload))
        .with("functions", list(function))
        .with("lines", line())
        .with_some("sampled_lines", line());
    scenario(versioned(), variant().with("runs", list(run)))
}

fn reproduced() -> Members {
    versioned().with("scenarios", list(scenario(Members::default(), variant())))
}

fn sensitivity() -> Members {
    let figure = Members::of(sim::figure::ALL).with("effects", rows(sim::effect::ALL));
    let varied = Members::of(sim::varied::ALL)
        .with("numbers", rows(sim::number::ALL))
        .with("figures", list(figure));
    versioned().with("sensitivity", list(varied))
}

fn sweep() -> Members {
    versioned()
        .with("run", Members::of(fields::sweep_run::ALL))
        .with("keys", rows(fields::sweep_key::ALL))
        .with("metrics", rows(fields::sweep_metric::ALL))
        .with("effects", rows(fields::sweep_effect::ALL))
        .with("failures", rows(fields::sweep_failure::ALL))
}

fn shown_machine() -> Members {
    let number = Members::default()
        .with("value", Form::Text)
        .with_some("cycles", Form::Whole)
        .with_some("ns", Form::Number)
        .with_some("range", list(Form::Text))
        .with_some("assumed", Form::Text)
        .with_some("source", Form::Text);
    let transfer = Members::default().with_all(
        &["clean_cycles", "dirty_cycles", "occupancy_cycles"],
        &Form::Whole,
    );
    let map = |form: &Members| Form::Map(Box::new(form.clone().into()));
    let counts = [
        "clock_khz",
        "cpu_count",
        "core_count",
        "llc_count",
        "node_count",
        "package_count",
    ];
    versioned()
        .with_all(
            &["name", "description", "protocol", "topology_origin"],
            &Form::Text,
        )
        .with_all(&counts, &Form::Whole)
        .with("places", list(list(Form::Whole)))
        .with("topology_assumed", Form::Flag)
        .with("numbers", map(&number))
        .with("transfers", map(&transfer))
        .with("transfers_away_from_home", map(&transfer))
}

fn machines() -> Form {
    let machine = Members::default()
        .with_all(&["name", "description"], &Form::Text)
        .with("cpu_count", Form::Whole);
    list(machine)
}
