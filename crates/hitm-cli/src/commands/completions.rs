//! `hitm completions` and `hitm man`: what shells and man(1) know, from the same table as `--help`.

use std::ffi::OsStr;

use anyhow::{Context as _, Result};
use clap::{Arg, Args, CommandFactory as _, ValueEnum};
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _,
};
use clap_complete::env::{Bash, CompleteEnv, EnvCompleter, Fish, Zsh};
use hitm_base::machine::preset_names;

use crate::args;
use crate::{Exit, Terminal};

pub(super) const NAME: &str = "hitm";
/// Set by the scripts of shells, to the shell's name: the program then prints completions.
const VARIABLE: &str = "HITM_COMPLETE";

/// zsh loads the script from its `fpath` at the first TAB, as the function that completes.
const ZSH_FIRST_TAB: &[u8] =
    b"if [[ $funcstack[1] == _hitm ]]; then _clap_dynamic_completer_hitm \"$@\"; fi\n";

/// bash splits words at `=`, and hitm is asked about `--machine=xeon` as one.
const BASH_JOINED: &[u8] = br#"_hitm() {
    local at=$COMP_CWORD
    [[ ${COMP_WORDS[at]} == '=' ]] && at=$((at + 1))
    if ((at >= 2)) && [[ ${COMP_WORDS[at - 1]} == '=' && ${COMP_WORDS[at - 2]} == --* ]]; then
        local option=${COMP_WORDS[at - 2]}=
        local COMP_WORDS=("${COMP_WORDS[@]:0:at-2}" "$option$2") COMP_CWORD=$((at - 2))
        _clap_complete_hitm "$1" "$option$2" "${COMP_WORDS[COMP_CWORD - 1]}"
        COMPREPLY=("${COMPREPLY[@]#"$option"}")
    else
        _clap_complete_hitm "$@"
    fi
}
complete -o nospace -o bashdefault -o nosort -F _hitm hitm 2> /dev/null ||
    complete -o nospace -o bashdefault -F _hitm hitm
"#;

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Where shells look for it:
  bash  hitm completions bash > ~/.local/share/bash-completion/completions/hitm
  zsh   hitm completions zsh > FOLDER/_hitm, with FOLDER in fpath
  fish  hitm completions fish > ~/.config/fish/completions/hitm.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Writes the script that asks hitm itself at each TAB.
pub(super) fn run(args: CompletionsArgs, terminal: &mut Terminal) -> Result<Exit> {
    let shell: &dyn EnvCompleter = match args.shell {
        Shell::Bash => &Bash,
        Shell::Zsh => &Zsh,
        Shell::Fish => &Fish,
    };
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, NAME, NAME, NAME, &mut script)?;
    script.extend_from_slice(match args.shell {
        Shell::Bash => BASH_JOINED,
        Shell::Zsh => ZSH_FIRST_TAB,
        Shell::Fish => b"",
    });
    let script = String::from_utf8(script).context("a completion is no UTF-8")?;
    terminal.source(script.trim_start())?;
    Ok(Exit::Done)
}

/// Answers a shell's question and ends the process, if this is one.
pub fn complete_for_shell() {
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// The command line with completions of its values.
fn command() -> clap::Command {
    with_values(args::Args::command())
}

fn with_values(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| match completer(&arg) {
        Some(completer) => arg.add(completer),
        None => arg,
    });
    command.mut_subcommands(with_values)
}

/// Completions of an argument's value, by the name that `--help` has for it.
fn completer(arg: &Arg) -> Option<ArgValueCompleter> {
    let name = arg.get_value_names()?.first()?.as_str();
    match (name, arg.get_id().as_str()) {
        ("NAME|FILE", "machine" | "like") => Some(names_or_files(|| {
            let names = preset_names().map(str::to_owned);
            names.chain(["host".to_owned()]).collect()
        })),
        ("SCENARIO.toml|APP.json", _) => Some(names_or_files(|| hitm::sim::shipped_scenarios().collect())),
        (name, _) if name.contains("FILE") || name.ends_with(".toml") || name == "PROGRAM" => {
            Some(ArgValueCompleter::new(PathCompleter::any()))
        }
        _ => None,
    }
}

/// Completes with those of `names` that fit, and with files.
fn names_or_files(names: fn() -> Vec<String>) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| {
        let typed = current.to_string_lossy();
        let names = names().into_iter();
        let fitting = names.filter(|name| name.starts_with(typed.as_ref()));
        let mut candidates: Vec<CompletionCandidate> =
            fitting.map(CompletionCandidate::new).collect();
        candidates.extend(PathCompleter::any().complete(current));
        candidates
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Completions of the last of `words`, as a shell gets them.
    fn completed(words: &[&str]) -> Vec<String> {
        let words: Vec<_> = [NAME].iter().chain(words).map(Into::into).collect();
        let last = words.len() - 1;
        let mut command = command();
        command.build();
        let folder = tempfile::tempdir().unwrap();
        let found = clap_complete::engine::complete(&mut command, words, last, Some(folder.path()));
        let values = found.unwrap().into_iter();
        values
            .map(|value| value.get_value().to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn names_of_machines_and_scenarios_are_completed() {
        for words in [
            &["record", "--machine", "xeon-4"][..],
            &["whatif", "-m", "xeon-4"],
            &["sim", "--machine", "xeon-4"],
            &["machine", "show", "xeon-4"],
        ] {
            assert_eq!(completed(words), ["xeon-480"], "{words:?}");
        }
        assert!(completed(&["record", "--machine", ""]).contains(&"host".to_owned()));
        assert_eq!(
            completed(&["sim", "000-root-domain/ff"]),
            ["000-root-domain/ffmpeg"]
        );
        assert_eq!(completed(&["rep"]), ["report", "reproduce"]);
    }
}
