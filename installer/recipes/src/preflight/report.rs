//! Findings, and how checks add them.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A warning: the run continues.
    Warn,
    /// An error: nothing is changed until it is fixed.
    Fail,
}

/// One thing that preflight found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    pub severity: Severity,
    /// Name of the check, `hardware`.
    pub check: String,
    /// Name of the host; none when it is about the whole cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// What was found.
    pub found: String,
    /// What is expected.
    pub needed: String,
    /// How to fix it.
    #[serde(rename = "mend")]
    pub fix: String,
    /// Lines that show it, such as a unified diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.host.as_deref().unwrap_or("cluster");
        write!(f, "{host}: {}: found {}; needed {}; {}", self.check, self.found, self.needed, self.fix)?;
        self.detail.iter().flat_map(|detail| detail.lines()).try_for_each(|line| write!(f, "\n    {line}"))
    }
}

/// The texts of a finding.
#[derive(Debug)]
pub(super) struct Words {
    pub(super) found: String,
    pub(super) needed: String,
    pub(super) fix: String,
}

/// A path of a host in a command for its shell: a user of the host may have chosen it.
pub(super) fn word(path: &str) -> Cow<'_, str> {
    shlex::try_quote(path).unwrap_or(Cow::Borrowed("PATH"))
}

/// Findings as checks add them.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) check: &'static str,
    pub(super) findings: Vec<Finding>,
}

impl Report {
    pub(super) fn add(&mut self, severity: Severity, host: Option<&str>, words: Words) {
        let Words { found, needed, fix } = words;
        let (check, host) = (self.check.to_owned(), host.map(str::to_owned));
        self.findings.push(Finding { severity, check, host, found, needed, fix, detail: None });
    }

    /// Adds lines to the last finding.
    pub(super) fn show(&mut self, detail: Option<String>) {
        if let Some(last) = self.findings.last_mut() {
            last.detail = detail;
        }
    }

    pub(super) fn fail(
        &mut self,
        host: &str,
        found: impl Into<String>,
        needed: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.add(Severity::Fail, Some(host), Words { found: found.into(), needed: needed.into(), fix: fix.into() });
    }

    pub(super) fn warn(
        &mut self,
        host: &str,
        found: impl Into<String>,
        needed: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.add(Severity::Warn, Some(host), Words { found: found.into(), needed: needed.into(), fix: fix.into() });
    }
}
