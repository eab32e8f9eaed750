//! What is due, and what must be mended first: refused before anything is changed, all of it at once.

use kubexm_plan::Facts;
use kubexm_plan::cluster_facts::{Certificate, Gap};
use kubexm_plan::kubeadm_certificates::{ADMIN_CONF, AUTHORITIES, CLUSTER_CA, MANAGED};
use kubexm_plan::op::KUBELET_CLIENT;
use kubexm_plan::request::KUBELET_CONF;
use kubexm_spec::cluster::{EtcdKind, RegistryKind};

use super::adopted;
use super::context::RenewContext;
use super::due::{Due, Plane, due, late_kubelet};
use super::kubeadm_authorities::{self, Authorities};
use super::own::{self, Fate, Own};
use super::site;
use crate::adoption;
use crate::clocks;
use crate::error::RecipeError;
use crate::identity::Identity;
use crate::paths;

/// What the certificates of an etcd of kubexm's are below.
const ETCD: [&str; 2] = ["/etc/kubexm/etcd/", "/etc/kubexm/etcd-client/"];
const YOURS: &str = "it is yours, for your etcd: get another one, put it in the place of the file that spec.etcd.externalConfig names (and its \
                     key with keyFrom), build a bundle and run `kubexm-install create` with it; API servers read a new CA when they start";
const THEIRS: &str = "it is of an etcd that kubexm-install has not made: renew it as you have made it; API servers read their client's \
                      certificate with every connection, and a CA when they start";
/// What the registry's and the depot's certificates are below.
const OURS: [&str; 4] =
    ["/etc/kubexm/registry-ca.crt", "/etc/kubexm/depot/", "/etc/kubexm/registry/", "/etc/kubexm/harbor/"];

pub(super) fn site<'a>(cx: &'a RenewContext<'a>) -> Result<Due<'a>, RecipeError> {
    let planes = &cx.cluster.role_groups.control_plane;
    let first = planes.first().ok_or(RecipeError::NoHosts { what: "control plane" })?;
    let adopted = adoption::agreed(cx.cluster, cx.facts)?;
    if adopted {
        adopted::refuse(cx)?;
    }
    let mut problems = clocks::wrong(cx.facts, "certificates would be signed with a wrong time");
    let identity = Identity::of(cx.cluster, cx.facts);
    let mut found = Vec::new();
    for name in planes {
        let Some(facts) = cx.facts.get(name) else {
            problems.push(format!("{name} was not reached: every control plane is needed"));
            continue;
        };
        match plane(cx, &identity, name, facts) {
            Ok(plane) => found.push(plane),
            Err(all) => problems.extend(all),
        }
    }
    let mut site_workers = Vec::new();
    for host in cx.cluster.hosts.iter().filter(|host| !planes.contains(&host.name)) {
        match site::due(cx, &host.name) {
            Ok(files) if files.is_empty() => {}
            Ok(files) => site_workers.push((host.name.as_str(), files)),
            Err(all) => problems.extend(all),
        }
    }
    let (own, of_own) = own::due(cx)?;
    problems.extend(of_own);
    let authorities = kubeadm_authorities::due(cx, adopted).unwrap_or_else(|all| {
        problems.extend(all);
        Authorities::default()
    });
    // Not one that ends soon: then everything runs, and must do so during the restarts.
    let explains = |path: &str| {
        path == KUBELET_CLIENT || path == KUBELET_CONF || MANAGED.iter().any(|(_, managed)| *managed == path)
    };
    let theirs = |one: &&Certificate| adoption::is_of_their_etcd(cx.running, &one.host, &one.path);
    let of_planes = cx.running.certificates.iter().filter(|one| planes.contains(&one.host));
    let mut of_planes = of_planes.filter(|one| !theirs(one));
    let ended = own.etcd_ended || authorities.ended || of_planes.any(|one| explains(&one.path) && one.ends <= cx.now);
    let changes = own.touches_etcd()
        || authorities.changes(cx)
        || found.iter().any(|plane| !plane.due.is_empty() || !plane.site.is_empty());
    if changes && !ended {
        problems.extend(unhealthy(cx));
    }
    if !problems.is_empty() {
        problems.extend(site::mend(&problems));
        return Err(RecipeError::CannotRenew { problems });
    }
    let workers = cx.cluster.hosts.iter().filter(|host| !planes.contains(&host.name));
    let workers = workers.filter_map(|host| Some((host.name.as_str(), late_kubelet(&of_host(cx, &host.name), cx)?)));
    let mut warnings = warnings(cx, &authorities, &own);
    warnings.extend(authorities.warnings.iter().cloned());
    let no_operator = if adopted { adoption::no_operator(cx.cluster, cx.running, first) } else { None };
    let operator = no_operator.is_none();
    if adopted {
        warnings.extend(adopted::left_running(cx, &found).into_iter().chain(no_operator));
    }
    let workers = workers.collect();
    Ok(Due { planes: found, workers, site_workers, first, ended, adopted, operator, warnings, own, authorities })
}

/// The certificates of a host.
fn of_host<'a>(cx: &RenewContext<'a>, host: &str) -> Vec<&'a Certificate> {
    cx.running.certificates.iter().filter(|one| one.host == host).collect()
}

fn plane<'a>(
    cx: &RenewContext<'a>,
    identity: &Identity,
    name: &'a str,
    facts: &Facts,
) -> Result<Plane<'a>, Vec<String>> {
    if !identity.is_member(cx.cluster, name, facts) || !facts.joined {
        let text = "it is no control plane of this cluster: find out with `kubexm-install status -f cluster.yaml` which \
                    cluster it belongs to, or remove it from cluster.yaml";
        return Err(vec![format!("{name}: {text}")]);
    }
    let mut problems: Vec<String> =
        cx.running.gaps.iter().filter(|gap| is_of_certificate(gap, name)).map(unread).collect();
    let certificates = of_host(cx, name);
    for path in AUTHORITIES {
        let kubeadms = kubeadm_authorities::is_kubeadms(cx, path);
        let ended = certificates.iter().any(|one| one.path == path && one.ends <= cx.now);
        if ended && !(kubeadms && cx.wanted.authorities) {
            let mend = match kubeadms {
                true => "`kubexm-install certs renew --authorities` renews it",
                false => "whoever has signed it must renew it",
            };
            problems.push(format!(
                "{name}: the certificate authority {path} has ended itself: nothing that it signs is valid ({mend})"
            ));
        }
    }
    // Without these its API server is down, and stays so whatever is renewed.
    let etcd = adoption::kubelet_etcd(cx.running, name).map(|etcd| &etcd.access);
    let used = |one: &&&Certificate| etcd.is_some_and(|access| [&access.ca, &access.certificate].contains(&&one.path));
    let ended = certificates.iter().filter(used).filter(|one| one.ends <= cx.now);
    problems.extend(
        ended
            .filter(|one| adoption::is_of_their_etcd(cx.running, name, &one.path))
            .map(|one| format!("{name}: {} has ended, without which its API server has no etcd: {THEIRS}", one.path)),
    );
    if certificates.is_empty() && problems.is_empty() {
        problems.push(format!("{name}: none of kubeadm's certificates was found in /etc/kubernetes"));
    }
    let site = site::due(cx, name).unwrap_or_else(|all| {
        problems.extend(all);
        Vec::new()
    });
    if !problems.is_empty() {
        return Err(problems);
    }
    let user = cx.cluster.host(name).map_or("root", |host| host.user.as_str());
    let admin = certificates.iter().find(|one| one.path == ADMIN_CONF).and_then(|one| one.file);
    Ok(Plane { name, user, due: due(&certificates, cx), site, kubelet: late_kubelet(&certificates, cx), admin })
}

fn is_of_certificate(gap: &Gap, host: &str) -> bool {
    let of_kubeadm = gap.what.strip_prefix("certificate ").is_some_and(|path| path.starts_with("/etc/kubernetes/"));
    gap.host == host && (of_kubeadm || gap.what == "host")
}

fn unread(gap: &Gap) -> String {
    format!("{}: {}: {}", gap.host, gap.what, gap.why)
}

/// Restarts of one control plane after the other need the others: what is not healthy now would be none afterwards.
fn unhealthy(cx: &RenewContext<'_>) -> Vec<String> {
    let (running, members) = (cx.running, cx.cluster.etcd_members().len());
    let mut problems = Vec::new();
    let gaps: Vec<String> = running.gaps.iter().map(unread).collect();
    if !running.api_answers() {
        problems.push(format!(
            "the API server does not answer, and no certificate has ended that would explain it: mend that first ({})",
            gaps.join("; ")
        ));
    }
    // No member of the user's is started anew.
    let theirs = cx.cluster.etcd.kind == EtcdKind::External;
    let ill = running.etcd.iter().filter(|member| !member.healthy && !theirs);
    let down: Vec<&str> = ill.map(|member| member.name.as_str()).collect();
    if !down.is_empty() {
        let gone = "`kubexm-install delete-node` removes one that is gone for good";
        problems.push(format!(
            "members of etcd are not healthy: {}; each restart needs the others, so start them first ({gone})",
            down.join(", ")
        ));
    } else if running.etcd.len() < members {
        let names = |host: &&String| running.etcd.iter().any(|member| member.name == **host);
        let missing: Vec<&str> =
            cx.cluster.etcd_members().iter().filter(|host| !names(host)).map(|host| host.as_str()).collect();
        let gaps = if gaps.is_empty() { String::new() } else { format!(" ({})", gaps.join("; ")) };
        problems.push(format!(
            "of {members} members of etcd that cluster.yaml names only {} were seen, and not that of {}{gaps}: start it; a host that was deleted \
             is added again (`kubexm-install add-node`), or taken out of spec.roleGroups",
            running.etcd.len(),
            missing.join(", "),
        ));
    }
    problems
}

/// What ends and is not renewed here.
fn warnings(cx: &RenewContext<'_>, authorities: &Authorities<'_>, own: &Own<'_>) -> Vec<String> {
    let soon = |one: &&Certificate| one.ends.saturating_sub(cx.now) < cx.wanted.within_s;
    let mut warnings: Vec<String> = Vec::new();
    for one in cx.running.certificates.iter().filter(soon) {
        let ends = if one.ends <= cx.now { "has ended" } else { "ends soon" };
        let of_etcd = ETCD.iter().any(|folder| one.path.starts_with(folder));
        if authorities.has(&one.path) {
            continue;
        }
        let text = if adoption::is_of_their_etcd(cx.running, &one.host, &one.path) {
            THEIRS.to_owned()
        } else if AUTHORITIES.contains(&one.path.as_str()) {
            match kubeadm_authorities::is_kubeadms(cx, &one.path) {
                true => "it is a certificate authority: `kubexm-install certs renew --authorities` renews it under its own key".to_owned(),
                false if one.path == CLUSTER_CA => "it is your site's CA, which has to renew it".to_owned(),
                false => "cluster.yaml has no use for it, so it is not renewed".to_owned(),
            }
        } else if of_etcd && cx.cluster.etcd.kind == EtcdKind::External {
            YOURS.to_owned()
        } else if let Some((authority, _)) = own::of_file(cx, one) {
            match own::fate(cx, one, authority) {
                Fate::EndsWithAuthority => format!("its authority ({authority}) ends no later, so it is not renewed"),
                Fate::Renewed | Fate::Brought | Fate::Stays => continue,
            }
        } else if of_etcd && one.path.ends_with("/ca.crt") {
            if own.etcd_authority.is_some() {
                continue;
            }
            "it is the authority of kubexm's own etcd: `kubexm-install certs renew --authorities` renews it under its own key; what it has signed \
             ends with it"
                .to_owned()
        } else if one.path == OURS[0] || one.path.ends_with("/ca.crt") && is_ours(one) {
            "it is the registry's own authority: `kubexm-install create --bundle B --new-registry-ca` makes another one, and renews what it \
             has signed"
                .to_owned()
        } else if one.path == paths::HARBOR_CERT && cx.cluster.registry.kind == RegistryKind::Harbor {
            "it is Harbor's, which takes minutes to start again: `kubexm-install create --bundle B` renews it in its last 30 days, or in the \
             last quarter of a shorter certificateValidityPeriod"
                .to_owned()
        } else if of_etcd || is_ours(one) {
            "cluster.yaml has no use for it on this host, so it is not renewed".to_owned()
        } else if one.path == "/var/lib/kubelet/pki/kubelet.crt" {
            "kubelet signed it for itself, and nothing checks it; remove it and its key, and restart kubelet, to get another".to_owned()
        } else {
            continue;
        };
        warnings.push(format!("{}: {} {ends}: {text}", one.host, one.path));
    }
    // One that cannot be read is not known to be due.
    let own = |gap: &&Gap| gap.what.strip_prefix("certificate ").is_some_and(|path| path.starts_with("/etc/kubexm/"));
    warnings.extend(
        cx.running.gaps.iter().filter(own).map(|gap| {
            format!("{}; it is not renewed: `kubexm-install create --bundle B` writes it anew", unread(gap))
        }),
    );
    warnings
}

fn is_ours(one: &Certificate) -> bool {
    OURS.iter().any(|path| one.path.starts_with(path))
}
