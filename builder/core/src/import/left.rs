//! What a file became, and what was not carried over.

use std::fmt;

use super::yaml::Origin;

/// Something that was not carried over, or not as it was.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Left {
    /// Counted from 1; 0 where the input has no lines.
    pub line: usize,
    /// `spec.hosts[0].password`.
    pub path: String,
    /// Why, and what to do about it.
    pub reason: String,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, path, reason } = self;
        match (line, path.as_str()) {
            (0, path) => write!(f, "{path}: {reason}"),
            (line, "") => write!(f, "line {line}: {reason}"),
            (line, path) => write!(f, "line {line}: {path}: {reason}"),
        }
    }
}

/// The same, of the place in the file that it came from.
pub(super) fn left_of(left: &Left, origin: &Origin) -> Left {
    Left { line: origin.line, path: origin.path.clone(), reason: left.reason.clone() }
}
