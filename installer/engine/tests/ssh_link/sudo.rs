//! A sudo that asks for a password: the real one, and one that writes down what it is given.

use std::sync::{Arc, Mutex};

use kubexm_engine::link::ssh::SshLink;
use kubexm_engine::link::{Link as _, LinkError, SlotValues};

use super::server::{Server, Setup, password};
use super::{CHANGE, TEXT, plan_with_a_file};

const PASSWORD: &str = "Pass-of-sudo-1";

fn server(rule: &'static str) -> Server {
    Server::start(&Setup { plain_user: true, password: Some(PASSWORD), sudoers: Some(rule), ..Setup::default() })
}

async fn connect(server: &Server, secret: Option<&str>) -> Result<SshLink, LinkError> {
    let mut target = server.target();
    target.sudo_password = secret.and_then(password);
    SshLink::connect(target, server.options("run 1"), server.agent()).await
}

fn no_sudo(result: Result<SshLink, LinkError>) -> String {
    match result {
        Err(error @ LinkError::NoSudo { .. }) => error.to_string(),
        other => panic!("{:?}", other.err()),
    }
}

async fn works(link: &SshLink, server: &Server) {
    let (plan, step) = plan_with_a_file();
    link.converge(&plan, &step, &SlotValues::new(), CHANGE).await.unwrap();
    assert_eq!(std::fs::read_to_string(server.path("root/etc/kubexm-test.conf")).unwrap(), TEXT);
}

#[tokio::test]
async fn the_real_sudo_gets_the_password_and_the_agent_none_of_it() {
    let server = server("ALL");
    let link = connect(&server, Some(PASSWORD)).await.unwrap();
    works(&link, &server).await;
    use std::os::unix::fs::MetadataExt as _;
    assert_eq!(std::fs::metadata(server.path("root/etc/kubexm-test.conf")).unwrap().uid(), 0, "not as root");
    link.revert_agent().await.unwrap();
    assert!(!server.agent_path().exists());
}

#[tokio::test]
async fn a_password_that_sudo_does_not_ask_for_is_not_sent() {
    let server = server("NOPASSWD: ALL");
    works(&connect(&server, Some(PASSWORD)).await.unwrap(), &server).await;
}

#[tokio::test]
async fn a_sudo_that_asks_where_no_password_is_given_names_the_key_of_the_file_that_gives_it() {
    let server = server("ALL");
    let refused = no_sudo(connect(&server, None).await);
    assert!(refused.contains("sudoPasswordFrom") && refused.contains("password is required"), "{refused}");
}

#[tokio::test]
async fn a_wrong_sudo_password_is_tried_once_and_not_shown() {
    let server = server("ALL");
    let refused = no_sudo(connect(&server, Some("Wrong-of-sudo-1")).await);
    assert!(refused.contains("refused the password") && !refused.contains("Wrong-of-sudo"), "{refused}");
    assert!(!server.agent_path().exists());
}

#[tokio::test]
async fn a_user_who_may_not_sudo_is_reported_so() {
    let server = Server::start(&Setup { plain_user: true, password: Some(PASSWORD), ..Setup::default() });
    let refused = no_sudo(connect(&server, Some(PASSWORD)).await);
    assert!(refused.contains("not in the sudoers"), "{refused}");
}

/// Asks like sudo, and writes down its arguments, its environment and the password.
const WATCHED: &str = r#"env >> "$KUBEXM_TEST_ROOT/env"; echo "$*" >> "$KUBEXM_TEST_ROOT/argv"
[ "$1 $2" = "-S -p" ] || exit 7; printf "$3" >&2; read -r given; echo "$given" >> "$KUBEXM_TEST_ROOT/given"
[ "$given" = Pass-of-sudo-1 ] || exit 8; shift 3; exec "$@""#;

/// Everything that is logged, of every crate and every level.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn passwords_reach_no_argument_no_environment_no_log_and_no_debug_text() {
    const LOGIN: &str = "Pass-of-secrets-1";
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone());
    subscriber.try_init().unwrap();
    let server = Server::start(&Setup {
        plain_user: true,
        password: Some(LOGIN),
        sudo: Some(WATCHED),
        config: "PasswordAuthentication yes\nAuthenticationMethods password",
        ..Setup::default()
    });
    let mut target = server.target();
    target.login.keys.clear();
    target.login.password = password(LOGIN);
    target.sudo_password = password(PASSWORD);
    let shown = format!("{target:?}");
    let link = SshLink::connect(target, server.options("run 1"), server.agent()).await.unwrap();
    works(&link, &server).await;

    let read = |name: &str| std::fs::read_to_string(server.path(&format!("root/{name}"))).unwrap();
    let given: Vec<String> = read("given").lines().map(str::to_owned).collect();
    assert!(given.len() >= 3 && given.iter().all(|line| line == PASSWORD), "{}", given.len());
    let logged = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(logged.contains("russh"), "nothing was logged, so nothing was tested");
    for (place, text) in [("argv", read("argv")), ("env", read("env")), ("log", logged), ("debug", shown)] {
        for secret in [LOGIN, PASSWORD] {
            assert!(!text.contains(secret), "a password is in the {place}");
        }
    }
}
