//! What a host answers for others, or without an end, is refused or cut.

use std::net::IpAddr;

use kubexm_plan::cluster_facts::{EtcdMember, Gap, NodeFacts, TightBudget, TimerFacts};
use kubexm_plan::op::StateDir;
use kubexm_plan::{ClusterFacts, Difference, Undo};

use super::*;

fn step(host: &str, name: &str) -> Step {
    Step::on(host, name, "Do").undo(Undo::Nothing).build()
}

fn survey(ids: &[&str]) -> Survey {
    Survey { holding: ids.iter().map(|id| StepId((*id).to_owned())).collect(), past: String::new() }
}

#[test]
fn a_host_may_report_only_its_own_requested_steps() {
    let (own, other) = (step("a", "os.swap"), step("b", "os.swap"));
    let asked = [&own, &other];
    assert!(surveyed("a", &asked, survey(&[])).is_ok());
    assert!(surveyed("a", &asked, survey(&["a/os.swap"])).is_ok());
    for lie in ["b/os.swap", "a/os.hosts", "", "a/\u{1b}[2J"] {
        let error = surveyed("a", &asked, survey(&["a/os.swap", lie])).expect_err(lie).to_string();
        assert!(error.starts_with("a: ") && !error.contains('\u{1b}'), "{error}");
    }
    assert!(surveyed("a", &[], survey(&["a/os.swap"])).is_err(), "it was asked about nothing");
}

/// It is kept in the operator's home.
#[test]
fn what_stands_for_the_past_of_a_host_has_an_end() {
    let of = |past: String| surveyed("a", &[], Survey { past, ..survey(&[]) });
    assert!(of("0".repeat(64)).is_ok());
    assert!(of("0".repeat(1 << 20)).is_err());
}

#[test]
fn what_no_cluster_has_is_not_gone_over() {
    let good = ClusterFacts::default();
    let node = |at: usize| NodeFacts { name: format!("n{at}"), ..NodeFacts::default() };
    let gap = |at: usize| Gap { host: "a".to_owned(), what: at.to_string(), why: String::new() };
    let member = |at: usize| EtcdMember {
        id: at.to_string(),
        name: String::new(),
        peer_urls: Vec::new(),
        version: None,
        healthy: true,
        learner: false,
        database: None,
    };
    let budget = |at: usize| TightBudget { name: format!("a/{at}"), pods: 1, healthy: 1, wanted: 1 };
    let of = |facts: ClusterFacts| cluster_facts("a", facts);
    let nodes = |count: usize| ClusterFacts { nodes: (0..count).map(node).collect(), ..good.clone() };
    assert!(of(nodes(20_000)).is_ok());
    let error = of(nodes(20_001)).expect_err("too many").to_string();
    assert!(error.contains("20001 nodes"), "{error}");
    assert!(of(ClusterFacts { etcd: (0..1_001).map(member).collect(), ..good.clone() }).is_err());
    let twice = ClusterFacts { nodes: vec![node(1), node(1)], ..good.clone() };
    assert!(of(twice).is_err(), "a node is there once");
    // Users make budgets, and whatever fails is a gap: no reason to believe nothing else.
    let facts = of(ClusterFacts { tight_budgets: (0..30_000).map(budget).collect(), ..good.clone() }).expect("facts");
    assert_eq!((facts.tight_budgets.len(), facts.gaps.len()), (10_000, 1));
    let facts = of(ClusterFacts { gaps: (0..30_000).map(gap).collect(), ..good.clone() }).expect("facts");
    assert_eq!(facts.gaps.len(), 1_000);
    let long = NodeFacts { kubelet: "v".repeat(1 << 20), ..node(1) };
    let facts = of(ClusterFacts { nodes: vec![long], ..good }).expect("facts");
    assert!(facts.nodes[0].kubelet.len() < 2 * LONGEST_LINE);
}

#[test]
fn what_a_probe_saw_and_texts_in_facts_have_an_end() {
    let seen = probed(ProbeAnswer { holds: false, seen: "x".repeat(1 << 20) }).seen;
    assert!(seen.len() < LONGEST_ERROR + 100, "{}", seen.len());
    let found = crate::sim::facts("a");
    let sealed = |length: usize| {
        let sealed_authorities = Some("x".repeat(length));
        facts("a", &Facts { sealed_authorities, ..found.clone() })
    };
    let config = |length: usize| {
        let kubeadm_config_text = Some("x".repeat(length));
        facts("a", &Facts { kubeadm_config_text, ..found.clone() })
    };
    assert!(facts("a", &found).is_ok());
    assert!(sealed(Facts::SEALED_MOST).is_ok() && sealed(Facts::SEALED_MOST + 1).is_err());
    assert!(config(Facts::KUBEADM_CONFIG_MOST).is_ok());
    let error = config(Facts::KUBEADM_CONFIG_MOST + 1).expect_err("a long config").to_string();
    assert!(error.starts_with("a: its configuration of kubeadm is longer than any"), "{error}");
}

#[test]
fn a_host_reports_differences_of_its_own_steps_only() {
    let (own, other) = (step("a", "os.swap"), step("b", "os.swap"));
    let differs = |id: &str| StepDrift { step: StepId(id.to_owned()), differences: Vec::new() };
    assert!(drift("a", &[&own, &other], vec![differs("a/os.swap")]).is_ok());
    for lie in ["b/os.swap", "a/os.hosts", "a/\u{1b}[2J"] {
        let error = drift("a", &[&own, &other], vec![differs(lie)]).expect_err(lie).to_string();
        assert!(error.starts_with("a: ") && !error.contains('\u{1b}'), "{error}");
    }
}

#[test]
fn states_that_nobody_could_read_again_are_not_taken() {
    let step = Step::on("a", "os.x", "Do").ensure(StateDir::at("/var/lib/x")).undo(Undo::RestoreBefore).build();
    let state = |state: serde_json::Value| vec![ObservedState::opaque(&state, false)];
    let absent = serde_json::json!({"path": "/var/lib/x", "entry": {"is": "absent"}});
    let left = AtomicUsize::new(MOST_OF_A_RUN);
    let observed = |found| observed("a", &step, found, &left);
    assert!(observed(state(absent.clone())).is_ok());
    let holds = |names: Vec<String>| {
        let mut folder = absent.clone();
        folder["held"] = names.into();
        state(folder)
    };
    let (large, dear) = (holds(vec!["x".repeat(MOST_OF_STATES)]), holds(vec![String::new(); 2_000_000]));
    for lie in [vec![], state(serde_json::json!([{"": 0}])), large, dear] {
        let error = observed(lie).expect_err("a lie");
        assert!(matches!(error, LinkError::Untrusted { .. }) && error.to_string().starts_with("a: "), "{error}");
    }
    let names = vec!["x".repeat(MOST_OF_STATES / 2)];
    let taken = (0..20).take_while(|_| observed(holds(names.clone())).is_ok()).count();
    assert_eq!(taken, 10, "there is an end to what a run keeps of a host");
}

#[test]
fn texts_of_a_host_have_an_end() {
    assert_eq!(log("short".to_owned()), "short");
    let long = log(format!("{}the end", "é".repeat(LONGEST_LOG)));
    assert!(long.len() < LONGEST_LOG + 100 && long.starts_with("... ") && long.ends_with("the end"));
    let files = evidence(vec![("n".to_owned(), "x".repeat(LONGEST_LOG + 1)); MOST_FILES + 1]);
    assert!(files.len() == MOST_FILES && files[0].1.starts_with("... 1 bytes"));
    assert!(error("é".repeat(LONGEST_ERROR)).len() <= LONGEST_ERROR + 3);
    let record = |n| (format!("b{n}"), String::new());
    let of = |n| DepotContent { unreadable: (0..n).map(record).collect(), ..DepotContent::default() };
    assert!(depot("a", of(MOST_RECORDS)).is_ok() && depot("a", of(MOST_RECORDS + 1)).is_err());
}

#[test]
fn reasons_of_a_host_are_few_short_and_printable() {
    let of_host = vec!["é".repeat(10_000), "a\u{1b}[2Jb".to_owned(), "c".to_owned(), "d".to_owned(), "e".to_owned()];
    let reasons = reasons(of_host);
    assert_eq!(reasons.len(), 4);
    assert!(reasons.iter().all(|reason| reason.len() <= 303 && !reason.contains('\u{1b}')), "{reasons:?}");
    assert_eq!(reasons[2], "c");
}

#[test]
fn what_a_host_reports_does_not_push_the_question_out_of_sight() {
    let step = step("a", "os.swap");
    let difference = |lines: usize| Difference {
        what: "é".repeat(10_000),
        how: "x".repeat(10_000),
        diff: Some(format!("+{}\n", "y".repeat(10_000)).repeat(lines)),
    };
    let lie = StepDrift { step: step.id.clone(), differences: vec![difference(5_000); 300] };
    let kept = drift("a", &[&step], vec![lie]).expect("shortened").remove(0).differences;
    assert_eq!(kept.len(), MOST_DIFFERENCES);
    let one = &kept[0];
    assert!(one.what.len() <= LONGEST_LINE + 3 && one.how.len() <= LONGEST_LINE + 3);
    let diff = one.diff.as_deref().expect("a diff");
    assert_eq!(diff.lines().count(), MOST_LINES + 1);
    assert!(diff.ends_with("... 4879 more lines") && diff.lines().all(|line| line.len() <= LONGEST_LINE + 3));
    // What an agent sends is kept as it is.
    let honest = format!("{}... 7 more lines", "-a\n".repeat(120));
    let differences = vec![Difference { what: "/etc/x".to_owned(), how: "+1".to_owned(), diff: Some(honest.clone()) }];
    let sent = vec![StepDrift { step: step.id.clone(), differences }];
    assert_eq!(drift("a", &[&step], sent).expect("kept")[0].differences[0].diff.as_deref(), Some(honest.as_str()));
}

#[test]
fn a_host_answers_once_for_a_step_and_all_its_lines_have_a_limit() {
    let steps: Vec<Step> = (0..60).map(|n| step("a", &format!("os.s{n}"))).collect();
    let asked: Vec<&Step> = steps.iter().collect();
    let answer = |step: &Step| StepDrift {
        step: step.id.clone(),
        differences: vec![Difference { what: "x".into(), how: "y".into(), diff: Some("+\n".repeat(120)) }],
    };
    let kept = drift("a", &asked, asked.iter().map(|step| answer(step)).collect()).expect("shortened");
    let lines = kept.iter().flat_map(|one| &one.differences).filter_map(|one| one.diff.as_deref());
    assert!(lines.map(|diff| diff.lines().count()).sum::<usize>() < MOST_LINES_OF_ALL + 200);
    assert_eq!(kept.len(), 60, "every difference is named");
    assert!(drift("a", &asked, vec![answer(&steps[0]), answer(&steps[0])]).is_err());
}

#[test]
fn a_host_may_report_only_its_own_files() {
    let gap = |host: &str| Gap { host: host.to_owned(), what: "w".to_owned(), why: "y".to_owned() };
    let facts = |host: &str| ClusterFacts { gaps: vec![gap(host)], ..ClusterFacts::default() };
    assert!(cluster_facts("a", facts("a")).is_ok());
    let timer = |host: &str| TimerFacts { host: host.to_owned(), timer: "t".to_owned(), waits: true, last: None };
    let timers = |host: &str| ClusterFacts { timers: vec![timer(host)], ..ClusterFacts::default() };
    assert!(cluster_facts("a", timers("a")).is_ok());
    assert!(cluster_facts("a", timers("cp1")).is_err(), "a worker says that a control plane's timer ran");
    let error = cluster_facts("a", facts("b\u{1b}")).expect_err("a lie").to_string();
    assert!(error.starts_with("a: ") && !error.contains('\u{1b}'), "{error}");
}

#[test]
fn names_in_a_registry_are_no_longer_than_they_can_be() {
    use kubexm_plan::depot::RecordedBundle;
    use kubexm_spec::Digest;
    use kubexm_spec::depot::{DepotConfig, Repository, SCHEMA, Tls};
    let config = |name: &str, tag: &str, file: &str| DepotConfig {
        schema: SCHEMA.to_owned(),
        listen: ([0, 0, 0, 0], 5443).into(),
        store: "/s".to_owned(),
        tls: Tls { cert: String::new(), key: String::new() },
        login: None,
        images: [(
            name.to_owned(),
            Repository { tags: [(tag.to_owned(), Digest::of("x"))].into(), ..Repository::default() },
        )]
        .into(),
        files: [(file.to_owned(), Digest::of("x"))].into(),
        packages: None,
    };
    let bundle = |content| RecordedBundle { digest: Digest::of("x"), written: 0, content };
    let long = "x".repeat(LONGEST_SERVED + 1);
    let good = config("a.b/c", "1", "kubeadm");
    let now = |content| DepotContent { config: Some(content), ..DepotContent::default() };
    let record = |name: &str, content| DepotContent {
        bundles: [(name.to_owned(), bundle(content))].into(),
        ..now(good.clone())
    };
    let mut odd = record("v1-x", good.clone());
    odd.unreadable = [("/a".to_owned(), "x".repeat(1 << 20))].into();
    assert!(depot("a", odd).expect("good").unreadable["/a"].len() < 2 * LONGEST_LINE);
    let wide = |count: usize| {
        let mut content = config(&"x".repeat(LONGEST_SERVED), "1", "f");
        let tags = &mut content.images.values_mut().next().expect("a repository").tags;
        tags.extend((0..count).map(|at| (at.to_string(), Digest::of("x"))));
        now(content)
    };
    assert!(depot("a", wide(1_000)).is_ok());
    for lie in [
        wide(500_000),
        now(config(&long, "1", "f")),
        now(config("a.b/c", &long, "f")),
        now(config("a.b/c", "1", &long)),
        record("v1-x", config(&long, "1", "f")),
        record(&long, good.clone()),
        DepotContent { left: [("v1-x".to_owned(), bundle(config(&long, "1", "f")))].into(), ..now(good.clone()) },
        DepotContent { unreadable: [(long.clone(), String::new())].into(), ..now(good.clone()) },
    ] {
        let error = depot("a", lie).expect_err("a lie").to_string();
        assert!(error.starts_with("a: ") && error.len() < 300, "{error}");
    }
}

#[test]
fn a_host_must_report_every_requested_connection() {
    let port = mesh::Port { protocol: mesh::Protocol::Tcp, number: 6443 };
    let dial = |to: &str| mesh::ConnectionCheck {
        to: to.to_owned(),
        address: IpAddr::from([10, 0, 0, 1]),
        port,
        pod: None,
        authority: None,
        router: None,
    };
    let answer =
        |to: &str| mesh::ConnectionResult { dial: dial(to), blocked: None, neighbour: None, routers: Vec::new() };
    let asked = [dial("b"), dial("c")];
    assert!(dialed("a", &asked, vec![answer("b"), answer("c")]).is_ok());
    for lie in [vec![], vec![answer("b")], vec![answer("b"), answer("d")], vec![answer("b"), answer("c"), answer("c")]]
    {
        assert!(dialed("a", &asked, lie).is_err());
    }
    let long = || Some("x".repeat(1 << 20));
    let answer = mesh::ConnectionResult { dial: dial("b"), blocked: long(), neighbour: long(), routers: Vec::new() };
    let kept = dialed("a", &asked[..1], vec![answer]).expect("an answer");
    let longest = kept[0].blocked.iter().chain(&kept[0].neighbour).map(String::len).max();
    assert!(longest < Some(2 * LONGEST_LINE), "what it says of one has an end");
}

#[test]
fn a_value_that_goes_to_other_hosts_can_add_nothing_to_their_configuration() {
    let host = || "cp".to_owned();
    let (token, hash, key) = (
        SlotProvider::JoinToken { host: host() },
        SlotProvider::CaCertHash { host: host() },
        SlotProvider::UploadKey { host: host() },
    );
    let digest = "0123456789abcdef".repeat(4);
    let good =
        [(&token, "abcdef.0123456789abcdef".to_owned()), (&hash, format!("sha256:{digest}")), (&key, digest.clone())];
    for (provider, value) in &good {
        assert_eq!(provided("cp", provider, value.clone().into_bytes()).unwrap(), value.as_bytes());
        for lie in [String::new(), format!("{value}\nx: y"), format!("{value} "), value.to_uppercase(), "é".repeat(32)]
        {
            let error = provided("cp", provider, lie.clone().into_bytes()).expect_err(&lie).to_string();
            assert!(lie.is_empty() || !error.contains(&lie), "a secret is shown: {error}");
        }
    }
    assert!(provided("cp", &SlotProvider::REGISTRY_CA, b"x".to_vec()).is_err());
}

#[test]
fn a_kubelets_certificate_is_one_certificate_with_one_key() {
    let provider = SlotProvider::KubeletClient { host: "cp".to_owned(), node: "node1".to_owned() };
    let block = |tag: &str| format!("-----BEGIN {tag}-----\nAAAA\n-----END {tag}-----\n");
    let (certificate, key) = (block("CERTIFICATE"), block("EC PRIVATE KEY"));
    assert!(provided("cp", &provider, format!("{certificate}{key}").into_bytes()).is_ok());
    for lie in [String::new(), certificate.clone(), key.clone(), format!("{key}{certificate}"), certificate.repeat(2)] {
        let error = provided("cp", &provider, lie.into_bytes()).expect_err("a lie").to_string();
        assert!(error.contains("client certificate") && !error.contains("AAAA"), "{error}");
    }
}

#[test]
fn a_file_that_control_planes_share_is_what_its_name_says_and_nothing_more() {
    let block = |tag: &str| format!("-----BEGIN {tag}-----\nAAAA\n-----END {tag}-----\n");
    let of = |path: &str| SlotProvider::SharedFile { host: "cp".to_owned(), path: path.to_owned() };
    for (path, tag) in
        [("/pki/sa.key", "EC PRIVATE KEY"), ("/pki/sa.pub", "PUBLIC KEY"), ("/pki/ca.crt", "CERTIFICATE")]
    {
        assert!(provided("cp", &of(path), block(tag).into_bytes()).is_ok(), "{path}");
        let other = if tag == "CERTIFICATE" { "PRIVATE KEY" } else { "CERTIFICATE" };
        for lie in
            [String::new(), "AAAA".to_owned(), block(other), block(tag).repeat(2), block(tag) + &"x".repeat(40_000)]
        {
            let error = provided("cp", &of(path), lie.into_bytes()).expect_err("a lie").to_string();
            assert!(error.contains("file of a control plane") && !error.contains("AAAA"), "{error}");
        }
    }
}

#[test]
fn what_etcd_says_of_itself_has_an_end() {
    use kubexm_plan::etcd_check::EndpointAnswer;
    let (ca, certificate, prefix) = (String::new(), String::new(), "/registry".to_owned());
    let asked = EtcdAsk {
        endpoints: vec!["https://a:2379".to_owned()],
        ca,
        certificate,
        prefix,
        of: None,
        as_api_server: false,
    };
    let long = || "x".repeat(1 << 20);
    let endpoint =
        EndpointAnswer { endpoint: asked.endpoints[0].clone(), trouble: Some(long()), ..EndpointAnswer::default() };
    let answer = EtcdAnswer {
        endpoints: vec![endpoint],
        members: Some(vec![long(); 500]),
        why: Some(long()),
        ..EtcdAnswer::default()
    };
    let answer = EtcdAnswer { keys_of: Some(kubexm_plan::etcd_check::KeysOf::Shared(long())), ..answer };
    let kept = etcd("n1", &asked, answer).expect("an answer");
    let folder = match &kept.keys_of {
        Some(kubexm_plan::etcd_check::KeysOf::Shared(folder)) => folder.len(),
        _ => 0,
    };
    assert!((1..2 * LONGEST_LINE).contains(&folder));
    let longest =
        kept.members.iter().flatten().chain(&kept.why).chain(&kept.endpoints[0].trouble).map(String::len).max();
    assert!(longest < Some(2 * LONGEST_LINE) && kept.members.map(|all| all.len()) == Some(MOST_MEMBERS));
}
