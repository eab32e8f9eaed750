//! No name server gives an address to names that nobody has: pods would reach strangers.

use super::report::{Report, Severity, Words};
use super::site::Site;

pub(super) fn run(site: &Site<'_>, report: &mut Report) {
    for host in site.nodes() {
        for wildcard in &host.facts.dns_wildcards {
            let (server, address) = (wildcard.server, wildcard.address);
            let (severity, words) = match &wildcard.domain {
                Some(domain) => (
                    Severity::Fail,
                    Words {
                        found: format!(
                            "the name server {server} answers any name below the search domain {domain}, with {address}"
                        ),
                        needed: "a search domain in which names that nobody has do not exist".to_owned(),
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
                        needed: "a name server for which names that nobody has do not exist".to_owned(),
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
