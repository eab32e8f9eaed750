//! Diffs of files that people have edited.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::support_bundle::redact::{Known, MARK};

/// A line of a diff with the value of an environment variable: its name, which may say `PASSWORD`, is on another line.
static VALUE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?m)^([-+ ]\s*(?:-\s+)?value:).*$").ok());

/// A document without what looks like a secret; of the same shape otherwise.
pub(crate) fn document_without_secrets(document: &Value) -> Value {
    let text = Known::default().redact(&document.to_string());
    serde_json::from_str(&text).unwrap_or_else(|_| MARK.into())
}

/// The path of a field, which may have a secret as a name in it.
pub(crate) fn path_without_secrets(path: &str) -> String {
    Known::default().redact(path)
}

/// A diff of a file that people have edited, without what looks like a secret.
pub(crate) fn without_secrets(diff: &str) -> String {
    let text = Known::default().redact(diff);
    let Some(value) = VALUE.as_ref() else { return MARK.to_owned() };
    without_encoded(&value.replace_all(&text, format!("$1 {MARK}")))
}

/// A line of this length with nothing but base64 is the body of a key or of a secret: a diff may begin in its middle, below the
/// line that would say so.
const ENCODED: usize = 60;

fn without_encoded(diff: &str) -> String {
    let mut encoded = false;
    let lines = diff.lines().map(|line| {
        // The sign of the line, and its indentation.
        let body = line.get(1..).unwrap_or_default().trim_start();
        let prefix = &line[..line.len() - body.len()];
        let base64 = !body.is_empty() && body.bytes().all(|c| c.is_ascii_alphanumeric() || b"+/=".contains(&c));
        // The last line of a body is shorter.
        encoded = base64 && (encoded || body.len() >= ENCODED);
        if encoded { format!("{prefix}{MARK}") } else { line.to_owned() }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_somebody_put_into_a_file_is_not_in_its_diff() {
        let diff = "--- /etc/x (by kubeadm)\n+++ /etc/x (now)\n@@ -1,2 +1,6 @@\n     - --v=2\n+    - --profiling=true\n\
                    +    env:\n+    - name: ADMIN_PASSWORD\n+      value: hunter2\n+    - --oidc-client-secret=hunter3\n\
                    +    password: hunter4";
        let shown = without_secrets(diff);
        assert!(!shown.contains("hunter"), "{shown}");
        for line in
            ["--- /etc/x (by kubeadm)", "     - --v=2", "+    - --profiling=true", "+    - name: ADMIN_PASSWORD"]
        {
            assert!(shown.lines().any(|shown| shown == line), "{line} is not in {shown}");
        }
        assert_eq!(shown.lines().count(), diff.lines().count());
        let key = "@@ -1 +1,3 @@\n+-----BEGIN EC PRIVATE KEY-----\n+MHcCAQEEIA\n+-----END EC PRIVATE KEY-----\n+end";
        let shown = without_secrets(key);
        assert!(!shown.contains("MHcCAQEEIA") && shown.ends_with("\n+end"), "{shown}");
    }

    #[test]
    fn the_body_of_a_key_is_hidden_where_a_diff_begins_in_its_middle() {
        let line = "MIIEpAIBAAKCAQEA7bq4l2vXn0yJ8rKz0h3k9Q2m5c1f6t8u0w2y4a6c8e0g2i4";
        let diff = format!("@@ -3,2 +3,2 @@\n {line}\n-{line}\n+9Q2m5c1f6t8u==\n+    - --v=2");
        let shown = without_secrets(&diff);
        assert!(!shown.contains("MIIE") && !shown.contains("9Q2m"), "{shown}");
        assert!(shown.ends_with("+    - --v=2") && shown.starts_with("@@ -3,2 +3,2 @@"), "{shown}");
    }
}
