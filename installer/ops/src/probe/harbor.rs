//! Harbor's own report of its components.

use kubexm_plan::ProbeAnswer;

use super::answer::{no, yes};
use crate::harbor::Harbor;
use crate::{Machine, OpError};

pub(super) fn healthy(machine: &Machine, url: &str, ca: &str) -> Result<ProbeAnswer, OpError> {
    let Some(harbor) = Harbor::at(machine, url, ca, None)? else {
        return Ok(no(format!("the CA file {ca} is not there")));
    };
    let problems = harbor.problems()?;
    Ok(match problems.as_slice() {
        [] => yes(format!("{url} and all its components are healthy")),
        problems => no(format!("{url} is not healthy: {}", problems.join(", "))),
    })
}
