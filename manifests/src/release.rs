//! What belongs to a Kubernetes minor: kubeadm's constants by range of patches, default versions, support rules.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::verified::{Compared, Verified};
use crate::version;

/// One Kubernetes minor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Release {
    /// `1.34`.
    pub minor: String,
    /// Version of kubeadm's configuration API.
    pub kubeadm_api: String,
    /// Whether recipes install it. Of other minors bundles can be made, and no cluster.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub installable: bool,
    /// The day from which upstream makes no more patches, `2026-10-27`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_of_life: Option<String>,
    /// With what that day was compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_of_life_compared: Option<Compared>,
    /// kubeadm's constants, ranges ascending and without gaps; the last is open.
    pub patches: Vec<PatchRange>,
    /// Tag of the etcd that clusters of this minor run where kubeadm's own is older: the etcd of the next minor takes members only
    /// from there, or the minor before has come to that one, and no etcd goes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_before_next: Option<String>,
    /// Versions used when the user names none: components by name without `v`, flannel's images by tag.
    pub defaults: BTreeMap<String, String>,
    /// What the minor runs on.
    pub support: Support,
}

/// Image tags that kubeadm has compiled in, for a range of patches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PatchRange {
    /// First patch.
    pub from: u32,
    /// Last patch; none: all later ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u32>,
    /// Tag of pause.
    pub pause: String,
    /// Tag of CoreDNS.
    pub coredns: String,
    /// Tag of etcd.
    pub etcd: String,
    /// The registry that kubeadm takes its images from, where it is not registry.k8s.io.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
    /// By what the tags were checked; none where no kubeadm of the range was asked, nor its source read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Verified>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unverified: Option<String>,
}

/// What a Kubernetes minor runs on; preflight reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Support {
    /// `4.19`: the oldest kernel kubeadm accepts.
    pub minimum_kernel: String,
    /// What an older kernel means.
    pub older_kernel: Severity,
    /// What cgroup v1 means.
    pub cgroup_v1: CgroupV1,
    /// The oldest containerd it works with, without `v`.
    pub minimum_containerd: String,
    /// Of each line of containerd the oldest that upstream recommends; newer lines than these are meant too. Empty: it names none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recommended_containerd: Vec<String>,
    /// With what these were compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommended_containerd_compared: Option<Compared>,
    /// The oldest etcd that kubeadm takes from others (`spec.etcd.type: external`), without `v`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_etcd: Option<String>,
    /// Programs that must be on a node; `iptables|nft` is satisfied by either.
    pub required_programs: Vec<String>,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing can continue.
    Fail,
    /// Said, and continued.
    Warn,
}

/// What a kubelet of the minor does on cgroup v1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CgroupV1 {
    /// Runs, with a warning.
    Warned,
    /// Refuses, unless `kubelet.failCgroupV1: false` and kubeadm ignores `SystemVerification` (KEP-5573).
    Refused,
}

const fn yes() -> bool {
    true
}

const fn is_yes(value: &bool) -> bool {
    *value
}

impl PatchRange {
    /// Whether a patch is in the range.
    pub fn holds(&self, patch: u32) -> bool {
        self.from <= patch && self.to.is_none_or(|to| patch <= to)
    }

    /// By what the tags of a patch were checked: what was read at one patch says nothing of later ones, which the same open range holds
    /// until somebody reads them.
    pub fn verified_for(&self, patch: u32) -> Option<&Verified> {
        let verified = self.verified.as_ref()?;
        version::patch(&verified.tag).is_none_or(|last| patch <= last).then_some(verified)
    }

    /// The version of kubeadm's own etcd.
    pub fn etcd_version(&self) -> &str {
        without_build(&self.etcd)
    }
}

/// The version in a tag: `3.6.5` of `3.6.5-0`.
fn without_build(tag: &str) -> &str {
    tag.split_once('-').map_or(tag, |(version, _)| version)
}

impl fmt::Display for PatchRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "patches from {}", self.from)?;
        self.to.map_or(Ok(()), |to| write!(f, " to {to}"))
    }
}

impl Release {
    /// kubeadm's constants of a patch.
    pub fn constants(&self, patch: u32) -> Option<&PatchRange> {
        self.patches.iter().find(|range| range.holds(patch))
    }

    /// Tag of the etcd that a cluster runs, and not always what `kubeadm config images list` prints: kubeadm knows of no etcd
    /// after its own, see [`Self::etcd_before_next`].
    pub fn etcd<'a>(&'a self, constants: &'a PatchRange) -> &'a str {
        match &self.etcd_before_next {
            Some(tag) if version::compare(constants.etcd_version(), without_build(tag)).is_lt() => tag,
            _ => &constants.etcd,
        }
    }

    /// The version in that tag.
    pub fn etcd_version<'a>(&'a self, constants: &'a PatchRange) -> &'a str {
        without_build(self.etcd(constants))
    }
}

impl Support {
    /// kubeadm's preflight checks that must be ignored on a node, for `--ignore-preflight-errors`. `cgroup_v1`: the node
    /// has it and the user has set `kubelet.failCgroupV1: false`.
    pub fn kubeadm_ignore(&self, cgroup_v1: bool) -> Vec<&'static str> {
        if cgroup_v1 && self.cgroup_v1 == CgroupV1::Refused { vec!["SystemVerification"] } else { Vec::new() }
    }

    /// Whether upstream recommends a containerd for this minor.
    pub fn recommends_containerd(&self, version: &str) -> bool {
        let line = |known: &str| version::minor(known) == version::minor(version);
        match self.recommended_containerd.iter().find(|known| line(known)) {
            Some(oldest) => version::compare(version, oldest).is_ge(),
            None => version::newest(self.recommended_containerd.iter().map(String::as_str))
                .is_none_or(|newest| version::compare(version, newest).is_gt()),
        }
    }

    /// The programs a node must have: of each entry one is enough.
    pub fn required_programs(&self) -> impl Iterator<Item = Vec<&str>> {
        self.required_programs.iter().map(|entry| entry.split('|').collect())
    }
}
