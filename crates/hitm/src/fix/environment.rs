//! Variables that a remedy needs in the environment of builds and runs.

use std::collections::BTreeMap;
use std::env;
use std::process::Command;

/// Variables with options, by name. What the user has set stays before them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Environment {
    build: BTreeMap<String, String>,
    run: BTreeMap<String, String>,
}

impl Environment {
    /// Options for builds, and for runs and checks, each with the variable that carries it.
    pub fn new(build: &[(&str, &str)], run: &[(&str, &str)]) -> Environment {
        let owned = |options: &[(&str, &str)]| {
            let options = options.iter();
            let options = options.map(|(name, option)| ((*name).to_owned(), (*option).to_owned()));
            options.collect()
        };
        Environment {
            build: owned(build),
            run: owned(run),
        }
    }

    /// Both sets of variables.
    pub(super) fn and(&self, other: &Environment) -> Environment {
        let mut both = self.clone();
        both.build.extend(other.build.clone());
        both.run.extend(other.run.clone());
        both
    }

    pub(super) fn set_for_build(&self, command: &mut Command) {
        set(&self.build, command);
    }

    pub(super) fn set_for_run(&self, command: &mut Command) {
        set(&self.run, command);
    }

    /// Lines for a shell that set all of them.
    pub fn exports(&self) -> impl Iterator<Item = String> {
        let all = self.build.iter().chain(&self.run);
        all.map(|(name, option)| format!("export {name}='{option}'"))
    }
}

fn set(variables: &BTreeMap<String, String>, command: &mut Command) {
    for (name, option) in variables {
        let mut value = env::var_os(name).unwrap_or_default();
        if !value.is_empty() {
            value.push(" ");
        }
        value.push(option);
        command.env(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_all_remedies_are_set() {
        let java = Environment::new(&[("HITM_BUILD", "-a b")], &[("HITM_RUN", "-c")]);
        let both = java.and(&Environment::new(&[], &[("HITM_OTHER", "d")]));
        let variables = |set: &dyn Fn(&mut Command)| {
            let mut command = Command::new("true");
            set(&mut command);
            let variables = command.get_envs();
            let variables =
                variables.map(|(name, value)| (name.to_owned(), value.unwrap().to_owned()));
            variables.collect::<Vec<_>>()
        };
        let of_build = variables(&|command| both.set_for_build(command));
        assert_eq!(of_build, [("HITM_BUILD".into(), "-a b".into())]);
        let of_run = variables(&|command| both.set_for_run(command));
        assert_eq!(
            of_run,
            [
                ("HITM_OTHER".into(), "d".into()),
                ("HITM_RUN".into(), "-c".into())
            ]
        );
        let exports: Vec<String> = java.exports().collect();
        assert_eq!(
            exports,
            ["export HITM_BUILD='-a b'", "export HITM_RUN='-c'"]
        );
    }
}
