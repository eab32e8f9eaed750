//! A login by name and password that a host is shown with each request (RFC 7617).

use std::fmt;
use std::sync::Arc;

use reqwest::header::HeaderValue;
use zeroize::Zeroizing;

/// The value of an `Authorization` header; wiped from memory when dropped, and in no text.
#[derive(Clone, PartialEq, Eq)]
pub struct BasicLogin(Arc<Zeroizing<String>>);

impl BasicLogin {
    /// `Basic …`, as a program keeps it in a file; none where it is not that.
    pub fn from_header(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?.trim();
        let encoded = text.strip_prefix("Basic ")?;
        let fits = !encoded.is_empty() && encoded.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| Self(Arc::new(Zeroizing::new(text.to_owned()))))
    }

    /// The header.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&self.0).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl fmt::Debug for BasicLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BasicLogin(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_one_header_and_is_not_shown() {
        let of = |text: &str| BasicLogin::from_header(text.as_bytes());
        assert_eq!(of("Basic YTpi\n"), of("Basic YTpi"));
        assert_eq!(format!("{:?}", of("Basic YTpi")), "Some(BasicLogin(…))");
        for none in ["", "Basic ", "YTpi", "Bearer YTpi", "Basic YTpi\nX: y", "Basic two words"] {
            assert_eq!(of(none), None, "{none:?}");
        }
    }
}
