//! `spec.loadBalancer`: what is before the control planes.

use super::take::{maybe, none_of, or, port};
use super::{addresses, values};
use crate::cluster::{API_PORT, ExternalKind, InternalKind, Keyword, LoadBalancer, LoadBalancerMode};
use crate::keywords::keywords;
use crate::yaml::{At, Field, Mapping, Object, Shape};

keywords! {
    /// The words of `mode`.
    pub enum Mode {
        /// Nothing is there.
        None = "none",
        /// An address outside the control planes.
        External = "external",
        /// Something on the nodes.
        Internal = "internal",
    }
}

/// `spec.loadBalancer`.
pub(super) const LOAD_BALANCER: Object = Object::new(
    "Load balancer in front of the control planes",
    &[
        Field::new(
            "mode",
            Shape::Words(Mode::WORDS),
            "Nothing, an address outside the control planes, or something on the nodes",
        ),
        Field::new("external", Shape::Mapping(&EXTERNAL), "With mode external"),
        Field::new("internal", Shape::Mapping(&INTERNAL), "With mode internal"),
        Field::new("vip", Shape::Text, "IP address that leads to all control planes"),
        Field::new("port", Shape::Number(1, 65535), "TCP port that clients use"),
        Field::new(
            "interface",
            Shape::Text,
            "Interface of the address, where kubexm sets it; the one with the node's address when left out",
        ),
        Field::new("domain", Shape::Text, "Name of the control plane; a default name when left out"),
    ],
);

/// `spec.loadBalancer.external`.
pub(super) const EXTERNAL: Object = Object::new(
    "Who makes the address",
    &[
        Field::new(
            "type",
            Shape::Words(ExternalKind::WORDS),
            "You, or keepalived with haproxy (kubexm-kh) or nginx (kubexm-kn) on the hosts of the role loadbalancer",
        ),
        Field::new(
            "virtualRouterId",
            Shape::Number(1, 255),
            "keepalived's virtual router ID, which distinguishes pairs in one network",
        ),
    ],
);

/// `spec.loadBalancer.internal`.
pub(super) const INTERNAL: Object = Object::new(
    "What runs on the nodes",
    &[Field::needed(
        "type",
        Shape::Words(InternalKind::WORDS),
        "A proxy on every worker, or an address that moves between the control planes",
    )],
);

pub(super) fn load_balancer(at: &At<'_>) -> Option<LoadBalancer> {
    let map = at.mapping(&LOAD_BALANCER)?;
    let mode = or(map.get("mode"), Mode::None, |at| at.word());
    let domain = maybe(map.get("domain"), |at| at.parsed(values::subdomain));
    let mode = match mode? {
        Mode::None => {
            for key in ["external", "internal", "vip", "port", "interface"].into_iter().filter(|key| map.has(key)) {
                let at = map.get(key).unwrap_or_else(|| at.clone());
                at.bad(
                    format!("{key:?} describes a load balancer, and mode is none"),
                    "write mode: external or internal, or leave it out",
                );
            }
            LoadBalancerMode::None
        }
        Mode::External => external(&map)?,
        Mode::Internal => internal(&map)?,
    };
    Some(LoadBalancer { mode, domain: domain? })
}

/// Without a type, `external` is an address of the user's own.
fn external(map: &Mapping<'_>) -> Option<LoadBalancerMode> {
    none_of(map, &["internal"], "mode is external", "leave it out, or write mode: internal");
    let of = match map.get("external") {
        Some(at) => Some(at.mapping(&EXTERNAL)?),
        None => None,
    };
    let get = |key: &str| of.as_ref().and_then(|map| map.get(key));
    let kind = or(get("type"), ExternalKind::default(), |at| at.word());
    let router = maybe(get("virtualRouterId"), |at| at.number(1..=255).and_then(|id| u8::try_from(id).ok()));
    let vip = map.need("vip").and_then(|at| at.parsed(addresses::ip));
    let port = or(map.get("port"), API_PORT, port);
    let interface = maybe(map.get("interface"), |at| at.parsed(values::interface));
    if kind == Some(ExternalKind::External) {
        let (why, hint) = ("the address is your own, and kubexm sets it nowhere", "leave it out");
        none_of(map, &["interface"], why, hint);
        if let Some(of) = &of {
            none_of(of, &["virtualRouterId"], why, hint);
        }
    }
    Some(LoadBalancerMode::External {
        kind: kind?,
        vip: vip?,
        port: port?,
        interface: interface?,
        virtual_router_id: router?,
    })
}

fn internal(map: &Mapping<'_>) -> Option<LoadBalancerMode> {
    none_of(map, &["external"], "mode is internal", "leave it out, or write mode: external");
    let kind = map.need("internal").and_then(|at| at.mapping(&INTERNAL)?.need("type")?.word::<InternalKind>());
    let vip = maybe(map.get("vip"), |at| at.parsed(addresses::ip));
    let port = or(map.get("port"), API_PORT, port);
    let interface = maybe(map.get("interface"), |at| at.parsed(values::interface));
    match kind? {
        InternalKind::KubeVip => {
            map.need("vip")?;
        }
        InternalKind::Haproxy | InternalKind::Nginx => {
            let why = "a proxy on every worker listens on the worker itself";
            none_of(map, &["vip", "interface"], why, "leave it out, or write internal: {type: kube-vip}");
        }
    }
    Some(LoadBalancerMode::Internal { kind: kind?, vip: vip?, port: port?, interface: interface? })
}
