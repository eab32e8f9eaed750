//! A host that accepts a login and answers keepalives, and nothing else: whatever is asked of it ends.

use std::sync::Arc;
use std::time::Duration;

use kubexm_engine::link::ssh::{AgentBinary, Login, NoTerminal, SshLink, SshOptions, SshTarget};
use kubexm_engine::link::{LinkError, known_hosts};
use russh::server::{Auth, ChannelOpenHandle, Config, Handler, Msg, Session};
use tokio::net::TcpListener;

use crate::server::keygen;

/// Sessions that were asked for, and are neither opened nor refused.
struct Silent(Vec<ChannelOpenHandle>);

impl Handler for Silent {
    type Error = russh::Error;

    async fn auth_none(&mut self, _: &str) -> Result<Auth, russh::Error> {
        Ok(Auth::Accept)
    }

    async fn channel_open_session(
        &mut self,
        _: russh::Channel<Msg>,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), russh::Error> {
        self.0.push(reply);
        Ok(())
    }
}

#[tokio::test]
async fn a_host_that_opens_no_session_is_out_of_reach_after_the_time_for_a_connection() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    keygen(&at("host_key"));
    let keys = vec![russh::keys::load_secret_key(at("host_key"), None).unwrap()];
    let config = Arc::new(Config { keys, ..Config::default() });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        russh::server::run_stream(config, stream, Silent(Vec::new())).await.unwrap().await
    });
    let key = std::fs::read_to_string(at("host_key.pub")).unwrap().parse().unwrap();
    known_hosts::learn(&at("known_hosts"), "127.0.0.1", port, &key).unwrap();
    let target = SshTarget {
        name: "node1".into(),
        address: "127.0.0.1".into(),
        port,
        login: Login { user: "operator".into(), keys: Vec::new(), password: None },
        sudo_password: None,
        via: Vec::new(),
        folders: kubexm_plan::facts::DataFolders::default(),
    };
    let options = SshOptions {
        known_hosts: vec![at("known_hosts")],
        accept_new: false,
        connect_timeout: Duration::from_secs(3),
        keepalive: Duration::from_millis(200),
        holder: "run 1".into(),
        prompt: Arc::new(NoTerminal),
        shared: Arc::default(),
    };
    let agent = AgentBinary { sources: [].into(), path: at("agent").display().to_string() };
    let connecting = tokio::time::timeout(Duration::from_secs(60), SshLink::connect(target, options, agent)).await;
    match connecting.expect("an end") {
        Err(LinkError::Unreachable { reason, .. }) => assert!(reason.contains("opening a session"), "{reason}"),
        other => panic!("{:?}", other.err()),
    }
}
