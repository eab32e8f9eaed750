//! A container runtime that comes as a package of the hosts' system has the version of that package: which ones can be configured.

use kubexm_spec::cluster::RuntimeKind;
use kubexm_spec::{ArtifactKey, Cluster, Version};
use serde_json::Value;

use crate::error::OldRuntimePackage;

/// The package of isulad.
const ISULAD: &str = "iSulad";
/// The first release with version 1 of the CRI, which Kubernetes asks for from 1.26 on, and the first whose control groups systemd can
/// keep. iSulad's tags say so; a distribution's package of an older one may have either as a patch, which its version does not show.
const FIRST_CRI_V1: [u64; 3] = [2, 1, 4];
const FIRST_SYSTEMD: [u64; 3] = [2, 1, 6];

/// The first package of these, with their versions, that is too old for a cluster.
pub fn too_old<'a>(
    cluster: &Cluster,
    packages: impl IntoIterator<Item = (&'a ArtifactKey, &'a str)>,
) -> Option<OldRuntimePackage> {
    if cluster.runtime.kind != RuntimeKind::Isulad {
        return None;
    }
    let kubelet = cluster.kubernetes.as_ref().and_then(|kubernetes| kubernetes.kubelet.get("cgroupDriver"));
    let by_systemd = kubelet.and_then(Value::as_str).is_none_or(|driver| driver == "systemd");
    packages.into_iter().find_map(|(key, version)| match key {
        ArtifactKey::Package { os, name } if name == ISULAD => refused(os, version, by_systemd),
        _ => None,
    })
}

fn refused(os: &str, version: &str, by_systemd: bool) -> Option<OldRuntimePackage> {
    // `0:2.1.6-1.oe2403`.
    let bare = version.rsplit(':').next().unwrap_or(version);
    let release = Version::of(bare).release();
    let (what, first, instead) = if release.is_none_or(|release| release < FIRST_CRI_V1) {
        let instead = "name systems with a newer one in spec.bundle.os, or another spec.runtime.type";
        ("version 1 of the CRI", FIRST_CRI_V1, instead)
    } else if by_systemd && release.is_none_or(|release| release < FIRST_SYSTEMD) {
        let instead = "write `cgroupDriver: cgroupfs` in spec.kubernetes.kubelet, or name systems with a newer one in spec.bundle.os";
        ("cgroupDriver systemd", FIRST_SYSTEMD, instead)
    } else {
        return None;
    };
    let [major, minor, patch] = first;
    Some(OldRuntimePackage {
        runtime: RuntimeKind::Isulad.to_string(),
        package: ISULAD.to_owned(),
        version: version.to_owned(),
        os: os.to_owned(),
        what,
        first: format!("{major}.{minor}.{patch}"),
        instead,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_without_what_kubernetes_needs_is_refused_with_its_system_and_what_mends_it() {
        let check = |version: &str, by_systemd| refused("openeuler-22.03", version, by_systemd);
        for (good, by_systemd) in [("2.1.6-1.oe2403", true), ("0:2.2.0-3", true), ("2.1.4-1", false)] {
            assert_eq!(check(good, by_systemd), None, "{good}");
        }
        for (bad, by_systemd, mend) in [
            ("2.0.18-16.oe2203", false, "spec.bundle.os"),
            ("2.1.3-1", true, "spec.runtime.type"),
            ("0:2.1.5-4.oe2403", true, "cgroupDriver: cgroupfs"),
            ("unknown", false, "spec.bundle.os"),
        ] {
            let text = check(bad, by_systemd).map(|error| error.to_string()).unwrap_or_default();
            assert!(text.contains(&format!("iSulad {bad}")) && text.contains("openeuler-22.03"), "{text}");
            assert!(text.contains(mend), "{text}");
        }
    }
}
