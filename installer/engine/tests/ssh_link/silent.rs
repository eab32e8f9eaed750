//! Hostile servers: one that accepts a login and answers keepalives, and nothing else, so that whatever is asked of it ends; and one that asks
//! without end.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use kubexm_engine::link::ssh::{
    AgentBinary, Answered, Login, NoTerminal, Nobody, Prompt, Question, SshLink, SshOptions, SshTarget,
};
use kubexm_engine::link::{LinkError, known_hosts};
use russh::MethodKind;
use russh::server::{Auth, ChannelOpenHandle, Config, Handler, Msg, Response, Session};
use tokio::net::TcpListener;

use crate::denied;
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

/// Asks a thousand questions at once.
struct Curious;

impl Handler for Curious {
    type Error = russh::Error;

    async fn auth_none(&mut self, _: &str) -> Result<Auth, russh::Error> {
        let proceed_with_methods = Some([MethodKind::KeyboardInteractive].as_slice().into());
        Ok(Auth::Reject { proceed_with_methods, partial_success: false })
    }

    async fn auth_keyboard_interactive<'a>(
        &'a mut self,
        _: &str,
        _: &str,
        answers: Option<Response<'a>>,
    ) -> Result<Auth, russh::Error> {
        if answers.is_some() {
            return Ok(Auth::Accept);
        }
        let prompts = vec![(Cow::Borrowed("code: "), true); 1_000];
        Ok(Auth::Partial { name: "".into(), instructions: "".into(), prompts: prompts.into() })
    }
}

/// Listens, and connects to it.
async fn connected<H: Handler<Error = russh::Error> + Send + 'static>(
    folder: &Path,
    handler: H,
    prompt: Arc<dyn Prompt>,
) -> Result<SshLink, LinkError> {
    let at = |name: &str| folder.join(name);
    keygen(&at("host_key"));
    let keys = vec![russh::keys::load_secret_key(at("host_key"), None).unwrap()];
    let config = Arc::new(Config { keys, ..Config::default() });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        russh::server::run_stream(config, stream, handler).await.unwrap().await
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
        // Enough for a login on a busy machine, and for keepalives while a session is waited for.
        connect_timeout: Duration::from_secs(10),
        keepalive: Duration::from_secs(1),
        holder: "run 1".into(),
        prompt,
        shared: Arc::default(),
    };
    let agent = AgentBinary { sources: [].into(), path: at("agent").display().to_string() };
    let connecting = tokio::time::timeout(Duration::from_secs(60), SshLink::connect(target, options, agent)).await;
    connecting.unwrap()
}

#[tokio::test]
async fn a_host_that_opens_no_session_is_out_of_reach_after_the_time_for_a_connection() {
    let folder = tempfile::tempdir().unwrap();
    match connected(folder.path(), Silent(Vec::new()), Arc::new(NoTerminal)).await {
        Err(LinkError::Unreachable { reason, .. }) => assert!(reason.contains("opening a session"), "{reason}"),
        other => panic!("{:?}", other.err()),
    }
}

/// Answers whatever is asked.
#[derive(Debug, Default)]
struct Patient(AtomicUsize);

#[async_trait]
impl Prompt for Patient {
    async fn ask(&self, _: Question) -> Result<Answered, Nobody> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Answered("1".to_owned().into()))
    }
}

#[tokio::test]
async fn a_host_that_asks_a_thousand_questions_at_once_is_answered_none() {
    let folder = tempfile::tempdir().unwrap();
    let operator = Arc::new(Patient::default());
    let refused = denied(connected(folder.path(), Curious, operator.clone()).await);
    assert!(refused.contains("asks 1000 questions at once"), "{refused}");
    assert_eq!(operator.0.load(Ordering::SeqCst), 0);
}
