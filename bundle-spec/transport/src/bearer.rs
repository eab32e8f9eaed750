//! A token that a host is shown with each request (RFC 6750, 2.1).

use std::fmt;
use std::sync::Arc;

use reqwest::header::HeaderValue;
use zeroize::Zeroizing;

/// A token; wiped from memory when dropped, and in no text.
#[derive(Clone, PartialEq, Eq)]
pub struct Bearer(Arc<Zeroizing<String>>);

impl Bearer {
    /// The token in a text, without the line's end that editors leave; none where a header could not carry it.
    pub fn new(text: &[u8]) -> Option<Self> {
        let token = std::str::from_utf8(text).ok()?.trim();
        let fits = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| Self(Arc::new(Zeroizing::new(token.to_owned()))))
    }

    /// The `Authorization` header.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let text = Zeroizing::new(format!("Bearer {}", self.0.as_str()));
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_word_and_is_not_shown() {
        let of = |text: &str| Bearer::new(text.as_bytes());
        assert_eq!(of("ghp_x\r\n"), of("ghp_x"));
        assert_eq!(format!("{:?}", of("ghp_x")), "Some(Bearer(…))");
        for none in ["", " \n", "two words", "a\nb", "ümlaut"] {
            assert_eq!(of(none), None, "{none:?}");
        }
    }
}
