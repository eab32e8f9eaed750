//! What an error lists.

use kubexm_spec::one_line;

pub(super) fn count(number: usize) -> String {
    match number {
        1 => "one artifact".to_owned(),
        number => format!("{number} artifacts"),
    }
}

/// The most lines of what hosts may have said, which may be any number of them.
const MOST_LINES: usize = 200;

pub(super) fn gap_lines(gaps: &[String]) -> String {
    first(gaps.iter().map(|gap| one_line(gap))).map(|line| format!("\n- {line}")).collect()
}

pub(super) fn lines(all: &[impl ToString]) -> String {
    first(all.iter().map(ToString::to_string)).collect::<Vec<_>>().join("\n")
}

/// The first of them, and how many more there are.
fn first(all: impl ExactSizeIterator<Item = String>) -> impl Iterator<Item = String> {
    let more = all.len().saturating_sub(MOST_LINES);
    all.take(MOST_LINES).chain((more > 0).then(|| format!("and {more} more")))
}
