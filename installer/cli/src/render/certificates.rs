//! When certificates end, as a table and as a document.

use kubexm_engine::clock::rfc3339;
use kubexm_plan::cluster_facts::{Certificate, Gap, TimerFacts};
use kubexm_plan::timers::CERTS;
use kubexm_session::{ClusterView, escaped};
use kubexm_spec::{ExitCode, counted};
use serde_json::{Value, json};

use super::cluster_facts::timers;
use super::table::table;

const DAY: i64 = 24 * 3600;
/// The schema of the document.
const SCHEMA: &str = "kubexm.io/certificates/v1";

/// The state of a certificate at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Valid,
    EndsSoon,
    Ended,
}

impl State {
    fn of(one: &Certificate, now: i64, within: i64) -> Self {
        match one.ends.saturating_sub(now) {
            left if left <= 0 => Self::Ended,
            left if left < within => Self::EndsSoon,
            _ => Self::Valid,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::EndsSoon => "endsSoon",
            Self::Ended => "ended",
        }
    }
}

/// The certificates of a cluster, the first to end first.
pub struct Checked<'v> {
    cluster: &'v str,
    certificates: Vec<(&'v Certificate, State)>,
    /// Those that renew certificates.
    timers: Vec<TimerFacts>,
    /// Hosts and files that could not be read.
    unread: Vec<&'v Gap>,
    now: i64,
    within: i64,
}

impl<'v> Checked<'v> {
    /// Compares them with a time; `now` in seconds of Unix time, `within` in seconds.
    pub fn of(view: &'v ClusterView, now: i64, within: i64) -> Self {
        let mut certificates: Vec<(&Certificate, State)> =
            view.facts.certificates.iter().map(|one| (one, State::of(one, now, within))).collect();
        certificates.sort_by_key(|(one, _)| (one.ends, &one.host, &one.path));
        // That the API server or etcd does not answer is no matter here.
        let is_about = |gap: &&Gap| gap.what == "host" || gap.what.starts_with("certificate ");
        let unread = view.facts.gaps.iter().filter(is_about).collect();
        let renews = |one: &&TimerFacts| one.timer == CERTS.timer();
        let timers = view.facts.timers.iter().filter(renews).cloned().collect();
        Self { cluster: &view.cluster, certificates, timers, unread, now, within }
    }

    /// Of the program: what ends counts for more than what could not be read.
    pub fn exit_code(&self) -> ExitCode {
        match () {
            () if self.certificates.iter().any(|(_, state)| *state != State::Valid) => ExitCode::CertificateEnds,
            () if !self.unread.is_empty() || self.certificates.is_empty() => ExitCode::HostUnreachable,
            () => ExitCode::Ok,
        }
    }

    /// For machines.
    pub fn document(&self) -> Value {
        let certificates: Vec<Value> = self
            .certificates
            .iter()
            .map(|(one, state)| {
                json!({
                    "host": one.host, "path": one.path, "subject": one.subject, "ends": rfc3339(one.ends),
                    "secondsLeft": one.ends.saturating_sub(self.now), "state": state.word(),
                })
            })
            .collect();
        json!({
            "schema": SCHEMA, "cluster": self.cluster, "withinSeconds": self.within, "certificates": certificates,
            "timers": self.timers, "gaps": self.unread, "exitCode": self.exit_code().code(),
        })
    }

    /// For people. What hosts answered is shown escaped.
    pub fn text(&self) -> String {
        let count = |state| self.certificates.iter().filter(|(_, found)| *found == state).count() as u64;
        let mut lines = vec![format!(
            "cluster {}: {}, {} ended, {} within {} days",
            self.cluster,
            counted(self.certificates.len() as u64, "certificate"),
            match count(State::Ended) {
                0 => "none has".to_owned(),
                ended => format!("{ended} HAVE"),
            },
            match count(State::EndsSoon) {
                0 => "none ends".to_owned(),
                soon => format!("{soon} END"),
            },
            self.within / DAY
        )];
        let head = ["host", "certificate", "subject", "ends", "left"].map(str::to_owned);
        let rows = self.certificates.iter().map(|(one, state)| {
            let days = one.ends.saturating_sub(self.now).div_euclid(DAY);
            let left = match state {
                State::Ended => "HAS ENDED".to_owned(),
                State::EndsSoon => format!("{days} days, SOON"),
                State::Valid => format!("{days} days"),
            };
            [one.host.clone(), one.path.clone(), one.subject.clone(), rfc3339(one.ends), left]
        });
        lines.extend(table(std::iter::once(head).chain(rows)));
        lines.extend(timers(&self.timers));
        lines.extend(self.unread.iter().map(|gap| format!("  not read: {} of {}: {}", gap.what, gap.host, gap.why)));
        if self.exit_code() == ExitCode::CertificateEnds {
            lines.push("to renew them: kubexm-install certs renew -f cluster.yaml".to_owned());
        }
        lines.iter().map(|line| escaped(line)).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use kubexm_plan::ClusterFacts;

    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn view(all: &[(&str, i64)], gaps: &[&str]) -> ClusterView {
        let certificate = |(path, ends): &(&str, i64)| Certificate {
            host: "cp1".to_owned(),
            path: (*path).to_owned(),
            subject: "evil\u{1b}[2J".to_owned(),
            ends: NOW + ends,
            file: None,
            leaf: None,
        };
        let gap = |what: &&str| Gap { host: "w1".to_owned(), what: (*what).to_owned(), why: "refused".to_owned() };
        let facts = ClusterFacts {
            certificates: all.iter().map(certificate).collect(),
            gaps: gaps.iter().map(gap).collect(),
            ..ClusterFacts::default()
        };
        ClusterView { cluster: "demo".to_owned(), facts }
    }

    #[test]
    fn what_has_ended_comes_first_and_decides_the_exit_code() {
        let view = view(&[("/late", 200 * DAY), ("/soon", 89 * DAY), ("/gone", 0)], &["host", "server version"]);
        let checked = Checked::of(&view, NOW, 90 * DAY);
        assert_eq!(checked.exit_code(), ExitCode::CertificateEnds);
        let text = checked.text();
        for part in [
            "3 certificates, 1 HAVE ended, 1 END within 90 days",
            "HAS ENDED",
            "89 days, SOON",
            "200 days",
            "not read: host of w1",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains('\u{1b}') && !text.contains("server version"), "{text}");
        assert!(text.find("/gone") < text.find("/soon") && text.find("/soon") < text.find("/late"), "{text}");
        let document = checked.document();
        let states: Vec<&Value> =
            document["certificates"].as_array().unwrap().iter().map(|one| &one["state"]).collect();
        assert_eq!(states, ["ended", "endsSoon", "valid"]);
        assert_eq!((&document["exitCode"], document["gaps"].as_array().unwrap().len()), (&json!(56), 1));
    }

    #[test]
    fn what_could_not_be_read_is_not_taken_for_valid() {
        let far = [("/late", 91 * DAY)];
        assert_eq!(Checked::of(&view(&far, &[]), NOW, 90 * DAY).exit_code(), ExitCode::Ok);
        assert_eq!(Checked::of(&view(&far, &["server version"]), NOW, 90 * DAY).exit_code(), ExitCode::Ok);
        for gaps in [["host"], ["certificate /etc/x"]] {
            assert_eq!(Checked::of(&view(&far, &gaps), NOW, 90 * DAY).exit_code(), ExitCode::HostUnreachable);
        }
        assert_eq!(Checked::of(&view(&[], &[]), NOW, 90 * DAY).exit_code(), ExitCode::HostUnreachable);
    }
}
