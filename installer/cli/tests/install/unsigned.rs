//! A bundle without a signature by a trusted key: whoever made it chooses no host and no secret of the operator's.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use assert_cmd::Command;
use kubexm_archive::Bundle;
use kubexm_engine::{Run, RunId};
use kubexm_plan::{CheckedPlan, lint};
use kubexm_session::plan_file;
use kubexm_spec::Digest;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

use crate::home;
use crate::site::Site;
use crate::trust::{key, sign};

/// What the variable of the environment holds. It may come out nowhere.
const SECRET: &str = "hunter2-of-the-operator";
/// How long something that must happen is waited for.
const SOON: Duration = Duration::from_secs(90);

/// A bundle that wants every kind of secret for hosts where we listen. Passwords in files are pipes: who opens one waits
/// until somebody writes, so a program that ends by itself has not opened them.
struct Trap {
    site: Site,
    hosts: TcpListener,
    agent: UnixListener,
    yaml: String,
    bundle: PathBuf,
}

impl Trap {
    fn new() -> Self {
        let site = Site::new();
        let hosts = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = hosts.local_addr().unwrap().port();
        let agent = UnixListener::bind(site.path("agent.sock")).unwrap();
        for pipe in ["sudo-password", "jump-password"] {
            assert!(Process::new("mkfifo").arg(site.path(pipe)).status().unwrap().success());
        }
        let yaml = format!(
            "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: demo}}\nspec:\n  hosts:\n  \
             - {{name: node1, address: 127.0.0.1, port: {port}, user: admin, passwordFrom: {{env: SECRET}}, \
             sudoPasswordFrom: {{file: {sudo}}}}}\n  \
             - {{name: node2, address: 127.0.0.2, port: {port}, user: root, agent: true}}\n  \
             - {{name: node3, address: 127.0.0.3, port: {port}, user: root, privateKeyPath: /nowhere/key, via: \
             [{{address: 127.0.0.9, port: {port}, user: jump, passwordFrom: {{file: {jump}}}}}]}}\n  \
             roleGroups: {{master: [node1], worker: [node2, node3]}}\n  kubernetes: {{version: v1.34.4}}\n  \
             network: {{plugin: flannel}}\n",
            sudo = site.path("sudo-password").display(),
            jump = site.path("jump-password").display(),
        );
        let bundle = site.bundle_with(&yaml, |_| true);
        fs::write(site.path("mine.yaml"), &yaml).unwrap();
        Self { site, hosts, agent, yaml, bundle }
    }

    fn port(&self) -> u16 {
        self.hosts.local_addr().unwrap().port()
    }

    /// The verb with this bundle, and with everything in place that its cluster.yaml asks for.
    fn install(&self, args: &[&str]) -> Command {
        let mut command = self.site.install(args);
        command.arg("--bundle").arg(&self.bundle).timeout(SOON * 3);
        command.env("SECRET", SECRET).env("SSH_AUTH_SOCK", self.site.path("agent.sock"));
        command
    }

    /// Nothing was connected to, no agent was asked.
    fn assert_untouched(&self) {
        self.hosts.set_nonblocking(true).unwrap();
        assert!(self.hosts.accept().is_err(), "somebody connected to a host that the bundle names");
        self.agent.set_nonblocking(true).unwrap();
        assert!(self.agent.accept().is_err(), "the ssh-agent was asked");
    }

    /// Hangs up on whoever connects, and gives the passwords to whoever reads them: what happened of that comes out.
    fn spring(&self) -> Sprung {
        let (connected, connections) = channel();
        let hosts = self.hosts.try_clone().unwrap();
        std::thread::spawn(move || {
            while let Ok((_, from)) = hosts.accept() {
                let _ = connected.send(from);
            }
        });
        let (read, reads) = channel();
        for pipe in ["sudo-password", "jump-password"] {
            let (path, read) = (self.site.path(pipe), read.clone());
            std::thread::spawn(move || {
                fs::write(path, "a-password\n").unwrap();
                let _ = read.send(pipe);
            });
        }
        Sprung { connections, reads }
    }

    /// A plan of this bundle and its cluster.yaml.
    fn plan(&self) -> CheckedPlan {
        let bundle = Bundle::open(&self.bundle).unwrap();
        let mut plan = home::plan().plan().clone();
        plan.cluster = Digest::of(&self.yaml);
        plan.bundle = Some(bundle.manifest_digest());
        lint::check(plan).unwrap().0
    }

    /// A run of it, as it was begun after the operator agreed to both.
    fn begun(&self) -> String {
        let checked = self.plan();
        let id = "20260101T000000Z-0001";
        let run = Run::create(&self.site.path("home/clusters/demo/runs"), RunId::named(id), &checked).unwrap();
        home::start(&run);
        id.to_owned()
    }
}

struct Sprung {
    connections: Receiver<std::net::SocketAddr>,
    reads: Receiver<&'static str>,
}

impl Sprung {
    /// The secrets were read and the hosts connected to: the trap would have told.
    fn assert_resumed(&self) {
        let mut read = [self.reads.recv_timeout(SOON).unwrap(), self.reads.recv_timeout(SOON).unwrap()];
        read.sort_unstable();
        assert_eq!(read, ["jump-password", "sudo-password"]);
        self.connections.recv_timeout(SOON).unwrap();
    }
}

/// Stands for a file with a plan.
const PLAN: &str = "PLAN";
/// Stands for the folder of a backup.
const BACKUP: &str = "BACKUP";
/// Stands for a folder for backups.
const FOLDER: &str = "FOLDER";

/// Every verb that would connect, with a yes.
const VERBS: &[&[&str]] = &[
    &["-y"],
    &["create", "-y"],
    &["create", "-y", "--from-backup", BACKUP],
    &["preflight"],
    &["plan", "create"],
    &["plan", "upgrade"],
    &["plan", "add-node"],
    &["add-node", "-y"],
    &["delete-node", "node3", "-y"],
    &["upgrade", "-y"],
    &["adopt", "--dry-run"],
    &["adopt", "-y"],
    &["run", PLAN, "-y"],
    &["drift"],
    &["status"],
    &["certs", "check"],
    &["certs", "renew", "-y"],
    &["backup", "--to", FOLDER],
    &["restore", BACKUP, "-y"],
    &["addons", "list"],
    &["addons", "diff"],
    &["addons", "apply", "-y"],
    &["registry", "list"],
    &["registry", "prune", "-y"],
    &["registry", "prune", "--dry-run"],
    &["reset", "-y"],
    &["reset", "-y", "--roll-back"],
];

#[test]
fn without_a_terminal_an_unsigned_bundle_gets_no_connection_and_no_secret_and_all_it_wants_is_reported() {
    let trap = Trap::new();
    let port = trap.port();
    let plan = trap.site.path("plan.json");
    fs::write(&plan, plan_file::to_json(trap.plan().plan()).unwrap()).unwrap();
    let backup = trap.site.backup();
    for verb in VERBS {
        let words = verb.iter().map(|word| match *word {
            PLAN => plan.to_str().unwrap(),
            BACKUP => backup.to_str().unwrap(),
            FOLDER => trap.site.folder.path().to_str().unwrap(),
            word => word,
        });
        let words: Vec<&str> = words.collect();
        let ended = trap.install(&words).arg("--accept-new-host-keys").assert().code(36).stdout("");
        let text = String::from_utf8(ended.get_output().stderr.clone()).unwrap();
        for wanted in [
            "NOT SIGNED".to_owned(),
            format!("admin@127.0.0.1:{port}"),
            format!("root@127.0.0.2:{port}"),
            format!("root@127.0.0.3:{port} via jump@127.0.0.9:{port}"),
            format!("SSH password from the environment variable SECRET: admin@127.0.0.1:{port}"),
            format!(
                "sudo password from the file {}: admin@127.0.0.1:{port}",
                trap.site.path("sudo-password").display()
            ),
            format!("SSH password from the file {}: jump@127.0.0.9:{port}", trap.site.path("jump-password").display()),
            format!("keys of the ssh-agent at {}: root@127.0.0.2:{port}", trap.site.path("agent.sock").display()),
            format!("private key /nowhere/key: jump@127.0.0.9:{port}; root@127.0.0.3:{port} via jump@127.0.0.9:{port}"),
            "--accept-new-host-keys".to_owned(),
            "-f".to_owned(),
            "--allow-unsigned".to_owned(),
        ] {
            assert!(text.contains(&wanted), "{verb:?} does not say {wanted:?}:\n{text}");
        }
        assert!(!text.contains(SECRET), "{text}");
        trap.assert_untouched();
    }
    assert!(!trap.site.path("home/clusters").exists(), "a cluster was written down that nobody agreed to");
}

#[test]
fn a_machine_reads_the_refusal_as_36_also_at_a_terminal() {
    let trap = Trap::new();
    let output = trap.install(&["preflight", "--json"]).output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), result["exitCode"].as_u64()), (Some(36), Some(36)), "{result}");
    trap.assert_untouched();
    let ended = at_a_terminal(&trap, &["preflight", "--json"], "yes\n");
    assert_eq!(ended.0, Some(36), "{}", ended.1);
    trap.assert_untouched();
}

#[test]
fn a_cluster_yaml_of_the_operator_is_used_as_it_is_with_and_without_a_bundle() {
    for alone in [false, true] {
        let trap = Trap::new();
        let mine = trap.site.path("mine.yaml");
        let mut command = match alone {
            false => trap.install(&["preflight"]),
            true => {
                let mut reset = trap.site.install(&["reset", "-y"]);
                reset.env("SECRET", SECRET).timeout(SOON * 3);
                reset
            }
        };
        let sprung = trap.spring();
        let ended = command.arg("-f").arg(mine).assert().code(predicate::in_iter([50, 51]));
        ended.stderr(contains("node1").and(contains(SECRET).not()));
        sprung.assert_resumed();
    }
}

#[test]
fn allow_unsigned_continues_and_reports_what_it_allows() {
    let trap = Trap::new();
    let sprung = trap.spring();
    let ended = trap.install(&["create", "-y", "--allow-unsigned"]).assert().code(predicate::in_iter([50, 51]));
    ended.stderr(contains("NOT SIGNED").and(contains("environment variable SECRET")).and(contains(SECRET).not()));
    sprung.assert_resumed();
}

#[test]
fn a_bundle_signed_by_a_trusted_key_needs_no_consent() {
    let trap = Trap::new();
    sign(&trap.bundle, &key(&trap.site, "ours"));
    let sprung = trap.spring();
    let mut command = trap.install(&["create", "-y"]);
    let ended = command.arg("--key").arg(trap.site.path("ours.pub")).assert().code(predicate::in_iter([50, 51]));
    ended.stderr(contains("NOT SIGNED").not());
    sprung.assert_resumed();
}

#[test]
fn a_signature_by_an_unknown_key_counts_as_none() {
    let trap = Trap::new();
    let theirs = key(&trap.site, "theirs");
    sign(&trap.bundle, &theirs);
    let ended = trap.install(&["create", "-y"]).assert().code(36);
    ended.stderr(contains("NOT SIGNED").and(contains(theirs.public().id().as_str())));
    trap.assert_untouched();
}

#[test]
fn once_a_key_is_trusted_no_flag_accepts_an_unsigned_bundle() {
    let trap = Trap::new();
    key(&trap.site, "ours");
    let trusted = trap.site.path("ours.pub");
    trap.install(&["create", "-y", "--allow-unsigned"]).arg("--key").arg(&trusted).assert().code(34);
    trap.install(&["create", "-y", "--allow-unsigned", "--require-signature"]).assert().code(2);
    trap.assert_untouched();
}

#[test]
fn at_a_terminal_one_question_comes_first_and_only_yes_continues() {
    let trap = Trap::new();
    for (verb, answer) in [
        (&["create", "-y"][..], "no\n"),
        (&["create", "-y"], "y\n"),
        (&["preflight"], "\n"),
        (&["plan", "create"], ""),
        (&["--accept-new-host-keys"], "no\n"),
        (&["reset"], "no\n"),
    ] {
        let (code, text) = at_a_terminal(&trap, verb, answer);
        assert_eq!(code, Some(10), "{verb:?} {answer:?}: {text}");
        for wanted in ["NOT SIGNED", "environment variable SECRET: admin@127.0.0.1", "ssh-agent", "via jump@127.0.0.9"]
        {
            assert!(text.contains(wanted), "{verb:?} does not say {wanted:?}:\n{text}");
        }
        assert!(!text.contains(SECRET), "{text}");
        trap.assert_untouched();
    }
    trap.hosts.set_nonblocking(false).unwrap();
    let sprung = trap.spring();
    let (code, text) = at_a_terminal(&trap, &["preflight"], "yes\n");
    assert!(matches!(code, Some(50 | 51)), "{code:?}: {text}");
    sprung.assert_resumed();
}

#[test]
fn an_accepted_unsigned_run_is_resumed_and_rolled_back_only_with_its_own_bundle() {
    for verb in [&["resume"][..], &["rollback", "-y"]] {
        let trap = Trap::new();
        trap.begun();
        let sprung = trap.spring();
        trap.install(verb).assert().code(predicate::in_iter([50, 51]));
        sprung.assert_resumed();

        // The same run, and a bundle that somebody has made anew with other hosts.
        let trap = Trap::new();
        trap.begun();
        let other = trap.yaml.replace("user: admin", "user: root");
        trap.site.bundle_with(&other, |_| true);
        trap.install(verb).assert().code(61);
        trap.assert_untouched();
    }
}

#[test]
fn the_question_before_a_change_says_who_has_signed_or_that_nobody_has() {
    let trap = Trap::new();
    trap.begun();
    let sprung = trap.spring();
    trap.install(&["rollback", "-y"]).assert().stderr(contains("NOT SIGNED"));
    sprung.assert_resumed();
    // One of its own: whoever accepted for the first still does, and would take the connections.
    let trap = Trap::new();
    trap.begun();
    let ours = key(&trap.site, "ours");
    sign(&trap.bundle, &ours);
    let sprung = trap.spring();
    let mut signed = trap.install(&["rollback", "-y"]);
    let ended = signed.arg("--key").arg(trap.site.path("ours.pub")).assert();
    ended.stderr(contains(format!("signed by ours (key {})", ours.public().id())).and(contains("NOT SIGNED").not()));
    sprung.assert_resumed();
}

/// The program at a terminal of its own (script(1)), with what is typed there; its exit code, and all that is on the screen.
fn at_a_terminal(trap: &Trap, args: &[&str], typed: &str) -> (Option<i32>, String) {
    let command = trap.install(args);
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words.map(|word| quoted(Path::new(word))).collect();
    let mut script = Process::new("script");
    script.args(["-q", "-e", "-c", &words.join(" ")]).arg("/dev/null").env("TERM", "xterm");
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => script.env(name, value),
            None => script.env_remove(name),
        };
    }
    let mut running = script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Its end is the end of what is typed.
    running.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    let output = running.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

fn quoted(word: &Path) -> String {
    format!("'{}'", word.display().to_string().replace('\'', r"'\''"))
}
