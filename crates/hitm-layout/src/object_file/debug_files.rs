//! Finds the files that hold an object file's debug information.

use std::collections::BTreeMap;

use super::ObjectFile;
use crate::dwarf::{DebugSections, Naming, Skeleton};
use crate::elf::Elf;
use crate::symbolizer::{Loader, hex};
use crate::{Bytes, Unread};

/// `.dwo` files that are kept open. A caller that maps files has no more than 65,530 mappings.
const MAX_DWO_FILES: usize = 1 << 14;

/// Messages about single `.dwo` files: more say nothing new.
const MAX_PROBLEMS: usize = 8;

impl ObjectFile {
    /// Looks for debug information that lies in other files: under the build id, under the name of
    /// `.gnu_debuglink`, and in the part shared between programs that `.gnu_debugaltlink` names.
    /// Split DWARF leaves more to the package beside the program (`.dwp`) and to `.dwo` files.
    /// `load` returns the bytes of a file. Call this before the first question.
    pub fn attach_debug_files(&mut self, load: &mut Loader<'_>) {
        self.debug = None;
        self.symbols = None;
        if self.elf.section(".debug_info").is_none() && self.elf.section(".zdebug_info").is_none() {
            self.debug_elf = self.find_debug_file(load);
        }
        self.attach_supplement(load);
        self.attach_split(load);
    }

    fn attach_supplement(&mut self, load: &mut Loader<'_>) {
        let Some(link) = self.info_elf().alt_link.clone() else {
            return;
        };
        let beside = format!("{}/{}", directory(&self.info_elf().name), link.path);
        let by_id = build_id_path(&link.build_id);
        let paths = [Some(link.path.clone()), Some(beside), by_id];
        let found = self.load_debug(paths.into_iter().flatten(), Some(&link.build_id), load);
        self.supplement = found.or(self.supplement.take());
        if self.supplement.is_none() {
            self.note(format!(
                "supplementary debug information {} not found: some types and names are missing",
                link.path
            ));
        }
    }

    /// The bytes of a file; notes why one that is there was not read.
    fn load(&mut self, path: &str, load: &mut Loader<'_>) -> Option<Bytes> {
        match load(path) {
            Ok(bytes) => Some(bytes),
            Err(Unread::Missing) => None,
            Err(Unread::Refused(why)) => {
                self.note(format!("{path} was not read: {why}"));
                None
            }
        }
    }

    /// The first of these files that has the build id.
    fn load_debug(
        &mut self,
        paths: impl IntoIterator<Item = String>,
        build_id: Option<&[u8]>,
        load: &mut Loader<'_>,
    ) -> Option<Elf> {
        for path in paths {
            let Some(bytes) = self.load(&path, load) else {
                continue;
            };
            match Elf::parse_debug(bytes, &path) {
                Ok(elf) if elf.build_id.as_deref() == build_id => return Some(elf),
                Ok(_) => self.note(format!("{path} has another build id: not used")),
                Err(error) => self.note(error.to_string()),
            }
        }
        None
    }

    fn find_debug_file(&mut self, load: &mut Loader<'_>) -> Option<Elf> {
        let id = self.elf.build_id.clone();
        let by_id = id.as_deref().and_then(build_id_path);
        let mut paths: Vec<String> = by_id.into_iter().collect();
        if let Some(link) = &self.elf.debug_link {
            let own = directory(&self.elf.name);
            paths.push(format!("{own}/{link}"));
            paths.push(format!("{own}/.debug/{link}"));
            paths.push(format!("/usr/lib/debug{own}/{link}"));
        }
        paths.retain(|path| *path != self.elf.name);
        self.load_debug(paths, id.as_deref(), load)
    }

    /// Attaches what skeleton units leave to other files.
    fn attach_split(&mut self, load: &mut Loader<'_>) {
        self.split_looked_for = true;
        let all = self.missing_units().len();
        if all == 0 {
            return;
        }
        let mut packages = [self.info_elf(), &self.elf]
            .map(|elf| format!("{}.dwp", elf.name))
            .to_vec();
        packages.dedup();
        for path in packages {
            let missing = self.missing_units();
            if let Some(bytes) = self.load(&path, load).filter(|_| !missing.is_empty()) {
                self.attach_split_file(bytes, &path, &missing);
            }
        }
        // Several units may lie in one file.
        let mut by_file: BTreeMap<String, Vec<Skeleton>> = BTreeMap::new();
        for skeleton in self.missing_units() {
            let key = join(&skeleton.dwo.directory, &skeleton.dwo.name);
            by_file.entry(key).or_default().push(skeleton);
        }
        for (path, skeletons) in by_file.iter().take(MAX_DWO_FILES) {
            let own = directory(&self.elf.name);
            let moved = join(own, &skeletons[0].dwo.name);
            let beside = join(
                own,
                skeletons[0].dwo.name.rsplit('/').next().unwrap_or(path),
            );
            let mut tried: Vec<&str> = Vec::new();
            for path in [path, &moved, &beside] {
                if tried.contains(&path.as_str()) {
                    continue;
                }
                tried.push(path);
                let loaded = self.load(path, load);
                if loaded.is_some_and(|bytes| self.attach_split_file(bytes, path, skeletons)) {
                    break;
                }
            }
        }
        if let Some(first) = self.missing_units().first() {
            let path = join(&first.dwo.directory, &first.dwo.name);
            let missing = self.missing_units().len();
            self.note(format!(
                "split debug information of {missing} of {all} units not found, such as {path}: \
                 no types and variables of theirs, code by line only"
            ));
        }
    }

    /// Attaches one file, if it holds entries of these units.
    fn attach_split_file(&mut self, bytes: Bytes, path: &str, skeletons: &[Skeleton]) -> bool {
        let elf = match Elf::parse_debug(bytes, path) {
            Ok(elf) => elf,
            Err(error) => {
                self.note(error.to_string());
                return false;
            }
        };
        let mut problems = Vec::new();
        let sections = DebugSections::new(&elf, Naming::Split, &mut problems);
        let dwarf = &mut self.debug().dwarf;
        let joined = dwarf.attach_split(skeletons, sections, &mut problems);
        if joined == 0 {
            problems.push(String::from(
                "has no unit of this program, or one of another compilation: not used",
            ));
        }
        for problem in problems.into_iter().take(MAX_PROBLEMS) {
            self.note(format!("{path}: {problem}"));
        }
        joined > 0
    }

    fn missing_units(&mut self) -> Vec<Skeleton> {
        self.debug().dwarf.skeletons()
    }
}

fn join(directory: &str, name: &str) -> String {
    if name.starts_with('/') || directory.is_empty() {
        return name.to_owned();
    }
    format!("{directory}/{name}")
}

/// The directory part of a path; empty for a bare name.
fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// Path at which distributions put the debug information of a build id.
fn build_id_path(id: &[u8]) -> Option<String> {
    let hex = hex(id);
    let (first, rest) = hex.split_at_checked(2)?;
    (!rest.is_empty()).then(|| format!("/usr/lib/debug/.build-id/{first}/{rest}.debug"))
}
