//! Diffs of files that people have edited.

use std::sync::LazyLock;

use regex::Regex;

use crate::support_bundle::redact::{Known, MARK};

/// A line of a diff with the value of an environment variable: its name, which may say `PASSWORD`, is on another line.
static VALUE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?m)^([-+ ]\s*(?:-\s+)?value:).*$").ok());

/// A diff of a file that people have edited, without what looks like a secret.
pub(crate) fn without_secrets(diff: &str) -> String {
    let text = Known::default().redact(diff);
    VALUE.as_ref().map_or_else(|| MARK.to_owned(), |value| value.replace_all(&text, format!("$1 {MARK}")).into_owned())
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
}
