//! The scenarios that come with hitm, embedded from `scenarios/`.

/// A file that comes with hitm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShippedFile {
    /// Its folder in `scenarios/`.
    pub folder: &'static str,
    /// Its name there.
    pub name: &'static str,
    /// Its content.
    pub text: &'static str,
}

macro_rules! shipped_files {
    ($($folder:literal / $name:literal),* $(,)?) => {
        [$(ShippedFile {
            folder: $folder,
            name: $name,
            text: include_str!(concat!("../../../../scenarios/", $folder, "/", $name)),
        }),*]
    };
}

const SHIPPED: &[ShippedFile] = &shipped_files![
    "000-root-domain" / "ffmpeg.toml",
    "000-root-domain" / "cyclic.toml",
    "000-root-domain" / "pi-stress.toml",
    "001-rt-balancing" / "cpus-004.toml",
    "001-rt-balancing" / "cpus-008.toml",
    "001-rt-balancing" / "cpus-096.toml",
    "001-rt-balancing" / "cpus-480.toml",
    "001-rt-balancing" / "cpusets.toml",
    "001-rt-balancing" / "overlapping-cpusets.toml",
    "001-rt-balancing" / "one-domain.toml",
    "001-rt-balancing" / "open-case.toml",
    "003-lock-affinity" / "one-thread.toml",
    "003-lock-affinity" / "96-threads.toml",
    "003-lock-affinity" / "bystanders.toml",
    "003-lock-affinity" / "hackbench.toml",
    "003-lock-affinity" / "schbench.toml",
    "004-task-throttle" / "walk.toml",
    "004-task-throttle" / "walk-15s.toml",
    "004-task-throttle" / "lock-holder.toml",
    "005-quota" / "bursts.toml",
    "005-quota" / "strand.toml",
    "005-quota" / "expiring.toml",
    "006-holder" / "preempt.toml",
    "006-holder" / "cures.toml",
];

/// All of them, those of a folder together.
pub fn shipped() -> impl Iterator<Item = &'static ShippedFile> {
    SHIPPED.iter()
}
