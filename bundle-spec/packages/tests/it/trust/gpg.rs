//! GnuPG as the one that signs.

use std::io::Write as _;
use std::process::{Command, Stdio};

use kubexm_packages::trust::Keyring;
use tempfile::TempDir;

use crate::trust::RELEASE;

/// 2025-01-01. Keys are made then.
pub const THEN: i64 = 1_735_689_600;
pub const DAY: i64 = 86_400;

/// A keyring of GnuPG in a folder of its own.
pub struct Gpg(pub TempDir);

impl Gpg {
    pub fn new() -> Self {
        let home = TempDir::new().unwrap();
        std::fs::set_permissions(home.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        Self(home)
    }

    pub fn run(&self, when: i64, args: &[&str], input: &str) -> Vec<u8> {
        let mut command = Command::new("gpg");
        command.arg("--homedir").arg(self.0.path()).args([
            "--batch",
            "--quiet",
            "--no-tty",
            "--pinentry-mode",
            "loopback",
        ]);
        command.args(["--passphrase", "", "--faked-system-time", &format!("{when}!"), "--allow-weak-digest-algos"]);
        command.args(["--allow-weak-key-signatures"]).args(args);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("gpg is installed");
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "gpg {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// Makes a key; gives its fingerprint.
    pub fn key(&self, name: &str, algorithm: &str, usage: &str, expires: &str) -> String {
        self.run(THEN, &["--quick-gen-key", name, algorithm, usage, expires], "");
        let listed = String::from_utf8(self.run(THEN, &["--list-keys", "--with-colons", name], "")).unwrap();
        let line = listed.lines().find(|line| line.starts_with("fpr:")).unwrap();
        line.split(':').nth(9).unwrap().to_owned()
    }

    /// A key that signs by a subkey, as Debian's do.
    pub fn with_subkey(&self) -> String {
        let key = self.key("archive", "ed25519", "cert", "never");
        self.run(THEN, &["--quick-add-key", &key, "ed25519", "sign", "never"], "");
        key
    }

    pub fn public(&self, key: &str) -> Keyring {
        Keyring::read(&self.run(THEN, &["--export", key], "")).unwrap()
    }

    pub fn clear(&self, key: &str, when: i64, more: &[&str]) -> Vec<u8> {
        let mut args = vec!["--local-user", key];
        args.extend(more);
        args.push("--clearsign");
        self.run(when, &args, RELEASE)
    }

    /// Revokes a key.
    pub fn revoke(&self, key: &str) {
        let file = self.0.path().join(format!("openpgp-revocs.d/{key}.rev"));
        let text = std::fs::read_to_string(file).unwrap().replace(":-----BEGIN", "-----BEGIN");
        self.run(THEN + DAY, &["--import"], &text);
    }
}

impl Drop for Gpg {
    fn drop(&mut self) {
        let _ = Command::new("gpgconf").arg("--homedir").arg(self.0.path()).args(["--kill", "all"]).output();
    }
}
