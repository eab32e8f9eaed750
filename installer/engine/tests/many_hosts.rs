//! Fifty hosts on one controller: real SSH connections to one sshd, an agent process with a root of its own for each. The
//! controller is a process of its own, whose peak memory the kernel tells.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests: what cannot continue fails the test")]

#[path = "ssh_link/server.rs"]
#[allow(dead_code, reason = "another test uses the rest")]
mod server;

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use futures::future::join_all;
use kubexm_engine::link::agent::serve;
use kubexm_engine::link::ssh::{AgentBinary, AgentSource, SshLink, SshOptions};
use kubexm_engine::link::{Change, Link as _, SlotValues};
use kubexm_ops::Machine;
use kubexm_plan::op::{Content, File};
use kubexm_plan::{Plan, SCHEMA, Step, Undo};
use kubexm_spec::{Arch, Digest};
use server::{Server, Setup};

const STEPS: u64 = 5;
/// What the issue allows at fifty hosts, in KiB.
const MOST_KIB: u64 = 128 << 10;

/// Not a test of its own: what sshd starts as the agent of one host.
#[test]
fn serves_as_agent() {
    let (Ok(root), Ok("agent")) = (std::env::var("KUBEXM_TEST_ROOT"), std::env::var("KUBEXM_TEST_MODE").as_deref())
    else {
        return;
    };
    serve(std::io::stdin(), std::io::stdout(), Machine::rooted(root)).unwrap();
}

fn plan() -> Plan {
    let mut plan = Plan {
        schema: SCHEMA,
        pipeline: kubexm_plan::Pipeline::Create,
        cluster_name: "test".into(),
        cluster_id: None,
        cluster: Digest::of("cluster"),
        bundle: Some(Digest::of("bundle")),
        hosts: Vec::new(),
        fleet_concurrency: 1,
        host_concurrency: 1,
        slots: Default::default(),
        texts: Default::default(),
        steps: Vec::new(),
    };
    for number in 0..STEPS {
        let digest = plan.text(format!("file {number}\n{}", "x".repeat(20_000)));
        let path = format!("/etc/kubexm-test-{number}.conf");
        let step = Step::on("node1", &format!("test.file{number}"), "Write a file")
            .ensure(File { path, content: Content::Text { digest }, mode: 0o644 })
            .undo(Undo::RestoreBefore)
            .build();
        plan.steps.push(step);
    }
    plan
}

/// Not a test of its own: the controller that is measured.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn works_as_controller() {
    let Some(hosts) = std::env::var("KUBEXM_TEST_HOSTS").ok().and_then(|hosts| hosts.parse::<usize>().ok()) else {
        return;
    };
    let server = Server::start(&Setup { config: "MaxStartups 200", ..Setup::default() });
    let (program, options) = agents(&server);
    let plan = plan();
    let begun = Instant::now();
    let work = (0..hosts).map(|host| {
        let (plan, options, target) = (&plan, options.clone(), server.target());
        let folder = server.path(&format!("host{host}"));
        std::fs::create_dir_all(folder.join("root")).unwrap();
        let source = AgentSource::File(program.clone());
        let arch = Arch::from_any(std::env::consts::ARCH).unwrap();
        let path = folder.join("kubexm-install").display().to_string();
        async move {
            let agent = AgentBinary { sources: [(arch, source)].into(), path };
            let link = SshLink::connect(target, options, agent).await.unwrap();
            for (step, sequence) in plan.steps.iter().zip(1..) {
                let slots = SlotValues::new();
                let found = link.observe(plan, step, &slots).await.unwrap();
                let change = Change { run: "run-1", sequence, before: &found };
                link.converge(plan, step, &slots, change).await.unwrap();
                assert!(link.observe(plan, step, &slots).await.unwrap()[0].satisfied);
            }
            link
        }
    });
    // All of them stay connected until the last one is done.
    let links = join_all(work).await;
    let took = begun.elapsed().as_millis();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    println!("\nmeasured {} {took}", peak.trim().trim_end_matches(" kB"));
    join_all(links.iter().map(SshLink::close)).await;
}

/// The agent's program, and how hosts of a server are reached.
fn agents(server: &Server) -> (std::path::PathBuf, SshOptions) {
    let program = server.path("many-agent");
    let exe = std::env::current_exe().unwrap();
    let script = format!(
        "#!/bin/sh\nKUBEXM_TEST_ROOT=\"${{0%/*}}/root\" KUBEXM_TEST_MODE=\"$*\" exec {} --exact serves_as_agent \
         --nocapture --test-threads 1\n",
        exe.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    // All hosts share this machine's cores, so that each of them is slow.
    (program, SshOptions { connect_timeout: Duration::from_secs(120), ..server.options("run 1") })
}

/// As many as a control plane has, or a worker.
const CERTIFICATES: [&str; 12] = [
    "etc/kubernetes/pki/ca.crt",
    "etc/kubernetes/pki/apiserver.crt",
    "etc/kubernetes/pki/apiserver-kubelet-client.crt",
    "etc/kubernetes/pki/apiserver-etcd-client.crt",
    "etc/kubernetes/pki/front-proxy-ca.crt",
    "etc/kubernetes/pki/front-proxy-client.crt",
    "etc/kubernetes/pki/etcd/ca.crt",
    "etc/kubernetes/pki/etcd/server.crt",
    "etc/kubernetes/pki/etcd/peer.crt",
    "etc/kubernetes/pki/etcd/healthcheck-client.crt",
    "var/lib/kubelet/pki/kubelet-client-current.pem",
    "etc/kubexm/registry-ca.crt",
];

/// What `certs check` waits for: a connection to each host, and its certificates. The agents' programs are there. How long it takes is
/// printed: tests share their machine. `KUBEXM_CERTIFICATE_HOSTS` measures another number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_certificates_of_many_hosts_are_read_together() {
    let hosts: usize =
        std::env::var("KUBEXM_CERTIFICATE_HOSTS").ok().and_then(|hosts| hosts.parse().ok()).unwrap_or(40);
    let server = Server::start(&Setup { config: "MaxStartups 300", ..Setup::default() });
    let (program, options) = agents(&server);
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = rcgen::CertificateParams::default().self_signed(&key).unwrap().pem();
    let connect = |host: usize| {
        let (options, target, program) = (options.clone(), server.target(), program.clone());
        let folder = server.path(&format!("certs{host}"));
        let arch = Arch::from_any(std::env::consts::ARCH).unwrap();
        let path = folder.join("kubexm-install").display().to_string();
        async move {
            let agent = AgentBinary { sources: [(arch, AgentSource::File(program))].into(), path };
            SshLink::connect(target, options, agent).await.unwrap()
        }
    };
    for host in 0..hosts {
        let root = server.path(&format!("certs{host}")).join("root");
        for path in CERTIFICATES {
            let file = root.join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, &pem).unwrap();
        }
    }
    // The first connection puts the program there.
    let first = join_all((0..hosts).map(connect)).await;
    join_all(first.iter().map(SshLink::close)).await;
    let begun = Instant::now();
    let looks = (0..hosts).map(|host| {
        let connected = connect(host);
        async move {
            let link = connected.await;
            let facts = link.cluster_facts().await.unwrap();
            (link, facts.certificates.len())
        }
    });
    let looked = join_all(looks).await;
    let took = begun.elapsed();
    join_all(looked.iter().map(|(link, _)| link.close())).await;
    assert!(looked.iter().all(|(_, count)| *count == CERTIFICATES.len()), "a host has others");
    println!("certificates of {hosts} hosts: {} ms", took.as_millis());
}

/// Peak memory in KiB and time in milliseconds.
fn measure(hosts: usize) -> (u64, u64) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "works_as_controller", "--nocapture", "--test-threads", "1"])
        .env("KUBEXM_TEST_HOSTS", hosts.to_string())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("measured "));
    let Some((peak, took)) = line.and_then(|line| line.split_once(' ')) else {
        panic!("{text}{}", String::from_utf8_lossy(&output.stderr));
    };
    (peak.parse().unwrap(), took.parse().unwrap())
}

#[test]
fn memory_grows_no_faster_than_the_number_of_hosts_and_fifty_fit() {
    let [(small, quick), (middle, _), (large, slow)] = [10, 25, 50].map(measure);
    // How long it takes is only printed: other tests share the machine.
    println!("10 hosts: {small} KiB, {quick} ms; 25: {middle} KiB; 50: {large} KiB, {slow} ms");
    assert!(large <= MOST_KIB, "{large} KiB");
    // No faster than the hosts, from what ten of them need: what lies between depends on which answers are in memory at once.
    assert!(middle <= small * 5 / 2 && large <= small * 5, "10 hosts: {small} KiB, 25: {middle} KiB, 50: {large} KiB");
}
