//! Lookup and environment of the programs that kubexm runs.

use std::path::{Path, PathBuf};

use crate::{OpError, paths};

/// The fixed environment of every program: no proxies, pager, prompts, or automatic restart of services.
pub(crate) fn environment() -> [(&'static str, &'static str); 9] {
    [
        ("PATH", paths::PATH),
        ("HOME", "/root"),
        ("LANG", "C.UTF-8"),
        ("LC_ALL", "C.UTF-8"),
        ("DEBIAN_FRONTEND", "noninteractive"),
        ("NEEDRESTART_SUSPEND", "1"),
        ("NEEDRESTART_MODE", "l"),
        ("SYSTEMD_PAGER", ""),
        ("SYSTEMD_COLORS", "0"),
    ]
}

/// A program's full path in the fixed PATH.
pub(crate) fn find(name: &str) -> Result<PathBuf, OpError> {
    if name.starts_with('/') {
        return Ok(PathBuf::from(name));
    }
    paths::PATH.split(':').map(|folder| Path::new(folder).join(name)).find(|path| path.is_file()).ok_or_else(|| {
        OpError::other(format!("the program `{name}` is not on this host (looked in {}); install it", paths::PATH))
    })
}
