//! etcd's members, and its own gate: upstream's upgrade guide of 3.6 asks for 3.5.26 or newer on every member before the
//! first one gets 3.6, since members that were removed under earlier patches come back otherwise.

use kubexm_spec::cluster::EtcdKind;
use kubexm_spec::{ClusterImage, Version, depot};

use super::case::{Case, Lines, said};

/// The minor version with the gate.
const GATED: [u64; 2] = [3, 6];
/// What every member runs at least before it.
const GATE: [u64; 3] = [3, 5, 26];

pub(super) fn members(case: &Case<'_>, problems: &mut Lines, _: &mut Lines) {
    // No member of the user's is stopped, and preflight has asked its endpoints.
    if !case.stops_members() || case.cx.cluster.etcd.kind == EtcdKind::External {
        return;
    }
    for member in case.running.etcd.iter().filter(|member| !member.healthy || member.learner) {
        let name = if member.name.is_empty() { &member.id } else { &member.name };
        let what = if member.healthy { "is a learner, which does not vote" } else { "is not healthy" };
        let mend = match case.own_members {
            Some(_) => "mend it (`journalctl -u kubexm-etcd` on its host)".to_owned(),
            None => format!("mend it, or take its host away: {}", case.removal(name)),
        };
        problems.push(format!(
            "etcd's member {} {what}: an upgrade stops one member after another, and the others must keep a quorum; {mend}",
            said(name)
        ));
    }
    missing(case, problems);
    let Some(bundled) = bundled(case) else { return };
    newer_than_the_bundle(case, &bundled, problems);
    minor_is_skipped(case, &bundled, problems);
    before_the_gate(case, &bundled, problems);
}

/// The etcd of the bundle: its program where it is kubexm's own, else the tag of kubeadm's image.
fn bundled(case: &Case<'_>) -> Option<String> {
    if let Some(members) = case.own_members {
        return Some(members.target.clone());
    }
    let image = case.cx.image(ClusterImage::Etcd, case.site.first.platform).ok()?;
    depot::split_reference(&image.name).1.map(str::to_owned)
}

/// Members that are wanted and not there; of an etcd of kubexm's also those that nobody has asked for.
fn missing(case: &Case<'_>, problems: &mut Lines) {
    let found = &case.running.etcd;
    let Some(own) = case.own_members else {
        let planes = case.cx.cluster.role_groups.control_plane.len();
        if found.len() < planes {
            problems.push(format!(
                "etcd has {} members, and there are {planes} control planes: an upgrade stops one member after another, and needs \
                 all of them; `kubexm-install status` shows which is missing",
                found.len()
            ));
        }
        return;
    };
    let missing = own.all.iter().filter(|member| !found.iter().any(|one| one.name == member.name));
    problems.extend(missing.map(|member| {
        format!(
            "etcd has no member on {}, which is in roleGroups.etcd: an upgrade replaces one member after another, and needs all of \
             them; add it again as docs/operations/etcd.md says (\"A member that lost its data\")",
            member.name
        )
    }));
    let known = |name: &str| name.is_empty() || own.all.iter().any(|member| member.name == name);
    problems.extend(found.iter().filter(|member| !known(&member.name)).map(|member| {
        // It is pasted: as etcd writes it, or not at all.
        let is_id = !member.id.is_empty() && member.id.bytes().all(|byte| byte.is_ascii_hexdigit());
        format!(
            "etcd has a member {}, which is no host of roleGroups.etcd: it would stay at its version; remove it with etcdctl \
             (`member remove {}`), or add its host to cluster.yaml",
            said(&member.name),
            if is_id { &member.id } else { "ID" }
        )
    }));
}

/// etcd's upgrade guides go from one minor version to the next.
fn minor_is_skipped(case: &Case<'_>, bundled: &str, problems: &mut Lines) {
    let Some([major, minor]) = Version::of(bundled).line() else { return };
    for member in &case.running.etcd {
        let Some(version) = member.version.as_deref() else { continue };
        let Some([was_major, was]) = Version::of(version).line() else { continue };
        let next = was.saturating_add(1);
        if was_major == major && next < minor {
            problems.push(format!(
                "etcd's member {} runs {}, and the bundle has etcd {bundled}: minor versions of etcd cannot be skipped; upgrade \
                 with a bundle that has etcd {major}.{next} first",
                said(&member.name),
                said(version)
            ));
        }
    }
}

fn before_the_gate(case: &Case<'_>, bundled: &str, problems: &mut Lines) {
    if Version::of(bundled).line().is_none_or(|bundled| bundled < GATED) {
        return;
    }
    let passes = |version: &str| {
        let version = Version::of(version);
        version.line().is_some_and(|found| found >= GATED) || version.release().is_some_and(|found| found >= GATE)
    };
    let versions = case.running.etcd.iter().filter_map(|member| Some((&member.name, member.version.as_deref()?)));
    let older: Vec<String> = versions
        .filter(|(_, version)| !passes(version))
        .map(|(name, version)| format!("member {} runs {}", said(name), said(version)))
        .collect();
    if !older.is_empty() {
        let [major, minor, patch] = GATE;
        problems.push(format!(
            "etcd's {}, and the bundle has etcd {bundled}: before 3.6 every member must run {major}.{minor}.{patch} or newer, since \
             members that were removed earlier come back otherwise. This kubexm-bundle builds bundles of v1.{} with such an \
             etcd: build one of {found} from the cluster's cluster.yaml, run `kubexm-install upgrade --bundle` with it, which \
             leaves Kubernetes at its version (`spec.runtime.version` keeps the runtime at its own, too), then upgrade again",
            older.join(", "),
            case.found.oldest.minor(),
            found = case.found.oldest
        ));
    }
}

/// kubeadm leaves an etcd alone that is newer than the one it is given, and says that all went well. One of kubexm's own does not go
/// back either: members of an earlier version may not read the data.
fn newer_than_the_bundle(case: &Case<'_>, tag: &str, problems: &mut Lines) {
    for member in &case.running.etcd {
        let Some(version) = member.version.as_deref() else { continue };
        if Version::of(version).release() > Version::of(tag).release() {
            let version = said(version);
            problems.push(format!(
                "etcd's member {} runs {version}, which is newer than the bundle's etcd {tag}, and etcd never goes back: build the \
                 bundle with an etcd of {version} or newer (an overlay of the catalogue, `--catalogue`)",
                said(&member.name)
            ));
        }
    }
}
