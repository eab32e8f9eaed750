//! Credentials in texts, by their shape: what a bundle, a plan or a log would show to everyone who has it.

/// How tokens of GitHub and GitLab begin.
pub const TOKENS: [&str; 7] = ["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"];
/// What such a token has behind that, at least.
pub const TOKEN_LENGTH: usize = 20;
/// How a secret key of age begins.
pub const AGE_KEY: &str = "AGE-SECRET-KEY-1";
/// How a private key of PuTTY begins.
pub const PUTTY_KEY: &str = "PuTTY-User-Key-File-";

/// What a text holds, by shapes that nothing else has.
pub fn find(text: &str) -> Option<&'static str> {
    in_lines(text).or_else(|| {
        // A key within a string of JSON, or of a file of variables.
        let escaped = text.contains("\\n") && text.contains("PRIVATE KEY");
        escaped.then(|| in_lines(&text.replace("\\r", "").replace("\\n", "\n"))).flatten()
    })
}

fn in_lines(text: &str) -> Option<&'static str> {
    let lines = || text.lines().map(str::trim);
    // RFC 7468, OpenSSH and OpenPGP; with a body, which documentation of keys does not have.
    let mut rest = lines().skip_while(|line| {
        !(line.contains("-----BEGIN ")
            && (line.contains("PRIVATE KEY-----") || line.contains("PRIVATE KEY BLOCK-----")))
    });
    if rest.next().is_some() && rest.take(6).any(is_body) {
        return Some("a private key");
    }
    if lines().any(|line| line.starts_with(PUTTY_KEY) || line.starts_with(AGE_KEY)) {
        return Some("a private key");
    }
    let has = |key: &str| lines().any(|line| value_of(line, key).is_some_and(|value| value.len() >= 8));
    let is_kubeconfig = has("current-context") || lines().any(|line| value_of(line, "kind") == Some("Config"));
    if has("client-key-data") || is_kubeconfig && (has("token") || has("password")) {
        return Some("a kubeconfig with credentials");
    }
    if text.contains("\"auths\"") && ["auth", "identitytoken", "password"].into_iter().any(has) {
        return Some("registry credentials");
    }
    let words = || text.split(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c)));
    words().any(is_token).then_some("a token")
}

/// A line of base64.
fn is_body(line: &str) -> bool {
    line.len() >= 24 && line.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
}

const QUOTES: [char; 2] = ['"', '\''];

/// The first value of a key in a line of YAML or JSON that has one, without quotes. A whole JSON document may be one line.
fn value_of<'l>(line: &'l str, key: &str) -> Option<&'l str> {
    after_key(line, key).find_map(|rest| {
        let value = match rest.strip_prefix(QUOTES) {
            Some(quoted) => quoted.split(QUOTES).next()?,
            None => rest.split(|c: char| c.is_whitespace() || c == ',' || c == '}').next()?,
        };
        (!value.is_empty()).then_some(value)
    })
}

/// What follows each occurrence of a key in a line of YAML or JSON; nothing where its value begins in the next line.
fn after_key<'l>(line: &'l str, key: &str) -> impl Iterator<Item = &'l str> {
    line.match_indices(key).filter_map(move |(at, key)| {
        let before = line.get(..at)?.trim_end_matches(QUOTES);
        let is_key = before.chars().next_back().is_none_or(|c| c.is_whitespace() || c == '{' || c == ',');
        let rest = line.get(at + key.len()..)?.trim_start_matches(QUOTES).trim_start().strip_prefix(':')?;
        is_key.then_some(rest.trim_start())
    })
}

/// A JSON web token (RFC 7519), or one of GitHub or GitLab.
fn is_token(word: &str) -> bool {
    let parts: Vec<&str> = word.split('.').collect();
    let is_jwt = matches!(parts.as_slice(), [head, body, signature]
        if head.starts_with("eyJ") && body.starts_with("eyJ") && signature.len() >= 16);
    is_jwt || TOKENS.iter().any(|start| word.strip_prefix(start).is_some_and(|rest| rest.len() >= TOKEN_LENGTH))
}

/// Whether a document of a YAML stream, or a JSON object, is a Kubernetes Secret that has something in it. A reference to one
/// (`kind: Secret` without data) holds nothing.
pub fn has_secret_object(text: &str) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    let is_empty = |value: &str| value.starts_with("{}") || value.starts_with("null");
    lines.split(|line| line.starts_with("---")).any(|document| {
        let all = |key| document.iter().flat_map(move |line| after_key(line, key));
        let mut data = all("data").chain(all("stringData"));
        all("kind").any(|kind| first_word(kind) == "Secret") && data.any(|value| !is_empty(value))
    })
}

/// Of a value, without quotes.
fn first_word(value: &str) -> &str {
    let value = value.trim_start_matches(QUOTES);
    value.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default()
}

/// Objects and fields of Kubernetes that hold secrets.
const MARKS: [(&str, &str); 4] = [
    ("PRIVATE KEY-----", "a private key"),
    ("kind: Secret", "a Secret"),
    ("\"kind\":\"Secret\"", "a Secret"),
    ("bootstrapTokens:", "bootstrap tokens"),
];
/// Keys whose value is a secret, and may stand in a text as a slot's placeholder.
const KEYS: [(&str, &str); 3] = [
    ("certificateKey:", "a certificate key"),
    ("client-key-data:", "a kubeconfig with credentials"),
    ("token:", "a token"),
];
/// How the place of a slot begins in a text that is filled where it is used.
pub const HOLE: &str = "{{slot:";

/// What a text holds that is shown or stored for others, by [`find`] and by what Kubernetes calls its secrets. It would rather name
/// one too many: a text that is to hold a secret has a place for it, which is filled where it is used.
pub fn in_text(text: &str) -> Option<&'static str> {
    let mark = MARKS.into_iter().find(|(mark, _)| text.contains(mark));
    let key = || KEYS.into_iter().find(|(key, _)| text.lines().any(|line| bare_value(line, key)));
    let token = || {
        let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
        words.any(is_bootstrap_token).then_some("a bootstrap token")
    };
    mark.or_else(key).map(|(_, what)| what).or_else(token).or_else(|| find(text))
}

/// Whether a line gives a key a value that is no placeholder.
fn bare_value(line: &str, key: &str) -> bool {
    let value = line.trim_start().trim_start_matches("- ").strip_prefix(key);
    value.is_some_and(|value| !value.trim().is_empty() && !value.contains(HOLE))
}

/// `[a-z0-9]{6}.[a-z0-9]{16}` (Kubernetes, "Authenticating with Bootstrap Tokens").
fn is_bootstrap_token(word: &str) -> bool {
    let part = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    // One with no digit in 16 random characters is rare; a host name like `master.internalnetworks` is not.
    let digit = |secret: &str| secret.bytes().any(|b| b.is_ascii_digit());
    word.split_once('.').is_some_and(|(id, secret)| part(id, 6) && part(secret, 16) && digit(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg";

    #[test]
    fn a_credential_is_known_by_its_shape() {
        let jwt = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlIn0.c2lnbmF0dXJlc2lnbmF0dXJl";
        for (text, what) in [
            (format!("-----BEGIN EC PRIVATE KEY-----\n{BODY}\n-----END EC PRIVATE KEY-----\n"), "a private key"),
            (format!("-----BEGIN ENCRYPTED PRIVATE KEY-----\r\n{BODY}\r\n"), "a private key"),
            (format!("-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 1\n\n{BODY}\n"), "a private key"),
            (
                format!("{{\"private_key\": \"-----BEGIN PRIVATE KEY-----\\n{BODY}\\n-----END PRIVATE KEY-----\\n\"}}"),
                "a private key",
            ),
            (format!("KEY=\"-----BEGIN RSA PRIVATE KEY-----\\r\\n{BODY}\\r\\n\""), "a private key"),
            ("PuTTY-User-Key-File-3: ssh-ed25519\n".to_owned(), "a private key"),
            (format!("users:\n- name: a\n  user:\n    client-key-data: {BODY}\n"), "a kubeconfig with credentials"),
            (format!("kind: Config\nusers:\n- user: {{token: {BODY}}}\n"), "a kubeconfig with credentials"),
            (format!("{{\"auths\": {{\"a.test\": {{\n\"auth\": \"{BODY}\"}}}}}}"), "registry credentials"),
            (format!("{{\"auths\":{{\"reg.test\":{{\"auth\":\"{BODY}\"}}}}}}"), "registry credentials"),
            (
                "{\"auths\":{\"reg.test\":{\"username\":\"a\",\"password\":\"hunter2hunter2\"}}}".to_owned(),
                "registry credentials",
            ),
            (
                format!("{{\"kind\":\"Config\",\"users\":[{{\"name\":\"a\",\"user\":{{\"token\":\"{BODY}\"}}}}]}}"),
                "a kubeconfig with credentials",
            ),
            (format!("curl -H 'Authorization: Bearer {jwt}'"), "a token"),
            ("export T=ghp_0123456789abcdefghijABCDEFGHIJ012345".to_owned(), "a token"),
        ] {
            assert_eq!(find(&text), Some(what), "{text}");
        }
    }

    #[test]
    fn text_that_only_mentions_credentials_is_no_credential() {
        for text in [
            format!("-----BEGIN CERTIFICATE-----\n{BODY}\n-----END CERTIFICATE-----\n"),
            "a file with -----BEGIN PRIVATE KEY----- in its first line is a key\n".to_owned(),
            "kind: Deployment\nspec: {token: {secretKeyRef: {name: a}}}\n".to_owned(),
            "apiVersion: v1\nkind: Config\nclusters: []\nusers: []\ntoken: \"\"\n".to_owned(),
            "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".to_owned(),
            "v1.34.4".to_owned(),
        ] {
            assert_eq!(find(&text), None, "{text}");
        }
    }

    #[test]
    fn a_secret_object_is_one_that_has_data() {
        for text in [
            "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata:\n  password: aHVudGVyMg==\n",
            "kind: ConfigMap\ndata: {a: b}\n---\nkind: 'Secret'  # ours\nstringData: {a: b}\n",
            "apiVersion: v1\nkind: List\nitems:\n- kind: Secret\n  data:\n    a: Yg==\n",
            "{\"kind\":\"Secret\",\"data\":{\"a\":\"Yg==\"}}",
        ] {
            assert!(has_secret_object(text), "{text}");
        }
        for text in [
            "kind: SealedSecret\nspec: {encryptedData: {a: b}}\ndata: {}\n",
            "kind: Secret\ntype: kubernetes.io/service-account-token\nmetadata: {name: a}\n",
            "kind: Gateway\ncertificateRefs:\n- kind: Secret\n  name: a\n---\nkind: ConfigMap\ndata: {a: b}\n",
            "{\"kind\": \"Secret\", \"data\": {}}",
            "a Secret of kind: none\n",
        ] {
            assert!(!has_secret_object(text), "{text}");
        }
    }
}
