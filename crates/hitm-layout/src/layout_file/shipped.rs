//! The layout files that come with hitm, embedded from `layouts/`.

macro_rules! shipped {
    ($($name:literal,)+) => {
        /// Name and text of every shipped file, in order of name. A file's name is its `name`.
        const SHIPPED: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../../layouts/", $name, ".toml")))),+];
    };
}

shipped! {
    "count-per-node+mask-per-node",
    "cpupri-mask-per-node",
    "cpupri-vec-line-each",
    "linux-6.12",
    "restructured+count-per-node",
    "restructured+count-per-node+mask-per-node",
    "restructured+mask-per-node",
    "restructured+vec-line-each",
    "restructured+vec-line-each+count-per-node",
    "restructured+vec-line-each+count-per-node+mask-per-node",
    "restructured+vec-line-each+mask-per-node",
    "root-domain-restructured",
    "rto-count-per-node",
    "vec-line-each+count-per-node",
    "vec-line-each+count-per-node+mask-per-node",
    "vec-line-each+mask-per-node",
}

/// The text of the shipped file `name`, when there is one.
pub fn shipped(name: &str) -> Option<&'static str> {
    let known = SHIPPED.iter().find(|(known, _)| *known == name);
    known.map(|(_, text)| *text)
}

/// The names of all shipped files, in alphabetical order.
pub fn shipped_names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}
