//! Whether a bundle may replace the installed one: an older one, or one of another signer, only with the operator's
//! permission (docs/decisions/0023, 0024).

use kubexm_engine::clock;
use kubexm_plan::BundleRecord;
use kubexm_spec::one_line;
use serde::Serialize;

use crate::options::ReplaceOptions;

/// A bundle that must not replace the installed one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{}", self.text())]
pub struct ReplaceRefused {
    pub reason: RefusedReason,
    /// Where the installed bundle is recorded: this controller, or a host by its name.
    pub remembered_by: String,
    /// The installed bundle.
    pub installed: BundleRecord,
    /// The bundle that was to replace it.
    pub offered: BundleRecord,
}

/// Why a bundle must not replace the installed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RefusedReason {
    /// It was signed earlier.
    Older,
    /// No key that signed the installed bundle has signed it.
    OtherSigner,
}

impl ReplaceRefused {
    fn text(&self) -> String {
        let Self { reason, remembered_by, installed, offered } = self;
        // A host may remember it, and say anything of it.
        let keys = |of: &BundleRecord| one_line(&of.signers.iter().map(String::as_str).collect::<Vec<_>>().join(", "));
        match reason {
            RefusedReason::OtherSigner => {
                let who = match offered.signers.is_empty() {
                    true => "no key that you trust has signed this one".to_owned(),
                    false => format!("this one is signed by key {}", keys(offered)),
                };
                format!(
                    "what is installed was signed by key {}, as {remembered_by} remembers, and {who}; nothing was changed. A \
                     bundle that one of these keys has signed too is accepted; if you know that the signer has changed, give \
                     --allow-other-signer",
                    keys(installed)
                )
            }
            RefusedReason::Older => {
                format!(
                    "this bundle is older than what is installed: that {}, as {remembered_by} remembers, and this one {}; \
                     nothing was changed. If you want an older one, give --allow-older",
                    when(installed),
                    when(offered)
                )
            }
        }
    }
}

/// When it was signed, and its sequence number.
fn when(of: &BundleRecord) -> String {
    let date =
        of.date.map_or_else(|| "has no date".to_owned(), |date| format!("was signed at {}", clock::rfc3339(date)));
    match of.sequence {
        Some(sequence) => format!("has sequence {sequence} and {date}"),
        None => date,
    }
}

/// Compares a bundle with the installed one.
///
/// # Errors
/// It is older or from another signer, and the operator has not allowed that.
pub fn check(
    installed: &BundleRecord,
    offered: &BundleRecord,
    allowed: ReplaceOptions,
    remembered_by: &str,
) -> Result<(), Box<ReplaceRefused>> {
    // The same content is never a downgrade, whoever signed it and whenever.
    if installed.signers.is_empty() || installed.manifest == offered.manifest {
        return Ok(());
    }
    let reason = match () {
        () if !installed.knows(offered) && !allowed.other_signer => RefusedReason::OtherSigner,
        // Signatures may have been removed from the file, so the newest signature decides.
        () if offered.is_older_than(installed) && !allowed.older => RefusedReason::Older,
        () => return Ok(()),
    };
    let (installed, offered) = (installed.clone(), offered.clone());
    Err(Box::new(ReplaceRefused { reason, remembered_by: remembered_by.to_owned(), installed, offered }))
}

#[cfg(test)]
mod tests {
    use kubexm_spec::Digest;

    use super::*;

    fn record(content: &str, signers: &[&str], date: Option<i64>) -> BundleRecord {
        let signers = signers.iter().map(|key| (*key).to_owned()).collect();
        BundleRecord { manifest: Digest::of(content), signers, date, sequence: None }
    }

    fn reason(known: &BundleRecord, offered: &BundleRecord, allowed: ReplaceOptions) -> Option<RefusedReason> {
        check(known, offered, allowed, "node1").err().map(|refused| refused.reason)
    }

    #[test]
    fn an_older_bundle_another_signer_and_none_are_refused_until_they_are_allowed() {
        let known = record("new", &["ours"], Some(100));
        let no = ReplaceOptions::default();
        let older = ReplaceOptions { older: true, ..no };
        let other = ReplaceOptions { other_signer: true, ..no };
        let both = ReplaceOptions { older: true, other_signer: true };
        let (is_older, is_other) = (Some(RefusedReason::Older), Some(RefusedReason::OtherSigner));
        for (signers, date, allowed, ends) in [
            (&["ours"][..], Some(100), no, None),
            (&["ours"], Some(101), no, None),
            (&["ours"], Some(99), no, is_older),
            (&["ours"], Some(99), other, is_older),
            (&["ours"], Some(99), older, None),
            (&["ours"], None, no, is_older),
            (&["theirs"], Some(101), no, is_other),
            (&["theirs"], Some(101), older, is_other),
            (&["theirs"], Some(101), other, None),
            (&["theirs"], Some(99), other, is_older),
            (&["theirs", "ours"], Some(101), no, None),
            (&[], None, no, is_other),
            (&[], None, other, is_older),
            (&[], None, both, None),
        ] {
            let ended = reason(&known, &record("x", signers, date), allowed);
            assert_eq!(ended, ends, "{signers:?} {date:?} {allowed:?}");
        }
        assert_eq!(reason(&known, &record("new", &[], None), no), None, "the same content");
        assert_eq!(reason(&record("x", &[], None), &record("y", &[], None), no), None, "nobody ever signed");
        assert_eq!(reason(&record("x", &[], None), &record("y", &["ours"], Some(1)), no), None);
    }

    /// The stamp of each node has it.
    #[test]
    fn what_a_node_calls_keys_is_one_line_of_what_is_said() {
        let long = "x".repeat(1 << 20);
        let known = record("new", &["a\n\nthe bundle is signed by ops\u{1b}[2J", &long], None);
        let refused = check(&known, &record("x", &["theirs"], None), ReplaceOptions::default(), "node1").unwrap_err();
        let text = refused.to_string();
        assert!(text.len() < 5_000 && text.lines().count() == 1 && !text.contains('\u{1b}'), "{} bytes", text.len());
    }
}
