//! Whether a bundle may take the place of the one that is installed: an older one, or one of another signer, only when the
//! operator says so (docs/decisions/0023, 0024).

use kubexm_engine::clock;
use kubexm_plan::Vouched;
use serde::Serialize;

use crate::options::ReplaceOptions;

/// A bundle that is refused in place of the one that is installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{}", self.text())]
pub struct ReplaceRefused {
    pub reason: RefusedReason,
    /// Who remembers what is installed: this controller, or a host by its name.
    pub remembered_by: String,
    /// What is installed.
    pub installed: Vouched,
    /// What was to take its place.
    pub offered: Vouched,
}

/// Why a bundle is refused in place of the one that is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RefusedReason {
    /// It was signed before it.
    Older,
    /// No key that signed what is installed has signed it.
    OtherSigner,
}

impl ReplaceRefused {
    fn text(&self) -> String {
        let Self { reason, remembered_by, installed, offered } = self;
        let keys = |of: &Vouched| of.signers.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
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

/// When it was signed, and which number it has.
fn when(of: &Vouched) -> String {
    let date =
        of.date.map_or_else(|| "has no date".to_owned(), |date| format!("was signed at {}", clock::rfc3339(date)));
    match of.sequence {
        Some(sequence) => format!("has sequence {sequence} and {date}"),
        None => date,
    }
}

/// Compares a bundle with the one that is installed.
///
/// # Errors
/// It is older, or of another signer, and the operator does not allow that.
pub fn check(
    installed: &Vouched,
    offered: &Vouched,
    allowed: ReplaceOptions,
    remembered_by: &str,
) -> Result<(), Box<ReplaceRefused>> {
    // The same content is never a downgrade, no matter who signed it, and when.
    if installed.signers.is_empty() || installed.manifest == offered.manifest {
        return Ok(());
    }
    let reason = match () {
        () if !installed.knows(offered) && !allowed.other_signer => RefusedReason::OtherSigner,
        // Whatever signatures are left out of the file: the newest that is there must not be older than the newest that was.
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

    fn vouched(content: &str, signers: &[&str], date: Option<i64>) -> Vouched {
        let signers = signers.iter().map(|key| (*key).to_owned()).collect();
        Vouched { manifest: Digest::of(content), signers, date, sequence: None }
    }

    fn reason(known: &Vouched, offered: &Vouched, allowed: ReplaceOptions) -> Option<RefusedReason> {
        check(known, offered, allowed, "node1").err().map(|refused| refused.reason)
    }

    #[test]
    fn an_older_bundle_another_signer_and_none_are_refused_until_they_are_allowed() {
        let known = vouched("new", &["ours"], Some(100));
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
            let ended = reason(&known, &vouched("x", signers, date), allowed);
            assert_eq!(ended, ends, "{signers:?} {date:?} {allowed:?}");
        }
        assert_eq!(reason(&known, &vouched("new", &[], None), no), None, "the same content");
        assert_eq!(reason(&vouched("x", &[], None), &vouched("y", &[], None), no), None, "nobody ever signed");
        assert_eq!(reason(&vouched("x", &[], None), &vouched("y", &["ours"], Some(1)), no), None);
    }
}
