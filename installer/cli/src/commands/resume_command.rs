//! The exact commands that resume a run, or roll it back, from any folder.

use std::path::{Path, PathBuf};

use kubexm_session::{Commands, Direction};

use super::args::{BundleArgs, ClusterArgs, FailureArgs, HostArgs, OnFailure, ReplaceArgs, TrustArgs};

/// The options of a run, for printing commands that continue it.
#[derive(Clone, Copy, Debug)]
pub struct Again<'a> {
    /// The bundle, and whose cluster.yaml.
    pub bundle: &'a BundleArgs,
    /// How hosts are reached.
    pub hosts: &'a HostArgs,
    /// What happens on failures.
    pub failure: &'a FailureArgs,
}

impl Commands for Again<'_> {
    fn resume(&self, run: &str) -> String {
        self.with_failures(self.words("resume", Some(run))).join(" ")
    }

    fn rollback(&self, run: &str) -> String {
        self.words("rollback", Some(run)).join(" ")
    }

    /// As a power cut would: nothing is tidied up, no agent is notified.
    fn die(&self) {
        std::process::abort();
    }
}

impl Again<'_> {
    /// The words of a verb that begins a run, or continues with the last one.
    pub fn begin(&self, verb: &str) -> Vec<String> {
        let mut words = self.with_failures(self.words(verb, None));
        // What continues with a run needs no such word: the run was agreed to.
        words.extend(self.bundle.trust.allow_unsigned.then(|| "--allow-unsigned".to_owned()));
        words
    }

    fn with_failures(&self, mut words: Vec<String>) -> Vec<String> {
        if self.failure.on_failure == Some(OnFailure::Keep) {
            words.push("--on-failure keep".to_owned());
        }
        if let Some(most) = self.failure.max_failed_workers.filter(|most| *most > 0) {
            words.push(format!("--max-failed-workers {most}"));
        }
        words.extend(self.failure.no_fan_out.then(|| "--no-fan-out".to_owned()));
        // What the run may take the place of was said when it began; another run may have installed something since.
        let ReplaceArgs { allow_older, allow_other_signer } = self.bundle.replace;
        words.extend(allow_older.then(|| "--allow-older".to_owned()));
        words.extend(allow_other_signer.then(|| "--allow-other-signer".to_owned()));
        words
    }

    /// The command with a placeholder for the bundle.
    pub fn with_another_bundle(&self, direction: Direction, run: &str) -> String {
        let bundle = BundleArgs { bundle: Vec::new(), ..self.bundle.clone() };
        let again = Again { bundle: &bundle, hosts: self.hosts, failure: self.failure };
        let command = match direction {
            Direction::Forward => again.resume(run),
            Direction::Back => again.rollback(run),
        };
        command.replacen(run, &format!("{run} --bundle FILE"), 1)
    }

    fn words(&self, verb: &str, run: Option<&str>) -> Vec<String> {
        let mut words = vec![program(), verb.to_owned()];
        words.extend(run.map(str::to_owned));
        let mut option = |name: &str, path: &Path| words.extend(path_words(name, path));
        for bundle in &self.bundle.bundle {
            option("--bundle", bundle);
        }
        for base in &self.bundle.bases {
            option("--base", base);
        }
        if let Some(file) = &self.bundle.file {
            option("-f", file);
        }
        if let Some(known_hosts) = &self.hosts.known_hosts {
            option("--known-hosts", known_hosts);
        }
        words.extend(trust_words(&self.bundle.trust));
        words
    }
}

/// The command of a verb that works on a cluster by its cluster.yaml or a bundle.
pub fn on_cluster(verb: &str, cluster: &ClusterArgs, hosts: &HostArgs) -> String {
    let mut words = vec![program(), verb.to_owned()];
    let mut option = |name: &str, path: &Path| words.extend(path_words(name, path));
    cluster.file.iter().for_each(|file| option("-f", file));
    cluster.bundle.iter().for_each(|bundle| option("--bundle", bundle));
    cluster.bases.iter().for_each(|base| option("--base", base));
    hosts.known_hosts.iter().for_each(|known_hosts| option("--known-hosts", known_hosts));
    words.extend(trust_words(&cluster.trust));
    // What continues with a run needs no such word: the run was agreed to.
    if cluster.trust.allow_unsigned {
        words.push("--allow-unsigned".to_owned());
    }
    words.join(" ")
}

/// The trust options: a command without them would accept any bundle.
fn trust_words(trust: &TrustArgs) -> Vec<String> {
    let mut words: Vec<String> = trust.keys.iter().flat_map(|key| path_words("--key", key)).collect();
    words.extend(trust.signatures.iter().flat_map(|signature| path_words("--signature", signature)));
    if trust.require_signature {
        words.push("--require-signature".to_owned());
    }
    words
}

/// An option with a path that holds in any folder.
pub fn path_words(name: &str, path: &Path) -> [String; 2] {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
    [name.to_owned(), shell_word(&absolute.to_string_lossy())]
}

/// This program as the operator called it.
pub fn program() -> String {
    let called = std::env::args().next().unwrap_or_default();
    match called.as_str() {
        "" => kubexm_spec::names::INSTALLER.to_owned(),
        name if name.contains('/') => {
            shell_word(&std::path::absolute(name).unwrap_or_else(|_| PathBuf::from(name)).to_string_lossy())
        }
        name => shell_word(name),
    }
}

/// One word for a shell, quoted only when it must be.
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Again, on_cluster, shell_word};
    use crate::commands::args::{BundleArgs, ClusterArgs, FailureArgs, HostArgs, ReplaceArgs, TrustArgs};
    use kubexm_session::Commands as _;

    #[test]
    fn a_printed_reset_command_trusts_no_more_keys_than_the_run() {
        let trust = TrustArgs {
            keys: vec!["/keys/a.pub".into()],
            signatures: vec!["/media/x.sig".into()],
            require_signature: true,
            allow_unsigned: false,
        };
        let bundle = Some("/media/x.tar.zst".into());
        let cluster = ClusterArgs { file: None, bundle, bases: vec!["/media/old.tar.zst".into()], trust };
        let hosts = HostArgs { accept_new_host_keys: false, known_hosts: Some("/etc/known".into()) };
        let command = on_cluster("reset", &cluster, &hosts);
        let wanted = " reset --bundle /media/x.tar.zst --base /media/old.tar.zst --known-hosts /etc/known --key /keys/a.pub \
                      --signature /media/x.sig --require-signature";
        assert!(command.ends_with(wanted), "{command}");
    }

    #[test]
    fn resume_and_rollback_commands_repeat_the_trust_options() {
        let trust = TrustArgs {
            keys: vec!["/keys/a.pub".into(), "/keys/b.pub".into()],
            signatures: vec!["/media/x.sig".into()],
            require_signature: true,
            allow_unsigned: false,
        };
        let replace = ReplaceArgs { allow_older: true, allow_other_signer: false };
        let bundle =
            BundleArgs { bundle: vec![PathBuf::from("/media/x.tar.zst")], bases: vec![], file: None, trust, replace };
        let hosts = HostArgs { accept_new_host_keys: false, known_hosts: None };
        let again = Again { bundle: &bundle, hosts: &hosts, failure: &FailureArgs::default() };
        let wanted = " --key /keys/a.pub --key /keys/b.pub --signature /media/x.sig --require-signature";
        let (resume, rollback) = (again.resume("run"), again.rollback("run"));
        assert!(resume.ends_with(&format!("{wanted} --allow-older")), "{resume}");
        assert!(rollback.ends_with(wanted), "{rollback}");
    }

    #[test]
    fn a_path_with_blanks_can_be_pasted_into_a_shell() {
        assert_eq!(shell_word("/media/usb/x.tar.zst"), "/media/usb/x.tar.zst");
        assert_eq!(shell_word("/media/my usb/it's.zst"), r"'/media/my usb/it'\''s.zst'");
    }
}
