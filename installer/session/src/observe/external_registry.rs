//! Preflight of the user's own registry (`spec.registry.type: external`): it is used as it is, so what hosts pull must be
//! there before any of them is changed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use kubexm_engine::registry_check::{Answered, UserRegistry, WantedImage, Wrong, ask};
use kubexm_recipes::preflight::Severity;
use kubexm_recipes::{Finding, Mesh};
use kubexm_spec::cluster::{EXTERNAL_CA, ExternalRegistry, password_line};
use kubexm_spec::{Cluster, Kind, Manifest, Reference};

use super::findings::REGISTRY as NAME;
use super::outside;
use crate::bundle::opened::Opened;
use crate::events;
use crate::run::secrets::read_secret;
use crate::session::Session;

/// The most images that a finding names.
const NAMED: usize = 5;

/// What is wrong with the registry; nothing for a cluster that has its own.
pub(super) async fn findings(session: &Session<'_>, opened: &Opened) -> Vec<Finding> {
    let cluster = opened.cluster();
    let Some(external) = cluster.external_registry() else { return Vec::new() };
    events::phase(session.events, NAME);
    let mut found = Vec::new();
    if external.insecure {
        found.push(insecure(&external));
    }
    let images = wanted(opened.bundle().manifest(), &external);
    match registry(session, cluster, &external) {
        Ok(registry) => {
            let answer = ask(&registry, &images).await;
            found.extend(judge(&external, images.len(), answer));
        }
        Err(reason) => found.push(failed(
            reason,
            "a login and a CA that this machine can read",
            "correct `spec.registry` in cluster.yaml, or its source on this machine".to_owned(),
        )),
    }
    found
}

/// Adds the registry to what each host dials. A name is resolved here: how a host resolves it shows when it pulls.
pub(super) async fn add_dials(mesh: &mut Mesh, cluster: &Cluster) {
    let Some(external) = cluster.external_registry() else { return };
    let (host, port) = match external.address.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().unwrap_or(443)),
        None => (external.address, if external.insecure { 80 } else { 443 }),
    };
    // What has no address is reported by the questions of this machine.
    if let Some(address) = outside::address(host, port).await {
        outside::add_dials(mesh, cluster, external.address, SocketAddr::new(address, port));
    }
}

/// How this machine asks it.
fn registry(session: &Session<'_>, cluster: &Cluster, external: &ExternalRegistry<'_>) -> Result<UserRegistry, String> {
    let ca = match external.ca_file {
        Some(_) => Some(read_secret(session, cluster, EXTERNAL_CA)?.as_bytes().to_vec()),
        None => None,
    };
    let login = match cluster.external_login() {
        Some(login) => {
            let password = read_secret(session, cluster, &login.field())?;
            Some((login.username.to_owned(), password_line(&password).to_owned().into()))
        }
        None => None,
    };
    // A login is never sent without TLS.
    let plain_http = external.insecure && login.is_none();
    Ok(UserRegistry { address: external.address.to_owned(), ca, login, plain_http })
}

/// Every image of the bundle, with the manifests of the platforms that the bundle has.
fn wanted(manifest: &Manifest, external: &ExternalRegistry<'_>) -> Vec<WantedImage> {
    let mut all: BTreeMap<String, WantedImage> = BTreeMap::new();
    for artifact in manifest.artifacts.iter().filter(|artifact| artifact.key.kind() == Kind::Image) {
        let Some(reference) = Reference::read(&artifact.name) else { continue };
        let image = all.entry(artifact.name.clone()).or_insert_with(|| WantedImage {
            name: artifact.name.clone(),
            repository: external.repository(&reference.repository),
            tag: reference.tag.clone(),
            targets: BTreeSet::from([artifact.digest]),
            manifests: BTreeSet::new(),
        });
        image.manifests.insert(artifact.manifest.unwrap_or(artifact.digest));
    }
    // A registry may refuse an index without all its platforms; then the tag names the manifest of the only one.
    for image in all.values_mut().filter(|image| image.manifests.len() == 1) {
        image.targets.extend(image.manifests.iter().copied());
    }
    all.into_values().collect()
}

fn judge(external: &ExternalRegistry<'_>, count: usize, answer: Result<Answered, String>) -> Vec<Finding> {
    let address = external.address;
    let target = external.prefix.map_or_else(|| address.to_owned(), |prefix| format!("{address}/{prefix}"));
    match answer {
        Ok(Answered::Images(wrong)) if wrong.is_empty() => Vec::new(),
        Ok(Answered::Images(wrong)) => {
            let (moved, missing): (Vec<_>, Vec<_>) =
                wrong.into_iter().partition(|(_, wrong)| matches!(wrong, Wrong::Moved { .. }));
            let missing = (!missing.is_empty()).then(|| {
                failed(
                    format!("{} of {count} images are not in {target}: {}", missing.len(), named(&missing)),
                    "every image of the bundle, by its digest and by its tag",
                    format!("seed it first: `kubexm-install seed --bundle BUNDLE --to {target}`"),
                )
            });
            let moved = (!moved.is_empty()).then(|| {
                failed(
                    format!("tags of {target} name other images than the bundle's: {}", named(&moved)),
                    "tags that name the bundle's images",
                    format!(
                        "see who moved them; `kubexm-install seed --bundle BUNDLE --to {target} --overwrite-tags` moves them"
                    ),
                )
            });
            missing.into_iter().chain(moved).collect()
        }
        Ok(Answered::Denied(reason)) => vec![failed(
            format!("{address} refuses this login: {reason}"),
            "a login that may read the images",
            format!("correct `spec.registry.auths` for {address} in cluster.yaml, or what its passwordFrom names"),
        )],
        // A certificate that is not checked on hosts is checked here all the same.
        Ok(Answered::Unusable(reason)) if external.insecure => vec![Finding {
            severity: Severity::Warn,
            ..failed(
                format!("whether the images are in {target} was not checked from this machine: {reason}"),
                "a registry that this machine can ask",
                "give its CA (`spec.registry.caFile`) in place of `insecure`".to_owned(),
            )
        }],
        Ok(Answered::Unusable(reason)) => vec![failed(
            format!("{address} cannot be asked from this machine: {reason}"),
            "a registry that answers, with a certificate that is valid today and whose CA is known",
            "start it, correct `spec.registry.privateRegistry` or `caFile`, or this machine's clock".to_owned(),
        )],
        Err(reason) => {
            vec![failed(reason, "a CA file with certificates", "correct `spec.registry.caFile`".to_owned())]
        }
    }
}

/// The first of them.
fn named(wrong: &[(String, Wrong)]) -> String {
    let mut words: Vec<String> = wrong
        .iter()
        .take(NAMED)
        .map(|(image, wrong)| match wrong {
            Wrong::Missing { what } => format!("{image} ({what})"),
            Wrong::Moved { what, found } => format!("{image} ({what} is {found})"),
        })
        .collect();
    if let Some(more) = wrong.len().checked_sub(NAMED).filter(|more| *more > 0) {
        words.push(format!("and {more} more"));
    }
    words.join(", ")
}

fn insecure(external: &ExternalRegistry<'_>) -> Finding {
    Finding {
        severity: Severity::Warn,
        ..failed(
            format!(
                "`spec.registry.insecure`: the certificate of {} is not checked by any host, or there is none: whoever is on the \
                 way can take its place, be shown the login, and serve other images under every tag",
                external.address
            ),
            "a registry with a certificate that is checked",
            "give its CA in `spec.registry.caFile`, and leave `insecure` out".to_owned(),
        )
    }
}

fn failed(found: String, needed: &str, fix: String) -> Finding {
    Finding {
        severity: Severity::Fail,
        check: NAME.to_owned(),
        host: None,
        found,
        needed: needed.to_owned(),
        fix,
        detail: None,
    }
}

#[cfg(test)]
mod tests {
    use kubexm_spec::Digest;

    use super::*;

    const REGISTRY: ExternalRegistry<'static> = ExternalRegistry {
        address: "r.test:8443",
        prefix: Some("mirror"),
        namespace: None,
        insecure: false,
        ca_file: None,
    };

    fn judged(answer: Result<Answered, String>) -> Vec<String> {
        judge(&REGISTRY, 40, answer).into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn what_is_missing_is_named_with_the_command_that_seeds_it_and_what_was_moved_apart_from_it() {
        let image = |number: usize| format!("quay.io/x:{number}");
        let missing = |number| (image(number), Wrong::Missing { what: format!("mirror/quay.io/x:{number}") });
        let mut wrong: Vec<_> = (0..7).map(missing).collect();
        wrong.push((image(8), Wrong::Moved { what: "mirror/quay.io/x:8".to_owned(), found: Digest::of("other") }));
        let found = judged(Ok(Answered::Images(wrong)));
        assert_eq!(found.len(), 2, "{found:#?}");
        for part in [
            "7 of 40 images are not in r.test:8443/mirror",
            "quay.io/x:0 (mirror/quay.io/x:0)",
            "and 2 more",
            "seed it first: `kubexm-install seed --bundle BUNDLE --to r.test:8443/mirror`",
        ] {
            assert!(found[0].contains(part), "{part}: {}", found[0]);
        }
        assert!(found[1].contains(&Digest::of("other").to_string()) && found[1].contains("--overwrite-tags"));
        assert_eq!(judged(Ok(Answered::Images(Vec::new()))), Vec::<String>::new());
    }

    #[test]
    fn a_login_that_is_refused_is_not_taken_for_a_registry_that_is_down() {
        let one = |answer| judged(answer).join("\n");
        assert!(one(Ok(Answered::Denied("why".to_owned()))).contains("refuses this login: why"));
        assert!(one(Ok(Answered::Unusable("why".to_owned()))).contains("cannot be asked from this machine: why"));
        assert!(one(Err("why".to_owned())).contains("spec.registry.caFile"));
    }
}
