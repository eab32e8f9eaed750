//! Differences between two contents of a file, for people.

use std::time::Duration;

use kubexm_plan::Difference;
use similar::{ChangeTag, TextDiff};

/// Longer contents are not compared line by line.
const LONGEST: usize = 1 << 20;
/// The most lines of a diff that are shown.
const MOST_LINES: usize = 120;
/// After this time the comparison becomes coarser.
const LIMIT: Duration = Duration::from_secs(2);

/// Contents of a file, with the words for where each is from.
pub(crate) struct Contents<'a> {
    pub old: &'a [u8],
    pub old_name: &'a str,
    pub new: &'a [u8],
    pub new_name: &'a str,
}

/// How the contents of a file differ, line by line if both are text of a moderate length.
pub(crate) fn of_contents(path: &str, contents: &Contents<'_>) -> Difference {
    let text = |bytes| std::str::from_utf8(bytes).ok().filter(|text| text.len() <= LONGEST && !text.contains('\0'));
    let (Some(old), Some(new)) = (text(contents.old), text(contents.new)) else {
        let how = "its content differs, and is not text or too long to show".to_owned();
        return Difference { what: path.to_owned(), how, diff: None };
    };
    let diff = TextDiff::configure().timeout(LIMIT).diff_lines(old, new);
    let count = |tag| diff.iter_all_changes().filter(|change| change.tag() == tag).count();
    let (added, removed) = (count(ChangeTag::Insert), count(ChangeTag::Delete));
    let header = (format!("{path} ({})", contents.old_name), format!("{path} ({})", contents.new_name));
    let shown = diff.unified_diff().context_radius(2).header(&header.0, &header.1).to_string();
    Difference { what: path.to_owned(), how: format!("+{added} -{removed} lines"), diff: Some(shortened(&shown)) }
}

fn shortened(diff: &str) -> String {
    let all = diff.lines().count();
    let mut lines: Vec<&str> = diff.lines().take(MOST_LINES).collect();
    let rest = format!("... {} more lines", all.saturating_sub(MOST_LINES));
    if all > MOST_LINES {
        lines.push(&rest);
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(old: &[u8], new: &[u8]) -> Difference {
        of_contents("/etc/x", &Contents { old, old_name: "then", new, new_name: "now" })
    }

    #[test]
    fn the_changed_lines_are_shown_with_their_place() {
        let found = compared(b"a\nb\nc\nd\ne\n", b"a\nb\nc\nD\ne\nf\n");
        assert_eq!((found.what.as_str(), found.how.as_str()), ("/etc/x", "+2 -1 lines"));
        let wanted = "--- /etc/x (then)\n+++ /etc/x (now)\n@@ -2,4 +2,5 @@\n b\n c\n-d\n+D\n e\n+f";
        assert_eq!(found.diff.as_deref(), Some(wanted));
    }

    #[test]
    fn a_long_diff_is_cut_and_says_so() {
        let new: String = (0..500).map(|line| format!("{line}\n")).collect();
        let diff = compared(b"", new.as_bytes()).diff.expect("a diff");
        assert_eq!(diff.lines().count(), MOST_LINES + 1);
        assert!(diff.ends_with("... 383 more lines"), "{diff}");
    }

    #[test]
    fn what_is_not_text_has_no_diff() {
        assert_eq!(compared(b"\xff\xfe", b"a").diff, None);
        assert_eq!(compared(b"a\0b", b"a").diff, None);
    }
}
