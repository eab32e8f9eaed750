//! The SSH link against a real sshd: the way in, the agent, steps, and blobs over a line that breaks.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests: what cannot continue fails the test")]

mod bastions;
mod depots;
mod line;
mod login;
mod server;
mod shared;
mod silent;
mod sudo;

use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use async_trait::async_trait;
use kubexm_engine::link::agent::{serve, serve_store};
use kubexm_engine::link::ssh::{KeySource, SshLink, SshOptions};
use kubexm_engine::link::{BlobSource, Change, Link as _, LinkError, SlotValues};
use kubexm_ops::Machine;
use kubexm_plan::op::{Content, File};
use kubexm_plan::{Plan, SCHEMA, Step, Undo};
use kubexm_spec::Digest;
use server::{Server, Setup};
use tokio::io::{AsyncRead, ReadBuf};

/// Not a test of its own: what sshd starts as the agent, on a machine rooted in the folder that its environment names.
#[test]
fn serves_as_agent() {
    let (Ok(root), Ok(mode)) = (std::env::var("KUBEXM_TEST_ROOT"), std::env::var("KUBEXM_TEST_MODE")) else { return };
    // As the program does.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let machine = Machine::rooted(root);
    match mode.as_str() {
        "agent" => serve(std::io::stdin(), std::io::stdout(), machine).unwrap(),
        "agent store" => serve_store(std::io::stdin(), std::io::stdout(), machine).unwrap(),
        other => panic!("no mode {other}"),
    }
}

const TEXT: &str = "what the plan wants\n";

/// A plan with one step that writes one file.
const CHANGE: Change<'_> = Change { run: "run-1", sequence: 1, before: &[] };

fn plan_with_a_file() -> (Plan, Step) {
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
    let digest = plan.text(TEXT);
    let step = Step::on("node1", "test.file", "Write a file")
        .ensure(File { path: "/etc/kubexm-test.conf".into(), content: Content::Text { digest }, mode: 0o640 })
        .undo(Undo::RestoreBefore)
        .build();
    plan.steps.push(step.clone());
    (plan, step)
}

fn denied(result: Result<SshLink, LinkError>) -> String {
    match result {
        Err(error @ LinkError::Denied { .. }) => error.to_string(),
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("it was let in"),
    }
}

#[tokio::test]
async fn a_step_is_observed_and_converged_by_the_agent_that_was_put_there() {
    let server = Server::start(&Setup::default());
    let (plan, step) = plan_with_a_file();
    let link = server.connect().await.unwrap();
    assert!(link.agent_installed());
    assert_eq!(link.hello().version, env!("CARGO_PKG_VERSION"));

    let before = link.observe(&plan, &step, &SlotValues::new()).await.unwrap();
    assert!(!before[0].satisfied);
    link.converge(&plan, &step, &SlotValues::new(), CHANGE).await.unwrap();
    assert_eq!(std::fs::read_to_string(server.path("root/etc/kubexm-test.conf")).unwrap(), TEXT);
    assert!(link.observe(&plan, &step, &SlotValues::new()).await.unwrap()[0].satisfied);
    link.close().await;

    let again = server.connect().await.unwrap();
    assert!(!again.agent_installed(), "the right agent is there already");
    assert!(again.observe(&plan, &step, &SlotValues::new()).await.unwrap()[0].satisfied);
}

#[tokio::test]
async fn the_clock_of_the_node_is_measured() {
    let server = Server::start(&Setup::default());
    let facts = server.connect().await.unwrap().facts().await.unwrap();
    assert_eq!(facts.host, "node1");
    // The same machine: what remains is half the round trip and rounding.
    assert!(facts.clock_offset_ms.unsigned_abs() <= facts.round_trip_ms + 2, "{}", facts.clock_offset_ms);
}

#[tokio::test]
async fn after_a_refusal_the_host_is_as_it_was() {
    let server = Server::start(&Setup::default());
    let link = server.connect().await.unwrap();
    assert!(server.agent_path().exists());
    link.revert_agent().await.unwrap();
    assert!(!server.agent_path().exists());

    std::fs::write(server.agent_path(), "an older agent").unwrap();
    let link = server.connect().await.unwrap();
    link.revert_agent().await.unwrap();
    assert_eq!(std::fs::read_to_string(server.agent_path()).unwrap(), "an older agent");
    assert_eq!(std::fs::read_dir(server.path("bin")).unwrap().count(), 1, "something was left behind");

    let link = server.connect().await.unwrap();
    link.keep_agent().await.unwrap();
    assert_eq!(std::fs::read_dir(server.path("bin")).unwrap().count(), 1, "the old program was kept");
}

#[tokio::test]
async fn an_unknown_host_key_is_refused_with_its_fingerprint_unless_accepted_at_first_sight() {
    let server = Server::start(&Setup::default());
    let ours = server.path("new/known_hosts");
    let options = SshOptions { known_hosts: vec![ours.clone()], ..server.options("run 1") };
    let refused = denied(SshLink::connect(server.target(), options.clone(), server.agent()).await);
    assert!(refused.contains("SHA256:") && refused.contains("--accept-new-host-keys"), "{refused}");
    assert!(!ours.exists());

    let accepting = SshOptions { accept_new: true, ..options.clone() };
    SshLink::connect(server.target(), accepting, server.agent()).await.unwrap();
    SshLink::connect(server.target(), options, server.agent()).await.expect("the key was recorded");
}

#[tokio::test]
async fn a_changed_or_revoked_host_key_is_refused_even_when_new_ones_are_accepted() {
    let server = Server::start(&Setup::default());
    let path = server.path("hosts");
    let other = std::fs::read_to_string(server.path("other_key.pub")).unwrap();
    let real = std::fs::read_to_string(server.path("host_key.pub")).unwrap();
    let name = format!("[127.0.0.1]:{}", server.port);
    let options = SshOptions { known_hosts: vec![path.clone()], accept_new: true, ..server.options("run 1") };

    std::fs::write(&path, format!("# mine\n{name} {other}")).unwrap();
    let refused = denied(SshLink::connect(server.target(), options.clone(), server.agent()).await);
    assert!(refused.contains(&format!("{}:2", path.display())), "{refused}");

    std::fs::write(&path, format!("{name} {real}@revoked * {real}")).unwrap();
    let refused = denied(SshLink::connect(server.target(), options, server.agent()).await);
    assert!(refused.contains("revoked"), "{refused}");
}

#[tokio::test]
async fn a_key_that_sshd_refuses_is_named_with_the_user() {
    let server = Server::start(&Setup::default());
    let mut target = server.target();
    target.login.keys = vec![KeySource::File(server.path("other_key"))];
    let refused = denied(SshLink::connect(target.clone(), server.options("run 1"), server.agent()).await);
    assert!(refused.contains("other_key") && refused.contains(&target.login.user), "{refused}");
    assert!(!server.agent_path().exists());
}

#[tokio::test]
async fn a_host_without_sshd_is_unreachable() {
    let server = Server::start(&Setup::default());
    let (mut target, options, agent) = (server.target(), server.options("run 1"), server.agent());
    drop(server);
    match SshLink::connect(target.clone(), options.clone(), agent.clone()).await {
        // The key went with the server's folder; that is found out first, and must be its own error.
        Err(LinkError::Denied { reason, .. }) => assert!(reason.contains("client_key"), "{reason}"),
        other => panic!("{:?}", other.err()),
    }
    let folder = tempfile::tempdir().unwrap();
    target.login.keys = vec![KeySource::File(folder.path().join("key"))];
    server::keygen(&folder.path().join("key"));
    match SshLink::connect(target, options, agent).await {
        Err(LinkError::Unreachable { address, .. }) => assert!(address.starts_with("127.0.0.1:")),
        other => panic!("{:?}", other.err()),
    }
}

#[tokio::test]
async fn sudos_refusal_is_quoted() {
    let sudo = Some("echo 'sudo: a password is required' >&2; exit 1");
    let server = Server::start(&Setup { plain_user: true, sudo, ..Setup::default() });
    match server.connect().await {
        Err(LinkError::NoSudo { user, reason, .. }) => {
            assert_eq!(user, server.target().login.user);
            assert!(reason.contains("a password is required"), "{reason}");
        }
        other => panic!("{:?}", other.err()),
    }
    assert!(!server.agent_path().exists(), "something was done without being root");
}

#[tokio::test]
async fn a_user_with_sudo_gets_the_agent_started_through_it() {
    let sudo = Some(r#"[ "$1" = -n ] || exit 7; shift; echo "$*" >> "$KUBEXM_TEST_ROOT/sudo.log"; exec "$@""#);
    let server = Server::start(&Setup { plain_user: true, sudo, ..Setup::default() });
    let (plan, step) = plan_with_a_file();
    let link = server.connect().await.unwrap();
    assert!(!link.observe(&plan, &step, &SlotValues::new()).await.unwrap()[0].satisfied);
    let log = std::fs::read_to_string(server.path("root/sudo.log")).unwrap();
    assert!(log.lines().any(|line| line.ends_with("kubexm-install agent")), "{log}");
}

#[tokio::test]
async fn what_a_login_shell_prints_first_does_no_harm() {
    let noise = Some(r"Authorised use only!\nKUBEXM-AGENT is not this\nno newline at the end");
    let server = Server::start(&Setup { noise, ..Setup::default() });
    let (plan, step) = plan_with_a_file();
    let link = server.connect().await.unwrap();
    link.converge(&plan, &step, &SlotValues::new(), CHANGE).await.unwrap();
    assert!(link.observe(&plan, &step, &SlotValues::new()).await.unwrap()[0].satisfied);
}

#[tokio::test]
async fn an_agent_that_cannot_run_is_a_protocol_error_with_its_output_and_is_removed() {
    let server = Server::start(&Setup::default());
    let broken = server.path("broken");
    std::fs::write(&broken, "#!/bin/sh\necho 'needs glibc 9.9' >&2\nexit 1\n").unwrap();
    let mut agent = server.agent();
    for source in agent.sources.values_mut() {
        *source = kubexm_engine::link::ssh::AgentSource::File(broken.clone());
    }
    match SshLink::connect(server.target(), server.options("run 1"), agent).await {
        Err(LinkError::Protocol { reason, .. }) => assert!(reason.contains("glibc 9.9"), "{reason}"),
        other => panic!("{:?}", other.err()),
    }
    assert!(!server.agent_path().exists());
}

#[tokio::test]
async fn a_host_that_another_run_holds_is_refused_with_its_name_and_free_afterwards() {
    let server = Server::start(&Setup::default());
    let (plan, step) = plan_with_a_file();
    let first = server.connect().await.unwrap();
    first.converge(&plan, &step, &SlotValues::new(), CHANGE).await.unwrap();

    let options = server.options("run 2 of another laptop");
    let second = SshLink::connect(server.target(), options, server.agent()).await.unwrap();
    match second.observe(&plan, &step, &SlotValues::new()).await {
        Err(LinkError::Locked { holder, .. }) => assert!(holder.contains("run 1"), "{holder}"),
        other => panic!("{other:?}"),
    }
    first.close().await;
    assert!(second.observe(&plan, &step, &SlotValues::new()).await.unwrap()[0].satisfied);
}

#[tokio::test]
async fn a_lost_connection_is_reopened_and_the_request_repeated() {
    let server = Server::start(&Setup::default());
    let (plan, step) = plan_with_a_file();
    let link = server.connect().await.unwrap();
    link.converge(&plan, &step, &SlotValues::new(), CHANGE).await.unwrap();
    server.kill_sessions();
    assert!(link.observe(&plan, &step, &SlotValues::new()).await.unwrap()[0].satisfied);
}

/// Blobs of bytes that are computed from their place, so that they need no memory.
struct Pattern<'a> {
    blobs: Vec<(Digest, u64, u8)>,
    /// Bytes that were read from here, over all tries.
    read: AtomicU64,
    offsets: Mutex<Vec<u64>>,
    /// Called once, after that many bytes.
    at: u64,
    then: &'a (dyn Fn() + Send + Sync),
    done: AtomicBool,
}

fn byte(seed: u8, at: u64) -> u8 {
    (at ^ (at >> 8) ^ (at >> 16)) as u8 ^ seed
}

fn content(seed: u8, size: u64) -> Vec<u8> {
    (0..size).map(|at| byte(seed, at)).collect()
}

struct PatternReader {
    seed: u8,
    at: u64,
    end: u64,
}

impl AsyncRead for PatternReader {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let end = self.end.min(self.at + buffer.remaining() as u64);
        let bytes: Vec<u8> = (self.at..end).map(|at| byte(self.seed, at)).collect();
        self.at = end;
        buffer.put_slice(&bytes);
        Poll::Ready(Ok(()))
    }
}

#[async_trait]
impl BlobSource for Pattern<'_> {
    async fn open(&self, digest: Digest, offset: u64) -> std::io::Result<Box<dyn AsyncRead + Send + Unpin>> {
        let found = self.blobs.iter().find(|(known, ..)| *known == digest);
        let (_, end, seed) = *found.ok_or(std::io::ErrorKind::NotFound)?;
        self.offsets.lock().unwrap().push(offset);
        Ok(Box::new(PatternReader { seed, at: offset, end }))
    }
}

impl<'a> Pattern<'a> {
    fn new(sizes: &[u64], at: u64, then: &'a (dyn Fn() + Send + Sync)) -> Self {
        let blobs = sizes.iter().zip(1..).map(|(size, seed)| (Digest::of(content(seed, *size)), *size, seed)).collect();
        Self { blobs, read: AtomicU64::new(0), offsets: Mutex::default(), at, then, done: AtomicBool::new(false) }
    }

    fn list(&self) -> Vec<(Digest, u64)> {
        self.blobs.iter().map(|(digest, size, _)| (*digest, *size)).collect()
    }

    async fn deliver_to(&self, link: &SshLink) -> Result<(), LinkError> {
        let last = Mutex::new(std::collections::BTreeMap::<Digest, u64>::new());
        let progress = |digest: Digest, done: u64, _: u64| {
            let before = last.lock().unwrap().insert(digest, done).unwrap_or(0);
            let read = self.read.fetch_add(done.saturating_sub(before), Ordering::SeqCst);
            if read > self.at && !self.done.swap(true, Ordering::SeqCst) {
                (self.then)();
            }
        };
        link.deliver(&self.list(), self, &progress).await
    }
}

fn stored(server: &Server, digest: &Digest) -> Option<Digest> {
    std::fs::read(server.path(&format!("root/var/lib/kubexm/store/blobs/sha256/{}", digest.hex()))).ok().map(Digest::of)
}

#[tokio::test]
async fn blobs_arrive_whole_and_are_not_sent_twice() {
    let server = Server::start(&Setup::default());
    let link = server.connect().await.unwrap();
    let source = Pattern::new(&[0, 1, 300_000, 3_000_000], u64::MAX, &|| {});
    source.deliver_to(&link).await.unwrap();
    for (digest, _) in source.list() {
        assert_eq!(stored(&server, &digest), Some(digest));
    }
    assert_eq!(source.offsets.lock().unwrap().len(), 4);
    source.deliver_to(&link).await.unwrap();
    assert_eq!(source.offsets.lock().unwrap().len(), 4, "a blob that is there was opened again");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_delivery_is_resumed_and_the_blob_is_complete() {
    const SIZE: u64 = 48 << 20;
    let server = Server::start(&Setup::default());
    let link = server.connect().await.unwrap();
    let cut = || server.kill_sessions();
    let source = Pattern::new(&[SIZE], SIZE / 2, &cut);
    source.deliver_to(&link).await.unwrap();
    let (digest, _) = source.list()[0];
    assert_eq!(stored(&server, &digest), Some(digest));
    let offsets = source.offsets.lock().unwrap().clone();
    assert_eq!(offsets.len(), 2, "{offsets:?}");
    // What was under way is sent again: the queue of frames, the channel's window and the pipe, not the blob.
    let again = SIZE / 2 - offsets[1].min(SIZE / 2);
    assert!(offsets[1] > 0 && again <= 16 << 20, "{again} bytes are sent again, {offsets:?}");
}

#[tokio::test]
async fn a_source_with_other_bytes_is_named_and_nothing_of_it_stays() {
    let server = Server::start(&Setup::default());
    let link = server.connect().await.unwrap();
    let mut source = Pattern::new(&[400_000], u64::MAX, &|| {});
    source.blobs[0].2 = 9;
    let (digest, _) = source.list()[0];
    match source.deliver_to(&link).await {
        Err(LinkError::Source { digest: named, .. }) => assert_eq!(named, digest),
        other => panic!("{other:?}"),
    }
    assert_eq!(stored(&server, &digest), None);
    let partial = std::fs::read_dir(server.path("root/var/lib/kubexm/store/partial")).unwrap().count();
    assert_eq!(partial, 0, "a part file with wrong bytes was kept");
}
