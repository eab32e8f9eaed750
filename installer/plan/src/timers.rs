//! The timers of a node: their names and files, what they are configured with, and what each records of its last run.
//!
//! Their services start kubexm's program that is on the host (`kubexm-install agent …`), which does the work with the same code as a
//! run of a controller, under the same lock of the host.

use kubexm_spec::cluster::{EtcdKind, RuntimeKind};
use serde::{Deserialize, Serialize};

/// A timer, its service, its configuration and its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostTimer {
    /// The names of its units, without their ends.
    pub name: &'static str,
    /// The word of `kubexm-install agent` that its service starts.
    pub mode: &'static str,
}

/// Renews the certificates of a control plane (`spec.kubernetes.autoRenewCerts`).
pub const CERTS: HostTimer = HostTimer { name: "kubexm-certs", mode: "renew-certs" };
/// Backs up etcd (`spec.etcd.backup`).
pub const ETCD_BACKUP: HostTimer = HostTimer { name: "kubexm-etcd-backup", mode: "backup-etcd" };
/// Every timer.
pub const TIMERS: [HostTimer; 2] = [CERTS, ETCD_BACKUP];
/// The folder of their configurations.
pub const CONFIGS: &str = "/etc/kubexm/timers";
/// The folder of their records.
pub const RECORDS: &str = "/var/lib/kubexm/timers";

impl HostTimer {
    /// `kubexm-certs.timer`.
    pub fn timer(&self) -> String {
        format!("{}.timer", self.name)
    }

    /// `kubexm-certs.service`.
    pub fn service(&self) -> String {
        format!("{}.service", self.name)
    }

    /// The file of its configuration.
    pub fn config(&self) -> String {
        format!("{CONFIGS}/{}.json", self.name)
    }

    /// The file of its record.
    pub fn record(&self) -> String {
        format!("{RECORDS}/{}.json", self.name)
    }

    /// The file that is there while its service changes something, and after one that was killed or has failed.
    pub fn unfinished(&self) -> String {
        format!("{RECORDS}/{}.unfinished", self.name)
    }

    /// The file in which systemd keeps when it was last triggered (`Persistent=`, systemd.timer(5)).
    pub fn stamp(&self) -> String {
        format!("/var/lib/systemd/timers/stamp-{}", self.timer())
    }
}

/// Configuration of [`CERTS`]. A later program reads what an earlier one wrote: new fields have defaults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CertsConfig {
    /// The host's name in cluster.yaml, which is that of its node.
    pub host: String,
    /// Users of the host who get the renewed kubeconfig.
    pub users: Vec<String>,
    /// What runs the static pods.
    pub runtime: RuntimeKind,
    /// Who runs etcd: kubeadm's has certificates of kubeadm's, and a static pod.
    pub etcd: EtcdKind,
    /// What ends within so many seconds is renewed. Not from the certificates: kubeadm lets each begin with its authority.
    pub renew_before_s: i64,
}

/// Configuration of [`ETCD_BACKUP`]. It has no secret: what opens the backups is on no host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct BackupConfig {
    /// What the files are named after: members, and clusters, may share a folder, and an earlier cluster of the same hosts may have filled it.
    /// Cluster, the first characters of its id, and host, joined by `-`.
    pub name: String,
    /// The folder.
    pub dir: String,
    /// How many of the host's own are kept.
    pub keep: u32,
    /// Public keys of age for which each is encrypted; not encrypted without any, and for a host that an earlier program has configured.
    pub recipients: Vec<String>,
}

/// As it is written. Where backups are encrypted the folder has another name: an earlier program, which knows no recipients, fails for want of a
/// folder, and does not fill it with backups in clear.
#[derive(Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Written {
    Encrypted {
        name: String,
        #[serde(rename = "encryptedDir")]
        dir: String,
        keep: u32,
        recipients: Vec<String>,
    },
    Plain {
        name: String,
        dir: String,
        keep: u32,
    },
}

impl From<Written> for BackupConfig {
    fn from(written: Written) -> Self {
        match written {
            Written::Encrypted { name, dir, keep, recipients } => Self { name, dir, keep, recipients },
            Written::Plain { name, dir, keep } => Self { name, dir, keep, recipients: Vec::new() },
        }
    }
}

impl From<BackupConfig> for Written {
    fn from(BackupConfig { name, dir, keep, recipients }: BackupConfig) -> Self {
        match recipients.is_empty() {
            true => Self::Plain { name, dir, keep },
            false => Self::Encrypted { name, dir, keep, recipients },
        }
    }
}

/// What a timer's last run did.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimerRun {
    /// When it ended: seconds of Unix time, by the host's clock.
    pub ended: i64,
    /// Whether it did not do what it was for.
    pub failed: bool,
    /// One sentence: what it did, or why not.
    pub what: String,
    /// The mount that the backups are on, if it is not the root file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_earlier_program_finds_no_folder_where_backups_are_encrypted() {
        let plain = BackupConfig { name: "demo".to_owned(), dir: "/b".to_owned(), keep: 3, recipients: Vec::new() };
        assert_eq!(serde_json::to_value(&plain).unwrap(), json!({"name": "demo", "dir": "/b", "keep": 3}));
        let encrypted = BackupConfig { recipients: vec!["age1x".to_owned()], ..plain.clone() };
        let written = serde_json::to_value(&encrypted).unwrap();
        assert!(written.get("dir").is_none(), "{written}");
        assert!(
            serde_json::from_value::<BackupConfig>(json!({"name": "a", "dir": "/b", "keep": 1, "recipients": []}))
                .is_err()
        );
        for config in [plain, encrypted] {
            let written = serde_json::to_string(&config).unwrap();
            assert_eq!(serde_json::from_str::<BackupConfig>(&written).unwrap(), config);
        }
    }
}
