//! A bootstrap token: a Secret in kube-system as documented by Kubernetes ("Authenticating with Bootstrap Tokens"),
//! with the group that kubeadm's RBAC rules use.

use std::time::{SystemTime, UNIX_EPOCH};

use super::random::random;
use crate::kube::kubectl;
use crate::{Machine, OpError};

/// Long enough for many joins, but not a permanent way to join.
const LIVES_S: u64 = 2 * 60 * 60;
/// `[a-z0-9]{6}\.[a-z0-9]{16}`: 36 characters; bytes from 252 on are skipped, so that all characters are equally
/// likely.
const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";

pub(super) fn make(machine: &Machine) -> Result<String, OpError> {
    let (id, secret) = (characters(6)?, characters(16)?);
    let expires = rfc3339(now()? + LIVES_S);
    // On standard input, since every user of the host can see arguments.
    let text = format!(
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: bootstrap-token-{id}\n  namespace: kube-system\n\
         type: bootstrap.kubernetes.io/token\nstringData:\n  token-id: \"{id}\"\n  token-secret: \"{secret}\"\n  \
         expiration: \"{expires}\"\n  usage-bootstrap-authentication: \"true\"\n  usage-bootstrap-signing: \"true\"\n  \
         auth-extra-groups: system:bootstrappers:kubeadm:default-node-token\n  description: made by KubeXM for a join\n"
    );
    // `create` and not `apply`, whose annotation would contain the secret a second time.
    machine.run(&kubectl(["create", "--filename", "-"]).stdin(text)).map_err(|error| match error {
        OpError::Program { program, status, stderr } => {
            OpError::Program { program, status, stderr: stderr.replace(&secret, "(secret)") }
        }
        other => other,
    })?;
    Ok(format!("{id}.{secret}"))
}

fn characters(count: usize) -> Result<String, OpError> {
    let mut text = String::with_capacity(count);
    while text.len() < count {
        let bytes: [u8; 32] = random()?;
        for byte in bytes.into_iter().filter(|byte| *byte < 252) {
            if text.len() < count {
                text.push(char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]));
            }
        }
    }
    Ok(text)
}

fn now() -> Result<u64, OpError> {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map(|since| since.as_secs())
        .map_err(|_| OpError::other("the node's clock is before 1970: set it, then run again"))
}

/// Seconds since 1970 → `2026-11-21T15:35:00Z`, by the proleptic Gregorian calendar.
fn rfc3339(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut year, mut day) = (1970, days);
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}T{:02}:{:02}:{:02}Z", day + 1, rest / 3600, rest % 3600 / 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expiration_is_a_date_of_the_calendar_also_around_leap_days_and_new_year() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_735_689_600, "2025-01-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), text);
        }
    }
}
