//! Validates answers of a host: they must be about the host itself and only about what was requested. An agent may lie:
//! a false answer about its own host harms only that host, and answers about others are refused here.

mod addons;
mod cluster;
mod ledger;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use kubexm_plan::depot::DepotContent;
use kubexm_plan::etcd_check::{EtcdAnswer, EtcdAsk, KeysOf};
use kubexm_plan::{Facts, ObservedState, ProbeAnswer, SlotProvider, Step, StepDrift, StepId, Survey, mesh};

use super::LinkError;
pub(crate) use addons::addons;
pub(crate) use cluster::cluster_facts;
pub(crate) use ledger::ledger;

/// Of one step; an op reports a few.
const MOST_DIFFERENCES: usize = 200;
/// Of one diff; an agent shows 120, and says how many more there are.
const MOST_LINES: usize = 121;
/// Of all diffs of a host.
const MOST_LINES_OF_ALL: usize = 4_000;
/// Of one line in bytes. A path has 4096 at most.
const LONGEST_LINE: usize = 4096;

/// Of [`Survey::past`] in bytes, which is a digest, and is kept in the operator's home.
const LONGEST_PAST: usize = 200;

/// Errors of sources of one request, which are few; and the bytes of one.
const MOST_REASONS: usize = 4;
const LONGEST_REASON: usize = 300;

/// The states of one step are kept, as JSON in bytes, and take memory of whoever reads them again: those of an add-on's YAML have its objects,
/// those of a folder its names.
const MOST_OF_STATES: usize = 24 << 20;
const MOST_MEMORY: usize = 256 << 20;
/// Of all states of a host in one run, as JSON in bytes.
pub(crate) const MOST_OF_A_RUN: usize = 128 << 20;

/// What a host may report of the bundles in its registry, and the longest name in it in bytes: a bundle's have 1,024, and files one of
/// their system before it. Names and tags are put together, each name with each of its tags.
const MOST_RECORDS: usize = 1000;
const LONGEST_SERVED: usize = 1200;
/// Of all that in bytes.
const MOST_SERVED: usize = 512 << 20;

/// Addresses of members of an etcd, which has a few.
const MOST_MEMBERS: usize = 100;
/// Of one connection, and addresses of each.
const MOST_ROUTERS: usize = 20;

/// A step's log and the file of an evidence in bytes; a host's own agent cuts logs at less. The number of files of an evidence.
const LONGEST_LOG: usize = 4 << 20;
const MOST_FILES: usize = 100;
/// Of an error, which becomes a line of the journal and of a terminal.
const LONGEST_ERROR: usize = 64 << 10;

/// One state for each op of the step, each in the form of its kind: what is journalled before a change can be read by whoever undoes it.
pub(crate) fn observed(
    host: &str,
    step: &Step,
    found: Vec<ObservedState>,
    left: &AtomicUsize,
) -> Result<Vec<ObservedState>, LinkError> {
    if found.len() != step.ops.len() {
        return Err(untrusted(
            host,
            format!("it reported {} states of the {} of {}", found.len(), step.ops.len(), step.id),
        ));
    }
    let (mut bytes, mut memory) = (0, 0);
    for (op, state) in step.ops.iter().zip(&found) {
        let size = state.size();
        bytes += size.0;
        memory += size.1;
        if bytes > MOST_OF_STATES || memory > MOST_MEMORY {
            return Err(untrusted(
                host,
                format!("the states that it reported of {} are larger than any that a host has", step.id),
            ));
        }
        if op.places(state).is_err() {
            return Err(untrusted(host, format!("a state that it reported of {} is not one of its kind", step.id)));
        }
    }
    let takes = |left: usize| left.checked_sub(bytes);
    match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, takes) {
        Ok(_) => Ok(found),
        Err(_) => Err(untrusted(host, format!("its states of this run are more than {} MiB", MOST_OF_A_RUN >> 20))),
    }
}

/// What a registry host says of its bundles: so many that they can be compared with each other.
pub(crate) fn depot(host: &str, mut content: DepotContent) -> Result<DepotContent, LinkError> {
    let DepotContent { config, bundles, left, unreadable, blobs: _ } = &mut content;
    match bundles.len() + left.len() + unreadable.len() {
        0..=MOST_RECORDS => {}
        more => {
            let reason = format!("it reported {more} bundles of its registry; {MOST_RECORDS} are the most");
            return Err(untrusted(host, reason));
        }
    }
    let records = || bundles.values().chain(left.values()).map(|bundle| &bundle.content);
    let served = config.iter().chain(records()).flat_map(|config| {
        let images = config.images.iter().flat_map(|(name, one)| std::iter::once(name).chain(one.tags.keys()));
        images.chain(config.files.keys())
    });
    let mut names = served.chain(bundles.keys()).chain(left.keys()).chain(unreadable.keys());
    if names.any(|name| name.len() > LONGEST_SERVED) {
        return Err(untrusted(host, "a name in its registry that it reported is longer than any".to_owned()));
    }
    let repositories = config.iter().chain(records()).flat_map(|config| &config.images);
    let together = repositories.map(|(name, one)| name.len() * (one.tags.len() + one.manifests.len()));
    if together.fold(0, usize::saturating_add) > MOST_SERVED {
        return Err(untrusted(host, "the images in its registry that it reported are more than any has".to_owned()));
    }
    unreadable.values_mut().for_each(|why| cut(why, LONGEST_LINE));
    Ok(content)
}

/// Journals and listings of a host where a step failed: the first ones, and of each the end, where the failure is.
pub(crate) fn evidence(mut files: Vec<(String, String)>) -> Vec<(String, String)> {
    files.truncate(MOST_FILES);
    files.into_iter().map(|(name, text)| (name, log(text))).collect()
}

/// The end of a long log.
pub(crate) fn log(text: String) -> String {
    match text.len().checked_sub(LONGEST_LOG) {
        None | Some(0) => text,
        Some(over) => format!("... {over} bytes before this are left out\n{}", &text[text.ceil_char_boundary(over)..]),
    }
}

/// What is sealed on a host is opened, and its config of kubeadm is compared: an agent of ours sends no more of them than it can have.
pub(crate) fn facts(host: &str, facts: &Facts) -> Result<(), LinkError> {
    let texts = [
        (facts.sealed_authorities.as_deref(), Facts::SEALED_MOST, "sealed authorities are"),
        (facts.kubeadm_config_text.as_deref(), Facts::KUBEADM_CONFIG_MOST, "configuration of kubeadm is"),
    ];
    match texts.into_iter().find(|(text, most, _)| text.is_some_and(|text| text.len() > *most)) {
        Some((.., what)) => Err(untrusted(host, format!("its {what} longer than any"))),
        None => Ok(()),
    }
}

/// What a probe saw, which is shown while it waits, and is its step's error in the end.
pub(crate) fn probed(answer: ProbeAnswer) -> ProbeAnswer {
    ProbeAnswer { seen: error(answer.seen), ..answer }
}

/// An op's error, or another text of a host about a failure.
pub(crate) fn error(mut text: String) -> String {
    cut(&mut text, LONGEST_ERROR);
    text
}

/// A survey may contain only steps that the host was asked about.
pub(crate) fn surveyed(host: &str, asked: &[&Step], survey: Survey) -> Result<Survey, LinkError> {
    if survey.past.len() > LONGEST_PAST {
        return Err(untrusted(host, "what stands for all that happened there is longer than any digest".to_owned()));
    }
    let known: BTreeSet<&StepId> = asked.iter().filter(|step| step.host == host).map(|step| &step.id).collect();
    match survey.holding.iter().find(|id| !known.contains(id)) {
        None => Ok(survey),
        Some(other) => {
            Err(untrusted(host, format!("it reported on step {}, which it was not asked about", shown(&other.0))))
        }
    }
}

/// Differences may be only of steps that the host was asked about. They are shown before the question, so each is cut off where an agent
/// of ours would have ended it: what a host says must not push the rest out of sight.
pub(crate) fn drift(host: &str, asked: &[&Step], mut drift: Vec<StepDrift>) -> Result<Vec<StepDrift>, LinkError> {
    let mut lines = 0;
    let mut answered = BTreeSet::new();
    if let Some(twice) = drift.iter().find(|one| !answered.insert(&one.step)) {
        return Err(untrusted(host, format!("it answered twice for the step {}", shown(&twice.step.0))));
    }
    for one in &mut drift {
        one.differences.truncate(MOST_DIFFERENCES);
        for difference in &mut one.differences {
            cut(&mut difference.what, LONGEST_LINE);
            cut(&mut difference.how, LONGEST_LINE);
            let left = MOST_LINES_OF_ALL.saturating_sub(lines);
            match &mut difference.diff {
                Some(_) if left == 0 => {
                    difference.diff = Some("... the lines are left out: there are too many".to_owned())
                }
                Some(diff) => *diff = shortened(diff),
                None => {}
            }
            lines += difference.diff.as_deref().map_or(0, |diff| diff.lines().count());
        }
    }
    match drift.iter().find(|one| !asked.iter().any(|step| step.host == host && step.id == one.step)) {
        None => Ok(drift),
        Some(other) => Err(untrusted(
            host,
            format!("it answered for the step {}, which it was not asked about", shown(&other.step.0)),
        )),
    }
}

/// Why a host got nothing from others, for people: a few short ones, which write nothing else to the terminal.
pub(crate) fn reasons(mut reasons: Vec<String>) -> Vec<String> {
    reasons.truncate(MOST_REASONS);
    for reason in &mut reasons {
        *reason = kubexm_spec::printable(reason).into_owned();
        cut(reason, LONGEST_REASON);
    }
    reasons
}

/// The first lines of a diff.
fn shortened(diff: &str) -> String {
    let mut lines: Vec<String> = diff.lines().take(MOST_LINES).map(str::to_owned).collect();
    lines.iter_mut().for_each(|line| cut(line, LONGEST_LINE));
    let rest = diff.lines().count() - lines.len();
    if rest > 0 {
        lines.push(format!("... {rest} more lines"));
    }
    lines.join("\n")
}

/// Cuts a text off after so many bytes, between two characters.
fn cut(text: &mut String, most: usize) {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push_str("...");
    }
}

/// One answer for each endpoint, in their order.
pub(crate) fn etcd(host: &str, asked: &EtcdAsk, mut answer: EtcdAnswer) -> Result<EtcdAnswer, LinkError> {
    let answered = answer.endpoints.iter().map(|one| &one.endpoint);
    if !answered.eq(&asked.endpoints) {
        return Err(untrusted(host, "it answered for members of etcd that it was not asked about".to_owned()));
    }
    // What a user's etcd says of itself comes the same way.
    let EtcdAnswer { endpoints, members, why, keys: _, keys_of } = &mut answer;
    let texts = endpoints.iter_mut().flat_map(|one| [&mut one.version, &mut one.cluster, &mut one.trouble]);
    texts.chain([why]).flatten().for_each(|text| cut(text, LONGEST_LINE));
    if let Some(members) = members {
        members.truncate(MOST_MEMBERS);
        members.iter_mut().for_each(|member| cut(member, LONGEST_LINE));
    }
    if let Some(KeysOf::Shared(folder)) = keys_of {
        cut(folder, LONGEST_LINE);
    }
    Ok(answer)
}

/// One result for each dial, in the order of the dials.
pub(crate) fn dialed(
    host: &str,
    asked: &[mesh::ConnectionCheck],
    mut dialed: Vec<mesh::ConnectionResult>,
) -> Result<Vec<mesh::ConnectionResult>, LinkError> {
    if dialed.len() != asked.len() || dialed.iter().zip(asked).any(|(answer, asked)| answer.dial != *asked) {
        return Err(untrusted(host, "it reported connections that it was not asked to try".to_owned()));
    }
    let texts = dialed.iter_mut().flat_map(|one| [&mut one.blocked, &mut one.neighbour]);
    texts.flatten().for_each(|text| cut(text, LONGEST_LINE));
    for one in &mut dialed {
        one.routers.truncate(MOST_ROUTERS);
        one.routers.iter_mut().for_each(|router| router.addresses.truncate(MOST_ROUTERS));
    }
    Ok(dialed)
}

/// A value for kubeadm's configuration on other hosts must have kubeadm's format, so that it cannot add anything to
/// that configuration.
pub(crate) fn provided(host: &str, provider: &SlotProvider, value: Vec<u8>) -> Result<Vec<u8>, LinkError> {
    let hex = |text: &[u8]| text.len() == 64 && text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let word = |text: &[u8]| text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'z'));
    let (what, good) = match provider {
        SlotProvider::JoinToken { .. } => {
            let parts: Vec<&[u8]> = value.split(|byte| *byte == b'.').collect();
            let good = matches!(parts.as_slice(), [id, secret] if id.len() == 6 && secret.len() == 16 && word(id) && word(secret));
            ("bootstrap token", good)
        }
        SlotProvider::CaCertHash { .. } => ("hash of the CA's key", value.strip_prefix(b"sha256:").is_some_and(hex)),
        SlotProvider::UploadKey { .. } => ("certificate key", hex(&value)),
        SlotProvider::KubeletClient { .. } => ("client certificate with its key", is_pair(&value)),
        SlotProvider::SharedFile { path, .. } => ("file of a control plane", is_shared(path, &value)),
        SlotProvider::Authority { .. }
        | SlotProvider::Certificate(_)
        | SlotProvider::CertificateKey { .. }
        | SlotProvider::AdminKubeconfig { .. }
        | SlotProvider::SealedAuthorities { .. }
        | SlotProvider::RequestKey { .. }
        | SlotProvider::BackupKey
        | SlotProvider::BackupFile { .. }
        | SlotProvider::Secret { .. }
        | SlotProvider::DerivedPassword { .. }
        | SlotProvider::RegistryLogin { .. } => ("value: the controller has it", false),
    };
    if good { Ok(value) } else { Err(untrusted(host, format!("the value that it made is not a valid {what}"))) }
}

/// What is longer is no certificate and no key.
const LONGEST_PEM: usize = 32 << 10;
const KEYS: [&str; 3] = ["PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY"];

/// One certificate and its key as PEM, and nothing else: kubelet's own format. RFC 7468.
fn is_pair(value: &[u8]) -> bool {
    let blocks = blocks(value);
    matches!(blocks.as_slice(), [certificate, key] if certificate.tag() == "CERTIFICATE" && KEYS.contains(&key.tag()))
}

/// One certificate, key or public key as PEM, whichever the file's name says.
fn is_shared(path: &str, value: &[u8]) -> bool {
    let blocks = blocks(value);
    let [one] = blocks.as_slice() else { return false };
    match path.rsplit('.').next() {
        Some("key") => KEYS.contains(&one.tag()),
        Some("pub") => one.tag() == "PUBLIC KEY",
        Some("crt") => one.tag() == "CERTIFICATE",
        _ => false,
    }
}

/// None of a text that is too long, or is no PEM.
fn blocks(value: &[u8]) -> Vec<::pem::Pem> {
    let short = Some(value).filter(|value| value.len() <= LONGEST_PEM);
    short.and_then(|value| ::pem::parse_many(value).ok()).unwrap_or_default()
}

fn untrusted(host: &str, reason: String) -> LinkError {
    LinkError::Untrusted { host: host.to_owned(), reason }
}

/// A host's text, escaped for a message.
fn shown(text: &str) -> String {
    text.escape_default().take(200).collect()
}

#[cfg(test)]
mod tests;
