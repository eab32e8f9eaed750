//! Removes the etcd member of a control plane before its data is deleted.
//!
//! `kubeadm reset` does this only if it reaches the API server, and only warns on errors: a dead member would remain,
//! and each dead member brings etcd closer to losing its quorum. So kubexm uses etcd's JSON gateway (etcd's API v3,
//! `/v3/cluster/member/…`) while the certificates still exist.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kubexm_plan::cluster_facts::{EtcdAccess, EtcdDatabase};
use kubexm_plan::etcd;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

use crate::api_server_etcd::{self, flag};
use crate::kube::{self, kubectl};
use crate::system::{HttpsAnswer, HttpsRequest};
use crate::{Machine, OpError, etcd_unit, fsio};

const MANIFEST: &str = "/etc/kubernetes/manifests/etcd.yaml";
const CA: &str = "/etc/kubernetes/pki/etcd/ca.crt";
/// kubeadm creates the first for probes and the second for the API server; etcd accepts both as clients.
const CLIENTS: [&str; 2] = ["/etc/kubernetes/pki/etcd/healthcheck-client", "/etc/kubernetes/pki/apiserver-etcd-client"];
pub(crate) const LOCAL: &str = "https://127.0.0.1:2379";

/// How long members may take until they are connected long enough, in seconds.
pub(super) const SETTLES_S: u32 = 30;
/// etcd's `ErrUnhealthy`.
pub(super) const UNHEALTHY: &str = "etcdserver: unhealthy cluster";

/// What happens to the other control planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// They continue: a member that cannot be removed is an error, even if none of them answers.
    Lives,
    /// They may be gone already, for example when the whole cluster is removed.
    MayBeGone,
}

/// Whether etcd has this host as a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    Yes,
    /// Listed, but a learner or not started.
    Partly,
    No,
    /// No member could be asked.
    Unknown,
}

pub(crate) struct Client {
    ca: Vec<u8>,
    certificate: Vec<u8>,
    key: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Member {
    /// Decimal, as in the gateway's answers.
    pub id: String,
    pub name: String,
    pub peers: Vec<String>,
    pub clients: Vec<String>,
    pub learner: bool,
}

/// A member's own status.
#[derive(Debug)]
pub(crate) struct Status {
    pub version: String,
    /// The id of its cluster, decimal.
    pub cluster: Option<String>,
    /// Its own id, decimal.
    pub member: Option<String>,
    /// It has no leader, or reports an error (`alarm:NOSPACE`).
    pub trouble: Option<String>,
    /// None if it does not say it.
    pub database: Option<EtcdDatabase>,
    /// By how many seconds its clock is ahead of this host's.
    pub ahead_s: Option<i64>,
}

/// Whether this host's member is in the list of its own etcd.
pub(super) fn listed(machine: &Machine) -> Result<Listed, OpError> {
    let Some(client) = client(machine)? else { return Ok(Listed::Unknown) };
    let Ok(members) = client.list(machine, LOCAL) else { return Ok(Listed::Unknown) };
    let own = own_peers(machine)?;
    Ok(match members.iter().find(|member| member.is(&own)) {
        Some(member) if !member.learner && !member.name.is_empty() => Listed::Yes,
        Some(_) => Listed::Partly,
        None => Listed::No,
    })
}

/// Removes this host's member from the list, if there are others. Repeating it has no further effect.
pub(super) fn leave(machine: &Machine, rest: Rest) -> Result<(), OpError> {
    let Some(client) = client(machine)? else { return Ok(()) };
    let own = own_peers(machine)?;
    let asked = endpoints(machine)?;
    let Some(members) = asked.iter().find_map(|endpoint| client.list(machine, endpoint).ok()) else {
        return Ok(());
    };
    let Some(ours) = members.iter().find(|member| member.is(&own)) else { return Ok(()) };
    let others: Vec<&Member> = members.iter().filter(|member| member.id != ours.id).collect();
    if others.is_empty() {
        return Ok(());
    }
    let answering: Vec<(&Member, &String)> = others
        .iter()
        .filter_map(|m| m.clients.iter().find(|url| client.list(machine, url).is_ok()).map(|url| (*m, url)))
        .collect();
    if answering.is_empty() && rest == Rest::MayBeGone {
        return Ok(());
    }
    let mut why = "no other member answers".to_owned();
    for (_, endpoint) in &answering {
        match client.remove(machine, endpoint, &ours.id) {
            Ok(()) => match client.list(machine, endpoint) {
                Ok(now) if now.iter().any(|member| member.id == ours.id) => {
                    why = "etcd reported that it is removed, but still lists it".to_owned();
                }
                _ => return Ok(()),
            },
            Err(error) => why = error.full(),
        }
    }
    Err(stays(&members, ours, &answering, &why))
}

/// The consequence of a member that could not be removed, and the command that fixes it.
fn stays(members: &[Member], ours: &Member, answering: &[(&Member, &String)], why: &str) -> OpError {
    let voters = members.iter().filter(|member| !member.learner).count();
    let needed = voters / 2 + 1;
    let other = answering.first().map(|(member, _)| *member).or(members.iter().find(|m| m.id != ours.id));
    let other = other.map_or("<another control plane>", |member| member.name.as_str());
    let id = ours.id.parse::<u64>().map_or_else(|_| ours.id.clone(), |id| format!("{id:x}"));
    OpError::other(format!(
        "this host's etcd member {id} stays in the member list ({why}); etcd has {voters} voting members, {needed} of them \
         must answer for any change, and a dead one that stays counts (of two members with one dead there is no quorum). \
         Start the other control planes' etcd, then run again; or remove it on {other} with: kubectl --kubeconfig \
         /etc/kubernetes/admin.conf --namespace kube-system exec etcd-{other} -- etcdctl --cacert {CA} --cert \
         /etc/kubernetes/pki/etcd/server.crt --key /etc/kubernetes/pki/etcd/server.key member remove {id}"
    ))
}

impl Client {
    /// A client with these PEM files of the host; none if one is missing.
    pub(crate) fn of_files(machine: &Machine, [ca, cert, key]: &[String; 3]) -> Result<Option<Self>, OpError> {
        let read = |path: &String| fsio::read(&machine.path(path));
        Ok(match (read(ca)?, read(cert)?, read(key)?) {
            (Some(ca), Some(certificate), Some(key)) => Some(Self { ca, certificate, key }),
            _ => None,
        })
    }

    /// A client whose files are on no host yet.
    pub(crate) fn of_bytes(ca: &[u8], certificate: &[u8], key: &[u8]) -> Self {
        Self { ca: ca.to_vec(), certificate: certificate.to_vec(), key: key.to_vec() }
    }

    /// How many keys begin with a text.
    pub(crate) fn count(&self, machine: &Machine, endpoint: &str, prefix: &str) -> Result<u64, OpError> {
        let (key, range_end) = range_of(prefix);
        let body = serde_json::json!({"key": key, "range_end": range_end, "count_only": true}).to_string();
        let answer = self.call(machine, endpoint, "kv/range", &body)?;
        // Left out where it is zero, as every number of a gateway.
        let count = answer["count"].as_str().map_or(Ok(0), str::parse);
        count.map_err(|_| OpError::other(format!("{endpoint}/v3/kv/range answers with a count that is no number")))
    }

    /// The list that a majority of the members agrees on.
    pub(crate) fn list_with_quorum(&self, machine: &Machine, endpoint: &str) -> Result<Vec<Member>, OpError> {
        self.listed(machine, endpoint, true)
    }

    /// Serializable: answered from the member's own data, without a quorum.
    pub(crate) fn list(&self, machine: &Machine, endpoint: &str) -> Result<Vec<Member>, OpError> {
        self.listed(machine, endpoint, false)
    }

    fn listed(&self, machine: &Machine, endpoint: &str, linearizable: bool) -> Result<Vec<Member>, OpError> {
        let body = format!("{{\"linearizable\":{linearizable}}}");
        let answer = self.call(machine, endpoint, "cluster/member/list", &body)?;
        let members = answer["members"].as_array().cloned().unwrap_or_default();
        Ok(members.iter().map(Member::of).collect())
    }

    /// Removes the member with this id.
    pub(super) fn remove(&self, machine: &Machine, endpoint: &str, id: &str) -> Result<(), OpError> {
        self.change(machine, endpoint, ("remove", &serde_json::json!({"ID": id})), (UNHEALTHY, SETTLES_S))
    }

    /// Changes the list of members. Tried again, so many seconds, while etcd answers with that: it allows no change of members until all of
    /// them have been connected for five seconds (`HealthInterval`), so not right after a join.
    pub(super) fn change(
        &self,
        machine: &Machine,
        endpoint: &str,
        (verb, body): (&str, &Value),
        (passes, mut left): (&str, u32),
    ) -> Result<(), OpError> {
        loop {
            match self.call(machine, endpoint, &format!("cluster/member/{verb}"), &body.to_string()) {
                Err(error) if left > 0 && error.full().contains(passes) => {
                    left -= 1;
                    // A machine that is only a directory has no time to pass.
                    if machine.is_real() {
                        std::thread::sleep(std::time::Duration::from_secs(1));
                    }
                }
                answer => return answer.map(drop),
            }
        }
    }

    /// The status of the member at this endpoint.
    pub(crate) fn status(&self, machine: &Machine, endpoint: &str) -> Result<Status, OpError> {
        let (answer, date) = self.call_dated(machine, endpoint, "maintenance/status", "{}")?;
        let leader = answer["leader"].as_str().is_some_and(|leader| !matches!(leader, "" | "0"));
        let errors = answer["errors"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let errors: Vec<&str> = errors.chain((!leader).then_some("it has no leader")).collect();
        let trouble = (!errors.is_empty()).then(|| errors.join(", "));
        let version = answer["version"].as_str().unwrap_or_default().to_owned();
        let id = |of: &str| answer.pointer(&format!("/header/{of}")).and_then(Value::as_str).map(str::to_owned);
        let (cluster, member) = (id("cluster_id"), id("member_id"));
        let number = |name: &str| answer[name].as_str().and_then(|text| text.parse().ok());
        let database = number("dbSize").zip(number("dbSizeInUse"));
        let database = database.map(|(size, in_use)| EtcdDatabase { size, in_use, quota: number("dbSizeQuota") });
        Ok(Status { version, cluster, member, trouble, database, ahead_s: date.as_deref().and_then(ahead_s) })
    }

    pub(crate) fn call(&self, machine: &Machine, endpoint: &str, verb: &str, body: &str) -> Result<Value, OpError> {
        self.call_dated(machine, endpoint, verb, body).map(|(value, _)| value)
    }

    /// The answer, and when it was given by the member's own clock.
    fn call_dated(
        &self,
        machine: &Machine,
        endpoint: &str,
        verb: &str,
        body: &str,
    ) -> Result<(Value, Option<String>), OpError> {
        let url = format!("{endpoint}/v3/{verb}");
        let (ca, certificate, key) = (&*self.ca, &*self.certificate, &*self.key);
        let (content, accept, over) = (None, None, None);
        let request =
            HttpsRequest { method: "POST", url: &url, ca, certificate, key, login: None, body, content, accept, over };
        let HttpsAnswer { status, date, body: answer } = machine.system().https_request(&request)?;
        let value: Value = serde_json::from_slice(&answer).unwrap_or_default();
        if status == 200 {
            return Ok((value, date));
        }
        let said = value["message"].as_str().or(value["error"].as_str()).unwrap_or("no reason given");
        Err(OpError::other(format!("{url} answers {status}: {said}")))
    }
}

impl Member {
    fn of(value: &Value) -> Self {
        let texts = |key: &str| {
            let list = value[key].as_array().cloned().unwrap_or_default();
            list.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect()
        };
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        Self {
            id: text("ID"),
            name: text("name"),
            peers: texts("peerURLs"),
            clients: texts("clientURLs"),
            learner: value["isLearner"].as_bool().unwrap_or(false),
        }
    }

    fn is(&self, own: &[String]) -> bool {
        self.peers.iter().any(|peer| own.contains(peer))
    }
}

/// By how much a clock is ahead of this host's, by the header of an answer that came just now; whole seconds.
fn ahead_s(date: &str) -> Option<i64> {
    let theirs = OffsetDateTime::parse(date, &Rfc2822).ok()?;
    Some(theirs.unix_timestamp() - OffsetDateTime::now_utc().unix_timestamp())
}

/// None if there is no etcd of kubeadm.
pub(crate) fn client(machine: &Machine) -> Result<Option<Client>, OpError> {
    Ok(of_kubeadm(machine)?.map(|(client, _)| client))
}

fn of_kubeadm(machine: &Machine) -> Result<Option<(Client, [String; 3])>, OpError> {
    for path in CLIENTS {
        let files = [CA.to_owned(), format!("{path}.crt"), format!("{path}.key")];
        if let Some(client) = Client::of_files(machine, &files)? {
            return Ok(Some((client, files)));
        }
    }
    Ok(None)
}

/// How this host reaches etcd, whoever runs it.
pub(crate) struct Reach {
    pub client: Client,
    /// Its CA, certificate and key, as files of the host.
    pub files: [String; 3],
    /// URLs of members, this host's first.
    pub endpoints: Vec<String>,
}

/// With kubeadm's etcd by this host's member; else as its API server does. None on a host that has neither.
pub(crate) fn reach(machine: &Machine) -> Result<Option<Reach>, OpError> {
    // kubeadm's documentation gives the files for an etcd of others the names of kubeadm's own.
    let local = |access: EtcdAccess| access.endpoints.is_empty() || access.endpoints.iter().any(|url| url == LOCAL);
    let is_kubeadms = api_server_etcd::access(machine)?.is_none_or(local);
    if let Some((client, files)) = of_kubeadm(machine)?.filter(|_| is_kubeadms) {
        return Ok(Some(Reach { client, files, endpoints: vec![LOCAL.to_owned()] }));
    }
    as_api_server(machine)
}

/// As this host's API server reaches it.
pub(crate) fn as_api_server(machine: &Machine) -> Result<Option<Reach>, OpError> {
    let Some(access) = api_server_etcd::access(machine)?.filter(|access| !access.endpoints.is_empty()) else {
        return Ok(None);
    };
    let (files, endpoints) = (access.files().map(str::to_owned), access.endpoints);
    Ok(Client::of_files(machine, &files)?.map(|client| Reach { client, files, endpoints }))
}

/// The same; a host that has a member of an etcd of kubexm's asks that, also where no API server runs.
pub(crate) fn own(machine: &Machine) -> Result<Option<Reach>, OpError> {
    let files = [etcd::CA, etcd::ADMIN_CERT, etcd::ADMIN_KEY].map(str::to_owned);
    match Client::of_files(machine, &files)?.filter(|_| etcd_unit::has_member(machine)) {
        Some(client) => Ok(Some(Reach { client, files, endpoints: vec![LOCAL.to_owned()] })),
        None => reach(machine),
    }
}

/// The range of all keys that begin with a text, as the gateway takes it.
pub(crate) fn range_of(prefix: &str) -> (String, String) {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last = last.saturating_add(1);
    }
    (BASE64.encode(prefix), BASE64.encode(end))
}

/// Peer URLs of this host: that of its own flag, and those of all its addresses. A join that was interrupted before it
/// wrote the static pod has its member in the list too.
fn own_peers(machine: &Machine) -> Result<Vec<String>, OpError> {
    let manifest = fsio::read_text(&machine.path(MANIFEST))?.unwrap_or_default();
    let mut own: Vec<String> = flag(&manifest, "initial-advertise-peer-urls").into_iter().collect();
    for interface in machine.system().interfaces()? {
        for address in &interface.addresses {
            let ip = address.split('/').next().unwrap_or(address);
            if !ip.starts_with("127.") && ip != "::1" {
                own.push(if ip.contains(':') { format!("https://[{ip}]:2380") } else { format!("https://{ip}:2380") });
            }
        }
    }
    Ok(own)
}

/// What pods of etcd say of themselves: kubeadm's are one on each node, with one address. Root on a worker can make one that looks so: no
/// more than one address is asked for it.
fn advertised(pods: &Value) -> impl Iterator<Item = String> + '_ {
    let of_node = |pod: &Value| {
        let node = pod["spec"]["nodeName"].as_str()?;
        let urls = &pod["metadata"]["annotations"]["kubeadm.kubernetes.io/etcd.advertise-client-urls"];
        let url = urls.as_str()?.split(',').next()?.to_owned();
        (pod["metadata"]["name"].as_str() == Some(format!("etcd-{node}").as_str())).then_some(url)
    };
    pods["items"].as_array().into_iter().flatten().filter_map(of_node)
}

/// Endpoints of etcd: this host, the members that the static pod was started with, and those that the API server knows.
fn endpoints(machine: &Machine) -> Result<Vec<String>, OpError> {
    let mut found = vec![LOCAL.to_owned()];
    let manifest = fsio::read_text(&machine.path(MANIFEST))?.unwrap_or_default();
    let initial = flag(&manifest, "initial-cluster").unwrap_or_default();
    found.extend(initial.split(',').filter_map(|m| m.split_once('=')).map(|(_, url)| url.replace(":2380", ":2379")));
    if kube::has_admin_conf(machine) {
        let get = ["get", "-o", "json", "pods", "--namespace", "kube-system", "--selector", "component=etcd"];
        // Without an API server the other two sources must be sufficient.
        if let Ok(output) = machine.try_run(&kubectl(get).within(20))
            && let Ok(pods) = serde_json::from_slice::<Value>(&output.stdout)
        {
            found.extend(advertised(&pods));
        }
    }
    let mut unique = Vec::new();
    for endpoint in found {
        if !unique.contains(&endpoint) {
            unique.push(endpoint);
        }
    }
    Ok(unique)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_a_member_is_in_the_header_of_its_answer() {
        let now = OffsetDateTime::now_utc();
        let header = |ahead_s: i64| {
            let at = now + time::Duration::seconds(ahead_s);
            let format = time::macros::format_description!(
                "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT"
            );
            at.format(&format).unwrap()
        };
        let near = |header: &str, wanted: i64| ahead_s(header).unwrap().abs_diff(wanted) <= 1;
        assert!(near(&header(0), 0) && near(&header(86_400), 86_400) && near(&header(-30), -30), "{}", header(0));
        assert_eq!(ahead_s("yesterday"), None);
    }

    #[test]
    fn of_each_node_one_address_is_asked() {
        let pod = |name: &str, node: &str, urls: &str| {
            serde_json::json!({
                "metadata": {"name": name, "annotations": {"kubeadm.kubernetes.io/etcd.advertise-client-urls": urls}},
                "spec": {"nodeName": node},
            })
        };
        let many: Vec<String> = (0..200).map(|at| format!("https://10.9.9.{at}:2379")).collect();
        let pods = [
            pod("a-etcd", "worker", "https://10.9.9.1:2379"),
            pod("etcd-worker", "worker", &many.join(",")),
            pod("etcd-cp1", "cp1", "https://10.0.0.1:2379"),
        ];
        let pods = serde_json::json!({ "items": pods });
        assert_eq!(advertised(&pods).collect::<Vec<_>>(), ["https://10.9.9.0:2379", "https://10.0.0.1:2379"]);
    }

    #[test]
    fn a_range_ends_before_the_next_prefix() {
        let (from, to) = range_of("/registry/");
        let text = |encoded: &str| String::from_utf8(BASE64.decode(encoded).unwrap_or_default()).unwrap_or_default();
        assert_eq!((text(&from), text(&to)), ("/registry/".to_owned(), "/registry0".to_owned()));
    }
}
