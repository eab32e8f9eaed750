//! Paths and names on a node that more than one file here uses.

/// Everything of kubexm on a node that must survive a reboot; mode 0700.
pub const STATE: &str = "/var/lib/kubexm";
/// Old bytes and records for undo and `reset`.
pub const LEDGER: &str = "/var/lib/kubexm/ledger";
/// The node's content store.
pub const STORE: &str = "/var/lib/kubexm/store";
/// Whose node this is.
pub const STAMP: &str = "/var/lib/kubexm/stamp.json";
/// Images that were pushed to a registry of this host, and uploads that are open.
pub const SEEDED: &str = "/var/lib/kubexm/seeded";
/// Which archive blob was unpacked to which file digests, so that a second run need not read the archive.
pub const PLACED: &str = "/var/lib/kubexm/placed";
/// Digest of the objects last applied under a name.
pub const APPLIED: &str = "/var/lib/kubexm/applied";
/// Copies of the files that kubeadm wrote, by their paths, as they were right after its init or join.
pub const KUBEADM_FILES: &str = "/var/lib/kubexm/kubeadm";
/// Logs of Acts, one folder a run.
pub const RUNS: &str = "/var/lib/kubexm/runs";
/// What each unit, and each static pod that we restarted, was started with, and in which boot.
pub const UNITS: &str = "/var/lib/kubexm/units";
/// Digests of large files as they were last read; gone with the next boot.
pub const DIGESTS: &str = "/run/kubexm/digests.json";
/// kubeadm's own admin kubeconfig.
pub const ADMIN_CONF: &str = "/etc/kubernetes/admin.conf";
/// Where programs are looked for, on every distribution (EL's sudo lacks /usr/local/bin).
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The mark before a foreign line that we commented out.
pub const MARK: &str = "# kubexm: ";
/// What `kubeadm init` was given.
pub const KUBEADM_CONFIG: &str = "/etc/kubexm/kubeadm.yaml";
/// What kubeadm was given by the last upgrade.
pub const KUBEADM_UPGRADE_CONFIG: &str = "/etc/kubexm/kubeadm-upgrade.yaml";
