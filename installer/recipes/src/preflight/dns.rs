//! No name server resolves names that do not exist (DNS wildcards): pods would connect to the wrong host.

use super::input::PreflightInput;
use super::report::{Report, Severity, Words};
use crate::modules::dns;
use crate::paths;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    let nodes = input.cx.nodes().unwrap_or_default();
    for host in input.nodes() {
        // kubexm's own resolv.conf for kubelet has no search domains.
        let node = nodes.iter().find(|node| node.name() == host.name());
        let passed_on =
            node.is_none_or(|node| dns::kubelet_resolv_conf(input.cx.cluster, node) != paths::KUBELET_RESOLV);
        for wildcard in &host.facts.dns_wildcards {
            let (server, address) = (wildcard.server, wildcard.address);
            let (severity, words) = match &wildcard.domain {
                Some(_) if !passed_on => continue,
                Some(domain) => (
                    // A cluster that runs with it is not kept from being repaired or extended.
                    if host.ours { Severity::Warn } else { Severity::Fail },
                    Words {
                        found: format!(
                            "the name server {server} answers any name below the search domain {domain}, with {address}"
                        ),
                        needed: "a search domain without a wildcard record".to_owned(),
                        fix: format!(
                            "pods would find {address} as `kubernetes.default.svc.cluster.local.{domain}`: remove \
                             {domain} from `search` in /etc/resolv.conf, or its wildcard record (`*.{domain}`)"
                        ),
                    },
                ),
                None => (
                    Severity::Warn,
                    Words {
                        found: format!("the name server {server} answers any name, with {address}"),
                        needed: "a name server that answers NXDOMAIN for names that do not exist".to_owned(),
                        fix: format!(
                            "pods that mistype a name outside of the cluster reach {address}, and get no error: correct \
                             the server, or set others in `spec.extra.resolves`"
                        ),
                    },
                ),
            };
            report.add(severity, Some(host.name()), words);
        }
    }
}
