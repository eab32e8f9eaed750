//! What can go wrong with a server, with what can be done about it. No text has a key, a signature or the query of an address.

use kubexm_spec::{ExitCode, ExitError};

/// An error of a server, of the way to it, or of its settings.
#[derive(Debug, thiserror::Error)]
pub enum S3Error {
    /// A setting is wrong.
    #[error("{what} {problem}")]
    Setting { what: String, problem: String },
    /// Nothing answers, or it cuts off.
    #[error("{at} does not answer: {reason}")]
    Down { at: String, reason: String },
    /// Its certificate is not trusted.
    #[error(
        "{at}: its certificate is not trusted ({reason}); name the file of the CA that signed it with --s3-ca-file, and the endpoint by a name \
         that is in the certificate"
    )]
    Certificate { at: String, reason: String },
    /// It answers TLS with something else.
    #[error(
        "{at} does not speak https; if http is meant, write http:// in the endpoint and allow it with --s3-plain-http"
    )]
    NotTls { at: String },
    /// A key may not do something.
    #[error("{what}: refused ({code}); the access key needs the permission {permission} for {resource}{said}")]
    Denied { what: String, code: String, permission: &'static str, resource: String, said: String },
    /// The access key is not known there.
    #[error(
        "{at} does not know the access key; is it a key of this server (AWS_ACCESS_KEY_ID, or the profile of --s3-credentials)?"
    )]
    UnknownKey { at: String },
    /// The secret is another one.
    #[error(
        "{at} computes another signature: the secret key does not belong to the access key (AWS_SECRET_ACCESS_KEY, or the profile of \
         --s3-credentials), or a proxy on the way changes the host's name or the path"
    )]
    Signature { at: String },
    /// A session's token.
    #[error(
        "{at} does not take the session token: it has ended, or is of another key; get new temporary credentials (AWS_SESSION_TOKEN)"
    )]
    Token { at: String },
    /// The clocks differ.
    #[error("{at} refuses requests of another time: {difference}; set the clock of this machine, or the server's")]
    Clock { at: String, difference: String },
    /// The bucket is in another region.
    #[error("{what}: the bucket is not in region {used}{hint}")]
    Region { what: String, used: String, hint: String },
    /// It leads on to another server.
    #[error(
        "{what}: {at} leads on to another address{to}, and signed requests go to no other; name that server with --s3-endpoint"
    )]
    Redirect { what: String, at: String, to: String },
    /// The bucket is not there.
    #[error("{at} has no bucket {bucket}; make it there, or correct its name (kubexm makes none)")]
    NoBucket { at: String, bucket: String },
    /// An object is not there.
    #[error("{what}: it is not there")]
    NoObject { what: String },
    /// No room.
    #[error("{what}: the server has no room left ({code}); make room there, or raise the quota")]
    Full { what: String, code: String },
    /// It says no, and for none of the reasons above.
    #[error("{what}: refused: {reason}")]
    Refused { what: String, reason: String },
    /// What it answers is not S3, or too much.
    #[error("{what}: {at} does not answer as an S3 server does: {reason}")]
    Answer { what: String, at: String, reason: String },
    /// An object changed.
    #[error("{what}: it was changed while it was read; run again")]
    Changed { what: String },
    /// An upload stays there in parts.
    #[error(
        "{error}\nparts of {key} stay on the server, which counts them: they could not be removed ({why}); a later backup to that place removes \
         them when they are a day old"
    )]
    PartsStay { error: Box<S3Error>, key: String, why: Box<S3Error> },
    /// A file of this machine.
    #[error("cannot {action} {path}: {source}")]
    Disk { action: &'static str, path: String, source: std::io::Error },
    /// The operator interrupted.
    #[error("interrupted")]
    Stopped,
}

impl ExitError for S3Error {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Setting { .. } | Self::Region { .. } => ExitCode::Config,
            Self::Down { .. } | Self::Certificate { .. } | Self::NotTls { .. } | Self::Refused { .. } => {
                ExitCode::OriginDown
            }
            Self::Denied { .. }
            | Self::UnknownKey { .. }
            | Self::Signature { .. }
            | Self::Token { .. }
            | Self::Clock { .. } => ExitCode::OriginDenied,
            Self::Redirect { .. } | Self::Answer { .. } | Self::Changed { .. } => ExitCode::OriginMismatch,
            Self::NoBucket { .. } | Self::NoObject { .. } => ExitCode::OriginMissing,
            Self::Full { .. } => ExitCode::RegistryFull,
            Self::PartsStay { error, .. } => error.exit_code(),
            Self::Disk { .. } => ExitCode::Disk,
            Self::Stopped => ExitCode::Declined,
        }
    }
}
