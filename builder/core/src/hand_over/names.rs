//! Names that every file system of a stick holds.

use std::path::Path;

use super::HandOverError;

const SUFFIX: &str = ".tar.zst";
/// FAT and NTFS hold 255 characters; `.NAME.tar.zst.001.partial` has to fit too.
const LONGEST: usize = 200;

/// What the files of the folder begin with: what was asked for, or the bundle's own name without `.tar.zst`.
pub(super) fn stem(bundle: &Path, asked: Option<&str>) -> Result<String, HandOverError> {
    let own = bundle.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = asked.map_or(own, str::to_owned);
    let stem = name.strip_suffix(SUFFIX).unwrap_or(&name).to_owned();
    match problem(&stem) {
        None => Ok(stem),
        Some(problem) => Err(HandOverError::Name { name, problem }),
    }
}

/// The bundle's file in the folder, or what its volumes' names begin with.
pub(super) fn bundle_file(folder: &Path, stem: &str) -> std::path::PathBuf {
    folder.join(format!("{stem}{SUFFIX}"))
}

/// Why a name cannot lie on a FAT stick, or in a line of `sha256sum -c` or of a shell.
fn problem(name: &str) -> Option<&'static str> {
    let reserved = ["con", "prn", "aux", "nul"];
    let base = name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let device = base.strip_prefix("com").or(base.strip_prefix("lpt")).is_some_and(|end| end.len() == 1);
    if name.is_empty() || name.starts_with(['.', '-']) || name.ends_with(['.', ' ']) {
        Some("it is empty, begins with . or -, or ends with . or a blank")
    } else if !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'+')) {
        Some("it has other characters than letters, digits and . - _ +")
    } else if name.len() > LONGEST {
        Some("it is longer than 200 characters")
    } else if reserved.contains(&base.as_str()) || device {
        Some("it is the name of a device on other systems")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::problem;

    #[test]
    fn names_that_a_stick_a_shell_or_another_system_takes_otherwise_are_refused() {
        for good in ["site", "lab-v1.34.4-amd64-arm64", "a_b+c.d", "console", "com10"] {
            assert_eq!(problem(good), None, "{good}");
        }
        for bad in ["", ".x", "-x", "a b", "a:b", "a/b", "a\\b", "x*", "é", "x.", "con", "NUL.x", "com1", "a\nb"] {
            assert!(problem(bad).is_some(), "{bad:?}");
        }
        assert!(problem(&"x".repeat(201)).is_some());
    }
}
