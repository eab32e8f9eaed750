//! Passwords, and answers to questions of a server.

use std::fmt;

use async_trait::async_trait;
use zeroize::Zeroizing;

/// The maximum length of a password in bytes: sudo reads a line of at most 1023 (`SUDO_CONV_REPL_MAX`).
const MOST: usize = 1000;

/// A password. Never shown; overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Zeroizing<String>);

impl Password {
    /// Must be one line, since sudo reads it as one.
    ///
    /// # Errors
    /// A sentence that says what is wrong and does not contain the password.
    pub fn new(text: impl Into<String>) -> Result<Self, &'static str> {
        let text = Zeroizing::new(text.into());
        match text.as_str() {
            "" => Err("it is empty"),
            long if long.len() > MOST => Err("it is longer than 1000 bytes"),
            odd if odd.contains(['\n', '\r', '\0']) => Err("it has more than one line"),
            _ => Ok(Self(text)),
        }
    }

    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    /// The password with a newline, for sudo.
    pub(super) fn line(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(format!("{}\n", self.expose()).into_bytes())
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

/// A question that only a person can answer: for a one-time code, a passphrase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Who asks: a host, or a key file of the controller.
    pub who: String,
    /// The server's preceding text; may be empty.
    pub instructions: String,
    /// The prompt, without control characters.
    pub text: String,
    /// Whether the answer may be visible while it is typed.
    pub echo: bool,
}

/// Nobody can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no terminal to ask on")]
pub struct Nobody;

/// Asks the operator one question at a time, however many hosts there are.
#[async_trait]
pub trait Prompt: Send + Sync + fmt::Debug {
    /// Waits for the answer, which may be empty.
    async fn ask(&self, question: Question) -> Result<Answered, Nobody>;
}

/// What the operator typed. Never shown; overwritten when it is dropped.
pub struct Answered(pub Zeroizing<String>);

/// For programs in which nobody can be asked.
#[derive(Clone, Copy, Debug)]
pub struct NoTerminal;

#[async_trait]
impl Prompt for NoTerminal {
    async fn ask(&self, _: Question) -> Result<Answered, Nobody> {
        Err(Nobody)
    }
}

/// A server's text for the screen: no control characters, at most 300 characters.
pub(super) fn shown(text: &str) -> String {
    text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_one_line_and_never_shown() {
        let password = Password::new("hunter2").unwrap();
        assert_eq!(format!("{password:?}"), "<secret>");
        assert_eq!(password.line().as_slice(), b"hunter2\n");
        for bad in ["", "two\nlines", "nul\0", &"x".repeat(1001)] {
            assert!(!Password::new(bad).unwrap_err().contains("two"));
        }
    }

    #[test]
    fn control_characters_of_a_server_do_not_reach_the_terminal() {
        assert_eq!(shown("Code:\x1b[2J\r\n"), "Code: [2J");
    }
}
