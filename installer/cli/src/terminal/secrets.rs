//! Secrets of the operator: read from where cluster.yaml says, or asked on the terminal. Never shown, never stored.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use dialoguer::console::Term;
use kubexm_engine::link::ssh::{Answered, Nobody, Password, Prompt, Question};
use kubexm_session::{Credentials, Home};
use kubexm_spec::cluster::{DockerLogin, SecretSource};
use kubexm_spec::{error_chain, printable};
use tokio::sync::Mutex;
use zeroize::Zeroizing;

/// Longest file that is read for a password, in bytes.
const MOST: u64 = 64 << 10;

/// The operator's own secrets.
#[derive(Debug)]
pub struct Secrets;

impl Credentials for Secrets {
    fn password(&self, source: &SecretSource, home: &Home) -> Result<Password, String> {
        read(source, home)
    }

    fn secret(&self, source: &SecretSource, home: &Home) -> Result<Zeroizing<String>, String> {
        text(source, home).map(|(_, text)| text)
    }

    fn docker_password(&self, login: &DockerLogin<'_>, home: &Home) -> Result<Zeroizing<String>, String> {
        let file = kubexm_seed::Credentials::file(home.expand(login.path));
        file.password(login.registry, login.username).map_err(|error| error_chain(&error))
    }

    fn passphrase(&self, path: &Path) -> Result<Zeroizing<String>, String> {
        passphrase(path, false)
    }

    fn new_passphrase(&self, path: &Path) -> Result<Zeroizing<String>, String> {
        passphrase(path, true)
    }

    fn prompt(&self) -> Arc<dyn Prompt> {
        Arc::new(Terminal::default())
    }
}

/// Names a file with the passphrase of `$KUBEXM_HOME/identity`, for where nobody can be asked.
const PASSPHRASE_FILE: &str = "KUBEXM_PASSPHRASE_FILE";

/// From the file that the environment names, or from the terminal; twice if it is new.
fn passphrase(identity: &Path, new: bool) -> Result<Zeroizing<String>, String> {
    let entered = match std::env::var_os(PASSPHRASE_FILE) {
        Some(path) => {
            let path = PathBuf::from(path);
            let text = file(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            Zeroizing::new(text.lines().next().unwrap_or_default().to_owned())
        }
        None if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) => {
            return Err(format!(
                "it needs a passphrase, and there is no terminal to ask: name a file with it in {PASSPHRASE_FILE}"
            ));
        }
        None => {
            let entered = typed(&format!("Passphrase of {}", identity.display()))?;
            if new && typed("The same once more")? != entered {
                return Err("the two passphrases differ; nothing was changed".to_owned());
            }
            entered
        }
    };
    if entered.is_empty() { Err("the passphrase is empty".to_owned()) } else { Ok(entered) }
}

/// Asks at the terminal, without an echo.
fn typed(prompt: &str) -> Result<Zeroizing<String>, String> {
    let term = Term::stderr();
    let typed = term.write_str(&printable(&format!("{prompt}: "))).and_then(|()| term.read_secure_line());
    typed.map(Zeroizing::new).map_err(|error| format!("no passphrase was entered: {error}"))
}

/// Reads a password. The error is a sentence that shows nothing of it.
fn read(source: &SecretSource, home: &Home) -> Result<Password, String> {
    let (place, text) = text(source, home)?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Password::new(line.strip_suffix('\r').unwrap_or(line)).map_err(|wrong| format!("the password in {place}: {wrong}"))
}

/// What a source holds, and what it is called.
fn text(source: &SecretSource, home: &Home) -> Result<(String, Zeroizing<String>), String> {
    Ok(match source {
        SecretSource::Env(name) => {
            let text = std::env::var(name).ok().ok_or_else(|| {
                format!("the environment variable {name} is not set (or no text): export it and run again")
            })?;
            (format!("the environment variable {name}"), Zeroizing::new(text))
        }
        SecretSource::File(path) => {
            let path = home.expand(path);
            let place = path.display().to_string();
            (place.clone(), file(&path).map_err(|error| format!("cannot read {place}: {error}"))?)
        }
    })
}

fn file(path: &std::path::Path) -> std::io::Result<Zeroizing<String>> {
    use std::io::Read as _;
    let mut text = Zeroizing::new(String::new());
    std::fs::File::open(path)?.take(MOST).read_to_string(&mut text)?;
    Ok(text)
}

/// Asks at the controlling terminal, one question at a time.
#[derive(Clone, Debug, Default)]
struct Terminal(Arc<Mutex<()>>);

#[async_trait]
impl Prompt for Terminal {
    async fn ask(&self, question: Question) -> Result<Answered, Nobody> {
        if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
            return Err(Nobody);
        }
        let _one_at_a_time = self.0.lock().await;
        let ask = move || {
            let term = Term::stderr();
            let said =
                if question.instructions.is_empty() { String::new() } else { format!(" {}", question.instructions) };
            term.clear_line()?;
            // A server's own words: they must not look like ours.
            term.write_str(&printable(&format!("{} asks:{said}\n{} ", question.who, question.text)))?;
            if question.echo { term.read_line() } else { term.read_secure_line() }
        };
        match tokio::task::spawn_blocking(ask).await {
            Ok(Ok(answer)) => Ok(Answered(Zeroizing::new(answer))),
            Ok(Err(_)) | Err(_) => Err(Nobody),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_of_docker_is_read_for_its_user_and_a_refusal_shows_nothing_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), Some(folder.path().to_owned()), None);
        // robot:hunter2, in base64.
        let text =
            r#"{"auths": {"r.test:8443": {"auth": "cm9ib3Q6aHVudGVyMg=="}, "t.test": {"identitytoken": "hunter2"}}}"#;
        std::fs::write(folder.path().join("config.json"), text).unwrap();
        let read = |path: &str, registry: &str, username: &str| {
            Secrets.docker_password(&DockerLogin { path: Path::new(path), registry, username }, &home)
        };
        assert_eq!(read("~/config.json", "r.test:8443", "robot").unwrap().as_str(), "hunter2");
        std::fs::write(folder.path().join("broken.json"), "{\"auths\": {\"r.test\": hunter2").unwrap();
        for (path, registry, username, said) in [
            ("~/config.json", "r.test:8443", "alice", "of another user than alice"),
            ("~/config.json", "r.test", "robot", "no login for r.test"),
            ("~/config.json", "t.test", "robot", "identity token"),
            ("~/none.json", "r.test", "robot", "is not there"),
            ("~/broken.json", "r.test", "robot", "is not JSON"),
            ("~", "r.test", "robot", "it is a folder"),
        ] {
            let error = read(path, registry, username).unwrap_err();
            assert!(error.contains(said) && !error.contains("hunter2") && !error.contains("cm9ib3"), "{error}");
        }
    }

    #[test]
    fn a_file_with_more_than_a_password_is_refused_without_a_word_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        let home = Home::new(folder.path().to_owned(), None, None);
        let source = SecretSource::File(path.clone());
        assert!(read(&source, &home).unwrap_err().contains("password"));
        std::fs::write(&path, "hunter2\n").unwrap();
        assert_eq!(read(&source, &home).unwrap(), Password::new("hunter2").unwrap());
        std::fs::write(&path, "hunter2\nhunter3\n").unwrap();
        let refused = read(&source, &home).unwrap_err();
        assert!(refused.contains("more than one line") && !refused.contains("hunter"), "{refused}");
        let unset = read(&SecretSource::Env("KUBEXM_NOT_SET".into()), &home).unwrap_err();
        assert!(unset.contains("KUBEXM_NOT_SET"), "{unset}");
    }
}
