//! `spec.hosts`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::take::{each, maybe, one_or_two, or, port};
use super::{addresses, login, roles, secret, values};
use crate::Arch;
use crate::cluster::Host;
use crate::yaml::{At, Field, Object, Shape};

/// One of `spec.hosts`.
pub(super) const HOST: Object = Object::new(
    "A machine",
    &[
        Field::needed("name", Shape::Text, "Name of the node, a DNS name"),
        Field::needed("address", Shape::OneOrTwo(&Shape::Text), "Where SSH reaches it: IP address or DNS name"),
        Field::new(
            "internalAddress",
            Shape::OneOrTwo(&Shape::Text),
            "IP address used inside the cluster, or one of each family; address when left out",
        ),
        Field::new("port", Shape::Number(1, 65535), "SSH port"),
        Field::new("user", Shape::Text, "SSH user: root, or one who may use sudo"),
        Field::new("privateKeyPath", Shape::Text, "Private key file on this machine"),
        Field::new("passwordFrom", Shape::Mapping(&secret::SOURCE), "Where the SSH password comes from"),
        Field::new("agent", Shape::Bool, "Whether keys of your ssh-agent are used"),
        Field::new("sudoPasswordFrom", Shape::Mapping(&secret::SOURCE), "Where the password for sudo comes from"),
        Field::new(
            "via",
            Shape::List(&Shape::Either(&Shape::Mapping(&login::JUMP), &Shape::Text)),
            "Hosts on the way there, the nearest first; user@host:port is short for one",
        ),
        Field::new("arch", Shape::Form("^(amd64|x86_64|arm64|aarch64)$"), "Its architecture; found out when left out"),
        Field::new("labels", Shape::Named(&Shape::Text), "Labels of the node"),
        Field::new("roles", Shape::List(&Shape::Words(roles::WORDS)), "What it does, beside spec.roleGroups"),
        Field::new("password", Shape::Refused, "Refused: use passwordFrom"),
        Field::new("sudoPassword", Shape::Refused, "Refused: use sudoPasswordFrom"),
        Field::new("privateKey", Shape::Refused, "Refused: use privateKeyPath"),
    ],
);

pub(super) fn hosts(at: &At<'_>) -> Option<Vec<Host>> {
    let hosts = each(at, host);
    let mut names = BTreeMap::new();
    let mut addresses = BTreeMap::new();
    // read again for the places: a name twice is found even when another field of the host is wrong
    for item in at.list() {
        let Some(map) = item.open_mapping_quiet() else { continue };
        for (key, seen) in [("name", &mut names), ("address", &mut addresses)] {
            let Some(field) = map.get(key) else { continue };
            let values = if field.is_list() { field.list() } else { vec![field] };
            for field in values {
                let Some(text) = field.text_quiet() else { continue };
                if let Some(line) = seen.insert(text.to_owned(), field.line()) {
                    field.bad(format!("{text:?} is given twice, first in line {line}"), "each host has its own");
                }
            }
        }
    }
    hosts
}

fn host(at: &At<'_>) -> Option<Host> {
    let map = at.mapping(&HOST)?;
    secret::inline(&map);
    let name = map.need("name").and_then(|at| at.parsed(values::subdomain));
    let address = map.need("address").and_then(|at| one_or_two(&at, |at| at.parsed(addresses::host)));
    let internal = maybe(map.get("internalAddress"), internal);
    let port = or(map.get("port"), 22, port);
    let user = or(map.get("user"), "root".to_owned(), |at| at.parsed(values::user));
    let key = maybe(map.get("privateKeyPath"), |at| at.parsed(values::path));
    let password = maybe(map.get("passwordFrom"), secret::source);
    let agent = or(map.get("agent"), false, |at| at.boolean());
    let sudo_password = maybe(map.get("sudoPasswordFrom"), secret::source);
    let via = or(map.get("via"), Vec::new(), login::via);
    let arch = maybe(map.get("arch"), |at| {
        at.parsed(|text| Arch::from_any(text).ok_or_else(|| format!("{text:?} is not amd64 or arm64")))
    });
    let labels = or(map.get("labels"), BTreeMap::new(), labels);
    let ((address, more_addresses), internal) = (address?, internal?);
    let (internal_address, more_internal_addresses) =
        internal.map_or_else(Default::default, |(first, others)| (Some(first), others));
    Some(Host {
        name: name?,
        address,
        more_addresses,
        internal_address,
        more_internal_addresses,
        port: port?,
        user: user?,
        private_key_path: key?,
        password: password?,
        agent: agent?,
        sudo_password: sudo_password?,
        via: via?,
        arch: arch?,
        labels: labels?,
    })
}

/// One address, or one of each family.
fn internal(at: &At<'_>) -> Option<(IpAddr, Vec<IpAddr>)> {
    let (first, others) = one_or_two(at, |at| at.parsed(addresses::ip))?;
    if others.iter().any(|other| other.is_ipv4() == first.is_ipv4()) {
        at.bad("two addresses of one family", "one address, or one of each family (dual-stack)");
        return None;
    }
    Some((first, others))
}

fn labels(at: &At<'_>) -> Option<BTreeMap<String, String>> {
    let good = |text: &str| {
        text.len() <= 63 && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
    };
    let map = at.open_mapping()?;
    let mut labels = Some(BTreeMap::new());
    for (key, at) in map.entries() {
        let name = key.split_once('/').map_or(key, |(_, name)| name);
        let prefix = key.split_once('/').is_none_or(|(prefix, _)| values::subdomain(prefix).is_ok());
        match at.text() {
            Some(value) if good(name) && !name.is_empty() && prefix && good(value) => {
                if let Some(labels) = &mut labels {
                    labels.insert(key.to_owned(), value.to_owned());
                }
            }
            Some(value) => {
                at.bad(format!("{key}={value} is not a Kubernetes label"), "");
                labels = None;
            }
            None => labels = None,
        }
    }
    labels
}
