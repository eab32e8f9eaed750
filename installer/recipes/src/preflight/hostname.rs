//! The node's name is valid for DNS and Kubernetes, and nothing on the host contradicts it.
//!
//! Debian's `127.0.1.1 name` is not a failure: kubexm comments it out in /etc/hosts.

use super::input::PreflightInput;
use super::report::Report;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    for this in &input.hosts {
        let name = this.name();
        if !dns_1123(name) {
            report.fail(
                name,
                format!("the name {name:?}"),
                "lower-case letters, digits and `-`, at most 63, beginning and ending with a letter or digit (RFC 1123)",
                "rename the host in cluster.yaml",
            );
        }
        let renames = this.facts.hostname != name && !input.cx.cluster.system.skip_configure_os;
        if renames && !input.hosts.iter().any(|host| host.name() == this.facts.hostname) {
            report.warn(
                name,
                format!("the hostname {:?}", this.facts.hostname),
                format!("{name:?}, its name in cluster.yaml"),
                "it will be set (the old one is kept in the node's ledger); rename the host in cluster.yaml to keep \
                 its own",
            );
        }
        let taken = |host: &&super::input::ObservedHost<'_>| host.name() == this.facts.hostname && host.name() != name;
        if let Some(other) = input.hosts.iter().find(taken) {
            report.fail(
                name,
                format!("the hostname {:?}, which is another host's name in cluster.yaml", other.name()),
                "a different address for every host of cluster.yaml",
                "swap the addresses in cluster.yaml if they are mixed up, else give the machine its new name first (`hostnamectl hostname`)",
            );
        }
        let strange = this.facts.hostname_addresses.iter().find(|a| !a.is_loopback() && Some(**a) != this.ip);
        if let Some(address) = strange {
            report.warn(
                name,
                format!("/etc/hosts gives the name {name} the address {address}"),
                "the address in cluster.yaml",
                "that line will be commented out; correct `address` or `internalAddress` if it is the right one",
            );
        }
    }
}

fn dns_1123(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !name.is_empty() && name.len() <= 63 && name.bytes().all(inner) && !name.starts_with('-') && !name.ends_with('-')
}
