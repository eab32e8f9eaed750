//! `spec.bundle.imageSignatures`: who must have signed the images of which repositories.

use std::collections::BTreeMap;

use serde_json::Value;

use super::field::{FieldType, HttpUrl, Identity, RepositoryPrefix, section};
use super::material::MaterialFile;
use super::parse::addresses::repository_prefix;
use crate::Reference;
use crate::keywords::keywords;
use crate::names::registry_folder;
use crate::yaml::{At, Mapping, ProblemKind, Shape};

/// The name of every repository that no other rule names.
pub const EVERY_OTHER: &str = "*";

section! {
    /// Who must have signed the images of some repositories
    ///
    /// One of `spec.bundle.imageSignatures`.
    #[check(signers(keys, identities, trusted_root, accept))]
    pub struct ImageSignatureRule {
        /// Repositories with all below them, like registry.k8s.io or docker.io/library/busybox; * for every other
        ///
        /// By upstream's name, wherever a zone fetches them from. The longest name that matches an image decides.
        #[yaml("repositories" as Repositories, required)]
        pub repositories: Vec<String>,
        /// Public keys (PEM) beside this file; a signature by one of them is enough
        #[serde(skip_serializing_if = "Vec::is_empty")]
        #[yaml("keys")]
        pub keys: Vec<MaterialFile>,
        /// Sigstore identities; a signature by one of them is enough
        #[serde(skip_serializing_if = "Vec::is_empty")]
        #[yaml("identities")]
        pub identities: Vec<SignerIdentity>,
        /// Sigstore's trusted_root.json beside this file: the authorities and logs that vouch for identities
        #[serde(skip_serializing_if = "Option::is_none")]
        #[yaml("trustedRoot")]
        pub trusted_root: Option<MaterialFile>,
        /// signed, or any: these images are carried without a check
        #[yaml("accept")]
        pub accept: Acceptance,
        /// Whether a signature that names a repository must name the image's own, or any
        #[yaml("signedAs")]
        pub signed_as: SignedAs,
    }
}

section! {
    /// Whom a certificate of Sigstore is for
    pub struct SignerIdentity {
        /// The OpenID Connect issuer, like https://token.actions.githubusercontent.com
        #[yaml("issuer" as HttpUrl, required)]
        pub issuer: String,
        /// Mail address or URL in the certificate; * stands for any characters but @
        #[yaml("subject" as Identity, required)]
        pub subject: String,
    }
}

keywords! {
    /// `accept` of a rule.
    pub enum Acceptance {
        /// What one of the signers has signed.
        Signed = "signed",
        /// Everything.
        Any = "any",
    }
}

keywords! {
    /// `signedAs` of a rule.
    pub enum SignedAs {
        /// A signature that names a repository counts only for images of that repository.
        Same = "same",
        /// The repository that a signature names is not compared: images that were signed at a mirror.
        Any = "any",
    }
}

fn signers(
    map: &Mapping<'_>,
    keys: Option<&Vec<MaterialFile>>,
    identities: Option<&Vec<SignerIdentity>>,
    trusted_root: Option<&Option<MaterialFile>>,
    accept: Option<&Acceptance>,
) -> Option<()> {
    let (keys, identities, trusted_root) = (keys?, identities?, trusted_root?);
    let signers = [("keys", keys.is_empty()), ("identities", identities.is_empty())];
    if *accept? == Acceptance::Any {
        let unused = [("trustedRoot", trusted_root.is_none())];
        for (key, _) in signers.iter().chain(&unused).filter(|(_, empty)| !empty) {
            if let Some(at) = map.get(key) {
                at.bad("a rule that accepts any image names no signer", "leave it out, or leave out accept: any");
            }
        }
        return Some(());
    }
    if signers.iter().all(|(_, empty)| *empty) {
        let hint = "images that nobody has to sign have a rule with accept: any";
        map.at().fail(ProblemKind::Missing, "expected keys or identities: who must have signed these images", hint);
        return None;
    }
    match (identities.is_empty(), trusted_root) {
        (false, None) => {
            let hint = "a copy of Sigstore's trusted_root.json, or that of your own authority";
            map.at().fail(ProblemKind::Missing, "identities are checked with a trustedRoot", hint);
            None
        }
        (true, Some(_)) => {
            if let Some(at) = map.get("trustedRoot") {
                at.bad("keys are checked without a trusted root", "leave it out, or name identities");
            }
            Some(())
        }
        _ => Some(()),
    }
}

/// At least one.
struct Repositories;

impl FieldType for Repositories {
    type Value = Vec<String>;

    const SHAPE: Shape = Shape::Some(&RepositoryPrefix::SHAPE);

    fn read(at: &At<'_>) -> Option<Vec<String>> {
        let all = Vec::<RepositoryPrefix>::read(at)?;
        if all.is_empty() {
            at.bad("a rule without repositories holds for nothing", "name some, or * for every other");
            return None;
        }
        Some(all)
    }

    fn show(value: &Vec<String>) -> Option<Value> {
        Vec::<RepositoryPrefix>::show(value)
    }
}

/// Rules of which no two name the same repository.
pub(super) struct Rules;

impl FieldType for Rules {
    type Value = Vec<ImageSignatureRule>;

    const SHAPE: Shape = Vec::<ImageSignatureRule>::SHAPE;

    fn read(at: &At<'_>) -> Option<Self::Value> {
        let mut seen = BTreeMap::new();
        for item in at.list() {
            let Some(list) = item.open_mapping_quiet().and_then(|map| map.get("repositories")) else { continue };
            for name in list.list() {
                let Some(text) = name.text_quiet() else { continue };
                // However it is written.
                let one = registry_folder(&repository_prefix(text).unwrap_or_else(|_| text.to_owned()));
                if let Some(line) = seen.insert(official(&one).unwrap_or(one), name.line()) {
                    name.bad(format!("{text:?} is named twice, first in line {line}"), "one rule for one repository");
                }
            }
        }
        Vec::<ImageSignatureRule>::read(at)
    }

    fn show(value: &Self::Value) -> Option<Value> {
        Vec::<ImageSignatureRule>::show(value)
    }
}

/// The rule that decides about an image by its full reference, and its name that matches: the longest. Hosts are compared as the
/// folders that they have in a registry that is seeded ([`registry_folder`]; paths have no sign that it changes): two that become one
/// there are one here.
pub fn rule_for<'r>(rules: &'r [ImageSignatureRule], reference: &str) -> Option<(&'r ImageSignatureRule, &'r str)> {
    let repository = registry_folder(&Reference::read(reference)?.repository);
    // How much of the name a rule names; nothing where it is another one.
    let matched = |name: &str| match repository.strip_prefix(name) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => Some(name.len()),
        _ if official(name).is_some_and(|whole| whole == repository) => Some(repository.len()),
        _ => (name == EVERY_OTHER).then_some(0),
    };
    let matched = |name: &str| matched(&registry_folder(name));
    let all = rules.iter().flat_map(|rule| rule.repositories.iter().map(move |name| (rule, name.as_str())));
    let (_, rule, name) =
        all.filter_map(|(rule, name)| Some((matched(name)?, rule, name))).max_by_key(|(length, ..)| *length)?;
    Some((rule, name))
}

/// `docker.io/busybox` is an official image, whose whole name is `docker.io/library/busybox`.
pub(super) fn official(name: &str) -> Option<String> {
    let image = name.strip_prefix("docker.io/").filter(|image| !image.contains('/') && *image != "library")?;
    Some(format!("docker.io/library/{image}"))
}

impl SignerIdentity {
    /// Whether the identity of a certificate is this one.
    pub fn matches(&self, issuer: &str, subject: &str) -> bool {
        self.issuer == issuer && matches_pattern(&self.subject, subject)
    }
}

/// `*` stands for any characters but `@`, also none. What is before and after an `@` is chosen by different people: the name of
/// a branch may hold `@refs/tags/`, and the local part of a mail address another domain.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    let (patterns, texts) = (pattern.split('@'), text.split('@'));
    patterns.clone().count() == texts.clone().count() && patterns.zip(texts).all(|(one, text)| matches_part(one, text))
}

fn matches_part(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(names: &[&str]) -> ImageSignatureRule {
        ImageSignatureRule {
            repositories: names.iter().map(|name| (*name).to_owned()).collect(),
            keys: Vec::new(),
            identities: Vec::new(),
            trusted_root: None,
            accept: Acceptance::Any,
            signed_as: SignedAs::Same,
        }
    }

    /// The name that decides, by both ways to it.
    fn decides<'r>(rules: &'r [ImageSignatureRule], reference: &str) -> Option<&'r str> {
        let found = rule_for(rules, reference).map(|(_, name)| name);
        let place = super::super::RuleIndex::of(rules).find(reference);
        assert_eq!(place.map(|(rule, name)| rules[rule].repositories[name].as_str()), found, "{reference}");
        found
    }

    #[test]
    fn the_longest_name_of_whole_parts_decides_and_a_star_is_last() {
        let rules = [rule(&["*", "a.test/x"]), rule(&["a.test", "a.test/x/y"]), rule(&["docker.io/library/busybox"])];
        for (reference, name) in [
            ("a.test/x/y/z:1", "a.test/x/y"),
            ("a.test/x/yy:1", "a.test/x"),
            ("a.test/xx:1", "a.test"),
            ("a.test:5000/x:1", "*"),
            ("busybox:1", "docker.io/library/busybox"),
            ("index.docker.io/busybox:1", "docker.io/library/busybox"),
            ("docker.io/library/busybox2:1", "*"),
            ("DOCKER.io/library/busybox:1", "docker.io/library/busybox"),
        ] {
            assert_eq!(decides(&rules, reference), Some(name), "{reference}");
        }
        assert_eq!(decides(&rules[1..], "b.test/x:1"), None);
        assert_eq!(decides(&[rule(&["*"]), rule(&["C.test"])], "c.test/x:1"), Some("C.test"));
    }

    #[test]
    fn two_hosts_that_are_one_folder_of_a_registry_have_one_rule() {
        let rules = [rule(&["*"]), rule(&["a.test:5000"]), rule(&["b.test-5000/x"])];
        for (reference, name) in [
            ("a.test:5000/x:1", "a.test:5000"),
            ("a.test-5000/x:1", "a.test:5000"),
            ("A.test-5000/x:1", "a.test:5000"),
            ("b.test:5000/x:1", "b.test-5000/x"),
            ("b.test:5000/xx:1", "*"),
            ("a.test/x:1", "*"),
            ("a.test-50000/x:1", "*"),
        ] {
            assert_eq!(decides(&rules, reference), Some(name), "{reference}");
        }
    }

    #[test]
    fn an_official_image_may_be_named_as_people_write_it() {
        let rules =
            [rule(&["*"]), rule(&["docker.io/library"]), rule(&["docker.io/busybox"]), rule(&["docker.io/org"])];
        for (reference, name) in [
            ("busybox:1", "docker.io/busybox"),
            ("docker.io/library/busybox:1", "docker.io/busybox"),
            ("docker.io/library/nginx:1", "docker.io/library"),
            ("docker.io/org/busybox:1", "docker.io/org"),
            ("docker.io/busybox2/x:1", "*"),
        ] {
            assert_eq!(decides(&rules, reference), Some(name), "{reference}");
        }
    }

    #[test]
    fn a_star_in_a_subject_stands_for_any_characters_but_an_at_sign_and_nothing_else_is_special() {
        for (pattern, text, matches) in [
            ("a@b.test", "a@b.test", true),
            ("a@b.test", "aa@b.test", false),
            ("a@b.test", "a@b.testt", false),
            ("a@b.test", "a@bxtest", false),
            ("https://g/o/*@refs/tags/*", "https://g/o/r/w.yaml@refs/tags/v1", true),
            ("https://g/o/*@refs/tags/*", "https://g/o/r/w.yaml@refs/heads/v1", false),
            ("https://g/o/*@refs/tags/v1", "https://g/o/@refs/tags/v1", true),
            // A branch and a mail address as somebody else may choose them.
            ("https://g/o/*@refs/tags/*", "https://g/o/r/w.yaml@refs/heads/x@refs/tags/v1", false),
            ("*@b.test", "a@evil.test@b.test", false),
            ("*", "a@b.test", false),
            // Where a tag has one, it is written.
            ("https://g/o/*@refs/tags/*@*", "https://g/o/r/w.yaml@refs/tags/pkg@1.0", true),
            ("aba*aba", "aba", false),
            ("aba*aba", "abaaba", true),
            ("*x*", "yxy", true),
            ("*x", "yxy", false),
        ] {
            assert_eq!(matches_pattern(pattern, text), matches, "{pattern} {text}");
        }
    }
}
