//! Flags of the control plane's components (`apiServerArgs` and the like): those that another setting decides, and files that a
//! component in its static pod cannot read.

use crate::yaml::{At, Mapping};

/// A component of the control plane and its key in `spec.kubernetes`.
struct Component {
    key: &'static str,
    name: &'static str,
    /// Flags that kubeadm or kubexm sets, and what to write instead.
    set: &'static [(&'static str, &'static str)],
    /// Folders of the host that kubeadm mounts into its pod (kubeadm: app/phases/controlplane/volumes.go).
    mounts: &'static [&'static str],
}

const OTHER_FILES: &str = "kubeadm makes these certificates, keys and kubeconfigs; leave it out";
const GATES: (&str, &str) = ("feature-gates", "write spec.kubernetes.featureGates");
const SERVICES: (&str, &str) = ("service-cluster-ip-range", "write spec.network.serviceCidr");
const ELECTION: (&str, &str) = ("leader-elect", "several control planes need it; leave it out");
const KUBECONFIGS: [(&str, &str); 3] = [
    ("kubeconfig", OTHER_FILES),
    ("authentication-kubeconfig", OTHER_FILES),
    ("authorization-kubeconfig", OTHER_FILES),
];
const CERTIFICATES: [&str; 5] = [
    "/etc/ca-certificates",
    "/etc/pki",
    "/etc/ssl/certs",
    "/usr/local/share/ca-certificates",
    "/usr/share/ca-certificates",
];
const PKI: &str = "/etc/kubernetes/pki";

const COMPONENTS: [Component; 3] = [
    Component {
        key: "apiServerArgs",
        name: "kube-apiserver",
        set: &[
            GATES,
            SERVICES,
            ("advertise-address", "write internalAddress of the host"),
            (
                "anonymous-auth",
                "kubelet's probes and joining nodes ask without a login; restrict what they may ask by authorization",
            ),
            ("client-ca-file", OTHER_FILES),
            ("etcd-cafile", "spec.etcd decides"),
            ("etcd-certfile", "spec.etcd decides"),
            ("etcd-keyfile", "spec.etcd decides"),
            ("etcd-servers", "spec.etcd decides"),
            ("kubelet-client-certificate", OTHER_FILES),
            ("kubelet-client-key", OTHER_FILES),
            ("proxy-client-cert-file", OTHER_FILES),
            ("proxy-client-key-file", OTHER_FILES),
            ("requestheader-client-ca-file", OTHER_FILES),
            ("secure-port", "each API server listens on 6443; spec.loadBalancer has the port of clients"),
            ("service-account-key-file", OTHER_FILES),
            ("service-account-signing-key-file", OTHER_FILES),
            ("tls-cert-file", OTHER_FILES),
            ("tls-private-key-file", OTHER_FILES),
        ],
        mounts: &[PKI, CERTIFICATES[0], CERTIFICATES[1], CERTIFICATES[2], CERTIFICATES[3], CERTIFICATES[4]],
    },
    Component {
        key: "controllerManagerArgs",
        name: "kube-controller-manager",
        set: &[
            GATES,
            SERVICES,
            ELECTION,
            KUBECONFIGS[0],
            KUBECONFIGS[1],
            KUBECONFIGS[2],
            ("allocate-node-cidrs", "the pod network decides"),
            ("client-ca-file", OTHER_FILES),
            ("cluster-cidr", "write spec.network.podCidr"),
            ("cluster-name", "write spec.kubernetes.clusterName"),
            ("requestheader-client-ca-file", OTHER_FILES),
            ("root-ca-file", OTHER_FILES),
            ("service-account-private-key-file", OTHER_FILES),
        ],
        mounts: &[
            PKI,
            CERTIFICATES[0],
            CERTIFICATES[1],
            CERTIFICATES[2],
            CERTIFICATES[3],
            CERTIFICATES[4],
            "/usr/libexec/kubernetes/kubelet-plugins/volume/exec",
        ],
    },
    Component {
        key: "schedulerArgs",
        name: "kube-scheduler",
        set: &[GATES, ELECTION, KUBECONFIGS[0], KUBECONFIGS[1], KUBECONFIGS[2]],
        mounts: &[],
    },
];

/// The rule of `spec.kubernetes` for them.
pub(super) fn check(kubernetes: &Mapping<'_>, audited: bool) {
    for component in &COMPONENTS {
        let Some(flags) = kubernetes.get(component.key).and_then(|at| at.open_mapping_quiet()) else { continue };
        for (flag, at) in flags.entries() {
            component.check(flag, &at, audited);
        }
    }
}

impl Component {
    fn check(&self, flag: &str, at: &At<'_>, audited: bool) {
        if let Some((_, instead)) = self.set.iter().find(|(set, _)| *set == flag) {
            at.bad(format!("--{flag} of {} is set already", self.name), *instead);
        } else if audited && AUDIT.contains(&flag) {
            at.bad(format!("--{flag} is set by spec.kubernetes.audit"), "write it there, or leave one of both out");
        } else if let Some(path) =
            at.text_quiet().filter(|value| value.starts_with('/') && flag != KEY_PREFIX && !self.reads(value))
        {
            let seen = match self.mounts {
                [] => "it sees no file of the host".to_owned(),
                mounts => format!("of the host it sees {}", mounts.join(", ")),
            };
            at.bad(format!("{} runs in a pod and does not see {path}", self.name), seen);
        }
    }

    fn reads(&self, path: &str) -> bool {
        let below = |folder: &&str| path.strip_prefix(*folder).is_some_and(|rest| rest.starts_with('/'));
        self.mounts.iter().any(below) && !path.split('/').any(|part| part == "..")
    }
}

/// Its value looks like a path and is the beginning of etcd's keys.
const KEY_PREFIX: &str = "etcd-prefix";

/// The flags that `spec.kubernetes.audit` sets.
const AUDIT: [&str; 6] = [
    "audit-log-maxage",
    "audit-log-maxbackup",
    "audit-log-maxsize",
    "audit-log-path",
    "audit-policy-file",
    "audit-webhook-config-file",
];
