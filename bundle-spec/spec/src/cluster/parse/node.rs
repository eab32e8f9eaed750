//! `spec.system` and `spec.extra`: what is done to every machine.

use super::{each, hosts, or, values};
use crate::cluster::{Extra, ExtraHost, Firewall, Selinux, System};
use crate::yaml::{At, Keys};

const SYSTEM: Keys = Keys {
    known: &["firewall", "selinux", "osPackages"],
    later: &["ntpServers", "timezone", "rpms", "debs", "preInstall", "postInstall", "skipConfigureOS"],
};
const EXTRA: Keys = Keys::all(&["hosts", "resolves"]);
const EXTRA_HOST: Keys = Keys::all(&["domain", "address"]);
const RESOLVE: Keys = Keys::all(&["address"]);

pub(super) fn default_system() -> System {
    System::default()
}

pub(super) fn system(at: &At<'_>) -> Option<System> {
    let map = at.mapping(&SYSTEM)?;
    let default = default_system();
    let firewall = or(map.get("firewall"), default.firewall, |at| {
        at.one_of(&[("keep", Firewall::Keep), ("off", Firewall::Off)], &[])
    });
    let selinux = or(map.get("selinux"), default.selinux, |at| {
        at.one_of(&[("keep", Selinux::Keep), ("permissive", Selinux::Permissive)], &[])
    });
    // until packages are built, `auto` acts as `none` (cluster-config)
    let packages = or(map.get("osPackages"), (), |at| at.one_of(&[("auto", ()), ("none", ())], &["full"]));
    packages?;
    Some(System { firewall: firewall?, selinux: selinux?, ..default })
}

pub(super) fn extra(at: &At<'_>) -> Option<Extra> {
    let map = at.mapping(&EXTRA)?;
    let hosts = or(map.get("hosts"), Vec::new(), |at| each(at, extra_host));
    let resolves = or(map.get("resolves"), Vec::new(), |at| {
        each(at, |item| item.mapping(&RESOLVE)?.need("address").and_then(|at| hosts::ipv4(&at)))
    });
    Some(Extra { hosts: hosts?, resolves: resolves? })
}

fn extra_host(at: &At<'_>) -> Option<ExtraHost> {
    let map = at.mapping(&EXTRA_HOST)?;
    let domain = map.need("domain").and_then(|at| at.parsed(values::subdomain));
    let address = map.need("address").and_then(|at| hosts::ipv4(&at));
    Some(ExtraHost { domain: domain?, address: address? })
}
