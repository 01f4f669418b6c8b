//! Names of containers, by the folders of their cgroups.

use std::path::{Path, PathBuf};

use hitm_files::input_file::NamedBy;
use hitm_files::text_file;
use serde_json::Value;

/// Digits of a container's number.
const ID_DIGITS: usize = 64;
/// Digits that people are shown, as `docker ps` does.
const SHOWN_DIGITS: usize = 12;
/// Longest file of a container's settings.
const FILE_BYTES_MAX: u64 = 1 << 22;

/// Files that describe the container ID below a root.
const FILES: [&str; 4] = [
    "var/lib/docker/containers/ID/config.v2.json",
    "run/containerd/io.containerd.runtime.v2.task/k8s.io/ID/config.json",
    "run/containers/storage/overlay-containers/ID/userdata/config.json",
    "var/lib/containers/storage/overlay-containers/ID/userdata/config.json",
];

/// Annotations with the names of a container and of its pod, by runtime: containerd, CRI-O.
const ANNOTATIONS: [[&str; 2]; 2] = [
    [
        "io.kubernetes.cri.sandbox-name",
        "io.kubernetes.cri.container-name",
    ],
    ["io.kubernetes.pod.name", "io.kubernetes.container.name"],
];

/// The containers of a host.
#[derive(Debug)]
pub struct Containers {
    root: PathBuf,
}

impl Containers {
    /// Those of this host.
    pub fn of_host() -> Containers {
        Containers { root: "/".into() }
    }

    /// Those whose runtimes keep their files below `root`.
    pub fn below(root: &Path) -> Containers {
        Containers { root: root.into() }
    }

    /// Name of the container whose cgroup is `path` or above it: that of its runtime, with the pod's before it,
    /// else the first digits of its number. None outside of containers.
    pub fn name(&self, path: &str) -> Option<String> {
        let id = path.split('/').rev().find_map(id_in)?;
        let names = FILES.iter();
        let mut names = names.filter_map(|file| self.name_in(&file.replace("ID", id)));
        Some(
            names
                .next()
                .unwrap_or_else(|| id[..SHOWN_DIGITS].to_owned()),
        )
    }

    /// The name in a file of settings, if there is one.
    fn name_in(&self, file: &str) -> Option<String> {
        let path = self.root.join(file);
        let text = text_file::read_named(
            &path,
            NamedBy::Input,
            FILE_BYTES_MAX,
            "a container's settings",
        );
        let settings: Value = serde_json::from_str(&text.ok()?).ok()?;
        if let Some(name) = settings["Name"].as_str() {
            return Some(name.trim_start_matches('/').to_owned());
        }
        ANNOTATIONS.iter().find_map(|[pod, container]| {
            let annotations = &settings["annotations"];
            let container = annotations[*container].as_str()?;
            Some(match annotations[*pod].as_str() {
                Some(pod) => format!("{pod}/{container}"),
                None => container.to_owned(),
            })
        })
    }
}

/// The number of a container in the name of a folder: `ID`, or `docker-ID.scope` and its like.
fn id_in(folder: &str) -> Option<&str> {
    let name = folder.strip_suffix(".scope").unwrap_or(folder);
    let id = name.rsplit('-').next()?;
    let is_id = id.len() == ID_DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then_some(id)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const ID: &str = "4f1c0de2b3a49586774f1c0de2b3a49586774f1c0de2b3a49586774f1c0de2b3";

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file.replace("ID", ID));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn runtimes_name_their_containers() {
        let pod = r#"{"annotations": {"io.kubernetes.cri.sandbox-name": "shop-0", "io.kubernetes.cri.container-name": "db"}}"#;
        let cri = r#"{"annotations": {"io.kubernetes.container.name": "db"}}"#;
        for (file, text, name) in [
            (FILES[0], r#"{"Name": "/web"}"#, "web"),
            (FILES[1], pod, "shop-0/db"),
            (FILES[2], cri, "db"),
            (FILES[2], "{", "4f1c0de2b3a4"),
        ] {
            let root = tempfile::tempdir().unwrap();
            write(root.path(), file, text);
            let containers = Containers::below(root.path());
            for folder in [
                format!("/docker/{ID}"),
                format!("/system.slice/docker-{ID}.scope"),
                format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope/init"),
            ] {
                assert_eq!(containers.name(&folder).as_deref(), Some(name), "{folder}");
            }
        }
    }

    #[test]
    fn other_groups_are_no_containers() {
        let root = tempfile::tempdir().unwrap();
        let containers = Containers::below(root.path());
        for folder in ["/", "/user.slice", "/a-b.scope", "/docker/4f1c0de2"] {
            assert_eq!(containers.name(folder), None);
        }
    }
}
