//! The script that asks the control planes for nginx (`kubexm-kn`), run by bash with a port that answers in nginx's place.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use kubexm_plan::op::Content;
use kubexm_plan::{Op, Plan};
use kubexm_tests::samples::named;
use tempfile::TempDir;

const CONFIG: &str = "/etc/kubexm/balancer/nginx.conf";
const SCRIPT: &str = "/usr/local/bin/kubexm-nginx-check";
const NODE1: &str = "10.0.0.11:6443";
const NODE2: &str = "10.0.0.12:6443";

/// The text of a file of the plan.
fn text<'p>(plan: &'p Plan, wanted: &str) -> &'p str {
    let mut ops = plan.steps.iter().flat_map(|step| &step.ops);
    let digest = ops.find_map(|op| match op {
        Op::File(file) if file.path == wanted => match &file.content {
            Content::Text { digest } => Some(digest),
            Content::Filled { .. } | Content::Slot { .. } => None,
        },
        _ => None,
    });
    &plan.texts[digest.expect("a file of the plan")]
}

/// The script and nginx's configuration of a sample with two control planes, moved into a folder.
struct Balancer {
    folder: TempDir,
}

impl Balancer {
    fn new() -> Self {
        let sample = named("keepalived and nginx");
        let (_, checked) = sample.plan_create();
        let plan = checked.plan();
        let this = Self { folder: tempfile::tempdir().expect("a folder") };
        fs::create_dir(this.path("bin")).expect("a folder");
        this.put("nginx.conf", text(plan, CONFIG));
        let root = this.path("");
        let moved = text(plan, SCRIPT).replace("/etc/kubexm/balancer", root.to_str().expect("text"));
        this.program("check", &moved.replace("/run/nginx-kubexm", this.path("state").to_str().expect("text")));
        // Whatever happens, the script ends.
        let naps = this.path("naps");
        let naps = naps.to_str().expect("text");
        this.program(
            "bin/sleep",
            &format!("#!/bin/bash\necho >> {naps}\n[ \"$(wc -l < {naps})\" -lt 20 ] || kill $PPID\n"),
        );
        this.systemctl(0);
        this
    }

    /// One that notes what it is asked, and ends so.
    fn systemctl(&self, code: u8) {
        let calls = self.path("calls");
        let text = format!("#!/bin/bash\necho \"$@\" >> {}\nexit {code}\n", calls.to_str().expect("text"));
        self.program("bin/systemctl", &text);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("written");
    }

    fn program(&self, name: &str, text: &str) {
        self.put(name, text);
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).expect("a program");
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(name)).ok()
    }

    fn run(&self, verb: &str) -> Output {
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").expect("PATH"));
        Command::new("bash").arg(self.path("check")).arg(verb).env("PATH", path).output().expect("bash")
    }

    /// Watches for 20 rounds with these answers: what systemctl was asked.
    fn watch(&self, answers: Option<&[(&str, u16)]>) -> Option<String> {
        let port = answers.map_or_else(closed_port, answering);
        let text = self.read("check").expect("the script");
        let lines =
            text.lines().map(|line| if line.starts_with("port=") { format!("port={port}") } else { line.to_owned() });
        self.program("check", &(lines.collect::<Vec<_>>().join("\n") + "\n"));
        for file in ["naps", "calls"] {
            let _ = fs::remove_file(self.path(file));
        }
        self.run("watch");
        self.read("calls")
    }
}

/// Held until the program ends: let go, the next server of another test could get it.
fn closed_port() -> u16 {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let address = socket.local_addr().expect("an address");
    std::mem::forget(socket);
    address.port()
}

/// Answers for each node, as nginx passes them on.
fn answering(answers: &[(&str, u16)]) -> u16 {
    let answers: BTreeMap<String, u16> =
        answers.iter().map(|(node, code)| (format!("/readyz/{node}"), *code)).collect();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut lines = BufReader::new(stream.try_clone().expect("a handle")).lines().map_while(Result::ok);
            let request = lines.next().unwrap_or_default();
            lines.find(String::is_empty);
            let code = request.split(' ').nth(1).and_then(|path| answers.get(path)).copied().unwrap_or(404);
            let _ = write!(stream, "HTTP/1.1 {code} as asked\r\nConnection: close\r\n\r\n");
        }
    });
    port
}

/// Addresses in the upstream, and whether each is one of last resort.
fn upstream(balancer: &Balancer) -> Vec<(String, bool)> {
    let text = balancer.read("state/upstream.conf").expect("an upstream");
    let servers = text.lines().filter_map(|line| line.trim().strip_prefix("server "));
    servers.map(|line| (line.split(' ').next().unwrap_or_default().to_owned(), line.contains(" backup;"))).collect()
}

fn all_with(first: bool, second: bool) -> Vec<(String, bool)> {
    vec![(NODE1.to_owned(), first), (NODE2.to_owned(), second)]
}

#[test]
fn the_upstream_has_every_control_plane_and_those_that_are_not_ready_as_a_last_resort() {
    let balancer = Balancer::new();
    assert!(balancer.run("prepare").status.success());
    assert_eq!(upstream(&balancer), all_with(false, false), "before any is ready, all are asked");
    assert!(balancer.read("state/module.conf").is_some());
    balancer.put("state/ready", &format!("{NODE2}\n"));
    assert!(balancer.run("prepare").status.success());
    assert_eq!(upstream(&balancer), all_with(true, false));
    balancer.put("state/ready", "10.0.0.99:6443\n");
    assert!(balancer.run("prepare").status.success());
    assert_eq!(upstream(&balancer), all_with(false, false), "one that has left is not counted");
}

#[test]
fn nginx_is_not_started_or_reloaded_without_any_control_plane() {
    let balancer = Balancer::new();
    assert!(balancer.run("prepare").status.success());
    balancer.put("nginx.conf", "stream {\n}\n");
    let refused = balancer.run("prepare");
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("names no control plane"));
    assert_eq!(upstream(&balancer), all_with(false, false), "what was there stays");
}

const RELOAD: &str = "reload kubexm-nginx.service\n";

#[test]
fn nginx_is_reloaded_when_others_are_ready_than_before() {
    let (balancer, reload) = (Balancer::new(), Some(RELOAD.to_owned()));
    let ready = || balancer.read("state/ready");
    assert_eq!(balancer.watch(Some(&[("node1", 401), ("node2", 502)])), reload);
    assert_eq!(ready(), Some(format!("{NODE1}\n")), "without anonymous users it says 401, and serves");
    assert_eq!(balancer.watch(Some(&[("node1", 403), ("node2", 500)])), None, "the same ones");
    assert_eq!(balancer.watch(Some(&[("node1", 500), ("node2", 200)])), reload, "at once, one for the other");
    assert_eq!(ready(), Some(format!("{NODE2}\n")));
    assert_eq!(balancer.watch(Some(&[("node1", 200), ("node2", 200)])), reload);
    assert_eq!(ready(), Some(format!("{NODE1}\n{NODE2}\n")));
    assert_eq!(balancer.watch(Some(&[("node1", 500), ("node2", 504)])), reload);
    assert_eq!(ready(), None);
}

#[test]
fn one_that_has_left_the_cluster_is_forgotten() {
    let balancer = Balancer::new();
    fs::create_dir(balancer.path("state")).expect("a folder");
    balancer.put("state/ready", "10.0.0.99:6443\n");
    assert_eq!(balancer.watch(Some(&[("node1", 500), ("node2", 500)])), Some(RELOAD.to_owned()));
    assert_eq!(balancer.read("state/ready"), None);
}

#[test]
fn a_reload_that_failed_is_done_again_also_by_the_next_process() {
    let balancer = Balancer::new();
    let answers: &[(&str, u16)] = &[("node1", 200), ("node2", 200)];
    balancer.systemctl(1);
    assert_eq!(balancer.watch(Some(answers)), Some(RELOAD.repeat(2)), "now, and ten rounds later");
    balancer.systemctl(0);
    assert_eq!(balancer.watch(Some(answers)), Some(RELOAD.to_owned()));
    assert_eq!(balancer.watch(Some(answers)), None);
}

#[test]
fn nothing_is_learned_of_control_planes_while_nginx_itself_does_not_answer() {
    let balancer = Balancer::new();
    fs::create_dir(balancer.path("state")).expect("a folder");
    balancer.put("state/ready", &format!("{NODE2}\n"));
    assert_eq!(balancer.watch(None), None);
    assert_eq!(balancer.read("state/ready"), Some(format!("{NODE2}\n")));
}
