//! The compiler of a kernel's tree, as the tree's own build calls it.
//!
//! Kbuild keeps the command of each object beside it. A prepared tree has the one of `asm-offsets.c`: with options,
//! folders of headers and first headers that hold for every file of the kernel.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fix::FixError;
use crate::fix::words::Program;

/// Command of a file that `make prepare` compiles. Recorded guests are x86-64.
const KEPT_COMMAND: &str = "arch/x86/kernel/.asm-offsets.s.cmd";

/// A file that every tree of Linux has.
const OF_LINUX: &str = "scripts/Kbuild.include";

/// Options that name outputs, and those that would change the tree or leave debug information out of the object.
const LEFT_OUT: [&str; 3] = ["-S", "-c", "-fverbose-asm"];

/// A compiler and the options of every file.
#[derive(Debug)]
pub(super) struct Compiler {
    /// The compiler and its options.
    words: Vec<String>,
    /// Folder that paths in the options are relative to.
    root: PathBuf,
}

impl Compiler {
    /// The compiler of a tree: `cc` where that is not one of Linux.
    ///
    /// # Errors
    /// A tree of Linux is not prepared.
    pub(super) fn of(root: &Path) -> Result<Compiler, FixError> {
        let words = match root.join(OF_LINUX).exists() {
            true => linux(root)?,
            false => ["cc", "-I", "."].map(str::to_owned).to_vec(),
        };
        Ok(Compiler {
            words,
            root: root.to_owned(),
        })
    }

    /// Compiles `program` into `object`, with debug information and headers beside `file` of the tree.
    pub(super) fn command(&self, program: &Path, object: &Path, file: &Path) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).current_dir(&self.root);
        let folder = file.parent().unwrap_or(Path::new(""));
        command.arg("-iquote").arg(self.root.join(folder));
        command.args(["-g", "-gno-split-dwarf", "-fno-lto", "-w", "-c", "-o"]);
        command.arg(object).arg(program);
        command
    }
}

/// The words of the command that Kbuild keeps, without its own files.
fn linux(root: &Path) -> Result<Vec<String>, FixError> {
    let path = root.join(KEPT_COMMAND);
    let unprepared = |found: String| FixError::NotPrepared {
        root: root.to_owned(),
        found,
    };
    let text = fs::read_to_string(&path).map_err(|_| {
        let config = root.join(".config");
        unprepared(match config.exists() {
            true => format!("no {KEPT_COMMAND}"),
            false => "no .config".to_owned(),
        })
    })?;
    options(&text).map_err(|why| unprepared(format!("{why} in {KEPT_COMMAND}")))
}

/// The compiler and its options from a text of the form `savedcmd_FILE := gcc OPTIONS -o FILE FILE.c`.
fn options(text: &str) -> Result<Vec<String>, String> {
    let line = text.lines().next().unwrap_or_default();
    let command = line.split_once(":=").map(|(_, command)| command.trim());
    let command = command.filter(|_| line.starts_with("savedcmd_") || line.starts_with("cmd_"));
    let program =
        Program::parse(command.ok_or("no command")?).map_err(|error| error.to_string())?;
    let mut words = Vec::new();
    let mut all = program.words().iter().peekable();
    while let Some(word) = all.next() {
        match word.as_str() {
            "-o" => drop(all.next()),
            // What is written beside the object would be written to the tree.
            word if word.starts_with("-Wp,-M") || word.starts_with("-flto") => {}
            word if LEFT_OUT.contains(&word) => {}
            word if all.peek().is_none() && word.ends_with(".c") => {}
            _ => words.push(word.clone()),
        }
    }
    match words.is_empty() {
        true => Err("no compiler".to_owned()),
        false => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_of_every_file() {
        let text = "savedcmd_arch/x86/kernel/asm-offsets.s := gcc -Wp,-MMD,arch/x86/kernel/.asm-offsets.s.d -nostdinc \
                    -I./include -include ./include/linux/kconfig.h -DKBUILD_MODNAME='\"asm_offsets\"' -mfentry \
                    -DCC_USING_FENTRY -fverbose-asm -S -o arch/x86/kernel/asm-offsets.s arch/x86/kernel/asm-offsets.c\n\n\
                    source_arch/x86/kernel/asm-offsets.s := arch/x86/kernel/asm-offsets.c\n";
        let expected = [
            "gcc",
            "-nostdinc",
            "-I./include",
            "-include",
            "./include/linux/kconfig.h",
            "-DKBUILD_MODNAME=\"asm_offsets\"",
            "-mfentry",
            "-DCC_USING_FENTRY",
        ];
        assert_eq!(options(text).unwrap(), expected);
        assert_eq!(options("").unwrap_err(), "no command");
        assert_eq!(
            options("savedcmd_a := ").unwrap_err(),
            "found no word, expected a program and its arguments"
        );
        assert!(
            options("cmd_a := gcc -c a.c; rm a")
                .unwrap_err()
                .starts_with("found ;")
        );
    }

    #[test]
    fn a_tree_of_linux_must_be_prepared() {
        let tree = tempfile::tempdir().unwrap();
        let root = tree.path();
        let told = || {
            Compiler::of(root)
                .unwrap_err()
                .to_string()
                .replace(&root.display().to_string(), "TREE")
        };
        fs::create_dir(root.join("scripts")).unwrap();
        fs::write(root.join(OF_LINUX), "").unwrap();
        assert_eq!(
            told(),
            "TREE: found no .config, expected a tree that is configured as the recorded kernel: copy that one's \
             configuration to TREE/.config, then make -C TREE olddefconfig prepare"
        );
        fs::write(root.join(".config"), "").unwrap();
        assert!(
            told().starts_with("TREE: found no arch/x86/kernel/.asm-offsets.s.cmd, expected"),
            "{}",
            told()
        );
    }
}
