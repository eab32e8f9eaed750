//! Ids of steps.

use std::fmt;

use serde::{Deserialize, Serialize};

/// `<host>/<module>.<step>`, unique in a plan; also the name of the step's log file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StepId(pub String);

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
