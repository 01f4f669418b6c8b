//! The distribution of this host, as far as its packages differ in what hitm needs.

use std::fs;

/// A distribution and its qemu-user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QemuUser {
    /// The distribution's package loads plugins.
    WithPlugins,
    /// The distribution is Ubuntu, or Debian 13 or later: their packages load none.
    WithoutPlugins,
    /// Nobody looked.
    Unknown,
}

impl QemuUser {
    /// That of this host.
    pub(crate) fn here() -> QemuUser {
        let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
        QemuUser::of_release(&release)
    }

    /// That of a distribution whose os-release(5) is `release`.
    fn of_release(release: &str) -> QemuUser {
        let value = |key: &str| {
            let value = release
                .lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
            Some(value.trim_matches('"'))
        };
        let version: Option<u32> =
            value("VERSION_ID").and_then(|version| version.split('.').next()?.parse().ok());
        match (value("ID"), version) {
            (Some("debian"), Some(..=12)) => QemuUser::WithPlugins,
            // Testing and unstable have no version.
            (Some("debian" | "ubuntu"), _) => QemuUser::WithoutPlugins,
            _ => QemuUser::Unknown,
        }
    }

    /// The Debian package that brings a qemu-user with plugins.
    pub(crate) fn package(self) -> &'static str {
        match self {
            QemuUser::WithoutPlugins => "qemu-user/bookworm",
            QemuUser::WithPlugins | QemuUser::Unknown => "qemu-user",
        }
    }

    /// Advice on getting one.
    pub(crate) fn hint(self) -> &'static str {
        match self {
            QemuUser::WithPlugins => "`apt install qemu-user` brings one with plugins",
            QemuUser::WithoutPlugins => {
                "this distribution builds it without plugins: `hitm doctor --fix` installs the one of \
                 Debian 12 in its place"
            }
            QemuUser::Unknown => {
                "hitm needs a qemu-user built with --enable-plugins, of version 7.2 or 9 and later; \
                 --qemu names one outside of PATH"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_has_plugins_until_12() {
        for (release, expected) in [
            ("ID=debian\nVERSION_ID=\"12\"\n", QemuUser::WithPlugins),
            ("ID=debian\nVERSION_ID=\"13\"\n", QemuUser::WithoutPlugins),
            (
                "NAME=\"Debian GNU/Linux\"\nID=debian\n",
                QemuUser::WithoutPlugins,
            ),
            (
                "ID=ubuntu\nVERSION_ID=\"24.04\"\n",
                QemuUser::WithoutPlugins,
            ),
            ("ID=fedora\nVERSION_ID=42\n", QemuUser::Unknown),
            ("", QemuUser::Unknown),
        ] {
            assert_eq!(QemuUser::of_release(release), expected, "{release}");
        }
    }
}
