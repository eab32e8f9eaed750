//! A lease in the cluster: one control plane renews its certificates at a time.
//!
//! It is an object `Lease`, created by whoever begins and deleted by whom it belongs to. One that was left behind is taken over when its time
//! is up, by an update that names the version that was read, so that of two only one gets it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::kube::{kubectl, objects};
use crate::{Machine, OpError};

const NAME: &str = "kubexm-certs";
const NAMESPACE: &str = "kube-system";
/// Longer than every restart of a control plane takes together, each with its limit.
const LASTS_S: i64 = 30 * 60;
/// How long another one is waited for.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// How long an API server behind the cluster's name may take to answer after a restart.
const GIVES_BACK: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_secs(10);

pub(super) struct Lease {
    holder: String,
}

impl Lease {
    /// Waits while another control plane has it.
    pub(super) fn take(machine: &Machine, now: i64) -> Result<Self, OpError> {
        let holder = machine.system().hostname()?;
        let begun = Instant::now();
        loop {
            let waited = i64::try_from(begun.elapsed().as_secs()).unwrap_or(i64::MAX);
            let now = now.saturating_add(waited);
            let found = match read(machine) {
                // The API server that is asked may be the one that restarts.
                Err(_) if begun.elapsed() < PATIENCE && machine.is_real() => {
                    std::thread::sleep(PAUSE);
                    continue;
                }
                found => found?,
            };
            let Some(found) = found else {
                let create = objects::on("create", [], &object(&holder, now, None)?);
                let output = machine.try_run(&create)?;
                if output.code == 0 {
                    return Ok(Self { holder });
                }
                if !output.tail().contains("AlreadyExists") {
                    return Err(OpError::other(format!("`{create}` failed: {}", output.tail())));
                }
                continue;
            };
            let of = found.pointer("/spec/holderIdentity").and_then(Value::as_str).unwrap_or_default().to_owned();
            if of == holder || is_over(&found, now) {
                let version = found.pointer("/metadata/resourceVersion").and_then(Value::as_str);
                let replace = objects::on("replace", [], &object(&holder, now, version)?);
                let output = machine.try_run(&replace)?;
                if output.code == 0 {
                    return Ok(Self { holder });
                }
                let lost = ["Conflict", "NotFound"].iter().any(|why| output.tail().contains(why));
                if !lost {
                    return Err(OpError::other(format!("`{replace}` failed: {}", output.tail())));
                }
            }
            if begun.elapsed() > PATIENCE || !machine.is_real() {
                return Err(OpError::other(format!(
                    "{of} renews its certificates at the same time (lease {NAME} in {NAMESPACE}) and did not end: the next time of the timer \
                     tries again; nothing was renewed"
                )));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// One that somebody else has taken over is left. One that cannot be given back now ends by itself.
    pub(super) fn give_back(self, machine: &Machine) {
        let begun = Instant::now();
        while self.deleted(machine).is_err() && begun.elapsed() < GIVES_BACK && machine.is_real() {
            std::thread::sleep(PAUSE);
        }
    }

    fn deleted(&self, machine: &Machine) -> Result<(), OpError> {
        let Some(found) = read(machine)? else { return Ok(()) };
        if found.pointer("/spec/holderIdentity").and_then(Value::as_str) != Some(&self.holder) {
            return Ok(());
        }
        machine.run(&kubectl(["delete", "lease", NAME, "--namespace", NAMESPACE, "--ignore-not-found"])).map(drop)
    }
}

fn read(machine: &Machine) -> Result<Option<Value>, OpError> {
    let get = kubectl(["get", "lease", NAME, "--namespace", NAMESPACE, "--ignore-not-found", "-o", "json"]);
    let output = machine.run(&get)?;
    if output.stdout.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    serde_json::from_slice(&output.stdout)
        .map(Some)
        .map_err(|error| OpError::other(format!("`{get}` did not return JSON: {error}")))
}

fn is_over(lease: &Value, now: i64) -> bool {
    let begun = lease.pointer("/spec/acquireTime").and_then(Value::as_str);
    let begun = begun.and_then(|text| OffsetDateTime::parse(text, &Rfc3339).ok());
    // One of a clock that is far ahead would otherwise keep all away for as long.
    begun.is_none_or(|begun| now.abs_diff(begun.unix_timestamp()) > LASTS_S.unsigned_abs())
}

fn object(holder: &str, now: i64, version: Option<&str>) -> Result<String, OpError> {
    let wrong = || OpError::other(format!("the clock of this host is wrong: {now} s after 1970 is in no calendar"));
    let begun = OffsetDateTime::from_unix_timestamp(now).ok().and_then(|date| date.format(&Rfc3339).ok());
    // A MicroTime, which has a fraction.
    let begun = begun.ok_or_else(wrong)?.replace('Z', ".000000Z");
    let mut metadata = json!({
        "name": NAME, "namespace": NAMESPACE, "labels": {"app.kubernetes.io/managed-by": "kubexm"},
    });
    if let Some(version) = version {
        metadata["resourceVersion"] = version.into();
    }
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata,
        "spec": {"holderIdentity": holder, "acquireTime": begun, "leaseDurationSeconds": LASTS_S},
    });
    Ok(lease.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_over_after_its_time_and_when_it_begins_long_after_now() {
        let (begun, minute) = (1_700_000_000, 60);
        let lease: Value = serde_json::from_str(&object("node1", begun, None).unwrap_or_default()).unwrap_or_default();
        assert!(lease["spec"]["acquireTime"].is_string(), "{lease}");
        assert!(!is_over(&lease, begun) && !is_over(&lease, begun + LASTS_S));
        assert!(is_over(&lease, begun + LASTS_S + minute));
        // Clocks of two hosts differ a little; one that is years ahead keeps nobody away for years.
        assert!(!is_over(&lease, begun - minute));
        assert!(is_over(&lease, begun - 365 * 86_400));
        assert!(is_over(&json!({"spec": {}}), begun));
    }
}
