//! No two hosts share what must be unique: cloned machines confuse kubelet, flannel and DHCP.

use std::collections::BTreeMap;

use super::input::PreflightInput;
use super::report::Report;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    let mut seen: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for host in &input.hosts {
        let facts = host.facts;
        let macs = facts.interfaces.iter().map(|i| ("hardware address", i.mac.as_str()));
        let ids = [("machine id", facts.machine_id.as_str()), ("product uuid", facts.product_uuid.as_str())];
        for key in macs.chain(ids).filter(|(_, value)| value.bytes().any(|b| b.is_ascii_hexdigit() && b != b'0')) {
            let hosts = seen.entry(key).or_default();
            if !hosts.contains(&host.name()) {
                hosts.push(host.name());
            }
        }
    }
    for ((what, value), hosts) in seen {
        for (host, other) in hosts.iter().skip(1).map(|host| (host, hosts[0])) {
            let fix = match what {
                "machine id" => "remove /etc/machine-id and run `systemd-machine-id-setup`, then reboot",
                _ => "give the clone its own in the hypervisor",
            };
            report.fail(
                host,
                format!("the {what} {value}, the same as on {other}"),
                format!("a {what} of its own"),
                fix,
            );
        }
    }
}
