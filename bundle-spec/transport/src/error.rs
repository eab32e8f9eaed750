//! What can go wrong on the way into the store, and which exit code that is.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kubexm_spec::reference::server_of;
use kubexm_spec::{Digest, ExitCode, ExitError, amount_needed, one_line};

/// A transfer that did not come to its end. `origin` is always an address without credentials.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// No answer, a cut connection, or nothing but server errors, after all retries: it may answer later.
    #[error(
        "{origin}: request failed: {reason}; check the network and the address, then run again (what was fetched is kept)"
    )]
    Down {
        /// The address.
        origin: String,
        /// What was seen last.
        reason: String,
    },
    /// It accepts no more requests before a certain time.
    #[error(
        "{origin} accepts no more requests for now: its limit of requests is reached ({reason}); it accepts them again from {until} on, in {}; run again then",
        wait(*after)
    )]
    Limited {
        /// The address.
        origin: String,
        /// The status.
        reason: String,
        /// When, as in HTTP.
        until: String,
        /// From now.
        after: Duration,
    },
    /// It answers, and in no way that could be used: a certificate that is not its own, no TLS, redirects without end, a
    /// status that means nothing here.
    #[error("{origin}: request failed: {reason}; check the address, then run again (what was fetched is kept)")]
    Unusable {
        /// The address.
        origin: String,
        /// What was seen.
        reason: String,
    },
    /// The proxy that the environment names does not let us through, or does not answer.
    #[error(
        "{origin} is not reached: the proxy {proxy} {reason}; fix the proxy or its setting, or name the host in NO_PROXY where it is reached without one"
    )]
    Proxy {
        /// The address that was wanted.
        origin: String,
        /// The proxy's address without a login, and the variable that names it.
        proxy: String,
        /// What it does, as the end of a sentence.
        reason: String,
        /// Whether it refuses us, rather than that it cannot now.
        denied: bool,
    },
    /// The file that holds credentials of registries cannot be used.
    #[error("registry credentials in {}: {problem}", path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// What is wrong and how to fix it; never what is in the file.
        problem: String,
        /// Whether it is about all of the file, rather than about one registry.
        whole: bool,
    },
    /// The bytes are not the ones asked for. What was fetched is deleted.
    #[error(
        "{origin} sent other bytes than asked for: expected {expected}, got {found}; the origin or a cache before it is wrong"
    )]
    Mismatch {
        /// The address.
        origin: String,
        /// The digest asked for.
        expected: Digest,
        /// The digest of what came.
        found: Digest,
    },
    /// The length is not the one asked for. What was fetched is deleted.
    #[error(
        "{origin} sent another size than asked for: expected {expected} bytes, got {found}; the origin or a cache before it is wrong"
    )]
    WrongSize {
        /// The address.
        origin: String,
        /// Bytes asked for.
        expected: u64,
        /// Bytes announced or sent.
        found: u64,
    },
    /// It is larger than such a file may be. What was fetched is deleted.
    #[error(
        "{origin} has or sends more than {most} bytes, the most that is taken of such a file; the origin or a cache before it is wrong"
    )]
    TooLarge {
        /// The address.
        origin: String,
        /// Bytes.
        most: u64,
    },
    /// A page, an error message or an encoded body where the file itself was expected.
    #[error(
        "{origin} sent {found} instead of the file; a login page or a proxy is in the way, or the address is wrong"
    )]
    NotTheFile {
        /// The address.
        origin: String,
        /// What came, in words.
        found: String,
    },
    /// The origin says that it has no such thing.
    #[error("{origin}: not found ({reason}); check version and address")]
    Missing {
        /// The address.
        origin: String,
        /// Status or message.
        reason: String,
    },
    /// The origin wants other credentials.
    #[error("{origin} refuses access: {reason}; log in to it (docker config), or use an origin without login")]
    Denied {
        /// The address.
        origin: String,
        /// Status or message.
        reason: String,
    },
    /// The origin shows what it has to holders of a certificate only, and of the one that it was shown, if any, it thinks nothing.
    #[error(
        "{origin} wants a client certificate that it trusts ({alert}); give certFile and keyFile in the rule of a zone file for its \
         host, of a subscription that is still valid"
    )]
    ClientCertificate {
        /// The address.
        origin: String,
        /// What it said (RFC 8446, 6.2).
        alert: String,
    },
    /// A link, or the address itself, leads out of the folder whose files may be read.
    #[error(
        "{origin} leads out of {}, and nothing outside of it is read; unpack the medium again, or name the folder that has all of it",
        folder.display()
    )]
    Outside {
        /// The address.
        origin: String,
        /// The folder that was named.
        folder: PathBuf,
    },
    /// A file of this machine that is there and cannot be read.
    #[error("{origin} cannot be read: {reason}; check the medium and its permissions, or use another copy")]
    BadMedium {
        /// The address.
        origin: String,
        /// What the system says.
        reason: String,
    },
    /// An image, index or manifest that cannot be used.
    #[error("image {reference}: {}", one_line(problem))]
    Image {
        /// The reference, with the registry that was asked.
        reference: String,
        /// What is wrong and how to fix it.
        problem: String,
    },
    /// The image is not made for the platform.
    #[error(
        "image {reference} has nothing for {platform}; it has {}; drop the platform from spec.bundle.platforms (and hosts of it from spec.hosts), or choose another image",
        one_line(found)
    )]
    NoPlatform {
        /// The reference, with the registry that was asked.
        reference: String,
        /// The platform asked for.
        platform: String,
        /// What it has.
        found: String,
    },
    /// An address or setting that cannot be used.
    #[error("{what}: {problem}")]
    Setting {
        what: String,
        /// What is wrong and how to fix it.
        problem: String,
    },
    /// The disk is full.
    #[error("the disk is full at {}{}; free space there or choose another folder, then run again (what was fetched is kept)", path.display(), needed_text(*needed))]
    DiskFull {
        /// What was being written.
        path: PathBuf,
        /// Bytes that are still to be written, when known.
        needed: Option<u64>,
    },
    /// The disk fails.
    #[error("cannot {doing} {}", path.display())]
    Disk {
        /// `write`, `read`, `rename` …
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The server sends whole files only.
    #[error(
        "{origin} serves no parts of files (no `Range`); verify it in one pass with `curl -fL {origin} | kubexm-bundle verify -`, or fetch the whole file and use it from disk"
    )]
    NoRanges {
        /// The address.
        origin: String,
    },
    /// Nothing would tell that the file is another one in the middle of reading it.
    #[error(
        "{origin} sends neither ETag nor Last-Modified, so a file that changes could not be noticed; verify it in one pass with `curl -fL {origin} | kubexm-bundle verify -`, or fetch the whole file and use it from disk"
    )]
    NotHeld {
        /// The address.
        origin: String,
    },
    /// The file was replaced or removed while it was read.
    #[error("{origin} was changed or removed while it was read; start again")]
    Changed {
        /// The address.
        origin: String,
    },
    /// What is to be sent cannot be read here.
    #[error("cannot read {what} while sending it")]
    Unreadable {
        /// The member or file.
        what: String,
        source: io::Error,
    },
    /// The registry has no room for it, or a quota is used up.
    #[error("{origin} has no room: {reason}")]
    NoRoom {
        /// The address.
        origin: String,
        /// Status and the registry's own message.
        reason: String,
    },
    /// It was asked to end; an upload that is open is resumed by the next program.
    #[error("stopped; what was sent is kept")]
    Stopped,
    /// Nothing may be asked over the network, and the store does not have it.
    #[error("{what} is not in the cache, and nothing is fetched offline; run once without --offline")]
    NotCached {
        /// What was wanted.
        what: String,
    },
    /// Every candidate failed; each with its own reason.
    #[error("{what} is not available from any origin:{}", list(tried))]
    AllFailed {
        /// What was wanted.
        what: String,
        /// The error of each candidate, in the order they were asked.
        tried: Vec<TransportError>,
    },
    /// A task of this program died.
    #[error("a worker of this program died: {0}")]
    Worker(String),
}

fn needed_text(needed: Option<u64>) -> String {
    needed.map(|bytes| format!(": {} more are needed", amount_needed(bytes))).unwrap_or_default()
}

fn wait(after: Duration) -> String {
    match after.as_secs() {
        seconds if seconds < 120 => format!("{seconds} s"),
        seconds => format!("{} minutes", seconds.div_ceil(60)),
    }
}

fn list(tried: &[TransportError]) -> String {
    if tried.is_empty() {
        return " no origin is configured for it".to_owned();
    }
    tried.iter().map(|error| format!("\n  - {error}")).collect()
}

impl TransportError {
    /// What an origin answered, or what was seen of it: without its address, which may be made of any words.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Down { reason, .. }
            | Self::Limited { reason, .. }
            | Self::Unusable { reason, .. }
            | Self::Proxy { reason, .. }
            | Self::Missing { reason, .. }
            | Self::Denied { reason, .. }
            | Self::BadMedium { reason, .. }
            | Self::NoRoom { reason, .. } => Some(reason),
            _ => None,
        }
    }
}

impl ExitError for TransportError {
    fn exit_code(&self) -> ExitCode {
        self.exit_code()
    }
}

impl TransportError {
    /// The exit code of a program that ends with this error; of several, the most severe.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Down { .. }
            | Self::Limited { .. }
            | Self::Unusable { .. }
            | Self::BadMedium { .. }
            | Self::Proxy { denied: false, .. } => ExitCode::OriginDown,
            Self::Outside { .. }
            | Self::Mismatch { .. }
            | Self::WrongSize { .. }
            | Self::TooLarge { .. }
            | Self::NotTheFile { .. }
            | Self::Image { .. }
            | Self::NoRanges { .. }
            | Self::NotHeld { .. }
            | Self::Changed { .. } => ExitCode::OriginMismatch,
            Self::Missing { .. } | Self::NoPlatform { .. } => ExitCode::OriginMissing,
            Self::NotCached { .. } => ExitCode::NotCached,
            Self::NoRoom { .. } => ExitCode::RegistryFull,
            Self::Stopped => ExitCode::Declined,
            Self::Denied { .. } | Self::ClientCertificate { .. } | Self::Proxy { denied: true, .. } => {
                ExitCode::OriginDenied
            }
            Self::Setting { .. } | Self::Credentials { .. } => ExitCode::Config,
            Self::DiskFull { .. } | Self::Disk { .. } | Self::Unreadable { .. } => ExitCode::Disk,
            Self::AllFailed { tried, .. } => {
                tried.iter().map(Self::exit_code).reduce(ExitCode::worst).unwrap_or(ExitCode::OriginMissing)
            }
            Self::Worker(_) => ExitCode::Internal,
        }
    }

    /// What is wrong with a server, a proxy, a login or this machine, in the same words whatever was asked for: errors that have one
    /// cause can be reported once. None where the error is about the thing itself.
    pub fn cause(&self) -> Option<String> {
        match self {
            Self::Down { origin, .. }
            | Self::Unusable { origin, .. }
            | Self::Proxy { origin, .. }
            | Self::Denied { origin, .. }
            | Self::ClientCertificate { origin, .. } => {
                Some(self.to_string().replace(origin.as_str(), server_of(origin)))
            }
            Self::Credentials { whole: true, .. } => Some(self.to_string()),
            Self::DiskFull { path, .. } => {
                let folder = path.parent().unwrap_or(path).to_owned();
                Some(Self::DiskFull { path: folder, needed: None }.to_string())
            }
            Self::AllFailed { tried, .. } if !tried.is_empty() => {
                let mut causes: Vec<String> = Vec::new();
                for error in tried {
                    let cause = error.cause()?;
                    if !causes.contains(&cause) {
                        causes.push(cause);
                    }
                }
                Some(causes.join("\n  - "))
            }
            _ => None,
        }
    }

    /// Whether another origin cannot help: this machine's disk, settings, or a fault of this program.
    pub(crate) fn is_ours(&self) -> bool {
        match self {
            Self::DiskFull { .. } | Self::Disk { .. } | Self::Unreadable { .. } | Self::Worker(_) | Self::Stopped => {
                true
            }
            Self::Credentials { whole, .. } => *whole,
            _ => false,
        }
    }

    /// Whether the same request may well succeed later: nobody said that there is no such thing.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Down { .. } | Self::Proxy { denied: false, .. } => true,
            Self::AllFailed { tried, .. } => tried.iter().any(Self::may_pass),
            _ => false,
        }
    }

    /// The origin of a try that others may follow, and what was seen of it.
    pub(crate) fn seen(&self) -> Option<(&str, String)> {
        match self {
            Self::Down { origin, reason } => Some((origin, reason.clone())),
            Self::Proxy { origin, proxy, reason, .. } => Some((origin, format!("the proxy {proxy} {reason}"))),
            _ => None,
        }
    }

    /// From an IO error on this machine's disk; a full disk becomes [`TransportError::DiskFull`].
    pub(crate) fn disk(doing: &'static str, path: &Path, needed: Option<u64>, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull { path: path.to_owned(), needed }
            }
            _ => Self::Disk { doing, path: path.to_owned(), source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn down(path: &str, reason: &str) -> TransportError {
        TransportError::Down { origin: format!("https://host.test:8443/{path}"), reason: reason.to_owned() }
    }

    #[test]
    fn what_fails_for_one_reason_has_one_cause_whatever_was_asked_for() {
        let cause = down("a/b", "refused").cause().unwrap();
        assert!(cause.starts_with("https://host.test:8443: request failed: refused; "), "{cause}");
        assert_eq!(down("c", "refused").cause().unwrap(), cause);
        assert_ne!(down("c", "silent").cause().unwrap(), cause);
        let all = |tried| TransportError::AllFailed { what: "x".to_owned(), tried };
        assert_eq!(all(vec![down("a", "refused"), down("b", "refused")]).cause().unwrap(), cause);
        let missing = || TransportError::Missing { origin: "https://host.test/a".to_owned(), reason: "404".to_owned() };
        assert_eq!(missing().cause(), None, "another thing may be there");
        assert_eq!(all(vec![down("a", "refused"), missing()]).cause(), None);
    }
}
