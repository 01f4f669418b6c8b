//! A sweep on a Slurm cluster: an array of parts that share one folder, and a last job for the table.

use std::fmt::Write as _;
use std::path::Path;

/// Returns the script for sbatch, with `tasks` tasks of `cpus` CPUs each. It submits its own last
/// job.
pub fn slurm_script(
    program: &Path,
    plan: &Path,
    folder: &Path,
    tasks: usize,
    cpus: usize,
) -> String {
    let sweep = format!(
        "{} sweep {} -o {}",
        quoted(program),
        quoted(plan),
        quoted(folder)
    );
    let mut script = String::from("#!/bin/sh\n");
    let _ = write!(
        script,
        "#SBATCH --job-name=hitm-sweep\n\
         #SBATCH --array=1-{tasks}\n\
         #SBATCH --cpus-per-task={cpus}\n\
         #SBATCH --requeue\n\
         # A task makes the runs of its part that are not there; one that is requeued goes on.\n\
         # The first task submits the job that writes the table when all parts are done.\n\
         if [ \"$SLURM_ARRAY_TASK_ID\" = 1 ] && [ \"${{SLURM_RESTART_COUNT:-0}}\" = 0 ]; then\n\
         \x20   sbatch --job-name=hitm-sweep-table --cpus-per-task={cpus} \\\n\
         \x20       --dependency=\"afterany:$SLURM_ARRAY_JOB_ID\" --wrap={}\n\
         fi\n\
         exec {sweep} --jobs {cpus} --part \"$SLURM_ARRAY_TASK_ID/{tasks}\"\n",
        quoted_text(&format!("{sweep} --jobs {cpus}"))
    );
    script
}

fn quoted(path: &Path) -> String {
    quoted_text(&path.display().to_string())
}

/// Quotes a word for a shell's command.
fn quoted_text(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,=@%".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn the_script_runs_parts_and_then_the_table() {
        let script = slurm_script(
            Path::new("/usr/bin/hitm"),
            Path::new("my plan.toml"),
            Path::new("out"),
            16,
            4,
        );
        expect![[r#"
            #!/bin/sh
            #SBATCH --job-name=hitm-sweep
            #SBATCH --array=1-16
            #SBATCH --cpus-per-task=4
            #SBATCH --requeue
            # A task makes the runs of its part that are not there; one that is requeued goes on.
            # The first task submits the job that writes the table when all parts are done.
            if [ "$SLURM_ARRAY_TASK_ID" = 1 ] && [ "${SLURM_RESTART_COUNT:-0}" = 0 ]; then
                sbatch --job-name=hitm-sweep-table --cpus-per-task=4 \
                    --dependency="afterany:$SLURM_ARRAY_JOB_ID" --wrap='/usr/bin/hitm sweep '\''my plan.toml'\'' -o out --jobs 4'
            fi
            exec /usr/bin/hitm sweep 'my plan.toml' -o out --jobs 4 --part "$SLURM_ARRAY_TASK_ID/16"
        "#]]
        .assert_eq(&script);
    }
}
