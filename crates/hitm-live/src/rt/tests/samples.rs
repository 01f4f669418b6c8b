//! A run for tests of what is measured and of how it is shown.

use hitm_base::rt_migrate::{RtMigrate, RtMigrateConfig, Sample};
use hitm_live::rt::{Place, RtRun};

/// The failed iteration of the published run, on four CPUs and an idle fifth.
pub(crate) fn published() -> RtRun {
    let samples = [
        (36, 20036, 167_789),
        (33, 20033, 167_693),
        (20041, 40041, 227_167),
        (39, 20039, 167_829),
        (33, 20033, 167_814),
    ];
    let sample = |(start_us, length_us, loops): (u64, u64, u64)| Sample {
        start_us,
        length_us,
        loops,
    };
    let place = |cpu| Place {
        first_cpu: cpu,
        last_cpu: cpu,
    };
    RtRun {
        results: RtMigrate {
            config: RtMigrateConfig::new(4),
            iterations: vec![samples.map(sample).to_vec()],
        },
        places: vec![[0, 1, 3, 2, 3].map(place).to_vec()],
        allowed: vec![0, 1, 2, 3, 4],
    }
}
