//! Preflight of the user's own etcd (`spec.etcd.type: external`): a control plane asks every endpoint, with the API server's
//! certificate, before anything is changed. Nothing there is changed at any time but what the API server writes.

use std::collections::BTreeSet;

use kubexm_plan::Facts;
use kubexm_plan::etcd_check::{EtcdAnswer, EtcdAsk};
use kubexm_recipes::modules::etcd_client::is_keyspace;
use kubexm_recipes::preflight::Severity;
use kubexm_recipes::{Finding, Identity, PlanContext};
use kubexm_spec::cluster::{EXTERNAL_ETCD_KEY, EtcdKind, ExternalEtcd};
use kubexm_spec::{Version, counted};
use zeroize::Zeroizing;

use super::findings::ETCD as NAME;
use crate::events;
use crate::fleet::Fleet;
use crate::run::secrets::read_secret;
use crate::session::Session;

/// The header by which it is seen has whole seconds, and the answer takes some time.
const CLOCKS_S: u64 = 5;
/// More than this is refused for a new cluster.
const REFUSED_S: u64 = 60;

/// What is wrong with the user's etcd; nothing for another kind.
pub(super) async fn findings(session: &Session<'_>, fleet: &Fleet, cx: &PlanContext<'_>) -> Vec<Finding> {
    let Some(external) = cx.cluster.etcd.external.as_ref().filter(|_| cx.cluster.etcd.kind == EtcdKind::External)
    else {
        return Vec::new();
    };
    events::phase(session.events, NAME);
    let planes = &cx.cluster.role_groups.control_plane;
    let link = planes.iter().find_map(|name| Some((name, fleet.link_of(name)?)));
    let Some((host, link)) = link else { return Vec::new() };
    let adopted = kubexm_recipes::adoption::is_adopted(cx.cluster, cx.facts);
    let asked = if adopted { Ok(as_api_server(external)) } else { asked(session, cx, external) };
    let (ask, key) = match asked {
        Ok(asked) => asked,
        Err(reason) => return vec![unreadable(reason)],
    };
    match link.link().ask_etcd(&ask, key.as_bytes()).await {
        Ok(answer) => judge(&answer, external, &Known::of(cx, external)),
        Err(error) => vec![unreadable(error.to_string())],
    }
    .into_iter()
    .map(|finding| Finding { host: Some(host.clone()), ..finding })
    .collect()
}

/// An adopted cluster has certificates and keys of its own on its control planes: those of cluster.yaml are not needed.
fn as_api_server(external: &ExternalEtcd) -> (EtcdAsk, Zeroizing<String>) {
    let (endpoints, prefix) = (external.endpoints.clone(), external.prefix.clone());
    let [ca, certificate] = [const { String::new() }; 2];
    (EtcdAsk { endpoints, ca, certificate, prefix, of: None, as_api_server: true }, Zeroizing::default())
}

fn asked(
    session: &Session<'_>,
    cx: &PlanContext<'_>,
    external: &ExternalEtcd,
) -> Result<(EtcdAsk, Zeroizing<String>), String> {
    let text = |file: &Option<kubexm_spec::cluster::MaterialFile>| {
        let file = file.as_ref().ok_or("spec.etcd.externalConfig has no certificates")?;
        cx.material(file).map(str::to_owned).map_err(|error| error.to_string())
    };
    let ask = EtcdAsk {
        endpoints: external.endpoints.clone(),
        ca: text(&external.ca_file)?,
        certificate: text(&external.cert_file)?,
        prefix: external.prefix.clone(),
        of: None,
        as_api_server: false,
    };
    Ok((ask, read_secret(session, cx.cluster, EXTERNAL_ETCD_KEY)?))
}

/// What decides whether the keys that are found are this cluster's.
struct Known<'a> {
    minimum: Option<&'a str>,
    /// A control plane of this cluster was given this keyspace: when it was, nothing else was there.
    begun: bool,
}

impl<'a> Known<'a> {
    fn of(cx: &PlanContext<'a>, external: &ExternalEtcd) -> Self {
        let platform = cx.manifest.platforms.first();
        let version = platform.and_then(|platform| cx.kubernetes_version(*platform).ok()).unwrap_or_default();
        let minimum = cx.catalogue.release(&version).and_then(|release| release.support.minimum_etcd.as_deref());
        let identity = Identity::of(cx.cluster, cx.facts);
        let begun = |name: &String| {
            let keyspace = |found: &String| is_keyspace(found, external);
            // What an adopted cluster has there is compared when the upgrade is planned, by the manifests of its API servers.
            let adopted = |facts: &Facts| facts.stamp.as_ref().is_some_and(|stamp| stamp.adopted);
            let of = |facts: &Facts| facts.etcd_keyspace.as_ref().is_some_and(keyspace) || adopted(facts);
            cx.facts.get(name).is_some_and(|facts| of(facts) && identity.is_member(cx.cluster, name, facts))
        };
        Self { minimum, begun: cx.cluster.role_groups.control_plane.iter().any(begun) }
    }
}

fn judge(answer: &EtcdAnswer, external: &ExternalEtcd, known: &Known<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for one in &answer.endpoints {
        let endpoint = &one.endpoint;
        if let Some(ahead) = one.ahead_s.filter(|ahead| ahead.unsigned_abs() > CLOCKS_S) {
            let direction = if ahead > 0 { "ahead of" } else { "behind" };
            let ahead = ahead.unsigned_abs();
            // A cluster that runs with it goes on.
            let severity = if known.begun || ahead <= REFUSED_S { Severity::Warn } else { Severity::Fail };
            let finding = failed(
                format!("the clock of {endpoint} is {ahead} s {direction} that of the control plane that asked"),
                "clocks that agree: certificates are valid by them, and leases end by them",
                "find out which of the two is wrong (`date -u`), set it, or let both follow the same time servers",
            );
            found.push(Finding { severity, ..finding });
        }
        match (&one.version, &one.trouble) {
            (None, trouble) => found.push(failed(
                format!("{endpoint} does not answer: {}", trouble.as_deref().unwrap_or("it was not asked")),
                "a member that answers every control plane, with a certificate of caFile for this address, and that takes certFile with its key",
                "start it, open its port, or correct spec.etcd.externalConfig (certFile and keyFrom belong together)",
            )),
            (Some(_), Some(trouble)) => found.push(failed(
                format!("{endpoint} is not healthy: {trouble}"),
                "healthy members",
                "mend it first (`etcdctl endpoint status`, `etcdctl alarm list`)",
            )),
            (Some(version), None) => {
                if known.minimum.is_some_and(|minimum| Version::of(version).numbers().lt(Version::of(minimum).numbers())) {
                    found.push(failed(
                        format!("{endpoint} runs etcd {version}"),
                        &format!("etcd {} or newer, which this Kubernetes needs", known.minimum.unwrap_or_default()),
                        "upgrade it first",
                    ));
                }
            }
        }
    }
    let clusters: BTreeSet<&String> = answer.endpoints.iter().filter_map(|one| one.cluster.as_ref()).collect();
    if clusters.len() > 1 {
        found.push(failed(
            format!("the endpoints are of {} different etcd clusters", clusters.len()),
            "members of one cluster",
            "correct spec.etcd.externalConfig.endpoints",
        ));
    }
    match (&answer.members, answer.keys) {
        (None, _) | (_, None) => {
            // Without any answer that is said already.
            if let Some(why) = &answer.why {
                found.push(failed(
                    format!("etcd cannot be read with this certificate, or has no quorum: {why}"),
                    "a majority of members, and the right to read and write below the prefix",
                    "start members until a majority runs, or give the certificate's user that right",
                ));
            }
        }
        (Some(members), Some(keys)) => {
            let unnamed: Vec<&str> =
                members.iter().filter(|url| !external.endpoints.contains(url)).map(String::as_str).collect();
            if !unnamed.is_empty() && members.len() > 1 {
                found.push(Finding {
                    severity: Severity::Warn,
                    ..failed(
                        format!("etcd has members that are not among the endpoints: {}", unnamed.join(", ")),
                        "every member, so that the API servers go on when one of them is down",
                        "add them to spec.etcd.externalConfig.endpoints",
                    )
                });
            }
            if keys > 0 && !known.begun {
                found.push(failed(
                    format!("{} below {} in etcd, and no control plane of this cluster was given them", counted(keys, "key"), external.prefix),
                    "no keys there: another cluster's API servers write them, or an earlier cluster has left them",
                    &format!(
                        "give another spec.etcd.externalConfig.prefix; if no cluster uses them any more, delete them with \
                         `etcdctl del --prefix {}/`",
                        external.prefix
                    ),
                ));
            }
        }
    }
    found
}

fn unreadable(reason: String) -> Finding {
    failed(
        reason,
        "certificates and a key that this machine can read, and a control plane that asks with them",
        "correct spec.etcd.externalConfig, or its sources on this machine",
    )
}

fn failed(found: String, needed: &str, fix: &str) -> Finding {
    Finding {
        severity: Severity::Fail,
        check: NAME.to_owned(),
        host: None,
        found,
        needed: needed.to_owned(),
        fix: fix.to_owned(),
        detail: None,
    }
}

#[cfg(test)]
mod tests {
    use kubexm_plan::etcd_check::EndpointAnswer;

    use super::*;

    fn external() -> ExternalEtcd {
        let yaml = "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n  hosts: [{name: a, address: 10.0.0.1}]\n  \
                    roleGroups: {master: [a]}\n  kubernetes: {version: v1.34.4}\n  etcd: {type: external, externalConfig: {endpoints: \
                    [\"https://10.0.0.5:2379\", \"https://10.0.0.6:2379\"], caFile: ca, certFile: c, keyFrom: {env: K}}}\n";
        kubexm_spec::cluster::parse(yaml).expect("a cluster").etcd.external.expect("an etcd")
    }

    fn good() -> EtcdAnswer {
        let one = |endpoint: &str| EndpointAnswer {
            endpoint: endpoint.to_owned(),
            version: Some("3.6.5".to_owned()),
            cluster: Some("77".to_owned()),
            trouble: None,
            ahead_s: Some(-1),
        };
        let endpoints = external().endpoints;
        EtcdAnswer {
            endpoints: endpoints.iter().map(|endpoint| one(endpoint)).collect(),
            keys: Some(0),
            members: Some(endpoints),
            why: None,
            keys_of: None,
        }
    }

    fn said(change: impl FnOnce(&mut EtcdAnswer, &mut Known<'_>)) -> Vec<(Severity, String)> {
        let (mut answer, mut known) = (good(), Known { minimum: Some("3.5.24-0"), begun: false });
        change(&mut answer, &mut known);
        judge(&answer, &external(), &known).into_iter().map(|one| (one.severity, one.found)).collect()
    }

    #[test]
    fn a_healthy_and_empty_etcd_has_no_finding_and_each_trouble_its_own() {
        assert_eq!(said(|_, _| ()), []);
        type Change = fn(&mut EtcdAnswer, &mut Known<'_>);
        let rows: [(Change, &str); 8] = [
            (|answer, _| answer.endpoints[1].version = None, "https://10.0.0.6:2379 does not answer"),
            (
                |answer, _| answer.endpoints[0].trouble = Some("alarm:NOSPACE".to_owned()),
                "is not healthy: alarm:NOSPACE",
            ),
            (|answer, _| answer.endpoints[0].version = Some("3.5.9".to_owned()), "runs etcd 3.5.9"),
            (|answer, _| answer.endpoints[0].cluster = Some("78".to_owned()), "of 2 different etcd clusters"),
            (
                |answer, _| (answer.members, answer.why) = (None, Some("no leader".to_owned())),
                "has no quorum: no leader",
            ),
            (|answer, _| answer.keys = Some(9), "9 keys below /registry in etcd"),
            (|answer, _| answer.endpoints[1].ahead_s = Some(86_400), "10.0.0.6:2379 is 86400 s ahead of"),
            (|answer, _| answer.endpoints[0].ahead_s = Some(-61), "10.0.0.5:2379 is 61 s behind"),
        ];
        for (change, text) in rows {
            let found = said(change);
            assert!(matches!(found.as_slice(), [(Severity::Fail, found)] if found.contains(text)), "{text}: {found:?}");
        }
        assert_eq!(said(|answer, _| answer.endpoints[0].version = Some("3.5.24".to_owned())), []);
        // Clocks that are off by less, and those of a cluster that runs.
        let off: [Change; 2] = [
            |answer, _| answer.endpoints[0].ahead_s = Some(-6),
            |answer, known| (answer.endpoints[0].ahead_s, known.begun) = (Some(86_400), true),
        ];
        for change in off {
            let found = said(change);
            assert!(
                matches!(found.as_slice(), [(Severity::Warn, found)] if found.contains("the clock of")),
                "{found:?}"
            );
        }
        // Keys of the cluster itself, and members that nobody named.
        assert_eq!(said(|answer, known| (answer.keys, known.begun) = (Some(9), true)), []);
        let found =
            said(|answer, _| answer.members.as_mut().expect("members").push("https://10.0.0.7:2379".to_owned()));
        assert!(matches!(found.as_slice(), [(Severity::Warn, found)] if found.contains("10.0.0.7")), "{found:?}");
    }
}
