//! Takes secrets out of texts that leave the site.
//!
//! Our own parts log no secrets; what other programs print may hold any. Two nets, one behind the other: shapes that
//! secrets have, and the very values that this controller knows. What is taken out by mistake is a smaller loss than what
//! is left in.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// What stands where a secret stood.
pub const MARK: &str = "<redacted>";

/// Words that name a secret, at the end of a key: `registryPassword`, `client-key-data`, `certificateKey`.
const NAMES: &str = "pass(?:word|wd|phrase)?|secret|token|credentials?|client-key-data|(?:certificate|private|api|access|encryption)[-_]?key|\
                     auth(?:orization)?|key-data";

/// Shapes; a first group, where there is one, stays.
static SHAPES: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let shapes = [
        // A private key (RFC 7468), whole, cut off, or in one line of JSON.
        r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)".to_owned(),
        // The rest of one whose beginning was cut off.
        r"(?s)\A[A-Za-z0-9+/=\s]*-----END [A-Z0-9 ]*PRIVATE KEY-----".to_owned(),
        // `Authorization: Bearer …`, before the names: their value ends with a blank.
        r"(?i)(\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}".to_owned(),
        format!(r#"(?i)(["']?\b[\w.-]*(?:{NAMES})["']?\s*[:=]\s*)(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s"',}}\]]+)"#),
        format!(r"(?i)(--[\w-]*(?:{NAMES})[= ])\S+"),
        // A bootstrap token of kubeadm.
        r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b".to_owned(),
        // A JSON web token (RFC 7519).
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*".to_owned(),
        // User and password of a URL.
        r"(://)[^/\s:@]+:[^/\s@]+@".to_owned(),
        // A password's hash (crypt(5)).
        r"\$(?:y|6|5|2[aby]|1)\$[./A-Za-z0-9$]{8,}".to_owned(),
    ];
    // Constant patterns: a test uses every one of them.
    shapes.iter().filter_map(|shape| Regex::new(shape).ok()).collect()
});

/// Values that this controller knows to be secret.
#[derive(Default)]
pub struct Known(Vec<String>);

impl Known {
    /// Every long word of a file that is a secret as a whole: a key, a kubeconfig.
    pub fn learn(&mut self, secret: &str) {
        let words = secret.split(|c: char| c.is_whitespace() || c == '"' || c == ',');
        // Shorter ones are words of every text; what says BEGIN or END is no secret.
        self.0.extend(words.filter(|word| word.len() >= 24 && !word.contains("-----")).map(str::to_owned));
        self.0.sort();
        self.0.dedup();
    }

    /// The text without secrets.
    pub fn redact(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for value in self.0.iter().filter(|value| value.len() >= 24) {
            if text.contains(value.as_str()) {
                text = text.replace(value.as_str(), MARK);
            }
        }
        for shape in SHAPES.iter() {
            text = shape
                .replace_all(&text, |found: &Captures<'_>| {
                    let kept = found.get(1).map_or("", |group| group.as_str());
                    let value = &found[0][kept.len()..];
                    // JSON stays JSON.
                    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\'') && value.len() > 1);
                    let quote = quote.map(String::from).unwrap_or_default();
                    let end = if value.ends_with('@') { "@" } else { "" };
                    format!("{kept}{quote}{MARK}{quote}{end}")
                })
                .into_owned();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redact(text: &str) -> String {
        Known::default().redact(text)
    }

    #[test]
    fn every_shape_is_a_pattern_that_compiles() {
        assert_eq!(SHAPES.len(), 9);
    }

    #[test]
    fn nothing_of_a_secret_stays_whatever_it_is_written_in() {
        let secret = "s3cr3tS3CR3Tvalue";
        for text in [
            format!("password: {secret}"),
            format!("password = '{secret}'"),
            format!("{{\"registryPassword\":\"{secret}\",\"port\":5000}}"),
            format!("kubeadm join --token {secret} --v 5"),
            format!("--certificate-key={secret}"),
            format!("Authorization: Bearer {secret}"),
            format!("https://admin:{secret}@registry.example/v2/"),
            format!("client-key-data: {secret}"),
            format!("SUDO_PASSWORD={secret}"),
            format!("-----BEGIN EC PRIVATE KEY-----\n{secret}\n-----END EC PRIVATE KEY-----\nafter"),
            format!("-----BEGIN PRIVATE KEY-----\n{secret}"),
            format!("\"key\": \"-----BEGIN PRIVATE KEY-----\\n{secret}\\n-----END PRIVATE KEY-----\\n\""),
            format!("root:$6${secret}:19000:0:99999:7:::"),
        ] {
            let shown = redact(&text);
            assert!(!shown.contains(secret) && shown.contains(MARK), "{text} became {shown}");
        }
        assert!(!redact("using token abcdef.0123456789abcdef now").contains("0123456789abcdef"));
        assert!(!redact("got eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlIn0.c2lnbmF0dXJl").contains("c2lnbmF0dXJl"));
    }

    #[test]
    fn what_helps_to_find_a_fault_stays() {
        for text in [
            "node1/control-plane.init: Start the control plane with kubeadm",
            "failed to pull image registry.k8s.io/pause:3.10.1: dial tcp 10.0.0.11:5443: connect: connection refused",
            "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
            "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "secret \"x\" not found",
        ] {
            assert_eq!(redact(text), text);
        }
    }

    #[test]
    fn json_stays_json() {
        let shown = redact(r#"{"token":"a\"b","n":1,"password":"x"}"#);
        let value: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(value, serde_json::json!({"token": MARK, "n": 1, "password": MARK}));
    }

    #[test]
    fn a_value_that_the_controller_knows_goes_wherever_it_stands() {
        let mut known = Known::default();
        known.learn("-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqG\n-----END PRIVATE KEY-----\n");
        assert_eq!(known.redact("dump MIGHAgEAMBMGByqGSM49AgEGCCqG end"), format!("dump {MARK} end"));
    }
}
