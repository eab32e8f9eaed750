//! What is asked of a real machine's API server without kubectl: which kinds it serves, and which objects an apply would change.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kubexm_charts::stored;
use kubexm_ops::real::RealSystem;
use kubexm_ops::{Converge, Machine, OpError, installed_addons};
use kubexm_plan::Texts;
use kubexm_plan::addons::AddonsAsk;
use kubexm_plan::op::{HelmRelease, Released};
use kubexm_spec::{Digest, rendering};
use rustls::{ServerConnection, StreamOwned};
use serde_json::{Value, json};

use crate::https;

/// Answers by method and path; what has none does not exist. Status 0: the connection ends without one.
type Answers = BTreeMap<String, (u16, Value)>;

/// What was asked: method and path, the media types of body and answer, and the body.
#[derive(Debug)]
struct Asked {
    what: String,
    content: String,
    accept: String,
    body: Vec<u8>,
}

struct Server {
    machine: Machine,
    _folder: tempfile::TempDir,
    connections: Arc<AtomicUsize>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// A machine whose admin.conf names a server with these answers.
fn serve(answers: Answers) -> Server {
    let (config, ca) = https::server();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = format!("https://{}", listener.local_addr().expect("an address"));
    let (connections, asked) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (counted, heard) = (connections.clone(), asked.clone());
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::Relaxed);
            let connection = ServerConnection::new(Arc::new(config.clone())).expect("a connection");
            let (answers, heard) = (answers.clone(), heard.clone());
            std::thread::spawn(move || answer(StreamOwned::new(connection, socket), &answers, &heard));
        }
    });
    let folder = tempfile::tempdir().expect("a folder");
    let own = rcgen::generate_simple_self_signed(vec!["admin".to_owned()]).expect("a certificate");
    let base64 = |text: String| BASE64.encode(text);
    let conf = format!(
        "clusters:\n- cluster:\n    certificate-authority-data: {}\n    server: {server}\nusers:\n- user:\n    client-certificate-data: {}\n    \
         client-key-data: {}\n",
        base64(ca),
        base64(own.cert.pem()),
        base64(own.signing_key.serialize_pem()),
    );
    let conf_at = folder.path().join("etc/kubernetes/admin.conf");
    std::fs::create_dir_all(conf_at.parent().expect("a folder")).expect("folders");
    std::fs::write(conf_at, conf).expect("written");
    let machine = Machine::with_system(folder.path(), Arc::new(RealSystem));
    Server { machine, _folder: folder, connections, asked }
}

/// Every request of a connection.
fn answer(stream: impl Read + Write, answers: &Answers, heard: &Mutex<Vec<Asked>>) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut first = String::new();
        if stream.read_line(&mut first).unwrap_or(0) == 0 {
            return;
        }
        let (mut headers, mut line) = (BTreeMap::new(), String::new());
        while stream.read_line(&mut line).is_ok_and(|read| read > 2) {
            let (name, value) = line.split_once(':').expect("a header");
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
            line.clear();
        }
        let header = |name: &str| headers.get(name).cloned().unwrap_or_default();
        let mut body = vec![0; header("content-length").parse().unwrap_or(0)];
        stream.read_exact(&mut body).expect("a body");
        let asked = first.rsplit_once(' ').expect("a request").0.to_owned();
        let (content, accept) = (header("content-type"), header("accept"));
        heard.lock().expect("a lock").push(Asked { what: asked.clone(), content, accept, body });
        let nothing = match asked.starts_with("GET /api/v1/secrets?") {
            true => (200, json!({"items": []})),
            false => (404, json!({"kind": "Status"})),
        };
        let (status, body) = answers.get(&asked).cloned().unwrap_or(nothing);
        if status == 0 {
            return;
        }
        let body = body.to_string();
        let head =
            format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
        let sent = stream.get_mut().write_all([head.as_bytes(), body.as_bytes()].concat().as_slice());
        if sent.and_then(|()| stream.get_mut().flush()).is_err() {
            return;
        }
    }
}

/// A version of a group, with resources: plural, kind, and whether it is in namespaces.
fn version(name: &str, freshness: &str, resources: &[(&str, &str, bool)]) -> Value {
    let resource = |(plural, kind, namespaced): &(&str, &str, bool)| {
        let scope = if *namespaced { "Namespaced" } else { "Cluster" };
        json!({"resource": plural, "responseKind": {"kind": kind}, "scope": scope, "verbs": ["get"]})
    };
    json!({"version": name, "freshness": freshness, "resources": resources.iter().map(resource).collect::<Vec<_>>()})
}

fn groups(all: &[(&str, &[Value])]) -> Value {
    let group = |(name, versions): &(&str, &[Value])| json!({"metadata": {"name": name}, "versions": versions});
    let items: Vec<Value> = all.iter().map(group).collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items})
}

fn of_cluster() -> Answers {
    let core = [("configmaps", "ConfigMap", true), ("namespaces", "Namespace", false)];
    let (scalers, scaler) = ("horizontalpodautoscalers", "HorizontalPodAutoscaler");
    let scaling = [
        version("v2", "Current", &[(scalers, scaler, true)]),
        version("v1", "Current", &[(scalers, scaler, true), ("old", "Old", true)]),
    ];
    let others = groups(&[
        ("apps", &[version("v1", "Current", &[("deployments", "Deployment", true)])]),
        ("autoscaling", &scaling),
        ("metrics.k8s.io", &[version("v1beta1", "Stale", &[("pods", "PodMetrics", true)])]),
        ("rbac.authorization.k8s.io", &[version("v1", "Current", &[("clusterroles", "ClusterRole", false)])]),
    ]);
    BTreeMap::from([
        ("GET /api".to_owned(), (200, groups(&[("", &[version("v1", "Current", &core)])]))),
        ("GET /apis".to_owned(), (200, others)),
        ("GET /version".to_owned(), (200, json!({"gitVersion": "v1.34.4"}))),
    ])
}

const MANIFEST: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: same}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: changed}\n---\n\
                        apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: other}\n---\napiVersion: v1\nkind: Namespace\n\
                        metadata: {name: made, namespace: nowhere}\n---\napiVersion: example.com/v1\nkind: Thing\nmetadata: {name: unknown}\n---\n\
                        apiVersion: v1\nkind: ConfigMap\nmetadata: {name: refused}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: \
                        {name: far, namespace: \"apps/services/http:evil:80/proxy/x?\"}\n---\napiVersion: rbac.authorization.k8s.io/v1\n\
                        kind: ClusterRole\nmetadata: {name: \"a role/of b\"}\n---\napiVersion: rbac.authorization.k8s.io/v1\n\
                        kind: ClusterRole\nmetadata: {name: \"me@example.com ü\"}\n";

/// A release with these objects in namespace `apps`.
fn release() -> (HelmRelease, Value) {
    let text = json!({"values": {"a": 1}, "images": []}).to_string();
    let chart = Digest::of("a chart");
    let op = HelmRelease {
        name: "web".to_owned(),
        namespace: "apps".to_owned(),
        chart,
        input: Digest::of(&text),
        slots: Vec::new(),
        wait_s: 10,
    };
    let metadata = json!({"name": "web", "version": "1.0.0"});
    let release = json!({"name": "web", "manifest": MANIFEST, "config": {"a": 1}, "chart": {"metadata": metadata}});
    let label: String = chart.hex().chars().take(63).collect();
    let labels =
        json!({"name": "web", "owner": "helm", "status": "deployed", "version": "1", "kubexm.io/chart": label});
    let secret = json!({
        "type": "helm.sh/release.v1",
        "metadata": {"name": "sh.helm.release.v1.web.v1", "namespace": "apps", "labels": labels},
        "data": {"release": stored::encode(&release).expect("a release")},
    });
    (op, json!({"items": [secret]}))
}

#[test]
fn what_has_drifted_of_a_release_is_asked_of_the_api_server_over_few_connections() {
    let (op, secrets) = release();
    let mut answers = of_cluster();
    let history = "GET /api/v1/namespaces/apps/secrets?labelSelector=owner%3Dhelm%2Cname%3Dweb";
    answers.insert(history.to_owned(), (200, secrets));
    let dry = "dryRun=All&force=true&fieldManager=kubexm-drift";
    let object = |data: &str, managed: &str| {
        (200, json!({"metadata": {"name": "x", "managedFields": [managed]}, "data": {"a": data}}))
    };
    let mut add = |path: &str, live: Option<(u16, Value)>, merged: (u16, Value)| {
        live.map(|live| answers.insert(format!("GET {path}"), live));
        answers.insert(format!("PATCH {path}?{dry}"), merged);
    };
    add("/api/v1/namespaces/apps/configmaps/same", Some(object("1", "one")), object("1", "another"));
    add("/api/v1/namespaces/apps/configmaps/changed", Some(object("2", "")), object("1", ""));
    add("/apis/apps/v1/namespaces/other/deployments/web", None, (201, json!({"metadata": {"name": "web"}})));
    add("/api/v1/namespaces/made", Some(object("1", "")), object("2", ""));
    let refused = (400, json!({"message": "a webhook knows no dry run"}));
    add("/api/v1/namespaces/apps/configmaps/refused", Some(object("1", "")), refused);
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/me%40example.com%20%C3%BC";
    add(role, Some(object("1", "")), (200, json!([])));
    let server = serve(answers.clone());
    let Released::There(found) = observed(&op, &server).expect("a release") else { panic!("it is there") };
    assert_eq!(found.values, rendering::digest(json!({"a": 1}).as_object().expect("values")));
    // As `kubectl diff` names them, by which releases note what their charts change themselves.
    let drifted = [
        "apps.v1.Deployment.other.web",
        "rbac.authorization.k8s.io.v1.ClusterRole..me@example.com ü",
        "v1.ConfigMap.apps.changed",
        "v1.Namespace.nowhere.made",
    ];
    assert_eq!(found.drifted, drifted);
    let asked = server.asked.lock().expect("a lock");
    let (patches, gets): (Vec<&Asked>, Vec<&Asked>) = asked.iter().partition(|one| one.what.starts_with("PATCH"));
    assert_eq!(patches.len(), 6);
    for patch in patches {
        assert!(patch.what.ends_with(&format!("?{dry}")) && patch.what.matches('?').count() == 1, "{patch:?}");
        assert_eq!(patch.content, "application/apply-patch+yaml");
        let object: Value = serde_json::from_slice(&patch.body).expect("an object");
        assert!(object["apiVersion"].is_string() && object["metadata"]["name"].is_string(), "{object}");
    }
    for one in gets.iter().filter(|one| ["GET /api", "GET /apis"].contains(&&*one.what)) {
        assert!(
            one.accept.starts_with("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"),
            "{one:?}"
        );
    }
    let connections = server.connections.load(Ordering::Relaxed);
    // On a busy machine some are closed for being idle; with a connection for each request there would be as many.
    assert!(connections < asked.len(), "{} requests over {connections} connections", asked.len());
    drop(asked);

    // One that does not answer has not said that nothing differs, and was asked twice.
    let silent = format!("PATCH /api/v1/namespaces/apps/configmaps/same?{dry}");
    answers.insert(silent.clone(), (0, Value::Null));
    let server = serve(answers);
    assert!(observed(&op, &server).is_err());
    let asked = server.asked.lock().expect("a lock");
    assert_eq!(asked.iter().filter(|one| one.what == silent).count(), 2);
}

fn observed(op: &HelmRelease, server: &Server) -> Result<Released, OpError> {
    let text = json!({"values": {"a": 1}, "images": []}).to_string();
    op.observe(&server.machine.with_texts(Texts::from_iter([(op.input, text)])))
}

#[test]
fn kinds_are_asked_in_all_versions_and_those_of_a_server_that_is_away_are_not_there() {
    let mut answers = of_cluster();
    let look = |answers: Answers| {
        let server = serve(answers);
        let found = installed_addons::look(&server.machine, &AddonsAsk { apis: true, ..AddonsAsk::default() });
        (found, server)
    };
    let (found, _) = look(answers.clone());
    let found = found.expect("an answer");
    let autoscaling: Vec<&str> =
        found.apis.iter().map(String::as_str).filter(|name| name.starts_with("autos")).collect();
    let scaler = "HorizontalPodAutoscaler";
    assert_eq!(
        autoscaling,
        [
            "autoscaling/v1",
            &format!("autoscaling/v1/{scaler}"),
            "autoscaling/v1/Old",
            "autoscaling/v2",
            &format!("autoscaling/v2/{scaler}")
        ]
    );
    assert!(found.apis.iter().any(|name| name == "v1/ConfigMap"), "{:?}", found.apis);
    assert!(!found.apis.iter().any(|name| name.contains("metrics")), "{:?}", found.apis);
    // Before Kubernetes 1.27 it answers with groups alone, and kubectl is asked: here it has no server, or is not installed.
    answers.insert("GET /apis".to_owned(), (200, json!({"kind": "APIGroupList"})));
    let (found, _) = look(answers);
    let error = found.expect_err("kubectl finds no cluster").full();
    assert!(error.contains("kubectl"), "{error}");
}
