//! Late threads, and the CPUs on which they could have run.

use hitm_fields::fields;

use super::RtRun;

fields! {
    /// A CPU on which a thread could have run while it waited.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct CpuChoice in cpu_choice {
        /// Number of the CPU in the operating system.
        pub cpu: u32 => number "CPU";
        /// Thread of lower priority that started there meanwhile; none when none of the test did.
        pub task: Option<usize> => number "task";
    }
}

fields! {
    /// A thread that started late while one of lower priority ran.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Late in late_thread {
        /// Number of the iteration, from 0.
        pub iteration: usize => number "iteration";
        /// The thread.
        pub task: usize => number "task";
        /// From the opening of the barrier to its start.
        pub start_us: u64 => number "start";
        /// The time by which it started later than the next lower thread it started.
        pub late_us: u64 => number "late";
        /// The CPU on which it ran in the end.
        pub cpu: u32 => number "CPU";
        /// CPUs that it could have run on before, in the order of the CPUs.
        pub choices: Vec<CpuChoice>;
    }
}

/// Threads for which the failed iterations fail, one each, by the rule of rt-migrate-test.
pub fn late(run: &RtRun) -> Vec<Late> {
    let failed = run.results.failures().into_iter();
    let tasks = failed.filter_map(|iteration| Some((iteration, run.results.failure(iteration)?)));
    tasks
        .map(|(iteration, task)| {
            let samples = &run.results.iterations[iteration];
            let start_us = samples[task].start_us;
            Late {
                iteration,
                task,
                start_us,
                late_us: start_us - samples[task - 1].start_us,
                cpu: run.places[iteration][task].first_cpu,
                choices: choices(run, iteration, task),
            }
        })
        .collect()
}

/// CPUs without a thread of the same or a higher priority from the opening of the barrier to the
/// start of `task`. Of several lower threads on a CPU the lowest is named, which was preempted
/// first.
fn choices(run: &RtRun, iteration: usize, task: usize) -> Vec<CpuChoice> {
    let config = &run.results.config;
    let samples = &run.results.iterations[iteration];
    let places = &run.places[iteration];
    let started_before = |other: &usize| samples[*other].start_us < samples[task].start_us;
    let choice = |cpu: u32| {
        let mut there = (0..samples.len())
            .filter(started_before)
            .filter(|other| places[*other].first_cpu == cpu);
        let lowest = there.next();
        let is_free = [lowest]
            .into_iter()
            .flatten()
            .chain(there)
            .all(|other| config.prio(other) < config.prio(task));
        is_free.then_some(CpuChoice { cpu, task: lowest })
    };
    run.allowed.iter().filter_map(|cpu| choice(*cpu)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rt::samples::published;

    #[test]
    fn the_late_thread_could_have_preempted_lower_ones() {
        let found = late(&published());
        let choice = |cpu, task| CpuChoice { cpu, task };
        let expected = Late {
            iteration: 0,
            task: 2,
            start_us: 20041,
            late_us: 20008,
            cpu: 3,
            choices: vec![choice(0, Some(0)), choice(1, Some(1)), choice(4, None)],
        };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn cpus_of_higher_threads_are_no_choice() {
        let mut run = published();
        run.places[0][1].first_cpu = 2;
        run.allowed = vec![0, 2];
        let found = late(&run);
        let cpus: Vec<u32> = found[0].choices.iter().map(|choice| choice.cpu).collect();
        assert_eq!(cpus, [0], "thread 3 ran on CPU 2 as well");
    }

    #[test]
    fn good_iterations_have_none_late() {
        let mut run = published();
        run.results.iterations[0][2].start_us = 60;
        assert_eq!(late(&run), []);
    }
}
