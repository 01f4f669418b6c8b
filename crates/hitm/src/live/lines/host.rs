//! This host's calibration, measured at the first use and kept for the others.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hitm_base::Fnv1a;
use hitm_files::input_file::NamedBy;
use hitm_files::output_file::{self, Durability};
use hitm_files::{ours, text_file};
use hitm_live::lines::{Calibrated, Calibration, Stand};
use hitm_recording::default_cache;
use serde::{Deserialize, Serialize};

use super::super::programs::SeenAccess;

/// Folder of calibrations in the cache.
const FOLDER: &str = "calibrations";
/// Longest file: ours have 400 bytes.
const BYTES_MAX: u64 = 4096;

/// Figures of this host, and where they are from.
#[derive(Debug, Clone)]
pub(super) struct Host {
    pub(super) figures: Calibration,
    origin: Origin,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    Measured,
    /// Some could not be measured.
    InPart,
    /// None could, for this reason.
    Assumed(String),
    /// Samples of somebody else's tool: none was measured there.
    Elsewhere,
}

/// Figures as they are kept.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    /// CPU, kernel and hitm that they are of.
    host: String,
    figures: Calibration,
}

impl Host {
    /// Figures that nobody has measured.
    pub(super) fn assumed(why: impl Into<String>) -> Host {
        Host {
            figures: Calibration::ASSUMED,
            origin: Origin::Assumed(why.into()),
        }
    }

    /// Figures of a host where another tool took samples.
    pub(super) fn elsewhere() -> Host {
        Host {
            figures: Calibration::ASSUMED,
            origin: Origin::Elsewhere,
        }
    }

    /// Finds the figures of this host, with a CPU of this model: kept ones, or else measured ones.
    pub(super) fn find(cpu: &str) -> Host {
        let kernel = super::super::kernel_release();
        let version = env!("CARGO_PKG_VERSION");
        let host = format!("{cpu}, Linux {kernel}, hitm {version}");
        Host::kept_or(&default_cache(), host, Calibration::measure)
    }

    fn kept_or(
        cache: &Path,
        host: String,
        measure: impl FnOnce() -> io::Result<Calibrated>,
    ) -> Host {
        let file = File::of(cache, &host);
        if let Some(figures) = file.read(&host) {
            return Host {
                figures,
                origin: Origin::Measured,
            };
        }
        match measure() {
            Ok(Calibrated { figures, is_whole }) => {
                if is_whole {
                    // A cache that cannot be written costs the next look 100 ms.
                    let _ = file.write(&Kept { host, figures });
                }
                let origin = match is_whole {
                    true => Origin::Measured,
                    false => Origin::InPart,
                };
                Host { figures, origin }
            }
            Err(error) => Host::assumed(error.to_string()),
        }
    }

    /// Returns true if a sample may stand for an access, where it was found.
    pub(super) fn may_stand(&self, access: &SeenAccess) -> bool {
        let operand = access.operand;
        let figures = &self.figures;
        let allows = |stand: Stand| stand.allows(access.is_before);
        match operand.is_locked {
            true => allows(figures.locked),
            false => {
                operand.reads && allows(figures.load) || operand.writes && allows(figures.store)
            }
        }
    }

    /// The figures in words.
    pub(super) fn text(&self) -> String {
        let figures = &self.figures;
        let stands = [
            ("loads", figures.load),
            ("stores", figures.store),
            ("locked operations", figures.locked),
        ];
        let of = |stand: Stand, place: &str| {
            let kinds = stands.iter().filter(|kind| kind.1 == stand);
            let kinds: Vec<&str> = kinds.map(|kind| kind.0).collect();
            let (last, others) = kinds.split_last()?;
            Some(match others {
                [] => format!("{place} {last}"),
                _ => format!("{place} {} and {last}", others.join(", ")),
            })
        };
        let places = [
            of(Stand::Behind, "behind"),
            of(Stand::At, "at"),
            of(Stand::Either, "at or behind"),
        ];
        let places: Vec<String> = places.into_iter().flatten().collect();
        let mut text = format!("samples stand {}", places.join(", "));
        if self.origin == Origin::Elsewhere {
            return text + " (assumed)";
        }
        if figures.locked_ps > 0 {
            let ns = figures.locked_ps as f64 / 1000.0;
            text += &format!("; a locked operation alone takes {ns:.1} ns");
        }
        text += &match (figures.watches_all, figures.watches_writes) {
            (false, _) => "; watches see nothing".to_owned(),
            (true, false) => format!("; a hit takes {}, of writes alone none", us(figures.hit_ns)),
            (true, true) => format!("; a hit takes {}", us(figures.hit_ns)),
        };
        text += &format!(
            "; to a switch of threads a clock adds {}, watches {}",
            us(figures.clock_switch_ns),
            us(figures.watches_switch_ns)
        );
        match &self.origin {
            Origin::Measured => text,
            Origin::InPart => text + " (in part assumed)",
            Origin::Assumed(why) => format!("{text} (assumed: {why})"),
            Origin::Elsewhere => text + " (assumed)",
        }
    }

    pub(super) fn hit(&self) -> Duration {
        Duration::from_nanos(self.figures.hit_ns)
    }

    pub(super) fn clock_switch(&self) -> Duration {
        Duration::from_nanos(self.figures.clock_switch_ns)
    }

    pub(super) fn watches_switch(&self) -> Duration {
        Duration::from_nanos(self.figures.watches_switch_ns)
    }
}

fn us(ns: u64) -> String {
    format!("{:.1} us", ns as f64 / 1000.0)
}

/// The file of a host's figures.
struct File {
    folder: PathBuf,
    path: PathBuf,
}

impl File {
    fn of(cache: &Path, host: &str) -> File {
        let folder = cache.join(FOLDER);
        let hash = Fnv1a::EMPTY.with(host.as_bytes()).value();
        let path = folder.join(format!("{hash:016x}.json"));
        File { folder, path }
    }

    /// The figures, if they are whole, of this host and nobody else could have written them.
    fn read(&self, host: &str) -> Option<Calibration> {
        ours::private_folder(&self.folder, false).ok()?;
        let text = text_file::read_named(&self.path, NamedBy::Input, BYTES_MAX, "a calibration");
        let kept: Kept = serde_json::from_str(&text.ok()?).ok()?;
        (kept.host == host).then_some(kept.figures)
    }

    fn write(&self, kept: &Kept) -> io::Result<()> {
        ours::private_folder(&self.folder, true)?;
        let text = serde_json::to_string_pretty(kept)?;
        let written = output_file::write_shared(&self.path, text.as_bytes(), Durability::Checked);
        written.map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const MEASURED: Calibration = Calibration {
        store: Stand::Either,
        locked_ps: 4012,
        hit_ns: 12_345,
        clock_switch_ns: 999,
        ..Calibration::ASSUMED
    };

    fn whole() -> io::Result<Calibrated> {
        Ok(Calibrated {
            figures: MEASURED,
            is_whole: true,
        })
    }

    #[test]
    fn what_was_measured_is_kept_until_it_is_damaged() {
        let cache = tempfile::tempdir().unwrap();
        let measured = Cell::new(0);
        let find = |host: &str| {
            let measure = || {
                measured.set(measured.get() + 1);
                whole()
            };
            let found = Host::kept_or(cache.path(), host.to_owned(), measure);
            assert_eq!(
                (found.figures, &found.origin),
                (MEASURED, &Origin::Measured)
            );
            measured.get()
        };
        assert_eq!([find("a"), find("a"), find("b"), find("a")], [1, 1, 2, 2]);
        let file = File::of(cache.path(), "a").path;
        for damaged in ["", "{", "[1]", "{\"host\": \"a\", \"figures\": {}}"] {
            std::fs::write(&file, damaged).unwrap();
            let before = measured.get();
            assert_eq!([find("a"), find("a")], [before + 1; 2], "{damaged}");
        }
        // Names of files are hashes: another host may have the same one.
        std::fs::copy(File::of(cache.path(), "b").path, &file).unwrap();
        let before = measured.get();
        assert_eq!(find("a"), before + 1);
    }

    #[test]
    fn what_could_not_be_measured_is_not_kept() {
        let cache = tempfile::tempdir().unwrap();
        let in_part = || {
            Ok(Calibrated {
                figures: Calibration::ASSUMED,
                is_whole: false,
            })
        };
        let none = || Err(io::ErrorKind::PermissionDenied.into());
        let find = |measure: fn() -> io::Result<Calibrated>| {
            Host::kept_or(cache.path(), "a".into(), measure).text()
        };
        assert!(find(in_part).ends_with("(in part assumed)"));
        assert!(find(none).ends_with("(assumed: permission denied)"));
        // No folder can be made below a file.
        let file = cache.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(Host::kept_or(&file, "a".into(), whole).figures, MEASURED);
        assert!(!cache.path().join(FOLDER).exists());
    }

    #[test]
    fn figures_are_told_in_a_line() {
        let text = |figures| {
            let origin = Origin::Measured;
            Host { figures, origin }.text()
        };
        assert_eq!(
            text(MEASURED),
            "samples stand behind loads and locked operations, at or behind stores; a locked operation alone takes \
             4.0 ns; a hit takes 12.3 us; to a switch of threads a clock adds 1.0 us, watches 10.0 us"
        );
        let blind = Calibration {
            watches_all: false,
            ..Calibration::ASSUMED
        };
        assert_eq!(
            text(blind),
            "samples stand behind loads and locked operations, at stores; watches see nothing; to a switch of threads \
             a clock adds 10.0 us, watches 10.0 us"
        );
    }
}
