//! The results of preflight, as a table for people and as a JSON document. Pure.

use std::collections::BTreeMap;
use std::fmt::Write;

use kubexm_plan::mesh::ConnectionResult;
use kubexm_recipes::Finding;
use kubexm_recipes::preflight::{CHECKS, Severity, mesh};
use kubexm_spec::{error_chain, one_line};
use serde_json::{Value, json};

use crate::error::SessionError;

/// Column of findings about the whole cluster.
const CLUSTER: &str = "cluster";

/// The check of the cluster's sealed authorities, which needs the home.
const AUTHORITIES: &str = "authorities";

/// The check of the user's own registry, which is asked from this machine.
pub(super) const REGISTRY: &str = "registry";
/// Name of the check of the user's own etcd.
pub(super) const ETCD: &str = "etcd";
/// Name of the check of the site's own CA.
pub(super) const SITE_CA: &str = "cluster-ca";

/// Most findings of a check on one host.
const MOST: usize = 40;
/// Most lines that show one.
const LINES: usize = 125;

/// Each on one line, with a few lines that show it; of many of one kind the first ones.
fn shown(findings: Vec<Finding>) -> Vec<Finding> {
    let mut counted: BTreeMap<(String, Option<String>), (usize, Severity)> = BTreeMap::new();
    let mut shown = Vec::new();
    for finding in findings {
        let (count, worst) =
            counted.entry((finding.check.clone(), finding.host.clone())).or_insert((0, Severity::Warn));
        *count += 1;
        if *count > MOST {
            *worst = finding.severity.max(*worst);
            continue;
        }
        let detail = finding.detail.map(|detail| {
            let mut lines: Vec<String> = detail.lines().take(LINES).map(one_line).collect();
            let rest = detail.lines().count() - lines.len();
            if rest > 0 {
                lines.push(format!("... {rest} more lines"));
            }
            lines.join("\n")
        });
        let [found, needed, fix] = [&finding.found, &finding.needed, &finding.fix].map(|text| one_line(text));
        shown.push(Finding { found, needed, fix, detail, ..finding });
    }
    let more = counted.into_iter().filter(|(_, (count, _))| *count > MOST);
    shown.extend(more.map(|((check, host), (count, severity))| Finding {
        severity,
        check,
        host,
        found: format!("{} more findings like these", count - MOST),
        needed: "none".to_owned(),
        fix: "fix those that are shown, and run preflight again".to_owned(),
        detail: None,
    }));
    shown
}

/// The results of preflight.
#[derive(Debug)]
pub struct Findings {
    cluster: String,
    hosts: Vec<String>,
    findings: Vec<Finding>,
    dialed: BTreeMap<String, Vec<ConnectionResult>>,
    /// Whether it was looked at what this home can open.
    authorities: bool,
}

impl Findings {
    /// `hosts` are the observed hosts; `dialed` are the results of their dials, by the host that dialed. What hosts say is in all of it: it
    /// begins no lines of its own, and does not push the question out of sight.
    pub fn new(
        cluster: String,
        hosts: Vec<String>,
        findings: Vec<Finding>,
        dialed: BTreeMap<String, Vec<ConnectionResult>>,
    ) -> Self {
        let mut dialed = dialed;
        for reason in dialed.values_mut().flatten().filter_map(|dialed| dialed.blocked.as_mut()) {
            *reason = one_line(reason);
        }
        Self { cluster, hosts, findings: shown(findings), dialed, authorities: false }
    }

    /// Adds what another check has found.
    pub(crate) fn add(&mut self, found: Vec<Finding>) {
        self.findings.extend(found);
    }

    /// Adds the check whether the authorities of the cluster can be used from this home, and why not.
    pub(crate) fn add_authorities(&mut self, refused: Option<&SessionError>) {
        self.authorities = true;
        self.findings.extend(refused.map(|error| Finding {
            severity: Severity::Fail,
            check: AUTHORITIES.to_owned(),
            host: None,
            found: one_line(&error_chain(error)),
            needed: "a CA of the registry that this home can open".to_owned(),
            fix: "see \"A second operator\" in docs/operations/operators.md".to_owned(),
            detail: None,
        }));
    }

    /// Fails if the hosts do not pass.
    ///
    /// # Errors
    /// [`SessionError::Preflight`], with all findings.
    pub fn check(&self) -> Result<(), SessionError> {
        match self.failures().next() {
            None => Ok(()),
            Some(_) => Err(SessionError::Preflight { table: self.table(), document: self.document() }),
        }
    }

    /// Findings that are only warnings.
    pub fn warnings(&self) -> impl Iterator<Item = &Finding> {
        self.of(Severity::Warn)
    }

    /// Findings that must be fixed first.
    pub fn failures(&self) -> impl Iterator<Item = &Finding> {
        self.of(Severity::Fail)
    }

    fn of(&self, severity: Severity) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.severity == severity)
    }

    /// One row for each check and one column for each host; below it every finding as text, the most severe first.
    pub fn table(&self) -> String {
        let mut columns: Vec<&str> = self.hosts.iter().map(String::as_str).collect();
        if self.findings.iter().any(|finding| finding.host.is_none()) {
            columns.push(CLUSTER);
        }
        let width = self.checks().map(str::len).max().unwrap_or(0);
        let mut text = format!("{:width$}", "check");
        for column in &columns {
            let _ = write!(text, "  {column}");
        }
        for check in self.checks() {
            let _ = write!(text, "\n{check:width$}");
            for column in &columns {
                let _ = write!(text, "  {:1$}", self.cell(check, column), column.len());
            }
        }
        text.push_str(&self.blocked());
        for finding in self.failures() {
            let _ = write!(text, "\nFAIL {finding}");
        }
        for finding in self.warnings() {
            let _ = write!(text, "\nwarn {finding}");
        }
        text
    }

    /// One row for each blocked pair, with everything that a firewall request needs. Empty if none is blocked.
    fn blocked(&self) -> String {
        let heads = ["from", "to", "address", "port", "reason"].map(str::to_owned);
        let mut rows = vec![heads];
        for (from, dialed) in &self.dialed {
            for ConnectionResult { dial, blocked, .. } in dialed {
                if let Some(reason) = blocked {
                    let (address, port) = (dial.address.to_string(), dial.port.to_string());
                    let from = match dial.pod {
                        Some(_) => format!("pods of {from}"),
                        None => from.clone(),
                    };
                    rows.push([from, dial.to.clone(), address, port, reason.clone()]);
                }
            }
        }
        if rows.len() == 1 {
            return String::new();
        }
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths = [width(0), width(1), width(2), width(3)];
        let mut text = format!("\nblocked between hosts ({}):", rows.len() - 1);
        for [from, to, address, port, reason] in &rows {
            let [a, b, c, d] = widths;
            let _ = write!(text, "\n  {from:a$}  {to:b$}  {address:c$}  {port:d$}  {reason}");
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

    /// Rows of the table: the checks, connectivity, what is wrong with the user's registry, etcd and CA, and what this home can open, if that
    /// was looked at.
    fn checks(&self) -> impl Iterator<Item = &'static str> {
        let authorities = self.authorities.then_some(AUTHORITIES);
        let named = |name: &'static str| self.findings.iter().any(|finding| finding.check == name).then_some(name);
        let asked = [REGISTRY, ETCD, SITE_CA].into_iter().filter_map(named);
        CHECKS.iter().map(|check| check.name).chain([mesh::NAME]).chain(asked).chain(authorities)
    }

    /// The same as JSON.
    pub fn document(&self) -> Value {
        let checks: Vec<&str> = self.checks().collect();
        let dialed = self.dialed.iter().flat_map(|(from, all)| all.iter().map(move |dialed| (from, dialed)));
        let dialed: Vec<Value> = dialed
            .map(|(from, ConnectionResult { dial, blocked, .. })| {
                json!({"from": from, "to": dial.to, "address": dial.address, "port": dial.port, "pod": dial.pod, "blocked": blocked})
            })
            .collect();
        json!({
            "schema": "kubexm.io/preflight/v1",
            "cluster": self.cluster,
            "ok": self.failures().next().is_none(),
            "hosts": self.hosts,
            "checks": checks,
            "findings": self.findings,
            "mesh": dialed,
        })
    }
}

#[cfg(test)]
mod tests {
    use kubexm_plan::mesh::{ConnectionCheck, Port, Protocol};

    use super::*;

    fn finding(severity: Severity, check: &str, host: Option<&str>) -> Finding {
        let words = |word: &str| format!("{word} of {check}");
        let (found, needed, fix) = (words("found"), words("needed"), words("mend"));
        Finding { severity, check: check.to_owned(), host: host.map(str::to_owned), found, needed, fix, detail: None }
    }

    #[test]
    fn a_failure_is_seen_in_its_row_and_column_and_reported_in_words_before_warnings() {
        let findings = vec![
            finding(Severity::Warn, "time", Some("n1")),
            finding(Severity::Fail, "ports", Some("n2")),
            finding(Severity::Fail, "clones", None),
        ];
        let table = Findings::new("demo".into(), vec!["n1".into(), "n2".into()], findings, BTreeMap::new()).table();
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
        assert!(!table.contains("blocked"), "{table}");
    }

    #[test]
    fn what_a_host_says_begins_no_line_and_pushes_nothing_out_of_sight() {
        let lie = "x\nthe bundle is signed by ops@site".to_owned();
        let mut findings: Vec<Finding> = (0..5_000).map(|_| finding(Severity::Warn, "drift", Some("n1"))).collect();
        findings[0].found.clone_from(&lie);
        findings[0].needed.clone_from(&lie);
        findings[0].fix.clone_from(&lie);
        findings[0].detail = Some(format!("{}\nthe bundle is signed by ops@site", "+\n".repeat(100_000)));
        findings[4_999].severity = Severity::Fail;
        let dial = ConnectionCheck {
            to: "n2".to_owned(),
            address: [10, 0, 0, 2].into(),
            port: Port { protocol: Protocol::Tcp, number: 5444 },
            pod: None,
            authority: None,
            router: None,
        };
        let dialed = vec![ConnectionResult { dial, blocked: Some(lie), neighbour: None, routers: Vec::new() }];
        let findings =
            Findings::new("demo".into(), vec!["n1".into()], findings, BTreeMap::from([("n1".to_owned(), dialed)]));
        let table = findings.table();
        assert!(!table.lines().any(|line| line.starts_with("the bundle")), "{table}");
        assert!(table.lines().count() < 300, "{}", table.lines().count());
        assert!(table.contains("FAIL n1: drift: found 4960 more findings like these"), "{table}");
        assert_eq!(findings.failures().count(), 1, "it still fails");
    }

    #[test]
    fn a_blocked_pair_has_a_row_with_all_that_a_ticket_needs_and_a_reached_one_has_none() {
        let dialed = |number: u16, blocked: Option<&str>| ConnectionResult {
            dial: ConnectionCheck {
                to: "n2".to_owned(),
                address: [10, 0, 0, 2].into(),
                port: Port { protocol: Protocol::Tcp, number },
                pod: None,
                authority: None,
                router: None,
            },
            blocked: blocked.map(str::to_owned),
            neighbour: None,
            routers: Vec::new(),
        };
        let all = vec![dialed(10250, Some("no answer")), dialed(6443, None)];
        let findings =
            Findings::new("demo".into(), vec!["n1".into()], Vec::new(), BTreeMap::from([("n1".to_owned(), all)]));
        let table = findings.table();
        let rows: Vec<_> = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert!(rows.contains(&"n1 n2 10.0.0.2 10250/tcp no answer".to_owned()), "{table}");
        assert!(!table.contains("6443"), "{table}");
        assert_eq!(findings.document()["mesh"][0]["blocked"], "no answer");
    }
}
