//! What refers to a manifest, page by page (distribution-spec 1.1, "Listing Referrers").

use kubexm_spec::Digest;
use reqwest::Url;

/// The most pages of a list that are asked for.
pub(super) const PAGES: usize = 32;
/// The most bytes of all pages together.
pub(super) const BYTES: usize = 16 << 20;

/// The list of what refers to a manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Referrers {
    /// Indexes, as the registry sent them, in its order.
    pub pages: Vec<Vec<u8>>,
    /// Whether the registry had no more of them: only so many are asked for.
    pub whole: bool,
    /// Whether the order is that in which they were added: the list of a tag is, the registry's own may be in any.
    pub ordered: bool,
}

/// The tag that holds the referrers of a manifest where the registry does not list them (distribution-spec 1.1,
/// "Referrers Tag Schema").
pub fn referrers_tag(subject: &Digest) -> String {
    format!("sha256-{}", subject.hex())
}

/// The address of the next page, of a `Link` (RFC 8288) with `rel="next"`; one that leads to anything else than the same
/// list is none.
pub(super) fn next_page(page: &Url, link: &str) -> Option<Url> {
    let is_next = |parameter: &str| {
        let (name, value) = parameter.split_once('=').unwrap_or_default();
        let value = value.trim().trim_matches('"');
        name.trim().eq_ignore_ascii_case("rel") && value.split(' ').any(|rel| rel.eq_ignore_ascii_case("next"))
    };
    let mut rest = link;
    while let Some((_, begun)) = rest.split_once('<') {
        let (target, after) = begun.split_once('>')?;
        let parameters = after.split_once('<').map_or(after, |(parameters, _)| parameters);
        if parameters.trim_end_matches([',', ' ']).split(';').any(is_next) {
            let next = page.join(target).ok()?;
            return (next.origin() == page.origin() && next.path() == page.path()).then_some(next);
        }
        rest = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_in_a_link_header_must_belong_to_the_same_list() {
        let page = Url::parse("https://r.test:5000/v2/a/b/referrers/sha256:00?n=2").unwrap();
        let next = |link: &str| next_page(&page, link).map(|url| url.to_string());
        let at = |query: &str| Some(format!("https://r.test:5000/v2/a/b/referrers/sha256:00?{query}"));
        for (link, found) in [
            ("</v2/a/b/referrers/sha256:00?n=2&last=x>; rel=\"next\"", at("n=2&last=x")),
            ("<?last=y>;rel=next", at("last=y")),
            ("<https://r.test:5000/v2/a/b/referrers/sha256:00?last=z>; title=\"a;b\"; rel=\"next\"", at("last=z")),
            ("<?first>; rel=\"first\", <?last=q>; Rel=\"last next\"", at("last=q")),
            ("</v2/a/b/referrers/sha256:00?n=1>; rel=\"prev\"", None),
            ("<https://elsewhere.test/v2/a/b/referrers/sha256:00?n=2>; rel=\"next\"", None),
            ("<http://r.test:5000/v2/a/b/referrers/sha256:00?n=2>; rel=\"next\"", None),
            ("</v2/other/referrers/sha256:00?n=2>; rel=\"next\"", None),
            ("<", None),
            ("<>", None),
            ("", None),
            ("rel=next", None),
        ] {
            assert_eq!(next(link), found, "{link}");
        }
    }
}
