//! The interfaces that nodes use to reach each other have the same MTU: otherwise large packets of pods are lost on
//! some paths.

use super::input::PreflightInput;
use super::report::Report;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    let mut known = input.nodes().filter_map(|host| {
        let ip = host.ip?;
        let has = |address: &String| address.split_once('/').map_or(address.as_str(), |(ip, _)| ip).parse() == Ok(ip);
        let interface = host.facts.interfaces.iter().find(|i| i.addresses.iter().any(has))?;
        (interface.mtu > 0).then_some((host.name(), interface))
    });
    let Some((first, one)) = known.next() else { return };
    for (host, other) in known.filter(|(_, other)| other.mtu != one.mtu) {
        report.warn(
            host,
            format!("an MTU of {} on {}, and {} on {} of {first}", other.mtu, other.name, one.mtu, one.name),
            "the same MTU on all nodes and on the network between them",
            "set the same MTU on both: the pod network takes it from each node's own interface, and large packets would be lost",
        );
    }
}
