//! What a registry may send, as a function of any bytes.

use kubexm_spec::{Arch, Digest, Platform};
use reqwest::Url;

use super::{attached, endpoint, image, login, referrers};

/// An answer of a registry or of its token service: manifest, config, list of referrers, errors, token, headers.
pub fn registry(bytes: &[u8]) {
    let _ = image::parse(bytes);
    for arch in [Arch::Amd64, Arch::Arm64] {
        let _ = image::check_config(bytes, Platform { arch });
    }
    let _ = attached::listed([bytes]);
    let _ = attached::read(Digest::of(b"subject"), None, bytes.to_vec());
    let _ = login::token(bytes);
    if let Some(message) = endpoint::message(bytes) {
        assert!(!message.chars().any(char::is_control), "{message:?}");
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(page) = Url::parse("https://registry.example.com/v2/a/referrers/sha256:0?n=1") {
        let _ = login::read(text, &page);
        if let Some(next) = referrers::next_page(&page, text) {
            assert_eq!((next.origin(), next.path()), (page.origin(), page.path()), "the next page is elsewhere");
        }
    }
}
