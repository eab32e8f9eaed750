//! Members of an etcd of kubexm's that runs are all there, and a create gives them no other line of versions: it completes a
//! cluster, and neither replaces members nor upgrades them.

use kubexm_spec::cluster::EtcdKind;
use kubexm_spec::{Cluster, Program, Version};

use super::input::{ObservedHost, PreflightInput};
use super::report::Report;
use crate::identity::Identity;
use crate::modules::etcd;
use crate::modules::etcd_formed::Formed;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    members(input, report, version_fits);
}

/// The upgrade has rules of its own for versions.
pub(super) fn before_upgrade(input: &PreflightInput<'_>, report: &mut Report) {
    members(input, report, |_, _, _, _| {});
}

/// Judges the version of a member.
type Fits = fn(&PreflightInput<'_>, &ObservedHost<'_>, &str, &mut Report);

fn members(input: &PreflightInput<'_>, report: &mut Report, fits: Fits) {
    let cluster = input.cx.cluster;
    if cluster.etcd.kind != EtcdKind::Kubexm {
        return;
    }
    let runs = runs(input);
    for host in input.hosts.iter().filter(|host| host.roles.etcd) {
        match etcd::formed_version(host.facts) {
            None if runs => report.fail(
                host.name(),
                "no member of etcd, and the cluster runs with one there",
                "the member that it had, with its data: an empty one under its name would lose what it had agreed to",
                "bring back its disk (/etc/kubexm/etcd and the data folder); where the host is lost for good, `kubexm-install delete-node` it and \
                 `add-node` it again; a new host is added with `kubexm-install add-node`",
            ),
            None => {}
            Some(old) => {
                fits(input, host, old, report);
                folder_stays(cluster, host, report);
            }
        }
    }
}

/// Whether a control plane of the cluster runs.
pub(super) fn runs(input: &PreflightInput<'_>) -> bool {
    let cluster = input.cx.cluster;
    let identity = Identity::of(cluster, input.cx.facts);
    let runs =
        |host: &ObservedHost<'_>| host.roles.control_plane && identity.has_joined(cluster, host.name(), host.facts);
    input.hosts.iter().any(runs)
}

/// A member is not moved: it would start without its data.
fn folder_stays(cluster: &Cluster, host: &ObservedHost<'_>, report: &mut Report) {
    let Some(formed) = Formed::of(host.facts) else { return };
    let has = formed.data_dir();
    let wanted = cluster.etcd.data_dir.as_str();
    if has != wanted {
        report.fail(
            host.name(),
            format!("a member of etcd with its data in {has}"),
            format!("{wanted}, which spec.etcd.dataDir names: the folder of a member that runs is not changed"),
            format!("write dataDir: {has} in cluster.yaml"),
        );
    }
}

/// A newer patch is taken, one member after the other; another minor has conditions of its own, and nothing goes back.
fn version_fits(input: &PreflightInput<'_>, host: &ObservedHost<'_>, old: &str, report: &mut Report) {
    let carried = host.platform.and_then(|platform| input.cx.program(Program::Etcd, platform).ok());
    let Some(new) = carried.map(|program| program.version.as_str()) else { return };
    if let (Some(was), Some(is)) = (Version::of(old).release(), Version::of(new).release())
        && (was[..2] != is[..2] || is < was)
    {
        report.fail(
            host.name(),
            format!("a member of etcd {old}, and the bundle has etcd {new}"),
            format!("etcd {}.{} of this patch or a later one", was[0], was[1]),
            "use a bundle with that etcd, or `kubexm-install upgrade` for a later minor version; members never go back",
        );
    }
}
