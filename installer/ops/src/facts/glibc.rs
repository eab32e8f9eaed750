//! The version of a machine's C library, read from the library itself, which also works below another root.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::Machine;

/// Paths in different distributions; `/lib` may be a link to `/usr/lib`.
const PLACES: [&str; 8] = [
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib/aarch64-linux-gnu/libc.so.6",
    "/usr/lib/x86_64-linux-gnu/libc.so.6",
    "/usr/lib/aarch64-linux-gnu/libc.so.6",
    "/lib64/libc.so.6",
    "/usr/lib64/libc.so.6",
    "/lib/libc.so.6",
    "/usr/lib/libc.so.6",
];
/// The most bytes of a library that are read; usual ones have about two million.
const LIMIT: u64 = 16 << 20;
/// The banner of every glibc: `GNU C Library (Debian GLIBC 2.36-9+deb12u10) stable release version 2.36.`
const BANNER: &[u8] = b"GNU C Library";
const RELEASE: &[u8] = b"release version ";
/// Maximum length of the banner's line.
const LINE: usize = 256;

/// Major and minor version, `2.36`; none if there is no glibc or no banner.
pub(super) fn version(machine: &Machine) -> Option<String> {
    PLACES.iter().find_map(|place| of_library(&machine.path(place)))
}

fn of_library(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(LIMIT).read_to_end(&mut bytes).ok()?;
    let banner = find(&bytes, BANNER)?;
    let line = &bytes[banner..bytes.len().min(banner + LINE)];
    let line = line.split(|byte| matches!(byte, b'\n' | 0)).next()?;
    let release = line.get(find(line, RELEASE)? + RELEASE.len()..)?;
    let end = release.iter().position(|byte| !(byte.is_ascii_digit() || *byte == b'.')).unwrap_or(release.len());
    let text = std::str::from_utf8(&release[..end]).ok()?.trim_end_matches('.');
    let mut parts = text.split('.');
    match (parts.next()?, parts.next()?) {
        ("", _) | (_, "") => None,
        (major, minor) => Some(format!("{major}.{minor}")),
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libc.so.6");
        std::fs::write(&path, bytes).unwrap();
        of_library(&path)
    }

    #[test]
    fn the_librarys_own_banner_is_read_wherever_it_stands() {
        let debian = b"\x7fELF\0\0GNU C Library (Debian GLIBC 2.36-9+deb12u10) stable release version 2.36.\nCopyright";
        assert_eq!(of(debian).as_deref(), Some("2.36"));
        let rhel = b"GNU C Library (GNU libc) stable release version 2.17, by Roland McGrath et al.\n";
        assert_eq!(of(rhel).as_deref(), Some("2.17"));
        assert_eq!(of(b"GNU C Library (GNU libc) development release version 2.41.9000.\n").as_deref(), Some("2.41"));
    }

    #[test]
    fn output_without_a_version_gives_none() {
        for bytes in [
            &b"musl libc"[..],
            b"GNU C Library",
            b"GNU C Library release version \n",
            b"GNU C Library release version 2",
        ] {
            assert_eq!(of(bytes), None);
        }
        assert_eq!(of_library(Path::new("/nowhere/libc.so.6")), None);
    }
}
