//! `spec.kubernetes.autoRenewCerts`: kubeadm's certificates of this control plane, renewed before they end. One control plane of
//! the cluster at a time.
//!
//! What must run with which files is a state, as in `certs renew`: what a killed service has not restarted, the next one does. A service
//! with nothing to renew or to finish looks at no pod and at no kubeconfig: what others do with these is not its business.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kubexm_plan::kubeadm_certificates::{MANAGED, READ_BY, authority, read_by, ready_after};
use kubexm_plan::op::{CertificatesRenewed, KUBELET_CLIENT, Kubeconfig, Renewal, StaticPodStarted};
use kubexm_plan::timers::{CERTS, CertsConfig, RECORDS};
use kubexm_plan::{Op, Probe};
use kubexm_spec::Digest;
use kubexm_spec::cluster::EtcdKind;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::lease::Lease;
use crate::cluster_facts::{certificates, members};
use crate::fsio::{self, Access};
use crate::kube::own_server;
use crate::teardown::moving_address;
use crate::{Machine, OpError, dispatch, probe};

const DAY: i64 = 86_400;
/// How long static pods may take until they are ready again.
const WHOLE: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_secs(3);
/// Longer than kubelet's longest pause before it starts a container again.
const COMES_BACK: Duration = Duration::from_secs(360);

/// A certificate that kubeadm manages, as it is.
struct Found {
    name: &'static str,
    path: &'static str,
    ends: i64,
    file: Digest,
}

impl Found {
    /// Whether a static pod has it, or the lease is asked for with it.
    fn is_needed(&self) -> bool {
        READ_BY.iter().any(|(_, files)| files.contains(&self.path)) || self.name == "admin.conf"
    }

    /// Of its certificate and key.
    fn files(&self) -> Vec<String> {
        self.renewal().files().collect()
    }

    fn renewal(&self) -> Renewal {
        Renewal { name: self.name.to_owned(), path: self.path.to_owned(), was: self.file }
    }
}

/// What it did.
pub(super) fn renew(machine: &Machine, config: &CertsConfig, now: i64) -> Result<String, OpError> {
    let mark = Mark::read(machine)?;
    if let Some(mark) = &mark
        && mark.put_back_what_was_cut(machine)?
    {
        own_server::wait_for(machine, COMES_BACK)?;
    }
    let (all, mut problems) = managed(machine)?;
    let first = all.iter().min_by_key(|one| one.ends).ok_or_else(|| match problems.is_empty() {
        false => OpError::other(problems.join("; ")),
        true => OpError::other("none of kubeadm's certificates is on this host: it is no control plane any more; `kubexm-install create` takes the timer away"),
    })?;
    let late = all.iter().filter(|one| one.ends.saturating_sub(now) < config.renew_before_s);
    // What ends with its authority would end with it again.
    let (last, due): (Vec<&Found>, Vec<&Found>) = late.partition(|one| ends_with_authority(machine, one));
    if let Some(ended) = last.iter().find(|one| one.ends <= now) {
        return Err(OpError::other(format!(
            "{} has ended with its authority {}: nothing that this one signs is valid; nothing was renewed (`kubexm-install certs renew --authorities` renews both)",
            ended.path,
            authority(ended.path)
        )));
    }
    let due = signable(machine, due, &mut problems);
    if due.is_empty() && mark.is_none() {
        if !problems.is_empty() {
            return Err(OpError::other(problems.join("; ")));
        }
        let with = last.first().map(|one| {
            format!("; {} ends then, too: `kubexm-install certs renew --authorities` renews it", authority(one.path))
        });
        let with = with.unwrap_or_default();
        return Ok(format!(
            "no certificate is due; the first to end is {} ({}){with}",
            first.path,
            left(first.ends, now)
        ));
    }
    kubelet_lives(machine, now)?;
    let ended =
        due.iter().any(|one| one.ends <= now && one.is_needed()) || mark.as_ref().is_some_and(|mark| mark.ended);
    // Where what the API server needs has ended it lets nobody in, and what does not work cannot be lost.
    let lease = if ended { None } else { Some(Lease::take(machine, now)?) };
    let done = renew_in_turn(machine, config, &due, mark, ended);
    if let Some(lease) = lease {
        lease.give_back(machine);
    }
    match problems.as_slice() {
        [] => done,
        // What could be done was done; the rest would end as well if nobody heard of it.
        problems => done.and_then(|what| Err(OpError::other(format!("{}; {what}", problems.join("; "))))),
    }
}

/// While no other control plane does so. Health is asked now and not before the turn came: the one before may have failed.
fn renew_in_turn(
    machine: &Machine,
    config: &CertsConfig,
    due: &[&Found],
    mark: Option<Mark>,
    ended: bool,
) -> Result<String, OpError> {
    if !ended {
        healthy(machine)?;
    }
    let mut mark = mark.unwrap_or_else(|| Mark { ended, users: with_a_copy(machine, config), before: BTreeMap::new() });
    mark.keep(machine, due)?;
    mark.write(machine)?;
    let certificates = due.iter().map(|one| one.renewal()).collect();
    let renewal = (!due.is_empty()).then(|| Op::from(CertificatesRenewed { certificates }));
    let rest: Vec<Op> = restarts(machine, config, ended).chain(kubeconfigs(&mark.users)).collect();
    let mut changed = converge(machine, renewal.iter())?;
    // Written by kubeadm in place: on the disk before anything starts with them.
    due.iter().flat_map(|one| one.files()).try_for_each(|path| synced(machine, &path))?;
    changed.extend(converge(machine, rest.iter())?);
    if !ended {
        whole(machine, config)?;
    }
    fsio::remove(&machine.path(CERTS.unfinished()))?;
    let names: Vec<&str> = due.iter().map(|one| one.name).collect();
    let again = changed.iter().filter(|op| matches!(op, Op::StaticPodStarted(_))).count();
    let mut what = match names.as_slice() {
        [] => format!("the last renewal was finished: {again} static pods restarted"),
        names => format!("renewed: {}; {again} static pods restarted", names.join(" ")),
    };
    let edited: Vec<&str> = config.users.iter().filter(|user| !mark.users.contains(user)).map(String::as_str).collect();
    if !edited.is_empty() {
        what.push_str(&format!(
            "; no copy of admin.conf, and left as they were: the kubeconfigs of {}, whose certificates end as before",
            edited.join(", ")
        ));
    }
    Ok(what)
}

/// What is there while something is changed, and after a service that was killed or has failed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mark {
    /// Something that the API server needs had ended when it began.
    ended: bool,
    /// Users whose kubeconfig was a copy of admin.conf then: an edited one is its user's.
    users: Vec<String>,
    /// By path, in base64: what is renewed, as it was, with its keys. kubeadm writes in place, and what a loss of power has cut nobody could
    /// renew.
    #[serde(default)]
    before: BTreeMap<String, String>,
}

impl Mark {
    fn read(machine: &Machine) -> Result<Option<Self>, OpError> {
        let bytes = fsio::read(&machine.path(CERTS.unfinished()))?;
        // One that was cut off says no more than that it is there.
        let cut = || Self { ended: false, users: Vec::new(), before: BTreeMap::new() };
        Ok(bytes.map(|bytes| serde_json::from_slice(&bytes).unwrap_or_else(|_| cut())))
    }

    /// Notes what is there, if it is whole: what an earlier service has noted is put back by now, or was renewed since.
    fn keep(&mut self, machine: &Machine, due: &[&Found]) -> Result<(), OpError> {
        for one in due {
            let mut pair = BTreeMap::new();
            for path in one.files() {
                let bytes = fsio::read(&machine.path(&path))?;
                if let Some(bytes) = bytes.filter(|bytes| is_whole(&path, Some(bytes))) {
                    pair.insert(path, BASE64.encode(bytes));
                }
            }
            if pair.len() == one.files().len() {
                self.before.extend(pair);
            }
        }
        Ok(())
    }

    /// A certificate or key that was cut, and one that does not fit the other: as both were before. Whether there was one.
    fn put_back_what_was_cut(&self, machine: &Machine) -> Result<bool, OpError> {
        let mut put_back = false;
        for (name, path) in MANAGED {
            let pair = Renewal { name: name.to_owned(), path: path.to_owned(), was: Digest::of([]) };
            let (mut whole, mut same) = (true, Vec::new());
            for file in pair.files() {
                let found = fsio::read(&machine.path(&file))?;
                whole = whole && is_whole(&file, found.as_deref());
                same.push(self.before.get(&file) == found.map(|bytes| BASE64.encode(bytes)).as_ref());
            }
            // kubeadm writes the key first: another key beside the certificate of before fits nothing.
            let half = same == [true, false];
            if (whole && !half) || !self.before.contains_key(path) {
                continue;
            }
            for file in pair.files() {
                let kept = self.before.get(&file).and_then(|text| BASE64.decode(text).ok());
                if let Some(bytes) = kept {
                    let mode = if file.ends_with(".crt") { 0o644 } else { 0o600 };
                    machine.write_file(&file, &bytes, Access::mode(mode))?;
                    put_back = true;
                }
            }
        }
        Ok(put_back)
    }

    fn write(&self, machine: &Machine) -> Result<(), OpError> {
        let text = serde_json::to_vec(self)
            .map_err(|error| OpError::other(format!("the mark of a renewal cannot be written as JSON: {error}")))?;
        fsio::private_folder(&machine.path(RECORDS))?;
        machine.write_file(&CERTS.unfinished(), &text, Access::mode(0o600))
    }
}

/// One that was cut is empty, ends early, or has zeros in the place of what never reached the disk.
fn is_whole(path: &str, bytes: Option<&[u8]>) -> bool {
    bytes.is_some_and(|bytes| match path.rsplit('.').next() {
        Some("key") => is_whole_key(bytes),
        Some("conf") => {
            // The key is the last thing in it.
            let key = certificates::of_kubeconfig(bytes, "client-key-data");
            certificates::ends(path, bytes).is_some() && key.is_some_and(|key| is_whole_key(&key))
        }
        _ => certificates::ends(path, bytes).is_some(),
    })
}

fn is_whole_key(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    !bytes.contains(&0) && text.contains("-----BEGIN ") && text.contains("-----END ")
}

fn with_a_copy(machine: &Machine, config: &CertsConfig) -> Vec<String> {
    let is_copy = |user: &&String| {
        let op = Op::from(Kubeconfig { user: (*user).clone(), replaces: None });
        dispatch::observe(&op, machine).is_ok_and(|found| found.satisfied)
    };
    config.users.iter().filter(is_copy).cloned().collect()
}

/// As `certs renew` waits for it before the next control plane.
fn whole(machine: &Machine, config: &CertsConfig) -> Result<(), OpError> {
    let external_etcd = config.etcd != EtcdKind::Kubeadm;
    let ready = Probe::StaticPodsReady { node: config.host.clone(), images: BTreeMap::new(), external_etcd };
    let begun = Instant::now();
    loop {
        let answer = probe::look(&ready, machine)?;
        if answer.holds {
            return Ok(());
        }
        if begun.elapsed() > WHOLE || !machine.is_real() {
            return Err(OpError::other(format!(
                "the certificates are renewed, and the control plane is not ready with them ({}): look at /var/log/pods/kube-system_* on this \
                 host; the next time of the timer goes on",
                answer.seen
            )));
        }
        std::thread::sleep(PAUSE);
    }
}

/// And those that cannot be read: the others are renewed all the same.
fn managed(machine: &Machine) -> Result<(Vec<Found>, Vec<String>), OpError> {
    let (mut all, mut problems) = (Vec::new(), Vec::new());
    for (name, path) in MANAGED {
        let Some(bytes) = fsio::read(&machine.path(path))? else { continue };
        match certificates::ends(path, &bytes) {
            Some(ends) => all.push(Found { name, path, ends, file: Digest::of(&bytes) }),
            None => problems.push(format!(
                "there is no certificate in {path} that can be read: restore it, or move it away and make another with kubeadm \
                 (`kubeadm init phase certs` or `kubeadm init phase kubeconfig`)"
            )),
        }
    }
    Ok((all, problems))
}

fn synced(machine: &Machine, path: &str) -> Result<(), OpError> {
    let real = machine.path(path);
    std::fs::File::open(&real).and_then(|file| file.sync_all()).map_err(OpError::path("write to the disk", &real))?;
    real.parent().map_or(Ok(()), fsio::sync_folder)
}

fn ends_with_authority(machine: &Machine, one: &Found) -> bool {
    let ca = authority(one.path);
    let bytes = fsio::read(&machine.path(ca)).ok().flatten();
    bytes.and_then(|bytes| certificates::ends(ca, &bytes)).is_some_and(|end| end.saturating_sub(one.ends) < DAY)
}

/// Those whose authority's key is here. The others are named.
fn signable<'a>(machine: &Machine, due: Vec<&'a Found>, problems: &mut Vec<String>) -> Vec<&'a Found> {
    let mut authorities: Vec<&str> = due.iter().map(|one| authority(one.path)).collect();
    authorities.sort_unstable();
    authorities.dedup();
    let mut kept = due;
    for ca in authorities {
        let key = ca.replace(".crt", ".key");
        if !machine.path(&key).is_file() {
            let (others, here): (Vec<&Found>, Vec<&Found>) =
                kept.into_iter().partition(|one| authority(one.path) == ca);
            kept = here;
            let names: Vec<&str> = others.iter().map(|one| one.path).collect();
            problems.push(format!(
                "the key of {ca} is not on this host ({key}), so kubeadm cannot renew what it has signed: renew these where the key is, and \
                 put them here: {}",
                names.join(" ")
            ));
        }
    }
    kept
}

/// kubelet restarts the pods. One whose certificate has ended cannot, and gets no other by itself.
fn kubelet_lives(machine: &Machine, now: i64) -> Result<(), OpError> {
    let Some(bytes) = fsio::read(&machine.path(KUBELET_CLIENT))? else { return Ok(()) };
    match certificates::ends(KUBELET_CLIENT, &bytes) {
        Some(ends) if ends <= now => Err(OpError::other(format!(
            "the certificate of kubelet ({KUBELET_CLIENT}) has ended, so that it would not restart the control plane: run \
             `kubexm-install certs renew -f cluster.yaml`, which gives it another one"
        ))),
        _ => Ok(()),
    }
}

/// A restart needs the other control planes.
fn healthy(machine: &Machine) -> Result<(), OpError> {
    if !own_server::answers(machine)? {
        return Err(OpError::other(
            "the API server of this host does not answer, and no certificate has ended that would explain it: mend that first; nothing was renewed",
        ));
    }
    let (members, gaps) = members(machine);
    let down: Vec<&str> = members.iter().filter(|one| !one.healthy).map(|one| one.name.as_str()).collect();
    if members.is_empty() || !down.is_empty() {
        let why: Vec<String> = gaps.iter().map(|gap| format!("{}: {}", gap.what, gap.why)).collect();
        return Err(OpError::other(format!(
            "not every member of etcd is healthy ({}): a restart here needs the others, so mend them first; nothing was renewed",
            if down.is_empty() { why.join("; ") } else { down.join(", ") }
        )));
    }
    Ok(())
}

fn restarts(machine: &Machine, config: &CertsConfig, ended: bool) -> impl Iterator<Item = Op> {
    let runtime = config.runtime;
    let kube_vip = machine.path(moving_address::MANIFEST).exists();
    read_by(config.etcd == EtcdKind::Kubeadm, kube_vip).map(move |(pod, files)| {
        let after = files.into_iter().map(str::to_owned).collect();
        StaticPodStarted { pod: pod.to_owned(), after, reloaded: Vec::new(), runtime, ready: ready_after(pod, ended) }
            .into()
    })
}

fn kubeconfigs(users: &[String]) -> impl Iterator<Item = Op> {
    users.iter().map(|user| Kubeconfig { user: user.clone(), replaces: None }.into())
}

fn wanting<'o>(machine: &Machine, ops: impl IntoIterator<Item = &'o Op>) -> Result<Vec<&'o Op>, OpError> {
    let mut wanting = Vec::new();
    for op in ops {
        if !dispatch::observe(op, machine)?.satisfied {
            wanting.push(op);
        }
    }
    Ok(wanting)
}

/// In their order; each is looked at when it is its turn. Returns those that were not as wanted.
fn converge<'o>(machine: &Machine, ops: impl Iterator<Item = &'o Op>) -> Result<Vec<&'o Op>, OpError> {
    let mut changed = Vec::new();
    for op in ops {
        if !wanting(machine, [op])?.is_empty() {
            dispatch::converge(op, machine)?;
            changed.push(op);
        }
    }
    Ok(changed)
}

fn left(ends: i64, now: i64) -> String {
    let date = OffsetDateTime::from_unix_timestamp(ends).map(|date| date.date().to_string()).unwrap_or_default();
    format!("in {} days, {date}", ends.saturating_sub(now).div_euclid(DAY))
}
