//! What an unproven cluster.yaml asks for, as lines for people.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use kubexm_spec::Cluster;
use kubexm_spec::cluster::{Operator, SecretUse};

use super::approach::{Approach, Use, describe_from};
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
    let (uses, large) = of_hosts(cluster);
    lines.extend(large);
    lines.push("to use for that:".to_owned());
    let mut secrets = Secrets::default();
    approaches.iter().flat_map(Approach::uses).chain(uses).for_each(|one| secrets.add(one));
    let mut secrets = secrets.all;
    if let Some(backup) = backup {
        let secret = format!(
            "every Secret of the cluster, and the keys of its authorities, from {}",
            escaped(&backup.to_string_lossy())
        );
        secrets.push((secret, vec![format!("kept on {}", planes_with_routes(cluster, approaches).join(", ")).into()]));
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
    let recipients = cluster.etcd.backup.as_ref().map_or(&[][..], |backup| &backup.recipients);
    if !recipients.is_empty() {
        lines.push(
            "to encrypt the backups that members of etcd make for these keys, whose owners can then open them:"
                .to_owned(),
        );
        lines.extend(recipients.iter().map(|recipient| format!("  {}", escaped(recipient))));
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

/// Each secret once, in the order in which they are found, with all its recipients.
#[derive(Default)]
struct Secrets {
    all: Vec<(String, Vec<Arc<str>>)>,
    places: HashMap<String, usize>,
    seen: HashSet<(usize, Arc<str>)>,
}

impl Secrets {
    fn add(&mut self, Use { secret, goes_to }: Use) {
        let next = self.all.len();
        let at = *self.places.entry(secret).or_insert_with_key(|secret| {
            self.all.push((secret.clone(), Vec::new()));
            next
        });
        if self.seen.insert((at, Arc::clone(&goes_to)))
            && let Some((_, all)) = self.all.get_mut(at)
        {
            all.push(goes_to);
        }
    }
}

/// Hosts that keep the same secrets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Keepers {
    ControlPlanes,
    All,
    Registry,
}

impl Keepers {
    const fn of(usage: SecretUse) -> Self {
        match usage {
            // The values of Secrets are in etcd.
            SecretUse::AuditWebhook | SecretUse::ClusterCaKey | SecretUse::EtcdKey | SecretUse::AddonSecret => {
                Self::ControlPlanes
            }
            // Each fetches from the depot, or pulls images.
            SecretUse::DepotLogin | SecretUse::ExternalLogin | SecretUse::ExternalCa => Self::All,
            SecretUse::HarborAdmin | SecretUse::HarborDatabase => Self::Registry,
        }
    }

    fn names(self, cluster: &Cluster) -> Vec<String> {
        match self {
            Self::ControlPlanes => cluster.role_groups.control_plane.iter().map(|name| escaped(name)).collect(),
            Self::All => cluster.hosts.iter().map(|host| escaped(&host.name)).collect(),
            Self::Registry => cluster.role_groups.registry.iter().map(|name| escaped(name)).collect(),
        }
    }

    fn title(self, count: usize) -> String {
        match self {
            Self::ControlPlanes => format!("the {count} control planes"),
            Self::All => format!("all {count} hosts"),
            Self::Registry => format!("the {count} hosts of the registry"),
        }
    }
}

/// So many hosts are named with each secret; more of them once for all: there may be thousands of both.
const NAMED: usize = 10;

/// Secrets that are stored on hosts, and a line for each large group of hosts that keep some. (All hosts are listed anyway.)
fn of_hosts(cluster: &Cluster) -> (Vec<Use>, Vec<String>) {
    let (mut kept, mut lines) = (BTreeMap::new(), Vec::new());
    let mut kept_on = |keepers: Keepers| -> Arc<str> {
        let known = kept.entry(keepers).or_insert_with(|| {
            let names = keepers.names(cluster);
            let title = keepers.title(names.len());
            match names.len() > NAMED {
                true if keepers == Keepers::All => format!("kept on {title}").into(),
                true => {
                    lines.push(format!("{title}: {}", names.join(", ")));
                    format!("kept on {title}").into()
                }
                false => format!("kept on {}", names.join(", ")).into(),
            }
        });
        Arc::clone(known)
    };
    let registry = cluster.external_registry().map(|registry| escaped(registry.address)).unwrap_or_default();
    let mut uses = Vec::new();
    for secret in cluster.secrets() {
        let kept = kept_on(Keepers::of(secret.usage));
        let goes_to = match secret.usage {
            SecretUse::ExternalLogin => format!("sent to {registry}, and {kept}").into(),
            SecretUse::AuditWebhook
            | SecretUse::ClusterCaKey
            | SecretUse::EtcdKey
            | SecretUse::DepotLogin
            | SecretUse::ExternalCa
            | SecretUse::HarborAdmin
            | SecretUse::HarborDatabase
            | SecretUse::AddonSecret => kept,
        };
        uses.push(Use { secret: format!("{} from {}", secret.usage.title(), describe_from(&secret.source)), goes_to });
    }
    (uses, lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(planes: usize) -> Vec<String> {
        let hosts: String = (1..=planes).map(|at| format!("  - {{name: n{at}, address: 10.0.0.{at}}}\n")).collect();
        let values: String = (0..40).map(|at| format!("k{at}: {{env: V{at}}}, ")).collect();
        let text = format!(
            "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: c}}\nspec:\n  hosts:\n{hosts}  roleGroups: {{master: \
             [\"n[1:{planes}]\"]}}\n  kubernetes: {{audit: {{webhook: {{kubeconfigFrom: {{env: W}}}}}}}}\n  addons: [{{name: a, type: \
             yaml, source: {{path: a.yaml}}, secrets: [{{name: s, dataFrom: {{{values}}}}}]}}]\n"
        );
        let cluster = kubexm_spec::cluster::parse(&text).unwrap_or_else(|problems| panic!("{text}{problems}"));
        wanted(&cluster, &[], false, None)
    }

    #[test]
    fn a_few_hosts_are_named_with_each_secret_and_many_once_for_all() {
        let few = asked(3);
        assert_eq!(few.iter().filter(|line| line.ends_with("kept on n1, n2, n3")).count(), 41, "{few:#?}");
        let many = asked(30);
        assert_eq!(many.iter().filter(|line| line.ends_with("kept on the 30 control planes")).count(), 41, "{many:#?}");
        let naming: Vec<&String> = many.iter().filter(|line| line.contains("n29, n30")).collect();
        assert!(naming.len() == 1 && naming[0].starts_with("the 30 control planes: n1, n2, "), "{naming:?}");
    }

    #[test]
    fn for_whom_backups_of_etcd_would_be_encrypted_is_named() {
        let key = "age195lpn50un3389thrdqqyv42xdl3hcgguumxpm827kg8zg5wmyc0qew6cj8";
        let text = format!(
            "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: c}}\nspec:\n  hosts: [{{name: n1, address: \
             10.0.0.1}}]\n  roleGroups: {{master: [n1]}}\n  etcd: {{backup: {{recipients: [{key}]}}}}\n"
        );
        let lines = wanted(&kubexm_spec::cluster::parse(&text).unwrap(), &[], false, None);
        let at =
            lines.iter().position(|line| line.starts_with("to encrypt the backups that members of etcd make")).unwrap();
        assert_eq!(lines[at + 1], format!("  {key}"));
    }

    #[test]
    fn a_secret_is_named_once_with_each_of_its_recipients_once() {
        let mut secrets = Secrets::default();
        for (secret, goes_to) in [("key", "a"), ("password", "a"), ("key", "b"), ("key", "a")] {
            secrets.add(Use { secret: secret.to_owned(), goes_to: goes_to.into() });
        }
        assert_eq!(
            secrets.all,
            [("key".to_owned(), vec!["a".into(), "b".into()]), ("password".to_owned(), vec!["a".into()])]
        );
    }
}
