//! `spec.loadBalancer`: what is before the control planes.

use std::net::IpAddr;

use serde_json::{Map, Value};

use super::take::none_of;
use crate::cluster::field::{FieldType, Interface, Number, Port, Subdomain, optional, put, required};
use crate::cluster::{API_PORT, ExternalKind, InternalKind, LoadBalancer, LoadBalancerMode};
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
const LOAD_BALANCER: Object = Object::new(
    "Load balancer in front of the control planes",
    &[
        Field::new("mode", Mode::SHAPE, "Nothing, an address outside the control planes, or something on the nodes"),
        Field::new("external", Shape::Mapping(&EXTERNAL), "With mode external"),
        Field::new("internal", Shape::Mapping(&INTERNAL), "With mode internal"),
        Field::new("vip", Shape::Text, "IP address that leads to all control planes"),
        Field::new("port", Port::SHAPE, "TCP port that clients use"),
        Field::new(
            "interface",
            Shape::Text,
            "Interface of the address, where kubexm sets it; the one with the node's address when left out",
        ),
        Field::new("domain", Shape::Text, "Name of the control plane; a default name when left out"),
    ],
);

/// `spec.loadBalancer.external`.
const EXTERNAL: Object = Object::new(
    "Who makes the address",
    &[
        Field::new(
            "type",
            ExternalKind::SHAPE,
            "You, or keepalived with haproxy (kubexm-kh) or nginx (kubexm-kn) on the hosts of the role loadbalancer",
        ),
        Field::new(
            "virtualRouterId",
            RouterId::SHAPE,
            "keepalived's virtual router ID, which distinguishes pairs in one network",
        ),
    ],
);

/// `spec.loadBalancer.internal`.
const INTERNAL: Object = Object::new(
    "What runs on the nodes",
    &[Field::needed(
        "type",
        InternalKind::SHAPE,
        "A proxy on every worker, or an address that moves between the control planes",
    )],
);

/// keepalived's `virtual_router_id`.
type RouterId = Number<1, 255, u8>;

impl FieldType for LoadBalancer {
    type Value = Self;

    const SHAPE: Shape = Shape::Mapping(&LOAD_BALANCER);

    fn read(at: &At<'_>) -> Option<Self> {
        let map = at.mapping(&LOAD_BALANCER)?;
        let mode = optional::<Mode>(&map, "mode", Mode::default);
        let domain = optional::<Option<Subdomain>>(&map, "domain", || None);
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

    fn show(value: &Self) -> Option<Value> {
        let (mut document, mut of) = (Map::new(), Map::new());
        let mode = match &value.mode {
            LoadBalancerMode::None => Mode::None,
            LoadBalancerMode::External { kind, vip, port, interface, virtual_router_id } => {
                put::<ExternalKind>(&mut of, "type", kind);
                put::<Option<RouterId>>(&mut of, "virtualRouterId", virtual_router_id);
                put::<Map<_, _>>(&mut document, "external", &of);
                put::<IpAddr>(&mut document, "vip", vip);
                put::<Port>(&mut document, "port", port);
                put::<Option<Interface>>(&mut document, "interface", interface);
                Mode::External
            }
            LoadBalancerMode::Internal { kind, vip, port, interface } => {
                put::<InternalKind>(&mut of, "type", kind);
                put::<Map<_, _>>(&mut document, "internal", &of);
                put::<Option<IpAddr>>(&mut document, "vip", vip);
                put::<Port>(&mut document, "port", port);
                put::<Option<Interface>>(&mut document, "interface", interface);
                Mode::Internal
            }
        };
        put::<Mode>(&mut document, "mode", &mode);
        put::<Option<Subdomain>>(&mut document, "domain", &value.domain);
        Some(document.into())
    }
}

/// Without a type, `external` is an address of the user's own.
fn external(map: &Mapping<'_>) -> Option<LoadBalancerMode> {
    none_of(map, &["internal"], "mode is external", "leave it out, or write mode: internal");
    let of = match map.get("external") {
        Some(at) => Some(at.mapping(&EXTERNAL)?),
        None => None,
    };
    let (kind, router) = of.as_ref().map_or((Some(ExternalKind::default()), Some(None)), |of| {
        let kind = optional::<ExternalKind>(of, "type", ExternalKind::default);
        (kind, optional::<Option<RouterId>>(of, "virtualRouterId", || None))
    });
    let vip = required::<IpAddr>(map, &LOAD_BALANCER, "vip");
    let port = optional::<Port>(map, "port", || API_PORT);
    let interface = optional::<Option<Interface>>(map, "interface", || None);
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
    let vip = optional::<Option<IpAddr>>(map, "vip", || None);
    let port = optional::<Port>(map, "port", || API_PORT);
    let interface = optional::<Option<Interface>>(map, "interface", || None);
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
