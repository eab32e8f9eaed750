//! Preflight: what must be mended before a host is touched. All problems of all hosts are reported together.
//!
//! Pure, as everything here: it reads facts. That a host answers and its user may use sudo is the link's to say.

mod address;
mod bundle_fit;
mod clones;
mod control_planes;
mod existing;
mod glibc;
mod hardware;
mod hostname;
mod kernel;
pub mod mesh;
mod mtu;
mod networks;
mod noexec;
mod os;
mod packages;
mod ports;
mod programs;
mod proxies;
mod resolv_conf;
mod settings;
mod site;
mod space;
mod sysctls;
mod systemd;
mod time;
mod unchanged;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::context::PlanCx;
use site::Site;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Said, and gone on.
    Warn,
    /// Nothing is changed until it is mended.
    Fail,
}

/// One thing that preflight found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// How bad.
    pub severity: Severity,
    /// Name of the check, `hardware`.
    pub check: String,
    /// Name of the host; none when it is about the whole cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// What was seen.
    pub found: String,
    /// What is wanted.
    pub needed: String,
    /// How to get there.
    pub mend: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.host.as_deref().unwrap_or("cluster");
        write!(f, "{host}: {}: found {}; needed {}; {}", self.check, self.found, self.needed, self.mend)
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// Its name in findings.
    pub name: &'static str,
    run: fn(&Site<'_>, &mut Report),
}

/// Every check, in the order of the report.
pub const CHECKS: &[Check] = &[
    Check { name: "os", run: os::run },
    Check { name: "hardware", run: hardware::run },
    Check { name: "space", run: space::run },
    Check { name: "kernel", run: kernel::run },
    Check { name: "glibc", run: glibc::run },
    Check { name: "systemd", run: systemd::run },
    Check { name: "hostname", run: hostname::run },
    Check { name: "address", run: address::run },
    Check { name: "time", run: time::run },
    Check { name: "programs", run: programs::run },
    Check { name: "packages", run: packages::run },
    Check { name: "existing", run: existing::run },
    Check { name: "unchanged", run: unchanged::run },
    Check { name: "ports", run: ports::run },
    Check { name: "resolv.conf", run: resolv_conf::run },
    Check { name: "settings", run: settings::run },
    Check { name: "proxies", run: proxies::run },
    Check { name: "sysctls", run: sysctls::run },
    Check { name: "noexec", run: noexec::run },
    Check { name: "clones", run: clones::run },
    Check { name: "networks", run: networks::run },
    Check { name: "mtu", run: mtu::run },
    Check { name: "control-planes", run: control_planes::run },
    Check { name: "bundle", run: bundle_fit::run },
];

/// What is wrong, in the words of a finding.
#[derive(Debug)]
struct Words {
    found: String,
    needed: String,
    mend: String,
}

/// Findings as checks add them.
#[derive(Debug)]
struct Report {
    check: &'static str,
    findings: Vec<Finding>,
}

impl Report {
    fn add(&mut self, severity: Severity, host: Option<&str>, words: Words) {
        let Words { found, needed, mend } = words;
        let (check, host) = (self.check.to_owned(), host.map(str::to_owned));
        self.findings.push(Finding { severity, check, host, found, needed, mend });
    }

    fn fail(&mut self, host: &str, found: impl Into<String>, needed: impl Into<String>, mend: impl Into<String>) {
        self.add(Severity::Fail, Some(host), Words { found: found.into(), needed: needed.into(), mend: mend.into() });
    }

    fn warn(&mut self, host: &str, found: impl Into<String>, needed: impl Into<String>, mend: impl Into<String>) {
        self.add(Severity::Warn, Some(host), Words { found: found.into(), needed: needed.into(), mend: mend.into() });
    }
}

/// Runs every check over every host of which facts are there; a host without facts is the link's finding.
pub fn preflight(cx: &PlanCx<'_>) -> Vec<Finding> {
    let site = Site::of(cx);
    let mut report = Report { check: "", findings: Vec::new() };
    for check in CHECKS {
        report.check = check.name;
        (check.run)(&site, &mut report);
    }
    report.findings
}
