//! What preflight found, as a table for people and as one document for machines. Pure.

use std::fmt::Write;

use kubexm_recipes::Finding;
use kubexm_recipes::preflight::{CHECKS, Severity};
use serde_json::{Value, json};

/// Column of findings that are about no single host.
const CLUSTER: &str = "cluster";

/// Preflight's answer.
#[derive(Debug)]
pub struct Findings {
    hosts: Vec<String>,
    findings: Vec<Finding>,
}

impl Findings {
    /// `hosts` are those that were looked at.
    pub fn new(hosts: Vec<String>, findings: Vec<Finding>) -> Self {
        Self { hosts, findings }
    }

    /// What only has to be said.
    pub fn warnings(&self) -> impl Iterator<Item = &Finding> {
        self.of(Severity::Warn)
    }

    /// What must be mended first.
    pub fn failures(&self) -> impl Iterator<Item = &Finding> {
        self.of(Severity::Fail)
    }

    fn of(&self, severity: Severity) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.severity == severity)
    }

    /// One row per check, one column per host; below it every finding in words, the worst first.
    pub fn table(&self) -> String {
        let mut columns: Vec<&str> = self.hosts.iter().map(String::as_str).collect();
        if self.findings.iter().any(|finding| finding.host.is_none()) {
            columns.push(CLUSTER);
        }
        let width = CHECKS.iter().map(|check| check.name.len()).max().unwrap_or(0);
        let mut text = format!("{:width$}", "check");
        for column in &columns {
            let _ = write!(text, "  {column}");
        }
        for check in CHECKS {
            let _ = write!(text, "\n{:width$}", check.name);
            for column in &columns {
                let _ = write!(text, "  {:1$}", self.cell(check.name, column), column.len());
            }
        }
        for finding in self.failures() {
            let _ = write!(text, "\nFAIL {finding}");
        }
        for finding in self.warnings() {
            let _ = write!(text, "\nwarn {finding}");
        }
        text
    }

    fn cell(&self, check: &str, column: &str) -> &'static str {
        let here = |finding: &&Finding| finding.check == check && finding.host.as_deref().unwrap_or(CLUSTER) == column;
        match self.findings.iter().filter(here).map(|finding| finding.severity).max() {
            Some(Severity::Fail) => "FAIL",
            Some(Severity::Warn) => "warn",
            None => "ok",
        }
    }

    /// The same for machines.
    pub fn document(&self, cluster: &str) -> Value {
        let checks: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
        json!({
            "schema": "kubexm.io/preflight/v1",
            "cluster": cluster,
            "ok": self.failures().next().is_none(),
            "hosts": self.hosts,
            "checks": checks,
            "findings": self.findings,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(severity: Severity, check: &str, host: Option<&str>) -> Finding {
        let words = |word: &str| format!("{word} of {check}");
        let (found, needed, mend) = (words("found"), words("needed"), words("mend"));
        Finding { severity, check: check.to_owned(), host: host.map(str::to_owned), found, needed, mend }
    }

    #[test]
    fn a_failure_is_seen_in_its_row_and_column_and_told_in_words_before_warnings() {
        let findings = vec![
            finding(Severity::Warn, "time", Some("n1")),
            finding(Severity::Fail, "ports", Some("n2")),
            finding(Severity::Fail, "clones", None),
        ];
        let table = Findings::new(vec!["n1".into(), "n2".into()], findings).table();
        let row = |check: &str| {
            let row = table.lines().find(|line| line.starts_with(check)).unwrap();
            row.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(row("check"), "n1 n2 cluster");
        assert_eq!(row("ports"), "ok FAIL ok");
        assert_eq!(row("time"), "warn ok ok");
        assert_eq!(row("clones"), "ok ok FAIL");
        let (failure, warning) = (table.find("FAIL n2: ports").unwrap(), table.find("warn n1: time").unwrap());
        assert!(failure < warning, "{table}");
        assert!(table.contains("mend of ports"), "{table}");
    }
}
