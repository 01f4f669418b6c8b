//! Presentation of a kernel's slab caches.

use hitm::vm::Cache;

use crate::Printout;

/// One line for each cache: its name, the type of its objects or `none`, and bytes from object to object.
pub fn caches_text(caches: &[Cache]) -> Printout {
    let mut out = Printout::new();
    out.line(&format!("{:26} {:26} {:>6}", "cache", "type", "bytes"));
    for cache in caches {
        let type_name = match &*cache.type_name {
            "" => "none",
            known => known,
        };
        let bytes = cache.stride_bytes;
        out.line(&format!("{:26} {type_name:26} {bytes:>6}", cache.name));
    }
    let typed = caches.iter().filter(|cache| !cache.type_name.is_empty());
    out.line(&format!(
        "{} of {} have a type.",
        typed.count(),
        caches.len()
    ));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_without_a_type_says_so() {
        let cache = |name: &str, type_name: &str| Cache {
            address: 0,
            name: name.to_owned(),
            type_name: type_name.to_owned(),
            stride_bytes: 192,
            slab_pages: 1,
            slab_objects: 21,
        };
        let text = caches_text(&[cache("TCP", "tcp_sock"), cache("kmalloc-192", "")]).to_string();
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[1], ["TCP", "tcp_sock", "192"]);
        assert_eq!(lines[2], ["kmalloc-192", "none", "192"]);
        assert_eq!(text.lines().last(), Some("1 of 2 have a type."));
    }
}
