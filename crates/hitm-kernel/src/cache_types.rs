//! Types of the objects of slab caches, by the caches' names.
//!
//! Most caches are named after the type of their objects, or by one of a few habits; a table has the others. A name
//! that habits lead to may be another type's, such as that of an inode on disk: it counts where an object of it takes
//! most of the place that the cache gives it.

use std::collections::BTreeMap;

use super::walk::Walker;

/// Version of the internet protocol behind the name of a protocol's cache.
const VERSION_6: &str = "v6";

/// Endings of caches' names that are not of the type, and those of types in their place.
const ENDINGS: &[(&str, &[&str])] = &[
    ("_inode_cache", &["_inode_info", "_inode"]),
    ("_cache", &["", "_struct", "_info"]),
];

impl Walker<'_> {
    /// The type of a cache's objects, each of which has `stride_bytes`; `types` has what names do not tell.
    pub(super) fn type_of_cache(
        &mut self,
        name: &str,
        stride_bytes: u64,
        types: &BTreeMap<String, String>,
    ) -> Option<String> {
        let known = types.get(name).map_or(name, String::as_str);
        if self.has_layout(known) {
            return Some(known.to_owned());
        }
        let fills = |size: u64| size <= stride_bytes && size > stride_bytes / 2;
        let mut meant = meant_by(name).into_iter();
        meant.find(|name| self.layout_bytes(name).is_some_and(fills))
    }
}

/// Types that a cache's name may mean, the likeliest first.
fn meant_by(name: &str) -> Vec<String> {
    let mut meant = Vec::new();
    for (ending, others) in ENDINGS {
        if let Some(stem) = name.strip_suffix(ending) {
            meant.extend(others.iter().map(|other| format!("{stem}{other}")));
        }
    }
    // Protocols have caches of their sockets (net/core/sock.c: `proto_register`).
    let (protocol, version) = match name.strip_suffix(VERSION_6) {
        Some(protocol) => (protocol, "6"),
        None => (name, ""),
    };
    if protocol.bytes().all(|byte| byte.is_ascii_uppercase()) {
        let protocol = protocol.to_ascii_lowercase();
        meant.push(format!("{protocol}{version}_sock"));
    }
    meant
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_caches_lead_to_types() {
        let first = |name| meant_by(name).first().cloned();
        assert_eq!(first("TCP").as_deref(), Some("tcp_sock"));
        assert_eq!(first("UDPv6").as_deref(), Some("udp6_sock"));
        assert_eq!(first("PACKET").as_deref(), Some("packet_sock"));
        assert_eq!(
            meant_by("shmem_inode_cache")[..2],
            ["shmem_inode_info", "shmem_inode"]
        );
        assert_eq!(meant_by("fs_cache"), ["fs", "fs_struct", "fs_info"]);
        assert_eq!(first("kmalloc-512"), None);
        assert_eq!(first("names"), None);
    }
}
