//! Fields of relations (Debian Policy 7.1): `libc6 (>= 2.36), debconf (>= 0.5) | debconf-2.0, python3:any`.

use crate::model::{ArchWanted, Comparison, Constraint, Provide, RelationError, Requirement};

/// How much of a relation an error shows, in characters.
const SHOWN: usize = 80;

/// The requirements of a field of a binary package, in its order; none of an empty one. Restrictions to architectures and profiles
/// are of source packages, and refused here as dpkg does.
pub fn parse(field: &str) -> Result<Vec<Requirement>, RelationError> {
    groups(field, None)
}

/// The requirements of a field of a source package on `arch`, without any build profile: what is for other architectures
/// (`[!amd64]`) or for a profile (`<cross>`) is left out.
pub fn parse_source(field: &str, arch: &str) -> Result<Vec<Requirement>, RelationError> {
    groups(field, Some(arch))
}

/// What a package of `arch` is besides its name (`Provides`, Policy 7.5). A name with the qualifier of another architecture is
/// none for us and left out.
pub fn parse_provides(field: &str, arch: &str) -> Result<Vec<Provide>, RelationError> {
    let mut provides = Vec::new();
    each_provided(field, arch, |name, version| {
        let version = version.map(|(comparison, version)| (comparison, version.into()));
        provides.push(Provide { name: name.into(), version });
    })?;
    Ok(provides)
}

/// The same without a copy of any: calls with each name and its version.
pub(super) fn each_provided<'a>(
    field: &'a str,
    arch: &str,
    mut call: impl FnMut(&'a str, Option<(Comparison, &'a str)>),
) -> Result<(), RelationError> {
    for part in field.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let mut rest = Rest { whole: part, text: part };
        let Written { name, arch: wanted, version } = rest.written()?;
        if !rest.text.is_empty() {
            return Err(rest.wrong("something follows it"));
        }
        if version.as_ref().is_some_and(|(comparison, _)| *comparison != Comparison::Equal) {
            return Err(rest.wrong("what is provided has one version (`=`)"));
        }
        if !matches!(&wanted, ArchWanted::Named(other) if **other != *arch) {
            call(name, version);
        }
    }
    Ok(())
}

fn groups(field: &str, source_arch: Option<&str>) -> Result<Vec<Requirement>, RelationError> {
    let mut requirements = Vec::new();
    // dpkg and apt pass over a comma too many.
    for group in field.split(',').map(str::trim).filter(|group| !group.is_empty()) {
        let mut alternatives = Vec::new();
        for alternative in group.split('|') {
            let text = alternative.trim();
            let mut rest = Rest { whole: if text.is_empty() { group } else { text }, text };
            let constraint = rest.constraint()?;
            if rest.applies(source_arch)? {
                alternatives.push(Requirement::One(constraint));
            }
        }
        match alternatives.len() {
            0 => {}
            1 => requirements.append(&mut alternatives),
            _ => requirements.push(Requirement::Any(alternatives)),
        }
    }
    Ok(requirements)
}

/// A [`Constraint`] as it is in the text.
struct Written<'a> {
    name: &'a str,
    arch: ArchWanted,
    version: Option<(Comparison, &'a str)>,
}

/// What is still to be read of one alternative.
struct Rest<'a> {
    whole: &'a str,
    text: &'a str,
}

impl<'a> Rest<'a> {
    fn wrong(&self, why: impl Into<String>) -> RelationError {
        RelationError { text: self.whole.chars().take(SHOWN).collect(), why: why.into() }
    }

    fn constraint(&mut self) -> Result<Constraint, RelationError> {
        let Written { name, arch, version } = self.written()?;
        let version = version.map(|(comparison, version)| (comparison, version.into()));
        Ok(Constraint { name: name.into(), arch, version })
    }

    /// `name[:arch] [(op version)]`.
    fn written(&mut self) -> Result<Written<'a>, RelationError> {
        let name = self.word(|byte| byte.is_ascii_alphanumeric() || b"+-._".contains(&byte));
        if !name.starts_with(|first: char| first.is_ascii_alphanumeric()) {
            return Err(self.wrong("it begins with no name"));
        }
        let arch = match self.text.strip_prefix(':') {
            None => ArchWanted::Own,
            Some(behind) => {
                self.text = behind;
                match self.word(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
                    "any" => ArchWanted::Any,
                    "native" => ArchWanted::Native,
                    "" => return Err(self.wrong("no architecture follows the colon")),
                    arch => ArchWanted::Named(arch.into()),
                }
            }
        };
        self.text = self.text.trim_start();
        let version = match self.text.strip_prefix('(') {
            None => None,
            Some(behind) => {
                let (inner, behind) =
                    behind.split_once(')').ok_or_else(|| self.wrong("the parenthesis is not closed"))?;
                self.text = behind.trim_start();
                Some(self.version(inner.trim())?)
            }
        };
        Ok(Written { name, arch, version })
    }

    fn version<'t>(&self, text: &'t str) -> Result<(Comparison, &'t str), RelationError> {
        // A lone `<` or `>` is from before Policy 7.1 had two of each, and means what dpkg still takes it for.
        let known = [
            ("<<", Comparison::Less),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            (">>", Comparison::Greater),
            ("==", Comparison::Equal),
            ("=", Comparison::Equal),
            ("<", Comparison::LessOrEqual),
            (">", Comparison::GreaterOrEqual),
        ];
        let (version, comparison) = known
            .iter()
            .find_map(|(sign, comparison)| Some((text.strip_prefix(sign)?, *comparison)))
            .ok_or_else(|| self.wrong("no comparison (<<, <=, =, >=, >>) is before the version"))?;
        let version = version.trim();
        if version.is_empty() || version.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(self.wrong(format!("{:?} is not a version", version.chars().take(SHOWN).collect::<String>())));
        }
        Ok((comparison, version))
    }

    /// `[amd64 !i386]` and `<!nocheck> <cross>`: whether the alternative is meant for us.
    fn applies(&mut self, source_arch: Option<&str>) -> Result<bool, RelationError> {
        let mut applies = true;
        if let Some(behind) = self.text.strip_prefix('[') {
            let arch =
                source_arch.ok_or_else(|| self.wrong("only source packages restrict a relation to architectures"))?;
            let (list, behind) = behind.split_once(']').ok_or_else(|| self.wrong("the bracket is not closed"))?;
            self.text = behind.trim_start();
            applies &= self.arch_in(list, arch)?;
        }
        // Policy 7.1: the groups are alternatives, what is in one must all hold. No profile is active.
        let mut of_profile: Option<bool> = None;
        while let Some(behind) = self.text.strip_prefix('<') {
            if source_arch.is_none() {
                return Err(self.wrong("only source packages restrict a relation to profiles"));
            }
            let (list, behind) = behind.split_once('>').ok_or_else(|| self.wrong("the restriction is not closed"))?;
            self.text = behind.trim_start();
            if list.trim().is_empty() {
                return Err(self.wrong("a restriction names no profile"));
            }
            let holds = list.split_whitespace().all(|profile| profile.starts_with('!'));
            of_profile = Some(of_profile.unwrap_or_default() || holds);
        }
        if !self.text.is_empty() {
            return Err(self.wrong(format!("{:?} is behind it", self.text.chars().take(SHOWN).collect::<String>())));
        }
        Ok(applies && of_profile.unwrap_or(true))
    }

    fn arch_in(&self, list: &str, arch: &str) -> Result<bool, RelationError> {
        let words: Vec<&str> = list.split_whitespace().collect();
        let negated = words.iter().filter(|word| word.starts_with('!')).count();
        if words.is_empty() || (negated != 0 && negated != words.len()) {
            return Err(self.wrong("the architectures must all, or none, have a `!`, and there must be one"));
        }
        let named = words.iter().any(|word| same_arch(word.trim_start_matches('!'), arch));
        Ok(named == (negated == 0))
    }

    fn word(&mut self, belongs: impl Fn(u8) -> bool) -> &'a str {
        let end = self.text.bytes().position(|byte| !belongs(byte)).unwrap_or(self.text.len());
        let (word, rest) = self.text.split_at(end);
        self.text = rest;
        word
    }
}

/// Policy 11.1.1: `any`, `linux-any` and `any-amd64` stand for several.
fn same_arch(pattern: &str, arch: &str) -> bool {
    pattern == arch
        || matches!(pattern, "any" | "linux-any")
        || pattern.strip_prefix("any-").is_some_and(|cpu| cpu == arch)
        || pattern.strip_prefix("linux-").is_some_and(|cpu| cpu == arch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, arch: ArchWanted, version: Option<(Comparison, &str)>) -> Requirement {
        Requirement::One(Constraint {
            name: name.into(),
            arch,
            version: version.map(|(sign, text)| (sign, text.into())),
        })
    }

    #[test]
    fn every_part_of_the_grammar_is_read() {
        let field = "libc6 (>= 2.36), debconf (>= 0.5) | debconf-2.0,\n python3:any, perl:native(<<6),  gcc:i386 (= 1:2-3),x(>1),y( <= 2 ),";
        let own = || ArchWanted::Own;
        assert_eq!(
            parse(field).unwrap(),
            [
                one("libc6", own(), Some((Comparison::GreaterOrEqual, "2.36"))),
                Requirement::Any(vec![
                    one("debconf", own(), Some((Comparison::GreaterOrEqual, "0.5"))),
                    one("debconf-2.0", own(), None),
                ]),
                one("python3", ArchWanted::Any, None),
                one("perl", ArchWanted::Native, Some((Comparison::Less, "6"))),
                one("gcc", ArchWanted::Named("i386".into()), Some((Comparison::Equal, "1:2-3"))),
                one("x", own(), Some((Comparison::GreaterOrEqual, "1"))),
                one("y", own(), Some((Comparison::LessOrEqual, "2"))),
            ]
        );
        assert!(parse(" \n ").unwrap().is_empty());
    }

    #[test]
    fn what_is_for_other_architectures_or_profiles_is_no_requirement() {
        let names = |field: &str, arch: &str| -> Vec<String> {
            let of = |requirement: Requirement| match requirement {
                Requirement::One(constraint) => constraint.name.into_string(),
                other => panic!("{other:?}"),
            };
            parse_source(field, arch).unwrap().into_iter().map(of).collect()
        };
        let field = "a [amd64 arm64], b [!amd64], c <!nocheck>, d <cross>, e [linux-any] <!stage1 !cross> <stage1>, f [any-arm64] | g";
        assert_eq!(names(&field.replace("f [any-arm64] | g", "g"), "amd64"), ["a", "c", "e", "g"]);
        assert_eq!(names("b [!amd64], f [any-arm64] | g", "amd64"), ["g"]);
        assert_eq!(names("a [amd64 arm64], b [!amd64]", "arm64"), ["a", "b"]);
        assert_eq!(names("a [kfreebsd-any]", "amd64"), [""; 0]);
    }

    #[test]
    fn what_follows_no_grammar_is_refused_with_its_text() {
        for bad in [
            "a (1.0)",
            "a (>= )",
            "a (>= 1",
            "a:",
            "a |",
            "| a",
            "(>= 1)",
            "a b",
            "a (>= 1 2)",
            "a (>= 1) b",
            "a [amd64]",
            "a <x>",
            "-a",
        ] {
            let error = parse(bad).unwrap_err();
            assert!(!error.text.is_empty() && !error.why.is_empty(), "{bad}: {error}");
        }
        for bad in ["a [amd64 !i386]", "a []", "a <>", "a [amd64", "a <x"] {
            assert!(parse_source(bad, "amd64").is_err(), "{bad}");
        }
    }

    #[test]
    fn provides_have_one_version_or_none() {
        let text = "perlapi-5.36.0, libfoo (= 1:2.0-1), bar:i386, baz:amd64 (= 3)";
        let names: Vec<_> = parse_provides(text, "amd64").unwrap().into_iter().map(|p| (p.name, p.version)).collect();
        assert_eq!(
            names,
            [
                ("perlapi-5.36.0".into(), None),
                ("libfoo".into(), Some((Comparison::Equal, "1:2.0-1".into()))),
                ("baz".into(), Some((Comparison::Equal, "3".into()))),
            ]
        );
        for bad in ["a (>= 1)", "a | b", "a b"] {
            assert!(parse_provides(bad, "amd64").is_err(), "{bad}");
        }
    }
}
