//! The quantities of `hitm reproduce --sensitivity`.

use hitm::sim::{Effect, Figure, Number, Sensitivity};
use hitm_fields::fields;

fields! {
    /// Of a scenario whose numbers were varied.
    pub varied for Sensitivity {
        /// Name of the scenario.
        scenario => known label "Scenario";
        /// Name of the machine model.
        machine => known label "Machine";
        /// Version of the simulator's model.
        model_version => number "Model";
        /// True if a tenth of the duration and of the iterations was run.
        quick => label "Quick";
        /// Seeds of each run.
        seed_count => count "Seeds";
        /// Runs in which one number is at an end of its range.
        single_count => count "Alone";
        /// Runs in which all numbers are varied, by a Latin hypercube.
        sample_count => count "Together";
    }
}

fields! {
    /// Of an assumed number.
    pub number for Number {
        /// Key of the number.
        key => known label "Number";
        /// Its value in the scenario.
        value => label "Value", |n| n.value.to_string();
        /// The least value of its range.
        low => label "Low", |n| n.low.to_string();
        /// The largest value of its range.
        high => label "High", |n| n.high.to_string();
    }
}

fields! {
    /// Of a headline figure.
    pub figure for Figure {
        /// The metric.
        id => known name "Metric";
        /// Variant that was simulated.
        variant => known name "Variant", |f| f.label;
        /// The published value, or the least of its range; null where nothing is published.
        published_min => number "Published", |f| f.published.map(|ends| ends.0);
        /// The published value, or the largest of its range; null where nothing is published.
        published_max => number "to", |f| f.published.map(|ends| ends.1);
        /// The value with no number changed.
        value => number "Simulated";
        /// The least value of all runs.
        interval_min => number "From", |f| f.interval.map(|ends| ends.0);
        /// The largest value of all runs.
        interval_max => number "To", |f| f.interval.map(|ends| ends.1);
        /// Runs that have the figure.
        run_count => count "n", |f| f.run_count.0;
        /// All runs.
        all_count => count "of", |f| f.run_count.1;
        /// Largest less least value of four seeds with no number changed.
        chance => number "Chance";
        /// Its unit.
        unit => known label "Unit";
    }
}

fields! {
    /// Of what a number does to a figure.
    pub effect for Effect {
        /// Key of the number.
        key => known label "Number";
        /// The figure with the number at the low end of its range.
        at_low => number "At low";
        /// The figure with the number at the high end of its range.
        at_high => number "At high";
        /// The largest distance between the figure there and with no number changed.
        size => number "Size";
        /// Its part in the squares of the sizes of all numbers.
        share => share "Share";
    }
}
