//! The two possible answers of a probe.

use kubexm_plan::ProbeAnswer;

pub(super) fn yes(seen: impl Into<String>) -> ProbeAnswer {
    ProbeAnswer { holds: true, seen: seen.into() }
}

pub(super) fn no(seen: impl Into<String>) -> ProbeAnswer {
    ProbeAnswer { holds: false, seen: seen.into() }
}
