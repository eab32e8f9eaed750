//! Findings, and how checks add them.

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

/// Most characters of what was found that are shown.
const LONGEST: usize = 2_000;

/// What was found comes from hosts: it can neither add lines to the report, before a question, nor fill the screen.
fn one_line(found: &str) -> String {
    let mut line: String = found.chars().take(LONGEST).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.len() < found.len() {
        line.push('\u{2026}');
    }
    line
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
        let found = one_line(&found);
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
