//! `spec.network`.

use ipnet::IpNet;

use super::addresses;
use super::take::{maybe, none_of, one_or_two, or, raw};
use super::values;
use crate::cluster::{Network, NetworkPlugin};
use crate::yaml::{At, Field, Mapping, Object, Shape};

/// The plugin that only is before another one; read, and told apart from the main ones.
const MULTUS: &str = "multus";
const PLUGINS: &[&str] = &["flannel", "calico", "cilium", "kube-ovn", "hybridnet", "none", MULTUS];
const CIDR: Shape = Shape::OneOrTwo(&Shape::Form("^[0-9a-fA-F.:]+/[0-9]+$"));

/// `spec.network`.
pub(super) const NETWORK: Object = Object::new(
    "The network of pods and services",
    &[
        Field::new("plugin", Shape::Words(PLUGINS), "The main plugin; multus is the default one with multus before it"),
        Field::new("multus", Shape::Bool, "Whether multus is before the main plugin"),
        Field::new("podCidr", CIDR, "Network of pods, or one of each family"),
        Field::new("serviceCidr", CIDR, "Network of services, or one of each family"),
        Field::new(
            "interface",
            Shape::Text,
            "Interface between the nodes; the one with the node's address when left out",
        ),
        Field::new("options", Shape::Raw, "Options of the plugin in its own words (values of its chart)"),
    ],
);

/// Prefixes that do for pods: with IPv4 kubeadm gives each node a /24, with IPv6 a /64 (at most 65536 nodes).
const PODS: [std::ops::RangeInclusive<u8>; 2] = [8..=24, 48..=64];
/// Prefixes that do for services: the API server takes no more than 20 bits of addresses.
const SERVICES: [std::ops::RangeInclusive<u8>; 2] = [12..=28, 108..=124];

pub(super) fn network(at: &At<'_>) -> Option<Network> {
    let map = at.mapping(&NETWORK)?;
    let default = Network::default();
    let plugin = plugin(&map);
    let pods = cidrs(map.get("podCidr"), default.pod_cidr, &PODS);
    let services = cidrs(map.get("serviceCidr"), default.service_cidr, &SERVICES);
    let interface = maybe(map.get("interface"), |at| at.parsed(values::interface));
    let options = or(map.get("options"), serde_json::Map::new(), raw);
    let (plugin, multus) = plugin?;
    if plugin == NetworkPlugin::None {
        none_of(
            &map,
            &["options"],
            "there is no plugin that these would be options of",
            "choose a plugin, or leave it out",
        );
    }
    let ((pod_cidr, more_pod_cidrs), (service_cidr, more_service_cidrs)) = (pods?, services?);
    Some(Network {
        plugin,
        multus,
        pod_cidr,
        more_pod_cidrs,
        service_cidr,
        more_service_cidrs,
        interface: interface?,
        options: options?,
    })
}

/// The main plugin, and whether multus is before it.
fn plugin(map: &Mapping<'_>) -> Option<(NetworkPlugin, bool)> {
    let named = map.get("plugin").and_then(|at| at.text_quiet()) == Some(MULTUS);
    let multus = or(map.get("multus"), named, |at| at.boolean());
    let plugin = if named {
        Some(NetworkPlugin::default())
    } else {
        or(map.get("plugin"), NetworkPlugin::default(), |at| at.word())
    };
    let (plugin, multus) = (plugin?, multus?);
    if named && !multus {
        map.get("multus")?.bad("plugin is multus, and this is none", "leave one of the two out");
        return None;
    }
    if plugin == NetworkPlugin::None && multus {
        let hint = "choose a main plugin, or install multus yourself as an add-on";
        map.get("multus")?.bad("multus is before a main plugin, and there is none", hint);
        return None;
    }
    Some((plugin, multus))
}

fn cidrs(
    found: Option<At<'_>>,
    default: IpNet,
    bits: &[std::ops::RangeInclusive<u8>; 2],
) -> Option<(IpNet, Vec<IpNet>)> {
    let Some(at) = found else { return Some((default, Vec::new())) };
    let (first, others) = one_or_two(&at, |at| {
        let cidr = at.parsed(addresses::cidr)?;
        let wanted = &bits[usize::from(is_v6(cidr))];
        if !wanted.contains(&cidr.prefix_len()) {
            let hint = format!("/{} to /{}", wanted.start(), wanted.end());
            at.bad(format!("a prefix of /{} does not do", cidr.prefix_len()), hint);
            return None;
        }
        Some(cidr)
    })?;
    if others.iter().any(|other| is_v6(*other) == is_v6(first)) {
        at.bad("two networks of one family", "one network, or one of each family (dual-stack)");
        return None;
    }
    Some((first, others))
}

const fn is_v6(network: IpNet) -> bool {
    matches!(network, IpNet::V6(_))
}
