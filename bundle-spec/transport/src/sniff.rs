//! Tells a login page or an error message from the file that should have come.

/// How many first bytes are looked at.
pub(crate) const HEAD: usize = 512;
/// What login pages and error pages are.
pub(crate) const PAGE: &str = "an HTML page";

/// What a content type says that no program or archive is: a page, JSON or XML.
pub fn by_content_type(content_type: &str) -> Option<&'static str> {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "text/html" | "application/xhtml+xml" => Some(PAGE),
        "application/json" | "application/problem+json" => Some("JSON"),
        "application/xml" | "text/xml" => Some("XML"),
        _ => None,
    }
}

/// What the first bytes say. Programs and archives begin with none of these.
pub fn by_first_bytes(head: &[u8]) -> Option<&'static str> {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let begins = |text: &str| head.len() >= text.len() && head[..text.len()].eq_ignore_ascii_case(text.as_bytes());
    if begins("<!doctype html") || begins("<html") || begins("<head") {
        return Some(PAGE);
    }
    if begins("<?xml") {
        return Some("XML");
    }
    let after_brace = head.strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
    after_brace.is_some_and(|rest| rest.starts_with(b"\"") || rest.starts_with(b"}")).then_some("JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_pages_and_error_messages_are_distinguished_from_programs() {
        for (head, found) in [
            (&b"\n <!DOCTYPE html><html>"[..], Some("an HTML page")),
            (b"\xef\xbb\xbf<HTML>", Some("an HTML page")),
            (b"{ \"errors\": []}", Some("JSON")),
            (b"<?xml version", Some("XML")),
            (b"\x7fELF\x02\x01\x01", None),
            (b"\x1f\x8b\x08", None),
            (b"#!/bin/sh", None),
            (b"", None),
            (b"{", None),
        ] {
            assert_eq!(by_first_bytes(head), found, "{head:?}");
        }
        assert_eq!(by_content_type("Text/HTML; charset=utf-8"), Some("an HTML page"));
        assert_eq!(by_content_type("application/octet-stream"), None);
    }
}
