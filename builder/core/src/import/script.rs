//! Secrets in a shell script: searched line by line, by how they are passed. A reference to a secret
//! (`$PASSWORD`, `$(cat file)`, a path) is not one.
//!
//! This is not a shell parser: a false positive costs a warning, and a script that must be written by hand.

use super::secrets;

/// Prefixes of well-known tokens, and the least length of such a token in bytes.
const SHAPES: [(&str, usize); 8] = [
    ("ghp_", 36),
    ("gho_", 36),
    ("github_pat_", 40),
    ("glpat-", 20),
    ("AKIA", 20),
    ("xoxb-", 20),
    ("xoxp-", 20),
    ("eyJhbGci", 40),
];
/// Ends of names that hold a secret, in lower case with `_` for every mark.
const ENDS: [&str; 12] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "api_key",
    "access_key",
    "secret_key",
    "credentials",
    "authorization",
    "_pass",
];
/// Other such names, whole or behind a mark.
const WHOLE: [&str; 3] = ["pass", "auth", "dockerconfigjson"];
/// A value with one of these prefixes is a path to a secret, not the secret.
const ROOTS: [&str; 9] = ["/etc/", "/var/", "/run/", "/root/", "/home/", "/opt/", "/usr/", "/tmp/", "/dev/"];
/// Values that are none.
const EMPTY: [&str; 11] = ["true", "false", "yes", "no", "null", "none", "0", "1", "|", ">", "-"];

/// The lines that hold a secret, counted from 1, and what each does with it; never the secret itself.
pub fn secrets_of(bash: &str) -> Vec<(usize, String)> {
    lines(bash).into_iter().filter_map(|(number, line)| Some((number, secret(&line)?))).collect()
}

/// Lines with what a `\` at their end continues with.
fn lines(bash: &str) -> Vec<(usize, String)> {
    let mut all: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (line, number) in bash.lines().zip(1..) {
        let (part, goes_on) = match line.trim_end().strip_suffix('\\') {
            Some(part) => (part, true),
            None => (line, false),
        };
        match all.last_mut().filter(|_| open) {
            Some((_, whole)) => {
                whole.push(' ');
                whole.push_str(part);
            }
            None => all.push((number, part.to_owned())),
        }
        open = goes_on;
    }
    all
}

fn secret(line: &str) -> Option<String> {
    if line.contains("-----BEGIN") && line.contains("PRIVATE KEY-----") {
        return Some("begins a private key".to_owned());
    }
    if secrets::holds_password(line) {
        return Some("has a login in an address".to_owned());
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    command(line, &words)
        .map(|what| format!("gives {what}"))
        .or_else(|| named(line).or_else(|| option(&words)).map(|name| format!("gives {name} a value")))
        .or_else(|| has_shape(line).then(|| "has what looks like a token".to_owned()))
}

/// The name of what is given a value: `NAME=value`, `name: value`, `"name": "value"`, `--name=value`.
fn named(line: &str) -> Option<&str> {
    line.char_indices().filter(|(_, c)| matches!(c, '=' | ':')).find_map(|(at, mark)| {
        let (before, after) = (&line[..at], &line[at + 1..]);
        let quoted = before.ends_with(['"', '\'']);
        let spaced = before.ends_with(' ');
        let head = before.trim_end_matches([' ', '"', '\'']);
        let start = head.rfind(|c: char| !c.is_ascii_alphanumeric() && !"_-.".contains(c)).map_or(0, |at| at + 1);
        let name = &head[start..];
        // `$NAME` and `${NAME…}` are read; `==` compares.
        if !is_secret(name) || head[..start].ends_with(['$', '{']) || after.starts_with('=') {
            return None;
        }
        let value = match mark {
            '=' if spaced => after.trim_start(),
            '=' => after,
            _ if quoted || after.starts_with(' ') => after.trim_start(),
            _ => return None,
        };
        // The quote that ends what the name is in: `read -p "Password: " PW`.
        let inside = |quote: char| before.matches(quote).count() % 2 == 1;
        if !quoted && value.starts_with(['"', '\'']) && value.starts_with(inside) {
            return None;
        }
        let ends: &[char] = if mark == ':' { &['"', '\''] } else { &[' ', '\t', ';', ',', ')', '&', '|', '"', '\''] };
        value_of(value, ends).then_some(name)
    })
}

/// Whether a literal is at the beginning of a text.
fn value_of(text: &str, ends: &[char]) -> bool {
    let of = |rest: &str, ends: &[char]| rest.split(|c| ends.contains(&c)).next().unwrap_or_default().to_owned();
    match text.strip_prefix('\'') {
        Some(rest) => !is_nothing(&of(rest, &['\''])),
        None => is_literal(&text.strip_prefix('"').map_or_else(|| of(text, ends), |rest| of(rest, &['"']))),
    }
}

/// `--name value`.
fn option<'l>(words: &[&'l str]) -> Option<&'l str> {
    words.windows(2).find_map(|pair| {
        let [name, value] = pair else { return None };
        let is = name.starts_with('-') && !name.contains('=') && is_secret(name) && !value.starts_with('-');
        (is && is_literal(value)).then_some(*name)
    })
}

/// What programs are given by a word or a letter of their own.
fn command(line: &str, words: &[&str]) -> Option<String> {
    let names = |name: &str| words.iter().any(|word| *word == name || word.ends_with(&format!("/{name}")));
    let after = |option: &str| words.windows(2).any(|pair| pair[0] == option && is_literal(pair[1]));
    let joined = |option: &str| {
        words.iter().filter_map(|word| word.strip_prefix(option)).any(|value| !value.is_empty() && is_literal(value))
    };
    let login =
        |word: &&str| word.trim_matches(['"', '\'']).split_once(':').is_some_and(|(_, password)| is_literal(password));
    if names("curl") {
        let short = |word: &str| word.starts_with('-') && !word.starts_with("--") && word.ends_with(['u', 'U']);
        let long = |word: &str| matches!(word, "--user" | "--proxy-user");
        let given = words.windows(2).filter(|pair| short(pair[0]) || long(pair[0])).map(|pair| pair[1]);
        let prefixed = words
            .iter()
            .filter_map(|word| ["--user=", "--proxy-user=", "-u", "-U"].iter().find_map(|p| word.strip_prefix(p)));
        if given.chain(prefixed).any(|word| login(&word)) {
            return Some("curl a login".to_owned());
        }
    }
    let mysql = words.iter().any(|word| ["mysql", "mariadb"].iter().any(|name| word.starts_with(name)));
    let user = ["usermod", "useradd"].into_iter().find(|name| names(name));
    match () {
        () if names("sshpass") && (after("-p") || joined("-p")) => Some("sshpass a password".to_owned()),
        () if names("login") && after("-p") => Some("login a password".to_owned()),
        () if mysql && joined("-p") => Some("mysql a password".to_owned()),
        () if names("htpasswd") && words.iter().any(|word| word.starts_with('-') && word.contains('b')) => {
            words.last().filter(|word| is_literal(word)).map(|_| "htpasswd a password".to_owned())
        }
        () if user.is_some() && after("-p") => user.map(|name| format!("{name} a password")),
        () => piped(line, words),
    }
}

/// What reads a password from its standard input, and is given one that is there.
fn piped(line: &str, words: &[&str]) -> Option<String> {
    let has = |word: &str| words.contains(&word);
    let reader = match () {
        () if has("chpasswd") => "chpasswd",
        () if has("--password-stdin") => "login",
        () if has("passwd") && has("--stdin") => "passwd",
        () if has("sudo") && has("-S") => "sudo",
        () => return None,
    };
    let here = line.split_once("<<<").map(|(_, text)| text.trim());
    let document = here.is_none() && line.contains("<<");
    let said = line.split('|').next().map(str::trim_start).and_then(|first| {
        let rest = first.strip_prefix("echo ").or_else(|| first.strip_prefix("printf "))?;
        (first.len() < line.trim().len()).then_some(rest.trim())
    });
    let literal = here.or(said).is_some_and(|text| text.starts_with('\'') || is_literal(text));
    (literal || document).then(|| format!("{reader} a password"))
}

fn has_shape(line: &str) -> bool {
    let words = line.split(|c: char| !c.is_ascii_alphanumeric() && !"_-.".contains(c));
    words.into_iter().any(|word| SHAPES.iter().any(|(start, least)| word.starts_with(start) && word.len() >= *least))
}

fn is_secret(name: &str) -> bool {
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect();
    let last = |word: &&str| name.strip_suffix(*word).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'));
    ENDS.iter().any(|end| name.ends_with(end)) || name.ends_with("_pwd") || WHOLE.iter().any(last)
}

/// Whether a value is itself what it stands for.
fn is_literal(value: &str) -> bool {
    let value = value.trim_matches(['"', '\'', ' ']);
    if let Some((_, default)) = value.split_once(":-").filter(|_| value.starts_with("${")) {
        return is_literal(default.trim_end_matches('}'));
    }
    !is_nothing(value) && !value.contains(['$', '`']) && !value.contains("{{")
}

/// Nothing, a word that is no secret, a place where one is.
fn is_nothing(value: &str) -> bool {
    let value = value.trim();
    let masked = value.chars().all(|c| matches!(c, '*' | '.'));
    let placeholder = value.starts_with('<') && value.ends_with('>');
    masked || placeholder || EMPTY.contains(&value) || ROOTS.iter().any(|root| value.starts_with(root))
}
