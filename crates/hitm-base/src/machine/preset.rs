//! The machine files that come with hitm, embedded from `machines/`.

/// Name and text of every preset, in order of name. A preset's name is its file name.
const PRESETS: [(&str, &str); 8] = [
    (
        "broadwell-4s",
        include_str!("../../../../machines/broadwell-4s.toml"),
    ),
    (
        "cascadelake-2s",
        include_str!("../../../../machines/cascadelake-2s.toml"),
    ),
    (
        "genoa-384",
        include_str!("../../../../machines/genoa-384.toml"),
    ),
    (
        "icelake-2s",
        include_str!("../../../../machines/icelake-2s.toml"),
    ),
    (
        "kunpeng920-96",
        include_str!("../../../../machines/kunpeng920-96.toml"),
    ),
    (
        "milan-2s",
        include_str!("../../../../machines/milan-2s.toml"),
    ),
    (
        "xeon-480",
        include_str!("../../../../machines/xeon-480.toml"),
    ),
    (
        "xeon8176-8s",
        include_str!("../../../../machines/xeon8176-8s.toml"),
    ),
];

/// The TOML text of the preset `name`, when there is one.
pub fn preset(name: &str) -> Option<&'static str> {
    PRESETS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}

/// The names of all presets, in alphabetical order.
pub fn preset_names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|(name, _)| *name)
}
