//! Name servers that give an address to names that nobody has.
//!
//! A pod has the search domains of its host after those of the cluster, and tries them for every name with less than five
//! dots (resolv.conf(5), `ndots`). If a server answers any name below one of them,
//! `kubernetes.default.svc.cluster.local` becomes a name of that domain, with the address of a stranger.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;

use kubexm_plan::facts::DnsWildcard;

use crate::{Machine, OpError, fsio};

const RESOLV: &str = "/etc/resolv.conf";
/// What pods get behind systemd-resolved's stub. It stays when that service is disabled, and then nobody reads it.
const RESOLVED: &str = "/run/systemd/resolve/resolv.conf";
/// glibc reads no more (resolv.conf(5)).
const MOST_SERVERS: usize = 3;
/// How long answers are waited for. A create that has nothing to do would spend most of its time on servers that do not answer.
const WAIT: Duration = Duration::from_millis(1500);
const WAIT_OF_A_NODE: Duration = Duration::from_millis(250);
/// kubelet passes no more to pods (`MaxDNSSearchPaths`).
const MOST_DOMAINS: usize = 32;

/// The servers are usable ones, without a stub; `behind_stub`: they are those of systemd-resolved; `joined`: the host is a node
/// already, and only warned of.
pub(super) fn wildcards(
    machine: &Machine,
    servers: &[IpAddr],
    behind_stub: bool,
    joined: bool,
) -> Result<Vec<DnsWildcard>, OpError> {
    let file = if behind_stub { RESOLVED } else { RESOLV };
    let text = fsio::read_text(&machine.path(file))?.unwrap_or_default();
    let mut domains: Vec<String> = Vec::new();
    for domain in search(&text) {
        if !domains.contains(&domain) && domains.len() < MOST_DOMAINS {
            domains.push(domain);
        }
    }
    let servers: Vec<IpAddr> =
        servers.iter().copied().filter(|server| !server.is_loopback()).take(MOST_SERVERS).collect();
    if servers.is_empty() {
        return Ok(Vec::new());
    }
    let random = || format!("kubexm-{:012x}", RandomState::new().hash_one(0) >> 16);
    // No name exists below `.invalid`, and no server needs to ask another one for it (RFC 6761, 6.4): in an air gap nothing is
    // sent to the outside for this question.
    let any = format!("{}.invalid", random());
    let names = domains.into_iter().map(|domain| (format!("{}.{domain}", random()), Some(domain)));
    let names: Vec<(String, Option<String>)> = names.chain([(any, None)]).collect();
    let asked: Vec<String> = names.iter().map(|(name, _)| name.clone()).collect();
    let found = machine.system().dns_addresses(&servers, &asked, if joined { WAIT_OF_A_NODE } else { WAIT });
    let wildcard = |(name, domain): (String, Option<String>)| {
        let (server, address) = *found.get(&name)?;
        Some(DnsWildcard { domain, server, address })
    };
    Ok(names.into_iter().filter_map(wildcard).collect())
}

/// The last `search` or `domain` line counts.
fn search(text: &str) -> Vec<String> {
    let mut domains = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if matches!(words.next(), Some("search" | "domain")) {
            domains = words.map(|word| word.trim_matches('.').to_owned()).filter(|word| !word.is_empty()).collect();
        }
    }
    domains
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_with_search_domains_counts() {
        let text = "domain old.example\nsearch a.example. b.example\nnameserver 10.0.0.1\n";
        assert_eq!(search(text), ["a.example", "b.example"]);
        assert_eq!(search("nameserver 10.0.0.1\nsearch .\n"), [""; 0]);
    }
}
