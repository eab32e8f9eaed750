//! Removes secrets from texts that leave the site.
//!
//! kubexm itself logs no secrets, but the output of other programs may contain any. Three methods are combined: values
//! of fields with a secret's name, in decoded JSON and YAML; patterns of secrets, in every text; and the values that
//! this controller knows. Removing too much is better than leaving a secret.

mod mark;
mod text;
mod value;

use kubexm_spec::json::memory_of;
use serde_json::Value;

pub use self::mark::MARK;

/// The longest text that is parsed as YAML, in bytes; longer ones are searched as plain text.
const LONGEST_YAML: usize = 1 << 20;
/// What JSON may take as memory while it is looked through, in bytes; more is removed.
const MOST_MEMORY: usize = 256 << 20;
/// Limit for texts within texts (JSON in a string of JSON in a string of YAML). Deeper ones are removed.
const DEEPEST: usize = 200;

/// Values that this controller knows to be secret.
#[derive(Default)]
pub struct Known(Vec<String>);

impl Known {
    /// Adds every long word of a file that is completely secret: a key, a kubeconfig.
    pub fn learn(&mut self, secret: &str) {
        let words = secret.split(|c: char| c.is_whitespace() || c == '"' || c == ',');
        // Shorter words occur in ordinary texts; lines with BEGIN or END are not secret.
        self.0.extend(words.filter(|word| word.len() >= 24 && !word.contains("-----")).map(str::to_owned));
        self.0.sort();
        self.0.dedup();
    }

    /// The text without secrets.
    pub fn redact(&self, text: &str) -> String {
        self.without_known(&self.redact_within(text, 0))
    }

    fn redact_within(&self, text: &str, depth: usize) -> String {
        if depth > DEEPEST {
            return MARK.to_owned();
        }
        let text = self.without_known(text);
        if let Some(json) = self.json(&text, depth) {
            return json;
        }
        if looks_like_yaml(&text) {
            return self.yaml(&text, depth);
        }
        self.lines(&text, depth)
    }

    fn without_known(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for value in &self.0 {
            if text.contains(value.as_str()) {
                text = text.replace(value.as_str(), MARK);
            }
        }
        text
    }

    /// A text that is one JSON object or array. It is serialised again, so that content which the parser skips (a
    /// duplicate field) is dropped.
    fn json(&self, text: &str, depth: usize) -> Option<String> {
        let trimmed = text.trim();
        if !trimmed.starts_with(['{', '[']) {
            return None;
        }
        if memory_of(trimmed.as_bytes()) > MOST_MEMORY {
            return Some(format!("{MARK} (JSON of too many values to be looked through)"));
        }
        let mut value: Value = serde_json::from_str(trimmed).ok()?;
        value::redact(&|text, depth| self.redact_within(text, depth), &mut value, depth);
        let written =
            if trimmed.contains('\n') { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        let (start, end) = (text.len() - text.trim_start().len(), text.trim_end().len());
        Some(format!("{}{}{}", &text[..start], written.ok()?, &text[end..]))
    }

    /// Each document separately; one that cannot be parsed is searched as plain text.
    fn yaml(&self, text: &str, depth: usize) -> String {
        let mut documents = vec![String::new()];
        for line in text.split_inclusive('\n') {
            match documents.last_mut() {
                Some(document) if line.trim_end() != "---" => document.push_str(line),
                _ => documents.push(String::new()),
            }
        }
        let redacted = documents.iter().map(|document| {
            // A duplicate key hides nothing, since the document is serialised again.
            let duplicate_keys = serde_saphyr::options::DuplicateKeyPolicy::LastWins;
            let options = serde_saphyr::options! { with_snippet: false, duplicate_keys: duplicate_keys };
            match serde_saphyr::from_str_with_options::<Value>(document, options) {
                Ok(mut value @ (Value::Object(_) | Value::Array(_))) => {
                    value::redact(&|text, depth| self.redact_within(text, depth), &mut value, depth);
                    serde_saphyr::to_string(&value).unwrap_or_else(|_| MARK.to_owned())
                }
                _ => self.lines(document, depth),
            }
        });
        redacted.collect::<Vec<_>>().join("---\n")
    }

    /// Lines that are JSON are decoded; the text between them is searched as plain text.
    fn lines(&self, text: &str, depth: usize) -> String {
        let (mut out, mut between) = (String::with_capacity(text.len()), String::new());
        for line in text.split_inclusive('\n') {
            match self.json(line, depth) {
                // After a key whose value is on the next lines, a line of JSON is that value.
                Some(json) if !between.trim_end().ends_with([':', '=', '|', '>']) => {
                    out.push_str(&text::redact(&between));
                    between.clear();
                    out.push_str(&json);
                }
                _ => between.push_str(line),
            }
        }
        out.push_str(&text::redact(&between));
        out
    }
}

fn looks_like_yaml(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty() && !line.starts_with('#'));
    text.len() <= LONGEST_YAML
        && lines
            .next()
            .is_some_and(|line| line == "---" || ["apiVersion:", "kind:"].iter().any(|key| line.starts_with(key)))
}

#[cfg(test)]
mod tests;
