//! Why an installer of Harbor cannot be used.

use kubexm_spec::ExitCode;

/// An installer that cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{item}: it is not an offline installer of Harbor: {problem}")]
pub struct HarborError {
    /// The artifact's key and platform.
    pub item: String,
    /// What is wrong with it.
    pub problem: String,
}

impl HarborError {
    /// The exit code of a program that ends with it.
    pub const fn exit_code(&self) -> ExitCode {
        ExitCode::OriginMismatch
    }
}
