//! Keys of S3, as values, and the file in which people keep them.

use std::fmt;

use zeroize::Zeroizing;

/// An access key, with its secret.
#[derive(Clone)]
pub struct S3Credentials {
    /// Its name. Not secret, and shown to nobody anyway.
    pub access_key: String,
    /// Secret.
    pub secret_key: Zeroizing<String>,
    /// Of a session that ends (STS). Secret.
    pub session_token: Option<Zeroizing<String>>,
}

impl fmt::Debug for S3Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

/// Why a file gives no credentials. No text repeats a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// The profile is not there.
    #[error("it has no profile [{0}]")]
    NoProfile(String),
    /// A key is missing, or given twice.
    #[error("profile [{profile}] {problem}")]
    Profile { profile: String, problem: String },
    /// A line is none of this form.
    #[error("line {0} is neither [PROFILE] nor NAME = VALUE")]
    Line(usize),
    /// A value cannot be sent.
    #[error("{0} is empty, or has a character that no key has")]
    Value(&'static str),
}

impl S3Credentials {
    /// Checks what is sent in headers.
    ///
    /// # Errors
    /// A value is empty or has other characters than keys have.
    pub fn new(
        access_key: String,
        secret_key: Zeroizing<String>,
        session_token: Option<Zeroizing<String>>,
    ) -> Result<Self, CredentialsError> {
        let plain = |text: &str| !text.is_empty() && text.len() <= 8192 && text.chars().all(|c| c.is_ascii_graphic());
        // These divide what they are written into.
        if !plain(&access_key) || access_key.contains(['/', ',']) {
            return Err(CredentialsError::Value("the access key"));
        }
        if !plain(&secret_key) {
            return Err(CredentialsError::Value("the secret key"));
        }
        if session_token.as_ref().is_some_and(|token| !plain(token)) {
            return Err(CredentialsError::Value("the session token"));
        }
        Ok(Self { access_key, secret_key, session_token })
    }

    /// Reads a profile of a file in the form of `~/.aws/credentials`.
    ///
    /// # Errors
    /// The file has another form, or the profile is not in it or lacks a key.
    pub fn of_file(text: &str, profile: &str) -> Result<Self, CredentialsError> {
        let (mut found, mut inside) = (false, false);
        let mut values: [Option<&str>; 3] = [None; 3];
        let names = ["aws_access_key_id", "aws_secret_access_key", "aws_session_token"];
        let problem = |problem: String| CredentialsError::Profile { profile: profile.to_owned(), problem };
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                let name = name.trim();
                inside = name == profile || name.strip_prefix("profile ").is_some_and(|name| name.trim() == profile);
                found |= inside;
                continue;
            }
            let (name, value) = line.split_once('=').ok_or(CredentialsError::Line(number + 1))?;
            let Some(at) = names.iter().position(|known| *known == name.trim()).filter(|_| inside) else { continue };
            if values[at].replace(value.trim()).is_some() {
                return Err(problem(format!("has {} twice", names[at])));
            }
        }
        if !found {
            return Err(CredentialsError::NoProfile(profile.to_owned()));
        }
        let [Some(access_key), Some(secret_key), session_token] = values else {
            return Err(problem(format!("lacks {} or {}", names[0], names[1])));
        };
        let secret = |text: &str| Zeroizing::new(text.to_owned());
        Self::new(access_key.to_owned(), secret(secret_key), session_token.map(secret))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# mine\n[default]\naws_access_key_id = A\naws_secret_access_key=s=1/+\n\n[site]\nregion = x\n\
                        aws_access_key_id=B\naws_secret_access_key=t\naws_session_token = u\n";

    #[test]
    fn a_profile_of_a_file_is_read() {
        let found = S3Credentials::of_file(FILE, "default").unwrap();
        assert_eq!((found.access_key.as_str(), found.secret_key.as_str()), ("A", "s=1/+"));
        assert!(found.session_token.is_none());
        let found = S3Credentials::of_file(FILE, "site").unwrap();
        assert_eq!((found.access_key.as_str(), found.session_token.unwrap().as_str()), ("B", "u"));
    }

    #[test]
    fn what_is_wrong_with_a_file_is_named_without_its_secrets() {
        let wrong = |text: &str| S3Credentials::of_file(text, "default").unwrap_err().to_string();
        assert_eq!(S3Credentials::of_file(FILE, "no").unwrap_err().to_string(), "it has no profile [no]");
        assert!(wrong("[default]\naws_access_key_id=A\n").contains("lacks"));
        assert_eq!(wrong("[default]\nhunter2\n"), "line 2 is neither [PROFILE] nor NAME = VALUE");
        let twice = "[default]\naws_access_key_id=A\naws_secret_access_key=hunter2\naws_secret_access_key=hunter3\n";
        assert!(!wrong(twice).contains("hunter"), "{}", wrong(twice));
        let blank = "[default]\naws_access_key_id=A\naws_secret_access_key=hunter 2\n";
        assert_eq!(wrong(blank), "the secret key is empty, or has a character that no key has");
        assert_eq!(format!("{:?}", S3Credentials::of_file(FILE, "site").unwrap()), "<secret>");
    }
}
