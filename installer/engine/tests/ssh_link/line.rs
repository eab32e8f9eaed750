//! Lines that freeze, and servers that allow little.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kubexm_engine::link::ssh::{SshLink, SshOptions};
use kubexm_engine::link::{Link as _, LinkError, SlotValues};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::server::{Server, Setup};
use super::{CHANGE, Pattern, plan_with_a_file, stored};

/// A way to the server that can go dead without a word, as a pulled cable does.
struct Cable {
    port: u16,
    cut: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Cable {
    async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().port();
        let cut = Arc::new(AtomicBool::new(false));
        let shared = Arc::clone(&cut);
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(("127.0.0.1", port)).await else { continue };
                let (near, far) = (near.into_split(), far.into_split());
                tokio::spawn(carry(near.0, far.1, Arc::clone(&shared)));
                tokio::spawn(carry(far.0, near.1, Arc::clone(&shared)));
            }
        });
        Self { port: own, cut, task }
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    cut: Arc<AtomicBool>,
) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        while cut.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            break;
        }
    }
}

#[tokio::test]
async fn a_silently_dead_connection_is_noticed_and_the_request_repeated_later() {
    let server = Server::start(&Setup::default());
    let cable = Cable::to(server.port).await;
    let mut target = server.target();
    target.port = cable.port;
    let known = server.path("cable_hosts");
    let key = std::fs::read_to_string(server.path("host_key.pub")).unwrap();
    std::fs::write(&known, format!("[127.0.0.1]:{} {key}", cable.port)).unwrap();
    let options = SshOptions { known_hosts: vec![known], keepalive: Duration::from_secs(1), ..server.options("run 1") };
    let (plan, step) = plan_with_a_file();
    let link = SshLink::connect(target, options, server.agent()).await.unwrap();
    link.converge(&plan, &step, &SlotValues::new(), CHANGE).await.unwrap();

    assert_eq!(link.lost_for(), None);
    cable.cut.store(true, Ordering::SeqCst);
    // Keepalives notice it, also while nothing is asked.
    let noticed = async {
        while link.lost_for().is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), noticed).await.expect("nobody noticed it");
    let slots = SlotValues::new();
    let asked = link.observe(&plan, &step, &slots);
    let fixed = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        cable.cut.store(false, Ordering::SeqCst);
    };
    let (found, ()) = tokio::join!(asked, fixed);
    assert!(found.unwrap()[0].satisfied);
    assert_eq!(link.lost_for(), None);
}

#[tokio::test]
async fn blobs_reach_a_host_whose_sshd_allows_one_session_a_connection() {
    let server = Server::start(&Setup { config: "MaxSessions 1", ..Setup::default() });
    std::fs::write(server.agent_path(), "an older agent").unwrap();
    let link = server.connect().await.unwrap();
    let source = Pattern::new(&[1, 700_000], u64::MAX, &|| {});
    source.deliver_to(&link).await.unwrap();
    for (digest, _) in source.list() {
        assert_eq!(stored(&server, &digest), Some(digest));
    }
    link.keep_agent().await.unwrap();
    assert_eq!(std::fs::read_dir(server.path("bin")).unwrap().count(), 1, "the old program was kept");
}

#[tokio::test]
async fn a_host_whose_sshd_allows_no_session_is_reported_with_the_setting() {
    let server = Server::start(&Setup { config: "MaxSessions 0", ..Setup::default() });
    match server.connect().await {
        Err(LinkError::Denied { reason, .. }) => assert!(reason.contains("MaxSessions"), "{reason}"),
        other => panic!("{:?}", other.err()),
    }
}
