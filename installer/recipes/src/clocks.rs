//! Clocks that are so wrong that what a run does with them is wrong, too. What is merely not synchronised is preflight's.

use std::collections::BTreeMap;

use kubexm_plan::Facts;

/// A clock that differs from the controller's by more than so many milliseconds is refused: certificates are signed with
/// it, and whether one has ended is decided with it.
const SKEW_MS: u64 = 60_000;

/// The hosts whose clock is not the controller's; `why` it matters.
pub(crate) fn wrong(facts: &BTreeMap<String, Facts>, why: &str) -> Vec<String> {
    let wrong = facts.iter().filter_map(|(name, facts)| Some(format!("{name}: {}", of_host(facts, why)?)));
    wrong.collect()
}

/// The same of one host, without its name.
pub(crate) fn of_host(facts: &Facts, why: &str) -> Option<String> {
    let skew = facts.clock_offset_ms.unsigned_abs();
    if skew <= SKEW_MS.saturating_add(facts.round_trip_ms / 2) {
        return None;
    }
    let way = if facts.clock_offset_ms > 0 { "ahead of" } else { "behind" };
    Some(format!(
        "its clock is {} {way} this machine's; {why}: set the clock that is wrong (`timedatectl set-time`, or a time service)",
        length(skew / 1_000)
    ))
}

/// `1 d 2 h`, `3 min`.
fn length(seconds: u64) -> String {
    match (seconds / 86_400, seconds % 86_400 / 3_600, seconds / 60) {
        (0, 0, 0..2) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, _) => format!("{hours} h"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}
