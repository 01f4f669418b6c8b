//! The quantities of a simulation.

mod c2c;
mod run;
mod sensitivity;

use hitm::sim::{Comparison, Crossing, SimReport, Summary, VariantReport};
use hitm_fields::fields;

pub use c2c::{RowView, line, row};
pub use run::{outcome, peak};
pub use sensitivity::{effect, figure, number, varied};

fields! {
    /// Of the scenario.
    pub scenario for SimReport {
        /// Name of the scenario.
        scenario => known label "Scenario";
        /// Description of the scenario.
        description => known label "Description";
        /// Source of the scenario.
        source => known label "Source";
        /// Name of the machine model.
        machine => known label "Machine";
        /// CPUs that were simulated.
        cpu_count => count "CPUs";
        /// Version of the simulator's model.
        model_version => number "Model";
        /// Hash of the scenario and of every file that it names.
        scenario_hash => label "Hash", |r| format!("{:016x}", r.scenario_hash);
        /// Seeds: one run of each variant for each.
        seeds => number "Seeds";
        /// True if every workload that checks itself passed.
        passed => label "Passed", |r| r.passed();
    }
}

fields! {
    /// Of a variant.
    pub variant for VariantReport {
        /// Name that tells the variant from the others.
        variant => known label "Variant", |v| v.label;
        /// Mechanism that moves real-time tasks.
        balancing => label "Balancing", |v| v.balancing_name();
        /// The layout, by name or file.
        layout => known label "Layout", |v| v.variant.layout;
        /// The load that was asked of thread pools: wake-ups a second and CPU.
        wakeups_per_cpu_second => count "Load", |v| v.variant.wakeups_per_second;
    }
}

fields! {
    /// Of one figure of a variant.
    pub metric for Summary {
        /// Its name.
        id => known label "Metric";
        /// Its unit.
        unit => label "Unit";
        /// Mean over the seeds.
        mean => number "Mean";
        /// Half of the 95 % confidence interval of the mean, from two seeds on.
        confidence => number "+-95%";
        /// The least over the seeds.
        min => number "Min";
        /// The largest over the seeds.
        max => number "Max";
        /// Runs that have the figure.
        run_count => count "Runs";
        /// Meaning of the figure.
        description => label "Meaning";
    }
}

fields! {
    /// Of the load at which a published figure is met.
    pub crossing for Crossing {
        /// The figure that is met.
        id => known label "Figure";
        /// The layout that it is of.
        layout => known label "Layout";
        /// Its published value.
        published => number "Published";
        /// Its unit.
        unit => known label "Unit";
        /// Wake-ups a second and CPU that were asked for, between two loads that were run; null when none has the
        /// value.
        load => number "Load";
    }
}

fields! {
    /// Of a published figure beside a simulated one.
    pub comparison for Comparison {
        /// The metric.
        id => known name "Metric";
        /// Variant that was simulated.
        variant => known name "Variant", |c| c.label;
        /// The published value, or the least of its range.
        published_min => number "Published", |c| c.published.0;
        /// The published value, or the largest of its range.
        published_max => number "to", |c| c.published.1;
        /// The mean over the seeds.
        simulated => number "Simulated";
        /// The least of several seeds.
        simulated_min => number "Least", |c| c.spread.map(|spread| spread.0);
        /// The largest of several seeds.
        simulated_max => number "Largest", |c| c.spread.map(|spread| spread.1);
        /// Simulated over published; over the nearer end of a range, 1 within it.
        ratio => number "Ratio";
        /// Unit of both.
        unit => known label "Unit";
        /// Source of the published figure.
        source => known label "Source";
    }
}
