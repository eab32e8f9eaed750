//! Logging in (RFC 4252): keys, the password, and the server's own questions (RFC 4256), in sequence if the server
//! requires several.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use russh::MethodKind;
use russh::MethodSet;
use russh::client::{AuthResult, Handle, KeyboardInteractiveAuthResponse as Interactive, Prompt as Asked};
use russh::keys::agent::AgentIdentity;
use russh::keys::agent::client::AgentClient;
use russh::keys::{Algorithm, HashAlg, PrivateKeyWithHashAlg};
use tokio::time::Instant;
use zeroize::Zeroize as _;

use super::SshOptions;
use super::endpoint::{Endpoint, within};
use super::hostkey::Checker;
use super::secret::{Question, shown};
use super::target::{KeySource, Login};
use crate::link::{LinkError, known_hosts};

/// The most methods that a server may require in sequence.
const MAX_STAGES: usize = 6;
/// How often a code may be mistyped.
const TRIES: usize = 3;
/// The most rounds of questions in one attempt.
const MAX_ROUNDS: usize = 20;
/// The most questions at once.
const MOST_QUESTIONS: usize = 20;
/// How long a hardware token of ssh-agent may wait for a touch. sshd has a limit of its own, if it is a real one.
const TOUCH: Duration = Duration::from_secs(120);
/// All answers of a server may take as long as so many slow ones.
const ANSWERS: u32 = 6;

/// Logs in, or returns an error with the server's methods and the attempted ones.
pub async fn authenticate(
    handle: &mut Handle<Checker>,
    endpoint: &Endpoint,
    login: &Login,
    options: &SshOptions,
) -> Result<(), LinkError> {
    let user = login.user.as_str();
    let mut patience = Patience::of(options.connect_timeout);
    let attempt = patience.within(endpoint, handle.authenticate_none(user)).await?;
    let mut attempt = match attempt.map_err(|error| endpoint.unreachable(&ended(&error)))? {
        AuthResult::Success => return Ok(()),
        AuthResult::Failure { remaining_methods, .. } => Attempt {
            handle,
            endpoint,
            login,
            options,
            offered: remaining_methods,
            tried: Vec::new(),
            accepted: Vec::new(),
            spent: BTreeSet::new(),
            password_spent: false,
            patience,
        },
    };
    for _ in 0..MAX_STAGES {
        match attempt.stage().await? {
            Some(Verdict::In) => return Ok(()),
            Some(Verdict::Further) => {}
            None => break,
        }
    }
    Err(attempt.refused())
}

enum Verdict {
    In,
    /// Accepted, but the server requires another method.
    Further,
}

struct Attempt<'a> {
    handle: &'a mut Handle<Checker>,
    endpoint: &'a Endpoint,
    login: &'a Login,
    options: &'a SshOptions,
    offered: MethodSet,
    tried: Vec<String>,
    accepted: Vec<String>,
    /// Fingerprints of keys that were offered already.
    spent: BTreeSet<String>,
    password_spent: bool,
    patience: Patience,
}

/// How long one answer of the server may take, and all of them together: it decides how many there are. What a person needs for an answer
/// is not in it.
struct Patience {
    one: Duration,
    left: Duration,
}

impl Patience {
    fn of(one: Duration) -> Self {
        Self { one, left: ANSWERS * one + TOUCH }
    }

    async fn within<T>(&mut self, endpoint: &Endpoint, work: impl Future<Output = T>) -> Result<T, LinkError> {
        self.up_to(self.one, endpoint, work).await
    }

    async fn up_to<T>(
        &mut self,
        limit: Duration,
        endpoint: &Endpoint,
        work: impl Future<Output = T>,
    ) -> Result<T, LinkError> {
        let begun = Instant::now();
        let answer = within(limit.min(self.left), endpoint, "authenticating", work).await;
        self.left = self.left.saturating_sub(begun.elapsed());
        answer
    }
}

impl Attempt<'_> {
    /// Tries all methods until the server accepts one.
    async fn stage(&mut self) -> Result<Option<Verdict>, LinkError> {
        if self.offered.contains(&MethodKind::PublicKey) {
            for source in &self.login.keys {
                let found = match source {
                    KeySource::File(path) => self.file(path).await?,
                    KeySource::Agent(socket) => self.agent(socket).await?,
                };
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        if self.offered.contains(&MethodKind::Password)
            && !self.password_spent
            && let Some(password) = &self.login.password
        {
            self.password_spent = true;
            let user = self.login.user.as_str();
            let asking = self.handle.authenticate_password(user, password.expose());
            let answer = self.patience.within(self.endpoint, asking).await?;
            let found = self.judge(answer, "the password".to_owned())?;
            if found.is_some() {
                return Ok(found);
            }
        }
        if self.offered.contains(&MethodKind::KeyboardInteractive) {
            return self.interactive().await;
        }
        Ok(None)
    }

    async fn file(&mut self, path: &Path) -> Result<Option<Verdict>, LinkError> {
        let prompt = self.options.prompt.as_ref();
        let key = self.options.shared.key(path, prompt).await.map_err(|reason| self.endpoint.denied(reason))?;
        let fingerprint = known_hosts::fingerprint(key.public_key());
        if !self.spent.insert(fingerprint.clone()) {
            return Ok(None);
        }
        let what = format!("the key {} ({fingerprint})", path.display());
        let hash = self.rsa_hash(&key.algorithm()).await?;
        let key = PrivateKeyWithHashAlg::new(key, hash);
        let asking = self.handle.authenticate_publickey(self.login.user.as_str(), key);
        let answer = self.patience.within(self.endpoint, asking).await?;
        self.judge(answer, what)
    }

    async fn agent(&mut self, socket: &Path) -> Result<Option<Verdict>, LinkError> {
        let limit = self.options.connect_timeout;
        let asking = async {
            let mut agent = AgentClient::connect_uds(socket).await?;
            let identities = agent.request_identities().await?;
            Ok::<_, russh::keys::Error>((agent, identities))
        };
        let (mut agent, identities) = match tokio::time::timeout(limit, asking).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                self.tried.push(format!("ssh-agent at {} (it cannot be asked: {error})", socket.display()));
                return Ok(None);
            }
            Err(_) => {
                self.tried.push(format!("ssh-agent at {} (it does not answer)", socket.display()));
                return Ok(None);
            }
        };
        if identities.is_empty() {
            self.tried.push("ssh-agent, which holds no key (`ssh-add`)".to_owned());
        }
        for identity in identities {
            let fingerprint = known_hosts::fingerprint(&identity.public_key());
            let certified = matches!(identity, AgentIdentity::Certificate { .. });
            if !self.spent.insert(format!("{fingerprint}{}", if certified { " certified" } else { "" })) {
                continue;
            }
            let hash = self.rsa_hash(&identity.public_key().algorithm()).await?;
            let what = format!("ssh-agent's key {} ({fingerprint})", shown(identity.comment()));
            let user = self.login.user.as_str();
            let asking = async {
                match identity {
                    AgentIdentity::PublicKey { key, .. } => {
                        self.handle.authenticate_publickey_with(user, key, hash, &mut agent).await
                    }
                    AgentIdentity::Certificate { certificate, .. } => {
                        self.handle.authenticate_certificate_with(user, certificate, hash, &mut agent).await
                    }
                }
            };
            let answer = self.patience.up_to(limit.max(TOUCH), self.endpoint, asking).await?;
            match answer {
                Ok(answer) => {
                    let found = self.judge(Ok(answer), what)?;
                    if found.is_some() {
                        return Ok(found);
                    }
                }
                Err(error) => self.tried.push(format!("{what} (the agent does not sign: {error})")),
            }
        }
        Ok(None)
    }

    /// The strongest SHA-2 variant for RSA keys that the server supports.
    async fn rsa_hash(&mut self, algorithm: &Algorithm) -> Result<Option<HashAlg>, LinkError> {
        if !matches!(algorithm, Algorithm::Rsa { .. }) {
            return Ok(None);
        }
        let asking = self.handle.best_supported_rsa_hash();
        let hash = self.patience.within(self.endpoint, asking).await?;
        Ok(hash.map_err(|error| self.endpoint.unreachable(&ended(&error)))?.unwrap_or(Some(HashAlg::Sha512)))
    }

    /// Answers the server's questions: password prompts with the given password, others by asking the operator.
    async fn interactive(&mut self) -> Result<Option<Verdict>, LinkError> {
        let mut password_given = false;
        for _ in 0..TRIES {
            let mut person = false;
            let starting = self.handle.authenticate_keyboard_interactive_start(self.login.user.as_str(), None);
            let mut answer = self.patience.within(self.endpoint, starting).await?;
            for _ in 0..MAX_ROUNDS {
                let Ok(Interactive::InfoRequest { name, instructions, prompts }) = answer else { break };
                let said = [name, instructions].map(|text| shown(&text)).join(" ").trim().to_owned();
                let Some(answers) = self.answers(&said, prompts, &mut password_given, &mut person).await else {
                    return Ok(None);
                };
                let answering = self.handle.authenticate_keyboard_interactive_respond(answers);
                answer = self.patience.within(self.endpoint, answering).await?;
            }
            let result = answer.map(|answer| match answer {
                Interactive::Success => AuthResult::Success,
                Interactive::Failure { remaining_methods, partial_success } => {
                    AuthResult::Failure { remaining_methods, partial_success }
                }
                Interactive::InfoRequest { .. } => {
                    AuthResult::Failure { remaining_methods: self.offered.clone(), partial_success: false }
                }
            });
            let what = if person { "the typed answer" } else { "the password, as answer to its question" };
            let found = self.judge(result, what.to_owned())?;
            // A given password that was wrong is not tried again.
            if found.is_some() || !person {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// One answer for each prompt; none if the operator cannot be asked.
    async fn answers(
        &mut self,
        said: &str,
        prompts: Vec<Asked>,
        password_given: &mut bool,
        person: &mut bool,
    ) -> Option<Vec<String>> {
        let mut answers: Vec<String> = Vec::new();
        if prompts.len() > MOST_QUESTIONS {
            // Who answers them would do nothing else.
            self.tried.push(format!("keyboard-interactive, which asks {} questions at once", prompts.len()));
            return None;
        }
        for asked in prompts {
            let text = shown(&asked.prompt);
            if let Some(password) = self.login.password.as_ref()
                && wants_password(&asked)
                && !*password_given
            {
                *password_given = true;
                answers.push(password.expose().to_owned());
                continue;
            }
            *person = true;
            let question = Question {
                who: format!("{} ({}@{})", self.endpoint.host, self.login.user, self.endpoint.address),
                instructions: said.to_owned(),
                text: text.clone(),
                echo: asked.echo,
            };
            match self.options.prompt.ask(question).await {
                Ok(answer) => answers.push(String::clone(&answer.0)),
                Err(nobody) => {
                    answers.zeroize();
                    self.tried.push(format!("keyboard-interactive, which asks {text:?} (and {nobody})"));
                    return None;
                }
            }
        }
        Some(answers)
    }

    /// Interprets a server's answer.
    fn judge(&mut self, answer: Result<AuthResult, russh::Error>, what: String) -> Result<Option<Verdict>, LinkError> {
        match answer {
            Ok(AuthResult::Success) => Ok(Some(Verdict::In)),
            Ok(AuthResult::Failure { remaining_methods, partial_success: true }) => {
                self.accepted.push(what);
                self.offered = remaining_methods;
                Ok(Some(Verdict::Further))
            }
            // russh reports a closed connection this way; a server names at least the method that failed.
            Ok(AuthResult::Failure { remaining_methods, .. }) if remaining_methods.is_empty() => Err(self.cut(what)),
            Ok(AuthResult::Failure { .. }) => {
                self.tried.push(what);
                Ok(None)
            }
            Err(_) => Err(self.cut(what)),
        }
    }

    /// The connection was closed: by the network, or by sshd after too many attempts.
    fn cut(&self, what: String) -> LinkError {
        if self.tried.is_empty() {
            return self.endpoint.unreachable(&format!("the connection ended while authenticating with {what}"));
        }
        self.endpoint.denied(format!(
            "the server ended the connection after it refused {}; it allows few tries (MaxAuthTries): name one key with \
             privateKeyPath and leave `agent` out",
            self.tried.join(", ")
        ))
    }

    fn refused(&self) -> LinkError {
        let user = &self.login.user;
        let offered: Vec<&str> = self.offered.iter().map(<&str>::from).collect();
        let offers = |kind| self.offered.contains(&kind);
        let mut text = format!("the login of user {user} was refused");
        if !self.accepted.is_empty() {
            text.push_str(&format!(": {} was accepted, but the server requires more", self.accepted.join(", ")));
        }
        let tried = if self.tried.is_empty() { "nothing".to_owned() } else { self.tried.join(", ") };
        text.push_str(&format!("; the server offers {}; tried: {tried}", offered.join(", ")));
        let mut hints = Vec::new();
        if offers(MethodKind::PublicKey) {
            hints.push(if self.spent.is_empty() {
                "name a key with privateKeyPath, or use ssh-agent's with agent: true".to_owned()
            } else {
                format!(
                    "put the key's public half into {user}'s .ssh/authorized_keys there, or name another user or key"
                )
            });
        }
        let password = offers(MethodKind::Password) || offers(MethodKind::KeyboardInteractive);
        if password && self.login.password.is_none() {
            hints.push("give the password with passwordFrom".to_owned());
        }
        if !hints.is_empty() {
            text.push_str(&format!(" ({})", hints.join("; ")));
        }
        self.endpoint.denied(text)
    }
}

/// Whether a hidden prompt asks for the account's password, and not for a code or a new password.
fn wants_password(asked: &Asked) -> bool {
    let text = asked.prompt.to_lowercase();
    let other = ["one-time", "one time", "otp", "code", "token", "new ", "retype"];
    !asked.echo && text.contains("password") && !other.iter().any(|word| text.contains(word))
}

fn ended(error: &russh::Error) -> String {
    format!("the connection ended while authenticating: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_answers_only_what_asks_for_it() {
        let asks = |prompt: &str, echo| wants_password(&Asked { prompt: prompt.to_owned(), echo });
        assert!(asks("Password: ", false) && asks("(alice@node1) Password for alice:", false));
        assert!(!asks("Password: ", true), "what is shown on the screen is no password");
        for other in
            ["Verification code: ", "One-time password (OATH) for alice: ", "New password: ", "Retype new password: "]
        {
            assert!(!asks(other, false), "{other}");
        }
    }

    /// The server decides how many questions without a person there are.
    #[tokio::test(start_paused = true)]
    async fn slow_answers_of_a_server_have_one_end_together() {
        let endpoint = Endpoint { host: "node1".to_owned(), address: "10.0.0.1".to_owned(), port: 22 };
        let (one, begun) = (Duration::from_secs(20), Instant::now());
        let mut patience = Patience::of(one);
        while patience.within(&endpoint, tokio::time::sleep(one - Duration::from_secs(1))).await.is_ok() {}
        assert_eq!(begun.elapsed(), ANSWERS * one + TOUCH);
    }
}
