//! `spec.loadBalancer`: what stands before the control planes.

use super::{hosts, maybe, or, values};
use crate::cluster::{LoadBalancer, LoadBalancerMode};
use crate::yaml::{Keys, Mapping};

const LOAD_BALANCER: Keys =
    Keys { known: &["mode", "external", "vip", "port", "domain"], later: &["internal", "interface"] };
const EXTERNAL: Keys = Keys { known: &["type"], later: &["virtualRouterId"] };
const API_PORT: u16 = 6443;

/// The words of `mode`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    None,
    External,
}

pub(super) fn load_balancer(spec: &Mapping<'_>) -> Option<LoadBalancer> {
    let Some(at) = spec.get("loadBalancer") else { return Some(LoadBalancer::default()) };
    let map = at.mapping(&LOAD_BALANCER)?;
    let mode = or(map.get("mode"), Mode::None, |at| {
        at.one_of(&[("none", Mode::None), ("external", Mode::External)], &["internal"])
    });
    let domain = maybe(map.get("domain"), |at| at.parsed(values::subdomain));
    let mode = match mode? {
        Mode::None => {
            for key in ["external", "vip", "port"].into_iter().filter(|key| map.has(key)) {
                let at = map.get(key).unwrap_or_else(|| at.clone());
                at.bad(
                    format!("{key:?} says where a load balancer is, and mode is none"),
                    "write mode: external, or leave it out",
                );
            }
            LoadBalancerMode::None
        }
        Mode::External => external(&map)?,
    };
    Some(LoadBalancer { mode, domain: domain? })
}

/// An address of the user's own: `external.type: external`, which is also what is meant when the type is left out.
fn external(map: &Mapping<'_>) -> Option<LoadBalancerMode> {
    let kind = or(map.get("external"), (), |at| {
        or(at.mapping(&EXTERNAL)?.get("type"), (), |at| at.one_of(&[("external", ())], &["kubexm-kh", "kubexm-kn"]))
    });
    let vip = map.need("vip").and_then(|at| hosts::ipv4(&at));
    let port = or(map.get("port"), API_PORT, super::kubernetes::port);
    kind?;
    Some(LoadBalancerMode::at(vip?, port?))
}
