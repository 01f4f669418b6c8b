//! The layout files that come with hitm, embedded from `layouts/`.

/// Name and text of every shipped file, in order of name. A file's name is its `name`.
const SHIPPED: [(&str, &str); 16] = [
    (
        "count-per-node+mask-per-node",
        include_str!("../../../../layouts/count-per-node+mask-per-node.toml"),
    ),
    (
        "cpupri-mask-per-node",
        include_str!("../../../../layouts/cpupri-mask-per-node.toml"),
    ),
    (
        "cpupri-vec-line-each",
        include_str!("../../../../layouts/cpupri-vec-line-each.toml"),
    ),
    (
        "linux-6.12",
        include_str!("../../../../layouts/linux-6.12.toml"),
    ),
    (
        "restructured+count-per-node",
        include_str!("../../../../layouts/restructured+count-per-node.toml"),
    ),
    (
        "restructured+count-per-node+mask-per-node",
        include_str!("../../../../layouts/restructured+count-per-node+mask-per-node.toml"),
    ),
    (
        "restructured+mask-per-node",
        include_str!("../../../../layouts/restructured+mask-per-node.toml"),
    ),
    (
        "restructured+vec-line-each",
        include_str!("../../../../layouts/restructured+vec-line-each.toml"),
    ),
    (
        "restructured+vec-line-each+count-per-node",
        include_str!("../../../../layouts/restructured+vec-line-each+count-per-node.toml"),
    ),
    (
        "restructured+vec-line-each+count-per-node+mask-per-node",
        include_str!(
            "../../../../layouts/restructured+vec-line-each+count-per-node+mask-per-node.toml"
        ),
    ),
    (
        "restructured+vec-line-each+mask-per-node",
        include_str!("../../../../layouts/restructured+vec-line-each+mask-per-node.toml"),
    ),
    (
        "root-domain-restructured",
        include_str!("../../../../layouts/root-domain-restructured.toml"),
    ),
    (
        "rto-count-per-node",
        include_str!("../../../../layouts/rto-count-per-node.toml"),
    ),
    (
        "vec-line-each+count-per-node",
        include_str!("../../../../layouts/vec-line-each+count-per-node.toml"),
    ),
    (
        "vec-line-each+count-per-node+mask-per-node",
        include_str!("../../../../layouts/vec-line-each+count-per-node+mask-per-node.toml"),
    ),
    (
        "vec-line-each+mask-per-node",
        include_str!("../../../../layouts/vec-line-each+mask-per-node.toml"),
    ),
];

/// The text of the shipped file `name`, when there is one.
pub fn shipped(name: &str) -> Option<&'static str> {
    SHIPPED
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}

/// The names of all shipped files, in alphabetical order.
pub fn shipped_names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}
