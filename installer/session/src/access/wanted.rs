//! What an unproven cluster.yaml asks for, as lines for people.

use std::path::Path;

use kubexm_spec::Cluster;
use kubexm_spec::cluster::{Operator, SecretUse};

use super::approach::{Approach, Use, describe_source};
use crate::escaped::escaped;

/// Every host, then every secret with all its recipients: one line for each secret, so that it is not overlooked among
/// many hosts. Then for whom the cluster's own secrets are sealed.
pub fn wanted(
    cluster: &Cluster,
    approaches: &[Approach],
    accepts_new_keys: bool,
    backup: Option<&Path>,
) -> Vec<String> {
    let mut lines = vec![format!("to connect to the hosts of cluster {}:", escaped(&cluster.name))];
    lines.extend(approaches.iter().map(|host| format!("  {}: {}", escaped(host.name()), host.route())));
    if let Some(registry) = cluster.external_registry() {
        lines.push(format!("to ask a registry, from this machine and from every host: {}", escaped(registry.address)));
    }
    lines.push("to use for that:".to_owned());
    let mut secrets: Vec<(String, Vec<String>)> = Vec::new();
    for Use { secret, goes_to } in approaches.iter().flat_map(Approach::uses).chain(of_hosts(cluster)) {
        match secrets.iter_mut().find(|(known, _)| *known == secret) {
            Some((_, all)) if all.contains(&goes_to) => {}
            Some((_, all)) => all.push(goes_to),
            None => secrets.push((secret, vec![goes_to])),
        }
    }
    if let Some(backup) = backup {
        let secret = format!(
            "every Secret of the cluster, and the keys of its authorities, from {}",
            escaped(&backup.to_string_lossy())
        );
        secrets.push((secret, vec![format!("kept on {}", planes_with_routes(cluster, approaches).join(", "))]));
    }
    if secrets.is_empty() {
        lines.push("  no secret".to_owned());
    }
    lines.extend(secrets.into_iter().map(|(secret, goes_to)| format!("  {secret}: {}", goes_to.join("; "))));
    if !cluster.operators.is_empty() {
        lines.push(
            "to seal backups, and the CA of the registry, for these operators too, who can then open them:".to_owned(),
        );
        let operator = |one: &Operator| format!("  {} ({})", escaped(&one.name), escaped(&one.recipient));
        lines.extend(cluster.operators.iter().map(operator));
    }
    if accepts_new_keys {
        lines.push("any host keys they present would be accepted and recorded (--accept-new-host-keys)".to_owned());
    }
    lines
}

/// Control planes and hosts of etcd, with where they are.
fn planes_with_routes(cluster: &Cluster, approaches: &[Approach]) -> Vec<String> {
    let groups = &cluster.role_groups;
    let gets_it = |host: &&Approach| {
        [&groups.control_plane, &groups.etcd].iter().any(|of| of.iter().any(|one| one == host.name()))
    };
    approaches.iter().filter(gets_it).map(|host| format!("{} ({})", escaped(host.name()), host.route())).collect()
}

/// Secrets that are stored on hosts.
fn of_hosts(cluster: &Cluster) -> impl Iterator<Item = Use> + '_ {
    let all: Vec<String> = cluster.hosts.iter().map(|host| host.name.clone()).collect();
    let given = move |usage| -> Vec<String> {
        let hosts = match usage {
            // The values of Secrets are in etcd.
            SecretUse::AuditWebhook | SecretUse::ClusterCaKey | SecretUse::EtcdKey | SecretUse::AddonSecret => {
                &cluster.role_groups.control_plane
            }
            // Each fetches from the depot, or pulls images.
            SecretUse::DepotLogin | SecretUse::ExternalLogin | SecretUse::ExternalCa => &all,
            SecretUse::HarborAdmin | SecretUse::HarborDatabase => &cluster.role_groups.registry,
        };
        hosts.iter().map(|host| escaped(host)).collect()
    };
    let registry = cluster.external_registry().map(|registry| escaped(registry.address)).unwrap_or_default();
    let sent = move |usage| match usage {
        SecretUse::ExternalLogin => format!("sent to {registry}, and "),
        SecretUse::AuditWebhook
        | SecretUse::ClusterCaKey
        | SecretUse::EtcdKey
        | SecretUse::DepotLogin
        | SecretUse::ExternalCa
        | SecretUse::HarborAdmin
        | SecretUse::HarborDatabase
        | SecretUse::AddonSecret => String::new(),
    };
    cluster.secrets().into_iter().map(move |secret| Use {
        secret: format!("{} from {}", secret.usage.title(), describe_source(&secret.source)),
        goes_to: sent(secret.usage) + &format!("kept on {}", given(secret.usage).join(", ")),
    })
}
