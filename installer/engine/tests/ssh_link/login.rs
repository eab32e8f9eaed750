//! The ways to log in, against a real sshd, PAM and ssh-agent.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use kubexm_engine::link::Link as _;
use kubexm_engine::link::ssh::{Answered, KeySource, Nobody, Prompt, Question, SshLink, SshOptions, SshTarget};

use super::denied;
use super::server::{Server, Setup, password};

const PASSWORD: &str = "Pass-of-login-1";
const ONLY_PASSWORD: &str = "PasswordAuthentication yes\nAuthenticationMethods password";
const PAM: &str = "UsePAM yes\nKbdInteractiveAuthentication yes\nAuthenticationMethods keyboard-interactive";
const KEY_AND_PAM: &str =
    "UsePAM yes\nKbdInteractiveAuthentication yes\nAuthenticationMethods publickey,keyboard-interactive";
const KEY_AND_PASSWORD: &str = "PasswordAuthentication yes\nAuthenticationMethods publickey,password";

fn server(config: &'static str) -> Server {
    Server::start(&Setup {
        plain_user: true,
        password: Some(PASSWORD),
        sudoers: Some("NOPASSWD: ALL"),
        config,
        ..Setup::default()
    })
}

/// The server's user with a password and without keys.
fn with_password(server: &Server, text: &str) -> SshTarget {
    let mut target = server.target();
    target.login.keys.clear();
    target.login.password = password(text);
    target
}

/// An operator who answers what they are told to.
#[derive(Debug)]
struct Operator {
    answers: Mutex<Vec<&'static str>>,
    questions: Mutex<Vec<Question>>,
    asked: AtomicUsize,
}

impl Operator {
    fn with(answers: &[&'static str]) -> Arc<Self> {
        let answers = Mutex::new(answers.iter().rev().copied().collect());
        Arc::new(Self { answers, questions: Mutex::default(), asked: AtomicUsize::new(0) })
    }
}

#[async_trait]
impl Prompt for Operator {
    async fn ask(&self, question: Question) -> Result<Answered, Nobody> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.questions.lock().unwrap().push(question);
        let answer = self.answers.lock().unwrap().pop();
        answer.map(|answer| Answered(answer.to_owned().into())).ok_or(Nobody)
    }
}

async fn get_in(server: &Server, target: SshTarget) {
    let link = SshLink::connect(target, server.options("run 1"), server.agent()).await.unwrap();
    assert_eq!(link.facts().await.unwrap().host, "node1");
    link.close().await;
}

#[tokio::test]
async fn a_password_lets_in_where_sshd_takes_only_that() {
    let server = server(ONLY_PASSWORD);
    get_in(&server, with_password(&server, PASSWORD)).await;
}

#[tokio::test]
async fn a_wrong_password_is_tried_once_and_the_error_says_what_is_offered_and_what_was_tried() {
    let server = server(ONLY_PASSWORD);
    let target = with_password(&server, "Wrong-of-login-1");
    let refused = denied(SshLink::connect(target, server.options("run 1"), server.agent()).await);
    assert!(refused.contains("offers password") && refused.contains("tried: the password"), "{refused}");
    assert!(!refused.contains("Wrong-of-login"), "{refused}");
    let log = std::fs::read_to_string(server.path("log")).unwrap();
    assert_eq!(log.matches("Failed password").count(), 1, "{log}");

    let only_keys = denied(SshLink::connect(server.target(), server.options("run 1"), server.agent()).await);
    assert!(only_keys.contains("passwordFrom") && only_keys.contains("tried: nothing"), "{only_keys}");
}

#[tokio::test]
async fn the_password_answers_the_question_that_pam_asks() {
    let server = server(PAM);
    get_in(&server, with_password(&server, PASSWORD)).await;
    let target = with_password(&server, "Wrong-of-login-2");
    let refused = denied(SshLink::connect(target, server.options("run 1"), server.agent()).await);
    assert!(refused.contains("keyboard-interactive") && !refused.contains("Wrong-of-login"), "{refused}");
}

#[tokio::test]
async fn a_key_and_then_a_password_are_given_where_sshd_wants_both() {
    for config in [KEY_AND_PASSWORD, KEY_AND_PAM] {
        let server = server(config);
        let mut target = server.target();
        target.login.password = password(PASSWORD);
        get_in(&server, target.clone()).await;
        target.login.password = None;
        let refused = denied(SshLink::connect(target, server.options("run 1"), server.agent()).await);
        assert!(refused.contains("client_key") && refused.contains("was accepted"), "{refused}");
    }
}

#[tokio::test]
async fn other_prompts_are_asked_of_the_operator_who_may_retry() {
    let server = server(KEY_AND_PAM);
    let operator = Operator::with(&["Mistyped-of-login", PASSWORD]);
    let options = SshOptions { prompt: operator.clone(), ..server.options("run 1") };
    SshLink::connect(server.target(), options, server.agent()).await.unwrap();
    let questions = operator.questions.lock().unwrap();
    assert_eq!(questions.len(), 2);
    assert!(questions[1].who.contains("node1") && questions[1].text.contains("assword"), "{questions:?}");
    assert!(!questions[1].echo, "a password would be shown");
}

#[tokio::test]
async fn a_question_that_nobody_can_answer_is_reported_with_its_text() {
    let server = server(PAM);
    let refused = denied(SshLink::connect(server.target(), server.options("run 1"), server.agent()).await);
    assert!(refused.contains("Password") && refused.contains("no terminal"), "{refused}");
}

/// A real ssh-agent; ends with the value.
struct SshAgent {
    child: Child,
    socket: std::path::PathBuf,
}

impl SshAgent {
    fn start(server: &Server) -> Self {
        let socket = server.path("agent.sock");
        let child = Command::new("ssh-agent").arg("-D").arg("-a").arg(&socket).stdout(Stdio::null()).spawn().unwrap();
        let agent = Self { child, socket };
        while std::os::unix::net::UnixStream::connect(&agent.socket).is_err() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        agent
    }

    fn add(&self, key: &std::path::Path) {
        let added = Command::new("ssh-add").arg("-q").arg(key).env("SSH_AUTH_SOCK", &self.socket).status().unwrap();
        assert!(added.success());
    }
}

impl Drop for SshAgent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn keys_of_the_ssh_agent_are_offered_until_one_is_taken() {
    let server = Server::start(&Setup::default());
    let agent = SshAgent::start(&server);
    let mut target = server.target();
    target.login.keys = vec![KeySource::Agent(agent.socket.clone())];
    let empty = denied(SshLink::connect(target.clone(), server.options("run 1"), server.agent()).await);
    assert!(empty.contains("ssh-agent, which holds no key"), "{empty}");

    agent.add(&server.path("other_key"));
    let refused = denied(SshLink::connect(target.clone(), server.options("run 1"), server.agent()).await);
    assert!(refused.contains("ssh-agent's key") && refused.contains("SHA256:"), "{refused}");

    let rsa = server.path("rsa");
    let made = Command::new("ssh-keygen").args(["-q", "-t", "rsa", "-b", "2048", "-N", "", "-f"]).arg(&rsa).status();
    assert!(made.unwrap().success());
    let public = std::fs::read_to_string(server.path("rsa.pub")).unwrap();
    let mut known = std::fs::OpenOptions::new().append(true).open(server.path("authorized_keys")).unwrap();
    known.write_all(public.as_bytes()).unwrap();
    agent.add(&rsa);
    get_in(&server, target.clone()).await;

    drop(agent);
    let gone = denied(SshLink::connect(target, server.options("run 1"), server.agent()).await);
    assert!(gone.contains("agent.sock"), "{gone}");
}

#[tokio::test]
async fn a_passphrase_is_asked_once_for_all_hosts() {
    let server = Server::start(&Setup::default());
    let lock = ["-q", "-p", "-P", "", "-N", "Phrase-of-login", "-f"];
    assert!(Command::new("ssh-keygen").args(lock).arg(server.path("client_key")).status().unwrap().success());
    let refused = denied(server.connect().await);
    assert!(refused.contains("passphrase") && refused.contains("ssh-add"), "{refused}");

    let operator = Operator::with(&["Mistyped-of-login", "Phrase-of-login"]);
    let options = SshOptions { prompt: operator.clone(), ..server.options("run 1") };
    let links = (0..3).map(|_| SshLink::connect(server.target(), options.clone(), server.agent()));
    for link in futures::future::join_all(links).await {
        link.unwrap();
    }
    assert_eq!(operator.asked.load(Ordering::SeqCst), 2, "one mistyped, one right");
}
