//! A running cluster as tables.

use std::collections::HashSet;

use kubexm_engine::clock::rfc3339;
use kubexm_plan::ClusterFacts;
use kubexm_plan::cluster_facts::{
    BALANCER, Certificate, EtcdAdvice, EtcdDatabase, EtcdMember, HOST, NodeFacts, TimerFacts,
};
use kubexm_plan::timers::TimerRun;
use kubexm_session::escaped;
use kubexm_spec::amount;
use serde_json::Value;

use super::table::table;

/// For people. What hosts answered is shown escaped. `now` is Unix time in seconds; certificates that end within
/// `soon` seconds are named one by one.
pub fn text(name: &str, facts: &ClusterFacts, now: i64, soon: i64) -> String {
    let id = facts.id.map_or_else(|| "without an id".to_owned(), |id| format!("id {id}"));
    let version = facts.server_version.as_deref().unwrap_or("which does not answer");
    let mut lines = vec![format!("cluster {name}, {id}: Kubernetes {version}")];
    if let Some(network) = &facts.network {
        let applied = facts.applied.as_ref().and_then(|applied| applied.cluster.pointer("/spec/network/multus"));
        let before = if applied.is_some_and(|multus| *multus == true) { ", with multus before it" } else { "" };
        lines.push(format!("  network: {network}{before}"));
    }
    if let Some(applied) = &facts.applied {
        lines.push(format!(
            "  applied: cluster.yaml {}, bundle {}, by {}",
            applied.cluster_sha256, applied.bundle.manifest, applied.program
        ));
    }
    if !facts.nodes.is_empty() {
        let head = ["node", "status", "roles", "kubelet", "runtime", "system"].map(str::to_owned);
        lines.extend(table(std::iter::once(head).chain(facts.nodes.iter().map(node))));
    }
    if !facts.etcd.is_empty() {
        let head = ["etcd member", "id", "version", "database", "in use", "status"].map(str::to_owned);
        let members = facts.etcd.iter().map(|member| {
            let status = match (member.healthy, member.learner) {
                (true, false) => "healthy",
                (true, true) => "healthy, learner",
                (false, _) => "NOT HEALTHY",
            };
            let version = member.version.clone().unwrap_or_else(|| "-".to_owned());
            let bytes = |of: fn(&EtcdDatabase) -> u64| member.database.map_or("-".to_owned(), |one| amount(of(&one)));
            let [database, in_use] = [bytes(|one| one.size), bytes(|one| one.in_use)];
            [member.name.clone(), member.id.clone(), version, database, in_use, status.to_owned()]
        });
        lines.extend(table(std::iter::once(head).chain(members)));
        lines.extend(facts.etcd.iter().filter_map(database));
    }
    lines.extend(balancers(facts));
    let not_ready = facts.components.iter().filter(|component| !component.ready);
    lines.extend(not_ready.map(|component| format!("  {} on {} is NOT READY", component.name, component.node)));
    lines.extend(certificates(&facts.certificates, now, soon));
    lines.extend(timers(&facts.timers));
    lines.extend(facts.gaps.iter().map(|gap| format!("  not seen: {} of {}: {}", gap.what, gap.host, gap.why)));
    lines.iter().map(|line| escaped(line)).collect::<Vec<_>>().join("\n")
}

/// What to do about the database of a member.
fn database(member: &EtcdMember) -> Option<String> {
    let database = member.database?;
    let name = &member.name;
    Some(match database.advice()? {
        EtcdAdvice::Defragment => format!(
            "  much of the database of etcd member {name} is free: defragment it (`etcdctl defrag`), one member after the other and the \
             leader last"
        ),
        EtcdAdvice::RaiseQuota => format!(
            "  THE DATABASE of etcd member {name} IS NEARLY FULL ({} in use of at most {}): look for what fills it, or raise \
             `spec.etcd.quota`",
            amount(database.in_use),
            database.quota.map_or("-".to_owned(), amount)
        ),
    })
}

fn node(node: &NodeFacts) -> [String; 6] {
    let mut status = if node.ready { "Ready".to_owned() } else { "NotReady".to_owned() };
    if node.unschedulable {
        status.push_str(",SchedulingDisabled");
    }
    let roles = if node.roles.is_empty() { "-".to_owned() } else { node.roles.join(",") };
    let runtime = format!("{} {}", node.runtime, node.runtime_version);
    [node.name.clone(), status, roles, node.kubelet.clone(), runtime, node.os_image.clone()]
}

/// The hosts of the load balancer, and what is wrong with its address: exactly one of them has it.
fn balancers(facts: &ClusterFacts) -> Vec<String> {
    let all = &facts.balancers;
    if all.is_empty() {
        return Vec::new();
    }
    let head = ["load balancer", "address", "status"].map(str::to_owned);
    let rows = all.iter().map(|one| {
        let holds = if one.holds { "has the address" } else { "standby" };
        let status = match one.stopped.as_slice() {
            [] => holds.to_owned(),
            stopped => format!("{holds}, NOT RUNNING: {}", stopped.join(", ")),
        };
        [one.host.clone(), one.address.clone(), status]
    });
    let mut lines = table(std::iter::once(head).chain(rows));
    let silent = silent_balancers(facts);
    match (all.iter().filter(|one| one.holds).count(), silent.as_slice()) {
        (0, []) => lines.push("  NO HOST has the load balancer's address".to_owned()),
        (0, silent) => lines.push(format!(
            "  no host that answered has the load balancer's address: it is not known whether {} has it",
            silent.join(" or ")
        )),
        (1, _) => {}
        (many, _) => lines.push(format!(
            "  {many} HOSTS HAVE the load balancer's address: they do not hear each other (VRRP, protocol 112), or a kube-vip that was killed has kept it"
        )),
    }
    lines
}

/// Hosts that may have the load balancer's address and did not answer: those of its role, as the record of the cluster has them.
fn silent_balancers(facts: &ClusterFacts) -> Vec<&str> {
    let applied = facts.applied.as_ref().map(|applied| &applied.cluster);
    let role = applied.and_then(|cluster| {
        let external = cluster.pointer("/spec/loadBalancer/mode").is_some_and(|mode| mode == "external");
        let role = if external { "/spec/roleGroups/loadbalancer" } else { "/spec/roleGroups/master" };
        cluster.pointer(role)?.as_array()
    });
    // A control plane says what was applied, and hosts what they do not see: any number of both.
    let role: Option<HashSet<&str>> = role.map(|hosts| hosts.iter().filter_map(Value::as_str).collect());
    let of_role = |host: &str| role.as_ref().is_none_or(|hosts| hosts.contains(host));
    let silent = facts.gaps.iter().filter(|gap| [HOST, BALANCER].contains(&gap.what.as_str()));
    let mut hosts: Vec<&str> = silent.map(|gap| gap.host.as_str()).filter(|host| of_role(host)).collect();
    hosts.dedup();
    hosts
}

/// What each timer did last.
pub(super) fn timers(all: &[TimerFacts]) -> Vec<String> {
    let line = |one: &TimerFacts| {
        let waits = if one.waits { "" } else { " DOES NOT RUN;" };
        let last = match &one.last {
            None => "has not run yet".to_owned(),
            // What has recorded nothing has no time.
            Some(TimerRun { ended: 0, failed: true, what, .. }) => format!("FAILED: {what}"),
            Some(TimerRun { ended, failed: true, what, .. }) => format!("FAILED at {}: {what}", rfc3339(*ended)),
            Some(TimerRun { ended, what, .. }) => format!("{}: {what}", rfc3339(*ended)),
        };
        format!("  {} on {}:{waits} {last}", one.timer, one.host)
    };
    all.iter().map(line).collect()
}

/// The first that ends, and all that end soon.
fn certificates(all: &[Certificate], now: i64, soon: i64) -> Vec<String> {
    let Some(first) = all.iter().min_by_key(|certificate| certificate.ends) else { return Vec::new() };
    let shown = |one: &Certificate| {
        let days = one.ends.saturating_sub(now).div_euclid(24 * 3600);
        let when = if one.ends <= now { "HAS ENDED".to_owned() } else { format!("ends in {days} days") };
        format!("{} on {} {when}, {}", one.path, one.host, rfc3339(one.ends))
    };
    let mut lines = vec![format!("  certificates: {}, the first to end is {}", all.len(), shown(first))];
    let ending = all.iter().filter(|one| one.ends.saturating_sub(now) < soon && *one != first);
    lines.extend(ending.map(|one| format!("  certificate {}", shown(one))));
    lines
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kubexm_plan::BundleRecord;
    use kubexm_plan::cluster_facts::applied::{self, AppliedCluster};
    use kubexm_plan::cluster_facts::{BalancerFacts, EtcdDatabase, EtcdMember, Gap};
    use kubexm_spec::Digest;

    use super::*;

    const SOON: i64 = 90 * 24 * 3600;

    #[test]
    fn exactly_one_host_of_the_load_balancer_has_its_address() {
        let of = |host: &str, holds, stopped: &[&str]| BalancerFacts {
            host: host.to_owned(),
            address: "10.0.0.9".to_owned(),
            holds,
            stopped: stopped.iter().map(|unit| (*unit).to_owned()).collect(),
        };
        let facts = |all: &[BalancerFacts]| ClusterFacts { balancers: all.to_vec(), ..ClusterFacts::default() };
        let text = |all: &[BalancerFacts]| balancers(&facts(all)).join("\n");
        let good = text(&[of("lb1", true, &[]), of("lb2", false, &["kubexm-haproxy.service"])]);
        assert!(good.contains("has the address") && good.contains("NOT RUNNING: kubexm-haproxy.service"), "{good}");
        assert!(!good.contains("HAVE") && !good.contains("NO HOST"), "{good}");
        assert!(text(&[of("lb1", true, &[]), of("lb2", true, &[])]).contains("2 HOSTS HAVE"));
        assert!(text(&[of("lb1", false, &[])]).contains("NO HOST has the load balancer's address"));
        let unknown = |holds, what: &str| {
            let gap = |host: &str, what: &str| Gap { host: host.to_owned(), what: what.to_owned(), why: String::new() };
            let gaps = vec![gap("lb2", what), gap("w1", "host")];
            balancers(&ClusterFacts { gaps, applied: Some(record(&["lb1", "lb2"])), ..facts(&[of("lb1", holds, &[])]) })
                .join("\n")
        };
        let silent = unknown(false, "host");
        assert!(silent.ends_with("it is not known whether lb2 has it") && !silent.contains("NO HOST"), "{silent}");
        assert!(unknown(false, "load balancer").contains("whether lb2 has it"));
        assert!(!unknown(true, "host").contains("not known"));
        assert!(unknown(false, "timers").contains("NO HOST has"));
    }

    #[test]
    fn a_database_of_etcd_is_shown_with_what_to_do_about_it() {
        let text = |database| {
            let member = EtcdMember {
                id: "a1".to_owned(),
                name: "n1".to_owned(),
                peer_urls: Vec::new(),
                version: Some("3.6.5".to_owned()),
                healthy: true,
                learner: false,
                database,
            };
            text("lab", &ClusterFacts { etcd: vec![member], ..ClusterFacts::default() }, 0, SOON)
        };
        let of = |size: u64, in_use: u64, quota: Option<u64>| {
            let mib = |number: u64| number << 20;
            text(Some(EtcdDatabase { size: mib(size), in_use: mib(in_use), quota: quota.map(mib) }))
        };
        let says = |shown: &str| (shown.contains("etcdctl defrag"), shown.contains("NEARLY FULL"));
        assert_eq!(says(&text(None)), (false, false));
        assert_eq!(says(&of(24, 12, Some(2048))), (false, false), "small");
        assert_eq!(says(&of(400, 300, Some(2048))), (false, false), "in use");
        assert_eq!(says(&of(400, 100, None)), (true, false), "free");
        assert_eq!(says(&of(1700, 1200, Some(2048))), (true, false), "the file is near the quota");
        assert_eq!(says(&of(1900, 1800, Some(2048))), (false, true), "what is in use is");
        let shown = of(1700, 1200, Some(2048));
        assert!(shown.contains("1.6 GiB") && shown.contains("1.1 GiB"), "{shown}");
    }

    #[test]
    fn hosts_and_gaps_by_the_thousand_are_gone_over_once() {
        let gap = |at: usize| Gap { host: format!("h{at}"), what: "host".to_owned(), why: String::new() };
        let names: Vec<String> = (0..150_000).map(|at| format!("g{at}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let facts = ClusterFacts {
            gaps: (0..150_000).map(gap).collect(),
            applied: Some(record(&names)),
            ..ClusterFacts::default()
        };
        let begun = std::time::Instant::now();
        assert!(silent_balancers(&facts).is_empty());
        // 22,500 million comparisons.
        assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
    }

    /// The record of a cluster with these hosts of the load balancer.
    fn record(hosts: &[&str]) -> AppliedCluster {
        let cluster = serde_json::json!({
            "spec": {"loadBalancer": {"mode": "external"}, "roleGroups": {"loadbalancer": hosts, "master": ["cp1"], "worker": ["w1"]}},
        });
        let bundle = BundleRecord { manifest: Digest::of("m"), signers: BTreeSet::new(), date: None, sequence: None };
        AppliedCluster {
            schema: applied::SCHEMA.to_owned(),
            name: "demo".to_owned(),
            id: None,
            kubernetes: "v1.34.4".to_owned(),
            cluster_sha256: Digest::of("yaml"),
            cluster,
            bundle,
            program: "kubexm-install 0.1.0".to_owned(),
        }
    }

    #[test]
    fn nodes_members_expiry_and_gaps_are_shown_without_control_characters() {
        let node = NodeFacts {
            name: "cp1".to_owned(),
            roles: vec!["control-plane".to_owned()],
            kubelet: "v1.34.4".to_owned(),
            runtime: "containerd".to_owned(),
            runtime_version: "2.2.7".to_owned(),
            os_image: "evil\u{1b}[2J".to_owned(),
            kernel: String::new(),
            addresses: Vec::new(),
            ready: false,
            conditions: Vec::new(),
            unschedulable: true,
            cordoned_by: None,
            settings: None,
        };
        let member = EtcdMember {
            id: "a1".to_owned(),
            name: "cp1".to_owned(),
            peer_urls: Vec::new(),
            version: None,
            healthy: false,
            learner: false,
            database: None,
        };
        let certificate = |path: &str, ends| Certificate {
            host: "cp1".to_owned(),
            path: path.to_owned(),
            subject: String::new(),
            ends,
            file: None,
            leaf: None,
        };
        let now = 1_800_000_000;
        let facts = ClusterFacts {
            server_version: Some("v1.34.4".to_owned()),
            nodes: vec![node],
            etcd: vec![member],
            certificates: vec![
                certificate("/late", now + 10 * SOON),
                certificate("/soon", now + 86_400),
                certificate("/gone", now),
            ],
            gaps: vec![Gap { host: "w1".to_owned(), what: "host".to_owned(), why: "refused".to_owned() }],
            ..ClusterFacts::default()
        };
        let text = text("demo", &facts, now, SOON);
        for part in [
            "cluster demo, without an id: Kubernetes v1.34.4",
            "NotReady,SchedulingDisabled",
            "containerd 2.2.7",
            "NOT HEALTHY",
            "certificates: 3, the first to end is /gone on cp1 HAS ENDED",
            "certificate /soon on cp1 ends in 1 days",
            "not seen: host of w1: refused",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains('\u{1b}') && !text.contains("/late"), "{text}");
    }
}
