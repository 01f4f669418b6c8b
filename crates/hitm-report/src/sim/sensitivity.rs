//! Intervals of headline figures as text and JSON.

use hitm::sim::{Effect, Figure, Sensitivity};

use super::SCHEMA;
use super::fields::{effect, figure, number, varied};
use super::text::{DETAILS, number, published};
use crate::Printout;
use crate::object::{Node, Object, list};
use crate::text::style::Style;
use crate::text::table::{Align, Column, Table};
use crate::text::{TextOptions, Writer};

/// Numbers that are named beside a figure.
const EFFECTS_MAX: usize = 3;

/// The interval of each headline figure, and the numbers that decide it. Details of workloads are in
/// the JSON alone.
pub fn sensitivity_text(all: &[Sensitivity], options: &TextOptions) -> Printout {
    let mut writer = Writer::new(options);
    for (index, one) in all.iter().enumerate() {
        if index > 0 {
            writer.out.blank();
        }
        writer.sensitivity(one);
    }
    writer.out
}

impl Writer {
    fn sensitivity(&mut self, one: &Sensitivity) {
        let title = format!("hitm reproduce --sensitivity: {}", one.scenario);
        self.push(Style::Bold, &title);
        let quick = if one.quick {
            ", a tenth of the time"
        } else {
            ""
        };
        let line = format!(
            "  machine {}, model {}: {} assumed numbers; {} runs with one at an end of its range, {} \
             with all, {} seed each{quick}",
            one.machine,
            one.model_version,
            one.numbers.len(),
            one.single_count,
            one.sample_count,
            one.seed_count,
        );
        self.push(Style::Plain, &line);
        let head = Column::of_field::<Figure>;
        let mut table = Table::new(vec![
            head(&figure::id),
            head(&figure::variant),
            head(&figure::published_min),
            head(&figure::value),
            Column::new("Interval", Align::Right),
            head(&figure::run_count),
            head(&figure::chance),
            head(&figure::unit),
        ]);
        let is_detail = |figure: &Figure| {
            figure.published.is_none() && DETAILS.iter().any(|end| figure.id.ends_with(end))
        };
        for figure in one.figures.iter().filter(|figure| !is_detail(figure)) {
            let notes = figure.effects.iter().take(EFFECTS_MAX).map(effect_text);
            table.push_with_notes(cells(figure), notes.collect());
        }
        self.table(&table);
    }
}

fn cells(figure: &Figure) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let interval = |(least, most)| format!("{} to {}", number(least), number(most));
    let (known, all) = figure.run_count;
    let ends = figure.published;
    vec![
        figure.id.clone(),
        figure.label.clone(),
        or_dash(ends.map(|(least, most)| published(least, most))),
        or_dash(figure.value.map(number)),
        or_dash(figure.interval.map(interval)),
        if known == all {
            known.to_string()
        } else {
            format!("{known} of {all}")
        },
        number(figure.chance),
        figure.unit.clone(),
    ]
}

/// `machine.transfers.remote.dirty: 1.20 to 3.40, 62 %`.
fn effect_text(effect: &Effect) -> String {
    let end = |value: Option<f64>| value.map_or("-".to_owned(), number);
    format!(
        "{}: {} to {}, {:.0} %",
        effect.key,
        end(effect.at_low),
        end(effect.at_high),
        effect.share * 100.0
    )
}

/// The same as one JSON object, with every effect.
pub fn sensitivity_json(all: &[Sensitivity]) -> String {
    let figure = |figure: &Figure| {
        Object::of(figure::ALL, figure).with("effects", list(effect::ALL, &figure.effects))
    };
    let one = |one: &Sensitivity| {
        Object::of(varied::ALL, one)
            .with("numbers", list(number::ALL, &one.numbers))
            .with("figures", one.figures.iter().map(figure).collect::<Node>())
    };
    let all = Object::default()
        .with("schema", SCHEMA)
        .with("sensitivity", all.iter().map(one).collect::<Node>());
    all.text()
}
