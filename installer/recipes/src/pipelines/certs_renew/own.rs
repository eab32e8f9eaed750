//! Certificates that the cluster's own authorities have signed: of an etcd of kubexm's and its clients, of the depot and the registry.
//! They are given as `create` gives them, with the same slots, so that the next `create` finds nothing to change.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use kubexm_plan::cluster_facts::Certificate;
use kubexm_plan::op::{AuthorityRenewed, File, RenewedFrom, Unit};
use kubexm_plan::{CertificateUse, Probe, SlotName, Step, Undo, etcd};
use kubexm_spec::Digest;
use kubexm_spec::cluster::{Cluster, EtcdKind, RegistryKind};

use super::context::RenewContext;
use crate::adoption;
use crate::error::RecipeError;
use crate::modules::etcd::Member;
use crate::modules::issued::{Issued, Slots};
use crate::modules::{depot, etcd as members, etcd_client, registry};
use crate::{paths, registries};

/// Who has a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Holder {
    Depot,
    Registry,
    Member,
    Client,
}

/// The files of certificates, each with that of its authority on the same host.
const FILES: [(&str, &str, Holder); 6] = [
    (paths::DEPOT_CERT, paths::DEPOT_CA, Holder::Depot),
    (paths::REGISTRY_CERT, paths::REGISTRY_OWN_CA, Holder::Registry),
    (etcd::SERVER_CERT, etcd::CA, Holder::Member),
    (etcd::PEER_CERT, etcd::CA, Holder::Member),
    (etcd::ADMIN_CERT, etcd::CA, Holder::Member),
    (etcd::CLIENT_CERT, etcd::CLIENT_CA, Holder::Client),
];

/// What becomes of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Stays,
    /// It ends with its authority: another one would, too.
    EndsWithAuthority,
    /// This one is replaced.
    Renewed,
    /// The cluster's authority has issued another one since, which a run that has not ended did not bring to the host.
    Brought,
}

/// The certificates that are given anew.
#[derive(Clone, Debug, Default)]
pub(super) struct Own<'a> {
    /// Hosts of each holder, with what they get, in the order of cluster.yaml.
    hosts: BTreeMap<Holder, Vec<OwnHost<'a>>>,
    /// Etcd's authority, if it is renewed (`--authorities`): which of its certificates are replaced; none of them where a renewal is only
    /// brought to the end.
    pub etcd_authority: Option<BTreeSet<Digest>>,
    /// Whether one of etcd's has ended, or was left half renewed, so that no member and no API server may be healthy.
    pub etcd_ended: bool,
}

#[derive(Clone, Debug)]
struct OwnHost<'a> {
    name: &'a str,
    ip: IpAddr,
    gets: Vec<Issued>,
}

impl Holder {
    fn hosts(self, cluster: &Cluster) -> Vec<&str> {
        let own_etcd = cluster.etcd.kind == EtcdKind::Kubexm;
        let names = |group: &'_ [String]| -> BTreeSet<String> { group.iter().cloned().collect() };
        let wanted = match self {
            Self::Member if own_etcd => names(&cluster.role_groups.etcd),
            Self::Client if own_etcd => names(&cluster.role_groups.control_plane),
            Self::Member | Self::Client => return Vec::new(),
            Self::Registry if cluster.registry.kind != RegistryKind::Registry => return Vec::new(),
            // In the order in which they are filled.
            Self::Depot | Self::Registry => {
                return cluster.registry_hosts().into_iter().map(|host| host.name.as_str()).collect();
            }
        };
        cluster.hosts.iter().map(|host| host.name.as_str()).filter(|name| wanted.contains(*name)).collect()
    }

    fn issued(self, cluster: &Cluster, host: &str, ip: IpAddr) -> Vec<Issued> {
        match self {
            Self::Depot => vec![depot::issued(cluster, host, ip, (paths::DEPOT_CERT, paths::DEPOT_KEY))],
            Self::Registry => vec![depot::issued(cluster, host, ip, (paths::REGISTRY_CERT, paths::REGISTRY_KEY))],
            Self::Member => members::issued(host, ip).into(),
            Self::Client => vec![etcd_client::issued()],
        }
    }
}

/// The file of the authority that has signed a file of the cluster's own, if cluster.yaml has a use for that there, and who has it.
pub(super) fn of_file(cx: &RenewContext<'_>, one: &Certificate) -> Option<(&'static str, Holder)> {
    let (_, authority, holder) = FILES.into_iter().find(|(path, ..)| *path == one.path)?;
    holder.hosts(cx.cluster).contains(&one.host.as_str()).then_some((authority, holder))
}

/// What becomes of one that [`of_file`] knows.
pub(super) fn fate(cx: &RenewContext<'_>, one: &Certificate, authority: &str) -> Fate {
    let Some(file) = one.file else { return Fate::Stays };
    let ends = on_host(cx, &one.host, authority).map(|authority| authority.ends);
    match () {
        () if cx.wanted.force => Fate::Renewed,
        () if one.ends.saturating_sub(cx.now) < cx.wanted.within_s => match ends {
            Some(ends) if ends <= one.ends => Fate::EndsWithAuthority,
            _ => Fate::Renewed,
        },
        () if !cx.sealed.is_empty() && !cx.sealed.contains(&file) => Fate::Brought,
        () => Fate::Stays,
    }
}

/// A file of a host.
fn on_host<'a>(cx: &RenewContext<'a>, host: &str, path: &str) -> Option<&'a Certificate> {
    cx.running.certificates.iter().find(|one| one.host == host && one.path == path)
}

/// A certificate that is on a host, with what it is to `create`.
struct There<'a> {
    holder: Holder,
    host: &'a str,
    ip: IpAddr,
    issued: Issued,
    fate: Fate,
    file: Digest,
    authority: &'static str,
}

/// Every certificate of the cluster's own authorities that cluster.yaml has a use for, on the hosts that have it.
fn there<'a>(cx: &RenewContext<'a>) -> Result<Vec<There<'a>>, RecipeError> {
    let mut all = Vec::new();
    for holder in HOLDERS {
        for host in holder.hosts(cx.cluster) {
            let Some(found) = cx.cluster.host(host) else { continue };
            let missing = || RecipeError::NoAddress { host: host.to_owned(), address: found.address.clone() };
            let ip = found.node_ip().ok_or_else(missing)?;
            for issued in holder.issued(cx.cluster, host, ip) {
                let Some(one) = on_host(cx, host, issued.certificate) else { continue };
                let (Some((authority, _)), Some(file)) = (of_file(cx, one), one.file) else { continue };
                let fate = fate(cx, one, authority);
                all.push(There { holder, host, ip, issued, fate, file, authority });
            }
        }
    }
    Ok(all)
}

/// What is due, and what must be mended first.
pub(super) fn due<'a>(cx: &RenewContext<'a>) -> Result<(Own<'a>, Vec<String>), RecipeError> {
    // What others have made is not theirs.
    if adoption::agreed(cx.cluster, cx.facts)? {
        return Ok((Own::default(), Vec::new()));
    }
    let all = there(cx)?;
    // One that is renewed is renewed wherever it is: on all control planes, and for depot and registry of a host.
    let mut replaced: BTreeMap<&str, BTreeSet<Digest>> = BTreeMap::new();
    for one in all.iter().filter(|one| one.fate == Fate::Renewed) {
        replaced.entry(&one.issued.slot).or_default().insert(one.file);
    }
    let mut own = Own { etcd_authority: etcd_authority(cx), ..Own::default() };
    let mut wrong = BTreeSet::new();
    let renewed = own.etcd_authority.is_some();
    let is_etcds = |one: &&There<'_>| matches!(one.holder, Holder::Member | Holder::Client);
    let is_due = |one: &&There<'_>| {
        let of_renewed = renewed && is_etcds(one);
        of_renewed || cx.begun || one.fate == Fate::Brought || replaced.contains_key(one.issued.slot.as_str())
    };
    for one in all.iter().filter(is_due) {
        let replaces = replaced.get(one.issued.slot.as_str()).cloned().unwrap_or_default();
        let usage = CertificateUse { replaces, ..one.issued.usage.clone() };
        let has = on_host(cx, one.host, one.authority).and_then(|ca| ca.file);
        let signs = cx.own.map(|own| own.certificates.get(&usage.authority).copied());
        // Whether it is the same authority, the host itself compares then.
        let compared = renewed && is_etcds(&one);
        if !compared && signs.is_some_and(|signs| has.is_none() || has != signs) {
            wrong.insert((one.host, one.authority));
        }
        let issued = Issued { usage, ..one.issued.clone() };
        let hosts = own.hosts.entry(one.holder).or_default();
        match hosts.iter_mut().find(|host| host.name == one.host) {
            Some(host) => host.gets.push(issued),
            None => hosts.push(OwnHost { name: one.host, ip: one.ip, gets: vec![issued] }),
        }
    }
    let mut problems: Vec<String> = wrong.into_iter().map(|(host, path)| not_ours(host, path)).collect();
    if !own.is_empty() && cx.cluster_id.is_none() {
        problems.push(NO_ID.to_owned());
    }
    let of_etcd = |path: &str| [etcd::CA, etcd::CLIENT_CA].contains(&path);
    let ended = |one: &&Certificate| one.ends <= cx.now && cx.cluster.etcd.kind == EtcdKind::Kubexm;
    let ended_authorities = cx.running.certificates.iter().filter(ended).filter(|one| of_etcd(&one.path));
    let authority_ended = ended_authorities.clone().count() > 0;
    for ca in ended_authorities.filter(|_| !renewed) {
        problems.push(format!("{}: the authority of kubexm's own etcd {} {ENDED}", ca.host, ca.path));
    }
    let ended = |path: &str, host: &str| on_host(cx, host, path).is_some_and(|one| one.ends <= cx.now);
    own.etcd_ended = authority_ended
        || (cx.begun && own.touches_etcd())
        || all.iter().filter(is_etcds).any(|one| ended(one.issued.certificate, one.host));
    Ok((own, problems))
}

/// Which certificates of the authority of an etcd of kubexm's are replaced; none without `--authorities`, or where nothing is to be done.
fn etcd_authority(cx: &RenewContext<'_>) -> Option<BTreeSet<Digest>> {
    if !cx.wanted.authorities || cx.cluster.etcd.kind != EtcdKind::Kubexm {
        return None;
    }
    let there =
        || cx.running.certificates.iter().filter(|one| [etcd::CA, etcd::CLIENT_CA].contains(&one.path.as_str()));
    let ends = cx.now.saturating_add(i64::from(cx.cluster.own_authority_validity().hours()) * 3600);
    let due: BTreeSet<Digest> =
        there().filter(|one| cx.is_due(one) && ends > one.ends).filter_map(|one| one.file).collect();
    let files: BTreeSet<Digest> = there().filter_map(|one| one.file).collect();
    let left = cx.begun || files.len() > 1 || !cx.sealed.is_empty() && !files.is_subset(cx.sealed);
    // On some hosts it was renewed already: the home has that one.
    let due = if due.len() == files.len() { due } else { BTreeSet::new() };
    (!due.is_empty() || left).then_some(due)
}

fn not_ours(host: &str, path: &str) -> String {
    format!(
        "{host}: {path} is not the authority that the operators of this cluster have, so what that signs would not be trusted there: \
         `kubexm-install create --bundle B` gives the host the right one"
    )
}

const NO_ID: &str = "the hosts have no id of the cluster, so its own authorities cannot be kept for the operators: `kubexm-install create \
                     --bundle B` gives it one";
const ENDED: &str =
    "has ended itself: nothing that it signs is valid (`kubexm-install certs renew --authorities` renews it)";

const HOLDERS: [Holder; 4] = [Holder::Depot, Holder::Registry, Holder::Member, Holder::Client];

impl<'a> Own<'a> {
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// Whether members of etcd or their clients get something.
    pub fn touches_etcd(&self) -> bool {
        [Holder::Member, Holder::Client].iter().any(|holder| self.hosts.contains_key(holder))
    }

    fn of(&self, holder: Holder) -> &[OwnHost<'a>] {
        self.hosts.get(&holder).map_or(&[], Vec::as_slice)
    }

    /// Each host that serves, one after the other: what loads its certificate when it starts is started again.
    pub fn registries(&self, cx: &RenewContext<'_>, slots: &mut Slots) -> Vec<Step> {
        let cluster = cx.cluster;
        let step = |host: &OwnHost<'_>, id: &str, title: &str, slots: &mut Slots, unit: Unit, probe: Probe| {
            Step::on(host.name, id, title)
                .ensure_all(host.files(slots))
                .ensure(unit)
                .probe(probe, 30)
                .timeout_s(180)
                .undo(Undo::RestoreBefore)
                .build()
        };
        let mut steps = Vec::new();
        for host in self.of(Holder::Depot) {
            let title = "Give the depot its renewed certificate, and restart it";
            let (unit, probe) = (depot::unit(cluster), depot::answers(cluster, host.ip));
            steps.push(step(host, "certs.depot", title, slots, unit, probe));
        }
        for host in self.of(Holder::Registry) {
            let title = "Give the registry its renewed certificate, and restart it";
            let address = registries::own_address(cluster, host.ip, cluster.registry.port);
            let probe = Probe::Https {
                url: format!("https://{address}/v2/"),
                ca: paths::REGISTRY_OWN_CA.to_owned(),
                login: cluster.depot_login().map(|_| paths::REGISTRY_OWN_LOGIN.to_owned()),
            };
            steps.push(step(host, "certs.registry", title, slots, registry::unit(cluster), probe));
        }
        steps
    }

    /// The file of etcd's authority on a host, if it is renewed.
    fn authority(&self, path: &str, slots: &mut Slots) -> Option<AuthorityRenewed> {
        let replaces = self.etcd_authority.clone()?;
        let slot = SlotName(members::CA_SLOT.to_owned());
        slots.insert(slot.clone(), members::authority(replaces));
        Some(AuthorityRenewed { path: path.to_owned(), from: RenewedFrom::Given { slots: vec![slot] } })
    }

    /// Each member of etcd, and its clients on the control planes after all of them. All read their files with every connection, so nothing
    /// is restarted unless their authority is renewed. While nothing has ended every member is healthy before the next one gets its own; else all get theirs before the
    /// first is asked, since they check each other's.
    pub fn etcd(&self, cx: &RenewContext<'_>, slots: &mut Slots) -> Vec<Step> {
        let group = &cx.cluster.role_groups.etcd;
        let all: Vec<Member> =
            group.iter().filter_map(|name| Some(Member::at(name, cx.cluster.host(name)?.node_ip()?))).collect();
        let mut steps = Vec::new();
        for host in self.of(Holder::Member) {
            let step =
                Step::on(host.name, "certs.etcd-member", "Give the host's member of etcd its renewed certificates")
                    .ensure_all(self.authority(etcd::CA, slots))
                    .ensure_all(host.files(slots))
                    // It reads its authority when it starts, and the rest with every connection.
                    .ensure_all(self.etcd_authority.is_some().then(members::running))
                    .timeout_s(ETCD_S + 20)
                    .undo(Undo::RestoreBefore);
            let step = if self.etcd_ended { step } else { step.probe(members::healthy(&all), ETCD_S) };
            steps.push(step.build());
        }
        if self.etcd_ended {
            steps.extend(self.of(Holder::Member).iter().map(|host| {
                Step::on(host.name, "certs.etcd-healthy", "Wait until every member of etcd is healthy")
                    .probe(members::healthy(&all), ETCD_S)
                    .timeout_s(ETCD_S + 20)
                    .undo(Undo::Nothing)
                    .build()
            }));
        }
        for host in self.of(Holder::Client) {
            let title = "Give the API server its renewed certificate for etcd, and ask every member with it";
            steps.push(
                Step::on(host.name, "certs.etcd-client", title)
                    .ensure_all(self.authority(etcd::CLIENT_CA, slots))
                    .ensure_all(host.files(slots))
                    .probe(etcd_client::healthy(members::urls(&all), false), ETCD_S)
                    .timeout_s(ETCD_S + 20)
                    .undo(Undo::RestoreBefore)
                    .build(),
            );
        }
        steps
    }
}

/// How long members may take to be healthy, in seconds.
const ETCD_S: u64 = 180;

impl OwnHost<'_> {
    fn files(&self, slots: &mut Slots) -> Vec<File> {
        self.gets.iter().cloned().flat_map(|issued| issued.files(slots)).collect()
    }
}
