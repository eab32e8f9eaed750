//! DNS servers for names outside the cluster. An air-gapped site often has none: a warning, not a failure.

use super::input::PreflightInput;
use super::report::Report;
use crate::context::usable_nameservers;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    if !input.cx.cluster.extra.resolves.is_empty() {
        return;
    }
    for host in input.nodes() {
        let found = match &host.facts.nameservers {
            None => "no /etc/resolv.conf".to_owned(),
            Some(servers) if servers.is_empty() => "no name server in /etc/resolv.conf".to_owned(),
            Some(_) if usable_nameservers(host.facts).next().is_some() => continue,
            Some(_) if host.facts.resolved_nameservers.is_some() => {
                "systemd-resolved in /etc/resolv.conf, without name servers of its own".to_owned()
            }
            Some(_) => "only loopback name servers in /etc/resolv.conf".to_owned(),
        };
        report.warn(
            host.name(),
            found,
            "a name server that pods reach, if names outside the cluster must resolve",
            "cluster DNS will answer for names of the cluster only; set name servers in `spec.extra.resolves` if \
             there are any",
        );
    }
}
