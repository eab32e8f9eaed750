//! Addresses as messages show them, and how hosts are distinguished.

use reqwest::Url;

/// An address without the credentials and the query it may carry.
pub fn shown(url: &str) -> String {
    match Url::parse(url) {
        Ok(mut parsed) => {
            // Both fail only for addresses that cannot carry credentials.
            let _ = parsed.set_username("");
            let _ = parsed.set_password(None);
            parsed.set_query(None);
            parsed.set_fragment(None);
            parsed.to_string()
        }
        Err(_) => "that cannot be read".to_owned(),
    }
}

/// Host and port of an address.
pub(crate) fn host_of(url: &Url) -> String {
    format!("{}:{}", url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or(0))
}
