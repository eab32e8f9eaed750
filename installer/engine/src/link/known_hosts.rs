//! Verifies a server's key with OpenSSH's known_hosts files (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT").
//!
//! Supported are plain names, `[host]:port`, hashed names, wildcards, negation, several key types for a host and
//! `@revoked`. `@cert-authority` lines are reported but not trusted, since host certificates are not supported. Lines
//! that are not entries (another key type, a typo) are ignored, as OpenSSH does.

use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use hmac::{Hmac, KeyInit as _, Mac as _};
use russh::keys::ssh_key::known_hosts::{Entry, HostPatterns, Marker};
use russh::keys::{Algorithm, HashAlg, PublicKey};
use sha1::Sha1;

/// The entries of several files.
#[derive(Clone, Debug, Default)]
pub struct KnownHosts {
    lines: Vec<Line>,
}

#[derive(Clone, Debug)]
struct Line {
    place: Place,
    entry: Entry,
}

/// A line of a known_hosts file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub path: PathBuf,
    /// From 1.
    pub line: usize,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.path.display(), self.line)
    }
}

/// The result for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is a recorded key of the host.
    Known,
    /// No file has the host.
    Unknown,
    /// The host is recorded with other keys.
    Changed(Place),
    /// The host is only in a `@cert-authority` line.
    Authority(Place),
    /// The key is revoked.
    Revoked(Place),
}

impl KnownHosts {
    /// Reads the files that exist, in this order.
    pub fn load(paths: &[PathBuf]) -> std::io::Result<Self> {
        let mut known = Self::default();
        for path in paths {
            match std::fs::read(path) {
                Ok(bytes) => known.add(path, &String::from_utf8_lossy(&bytes)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(std::io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
            }
        }
        Ok(known)
    }

    /// Adds the entries of a file's text.
    pub fn add(&mut self, path: &Path, text: &str) {
        for (index, line) in text.lines().enumerate() {
            // Fields may be separated by tabs and by several spaces.
            let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
            if line.starts_with('#') {
                continue;
            }
            if let Ok(entry) = line.parse() {
                self.lines.push(Line { place: Place { path: path.to_owned(), line: index + 1 }, entry });
            }
        }
    }

    /// Checks a key. A revoked key is refused whatever other lines say; a host that is recorded only with other keys
    /// counts as changed, even if their types differ: recorded types are requested first ([`Self::algorithms`]), so a
    /// server that still has a recorded key presents it.
    pub fn check(&self, host: &str, port: u16, key: &PublicKey) -> Verdict {
        let mut verdict = Verdict::Unknown;
        for line in self.lines.iter().filter(|line| matches(line.entry.host_patterns(), host, port)) {
            let same = line.entry.public_key().key_data() == key.key_data();
            match line.entry.marker() {
                Some(Marker::Revoked) if same => return Verdict::Revoked(line.place.clone()),
                Some(Marker::CertAuthority) if verdict == Verdict::Unknown => {
                    verdict = Verdict::Authority(line.place.clone());
                }
                Some(_) => {}
                None if same => verdict = Verdict::Known,
                None if matches!(verdict, Verdict::Unknown | Verdict::Authority(_)) => {
                    verdict = Verdict::Changed(line.place.clone());
                }
                None => {}
            }
        }
        verdict
    }

    /// Types of the keys that are recorded for a host, which are requested first.
    pub fn algorithms(&self, host: &str, port: u16) -> Vec<Algorithm> {
        self.lines
            .iter()
            .filter(|line| line.entry.marker().is_none() && matches(line.entry.host_patterns(), host, port))
            .map(|line| line.entry.public_key().algorithm())
            .collect()
    }
}

/// Appends a key that was accepted on first use.
pub fn learn(path: &Path, host: &str, port: u16, key: &PublicKey) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let key = PublicKey::from(key.key_data().clone()).to_openssh().map_err(std::io::Error::other)?;
    let mut line = format!("{} {}\n", canonical(host, port), key.trim_end());
    let mut file = std::fs::OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    if !ends_with_newline(&mut file)? {
        line.insert(0, '\n');
    }
    // A single write, so that links which record keys at the same time do not mix their lines.
    file.write_all(line.as_bytes())?;
    file.sync_all()
}

fn ends_with_newline(file: &mut std::fs::File) -> std::io::Result<bool> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

/// `SHA256:…`, as `ssh-keygen -l` shows it.
pub fn fingerprint(key: &PublicKey) -> String {
    key.fingerprint(HashAlg::Sha256).to_string()
}

/// The name of a host in the file: the bare name for port 22, else `[name]:port`.
fn canonical(host: &str, port: u16) -> String {
    let host = host.to_ascii_lowercase();
    if port == 22 { host } else { format!("[{host}]:{port}") }
}

fn matches(patterns: &HostPatterns, host: &str, port: u16) -> bool {
    let name = canonical(host, port);
    match patterns {
        HostPatterns::HashedName { salt, hash } => Hmac::<Sha1>::new_from_slice(salt)
            .is_ok_and(|hmac| hmac.chain_update(name.as_bytes()).verify_slice(hash).is_ok()),
        HostPatterns::Patterns(patterns) => {
            let mut found = false;
            for pattern in patterns {
                let pattern = pattern.to_ascii_lowercase();
                match pattern.strip_prefix('!') {
                    // One negated match decides the line (ssh_config(5), PATTERNS).
                    Some(negated) if glob(negated.as_bytes(), name.as_bytes()) => return false,
                    Some(_) => {}
                    None => found |= glob(pattern.as_bytes(), name.as_bytes()),
                }
            }
            found
        }
    }
}

/// `*` and `?`; brackets are literal. Linear in memory and without recursion, since the file is not trusted.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    p = at + 1;
                    t = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9dG4kjRhQTtWTVzd2t27+t0DEHBPW7iOD23TUiYLio";
    const B: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";

    fn key(text: &str) -> PublicKey {
        text.parse().unwrap()
    }

    fn judge(text: &str, host: &str, port: u16) -> Verdict {
        let mut known = KnownHosts::default();
        known.add(Path::new("f"), text);
        known.check(host, port, &key(A))
    }

    fn at(line: usize) -> Place {
        Place { path: "f".into(), line }
    }

    #[test]
    fn a_host_is_found_by_name_by_port_by_wildcard_and_in_any_case() {
        assert_eq!(judge(&format!("node1 {A}"), "Node1", 22), Verdict::Known);
        assert_eq!(judge(&format!("a,node1,b {A} comment"), "node1", 22), Verdict::Known);
        assert_eq!(judge(&format!("node1 {A}"), "node1", 2222), Verdict::Unknown);
        assert_eq!(judge(&format!("[node1]:2222 {A}"), "node1", 2222), Verdict::Known);
        assert_eq!(judge(&format!("10.0.?.* {A}"), "10.0.1.17", 22), Verdict::Known);
        assert_eq!(judge(&format!("  node1\t {A}"), "node1", 22), Verdict::Known);
        assert_eq!(judge(&format!("# node1 {A}\n\nnode1 no key"), "node1", 22), Verdict::Unknown);
    }

    #[test]
    fn a_negated_pattern_takes_the_host_out_of_its_line() {
        assert_eq!(judge(&format!("*.lan,!bad.lan {A}"), "good.lan", 22), Verdict::Known);
        assert_eq!(judge(&format!("*.lan,!bad.lan {A}"), "bad.lan", 22), Verdict::Unknown);
    }

    #[test]
    fn a_changed_key_names_its_line_and_a_second_right_line_mends_it() {
        assert_eq!(judge(&format!("\nnode1 {B}"), "node1", 22), Verdict::Changed(at(2)));
        assert_eq!(judge(&format!("node1 {B}\nnode1 {A}"), "node1", 22), Verdict::Known);
    }

    #[test]
    fn a_revoked_key_is_refused_whatever_else_is_said() {
        assert_eq!(judge(&format!("node1 {A}\n@revoked * {A}"), "node1", 22), Verdict::Revoked(at(2)));
        assert_eq!(judge(&format!("node1 {A}\n@revoked * {B}"), "node1", 22), Verdict::Known);
        assert_eq!(judge(&format!("@cert-authority * {A}"), "node1", 22), Verdict::Authority(at(1)));
    }

    /// Compared with OpenSSH: `ssh-keygen -H` hashes the name that must be found.
    #[test]
    fn entries_hashed_by_ssh_keygen_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("known_hosts");
        std::fs::write(&path, format!("node1 {A}\n[node2]:2222 {A}\n")).unwrap();
        let done = std::process::Command::new("ssh-keygen").arg("-Hf").arg(&path).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        assert!(!std::fs::read_to_string(&path).unwrap().contains("node"));
        let known = KnownHosts::load(&[folder.path().join("absent"), path.clone()]).unwrap();
        assert_eq!(known.check("node1", 22, &key(A)), Verdict::Known);
        assert_eq!(known.check("node2", 2222, &key(A)), Verdict::Known);
        assert_eq!(known.check("node1", 22, &key(B)), Verdict::Changed(Place { path, line: 1 }));
        assert_eq!(known.check("node3", 22, &key(A)), Verdict::Unknown);
    }

    #[test]
    fn a_learnt_key_is_known_afterwards_and_readable_by_its_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/known_hosts");
        learn(&path, "node1", 22, &key(A)).unwrap();
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"# no newline").unwrap();
        learn(&path, "node1", 2222, &key(B)).unwrap();
        let known = KnownHosts::load(std::slice::from_ref(&path)).unwrap();
        assert_eq!(known.check("node1", 22, &key(A)), Verdict::Known);
        assert_eq!(known.check("node1", 2222, &key(B)), Verdict::Known);
        assert_eq!(known.algorithms("node1", 22), [Algorithm::Ed25519]);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    proptest! {
        #[test]
        fn a_star_matches_whatever_stands_in_its_place(head in "[a-z.]{0,6}", middle in "[a-z.*?]{0,6}", tail in "[a-z.]{0,6}") {
            let pattern = format!("{head}*{tail}");
            let text = format!("{head}{middle}{tail}");
            prop_assert!(glob(pattern.as_bytes(), text.as_bytes()));
        }

        #[test]
        fn no_text_panics_the_reader(text in "\\PC*") {
            let _ = judge(&text, "node1", 22);
        }
    }
}
