//! `Packages`: the packages of one component for one architecture.

use std::io::BufRead;
use std::ops::Range;

use kubexm_spec::Digest;

use super::control::{ControlError, Paragraph, Paragraphs, Texts, text};
use super::relation;
use crate::location::leads_out;
use crate::model::{Deferred, MultiArch, Package, RepoId};

/// The longest name, version or architecture, in bytes: they are in the name of a file, which has no more.
const LONGEST: usize = 255;
const NO_DIGEST: Digest = Digest::from_bytes([0; 32]);

/// The packages of an index that fit `arch` (`amd64`), which are those of `arch` and of `all`. `reader` gives the unpacked text.
pub fn read(reader: impl BufRead, repo: RepoId, arch: &str) -> Result<Vec<Package>, ControlError> {
    let mut packages = Vec::new();
    let mut paragraphs = Paragraphs::new(reader);
    while let Some(paragraph) = paragraphs.read_next()? {
        let fields = Known::of(&paragraph)?;
        if fields.arch == "all" || fields.arch == arch {
            packages.push(fields.listed(repo, arch)?);
        }
    }
    Ok(packages)
}

/// The fields that are looked at.
#[derive(Default)]
pub(super) struct Known<'a> {
    pub name: &'a str,
    pub version: &'a str,
    pub arch: &'a str,
    pub status: &'a str,
    file_name: &'a str,
    size: &'a str,
    sha256: &'a str,
    installed_size: &'a str,
    provides: &'a str,
    multi_arch: &'a str,
    essential: &'a str,
    important: &'a str,
    priority: &'a str,
    pre_depends: &'a str,
    depends: &'a str,
    conflicts: &'a str,
    breaks: &'a str,
    number: usize,
}

impl<'a> Known<'a> {
    /// The next paragraph of a text, and where it is; none at the end.
    pub fn next_of(texts: &mut Texts<'a>) -> Result<Option<(Self, Range<usize>)>, ControlError> {
        let mut known = Self::default();
        let place = texts.read_next(|number, name, value| {
            known.number = number;
            known.take(name, value)
        })?;
        Ok(place.map(|place| (known, place)))
    }

    pub fn of(paragraph: &Paragraph<'a>) -> Result<Self, ControlError> {
        let mut known = Self { number: paragraph.number(), ..Self::default() };
        for field in paragraph.fields() {
            let (name, value) = field?;
            known.take(name, value)?;
        }
        Ok(known)
    }

    fn take(&mut self, name: &'a [u8], value: &'a [u8]) -> Result<(), ControlError> {
        // Lengths tell most apart before any byte is compared: some twenty fields a package are passed over here.
        let (slot, field): (&mut &str, _) = match name.len() {
            4 if name.eq_ignore_ascii_case(b"Size") => (&mut self.size, "Size"),
            6 if name.eq_ignore_ascii_case(b"SHA256") => (&mut self.sha256, "SHA256"),
            6 if name.eq_ignore_ascii_case(b"Breaks") => (&mut self.breaks, "Breaks"),
            6 if name.eq_ignore_ascii_case(b"Status") => (&mut self.status, "Status"),
            7 if name.eq_ignore_ascii_case(b"Package") => (&mut self.name, "Package"),
            7 if name.eq_ignore_ascii_case(b"Version") => (&mut self.version, "Version"),
            7 if name.eq_ignore_ascii_case(b"Depends") => (&mut self.depends, "Depends"),
            8 if name.eq_ignore_ascii_case(b"Filename") => (&mut self.file_name, "Filename"),
            8 if name.eq_ignore_ascii_case(b"Provides") => (&mut self.provides, "Provides"),
            8 if name.eq_ignore_ascii_case(b"Priority") => (&mut self.priority, "Priority"),
            9 if name.eq_ignore_ascii_case(b"Conflicts") => (&mut self.conflicts, "Conflicts"),
            9 if name.eq_ignore_ascii_case(b"Essential") => (&mut self.essential, "Essential"),
            9 if name.eq_ignore_ascii_case(b"Important") => (&mut self.important, "Important"),
            10 if name.eq_ignore_ascii_case(b"Multi-Arch") => (&mut self.multi_arch, "Multi-Arch"),
            11 if name.eq_ignore_ascii_case(b"Pre-Depends") => (&mut self.pre_depends, "Pre-Depends"),
            12 if name.eq_ignore_ascii_case(b"Architecture") => (&mut self.arch, "Architecture"),
            14 if name.eq_ignore_ascii_case(b"Installed-Size") => (&mut self.installed_size, "Installed-Size"),
            _ => return Ok(()),
        };
        let number = self.number;
        *slot = text(value, field, || format!("paragraph {number}"))?;
        Ok(())
    }

    /// What a repository lists: all that fetching needs must be there.
    fn listed(&self, repo: RepoId, arch: &str) -> Result<Package, ControlError> {
        self.checked(arch, |_| ())?;
        Ok(self.made(repo, arch))
    }

    /// Holds what a repository lists against all that is asked of it later, and calls with each name that it provides.
    pub fn checked(&self, arch: &str, provided: impl FnMut(&'a str)) -> Result<(), ControlError> {
        self.described(arch, provided)?;
        if self.file_name.is_empty() {
            return Err(self.wrong("Filename", "is missing"));
        }
        if leads_out(self.location()) {
            return Err(self.wrong("Filename", "leads out of the repository"));
        }
        if self.size.parse::<u64>().is_err() {
            return Err(self.wrong("Size", "is not a number of bytes"));
        }
        if self.sha256.is_empty() {
            return Err(self.wrong("SHA256", "is missing; older sums are not trusted"));
        }
        match self.sha256.len() == 64 && self.sha256.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            true => Ok(()),
            false => Err(self.wrong("SHA256", "is not a sha256")),
        }
    }

    /// What a package says of itself, wherever it is.
    pub fn package(&self, repo: RepoId, arch: &str) -> Result<Package, ControlError> {
        self.described(arch, |_| ())?;
        Ok(Package { location: "".into(), size: 0, digest: NO_DIGEST, ..self.made(repo, arch) })
    }

    fn described(&self, arch: &str, mut provided: impl FnMut(&'a str)) -> Result<(), ControlError> {
        for (field, value) in [("Package", self.name), ("Version", self.version), ("Architecture", self.arch)] {
            if value.len() > LONGEST {
                return Err(self.wrong(field, format!("has more than {LONGEST} bytes")));
            }
            let plain = value.bytes().all(|byte| byte.is_ascii_graphic());
            if value.is_empty()
                || (!plain && value.contains(|letter: char| letter.is_whitespace() || letter.is_control()))
            {
                return Err(self.wrong(
                    field,
                    if value.is_empty() { "is missing" } else { "has blanks or characters that are not letters in it" },
                ));
            }
        }
        // It is an argument of programs later.
        if self.name.starts_with('-') {
            return Err(self.wrong("Package", "begins with a hyphen"));
        }
        relation::each_provided(self.provides, arch, |name, _| provided(name))
            .map_err(|error| self.wrong("Provides", error.to_string()))
    }

    /// How many names its relations have, as far as what is between them says.
    pub fn relations(&self) -> usize {
        let all = [self.provides, self.pre_depends, self.depends, self.conflicts, self.breaks];
        let between = |byte: &u8| matches!(byte, b',' | b'|');
        let of =
            |field: &str| usize::from(!field.is_empty()) + field.as_bytes().iter().filter(|byte| between(byte)).count();
        all.into_iter().map(of).sum()
    }

    fn location(&self) -> &'a str {
        self.file_name.strip_prefix("./").unwrap_or(self.file_name)
    }

    /// The package. What [`Self::checked`] would refuse is left empty.
    pub fn made(&self, repo: RepoId, arch: &str) -> Package {
        Package {
            name: self.name.into(),
            version: self.version.into(),
            arch: self.arch.into(),
            repo,
            location: self.location().into(),
            size: self.size.parse().unwrap_or_default(),
            digest: Digest::from_hex(&self.sha256.to_ascii_lowercase()).unwrap_or(NO_DIGEST),
            // Policy 5.6.20: in KiB.
            installed_size: self.installed_size.parse::<u64>().unwrap_or(0).saturating_mul(1024),
            provides: relation::parse_provides(self.provides, arch).unwrap_or_default(),
            files: Vec::new(),
            multi_arch: match self.multi_arch {
                "same" => MultiArch::Same,
                "foreign" => MultiArch::Foreign,
                "allowed" => MultiArch::Allowed,
                _ => MultiArch::No,
            },
            module: None,
            essential: [self.essential, self.important].iter().any(|says| says.eq_ignore_ascii_case("yes")),
            priority: match self.priority {
                "required" => 0,
                "important" => 1,
                "standard" => 2,
                "extra" => 4,
                _ => 3,
            },
            relations: Deferred::Deb {
                pre_depends: self.pre_depends.into(),
                depends: self.depends.into(),
                conflicts: self.conflicts.into(),
                breaks: self.breaks.into(),
            },
        }
    }

    pub fn wrong(&self, field: &'static str, problem: impl Into<String>) -> ControlError {
        // Not all of it: either may be what is wrong.
        let begin = |text: &'a str| &text[..text.floor_char_boundary(LONGEST)];
        let subject = match (begin(self.name), begin(self.version)) {
            ("", _) => format!("paragraph {}", self.number),
            (name, "") => name.to_owned(),
            (name, version) => format!("{name} {version}"),
        };
        ControlError::Field { subject, field, problem: problem.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Comparison, Requirement};

    const SHA: &str = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";

    fn packages(text: &str) -> Result<Vec<Package>, ControlError> {
        read(text.as_bytes(), RepoId(3), "amd64")
    }

    #[test]
    fn a_paragraph_becomes_a_package_with_all_that_is_asked_of_it_later() {
        let text = format!(
            "Package: perl-base\nSource: perl\nVersion: 5.36.0-7+deb12u3\nInstalled-Size: 2\nArchitecture: amd64\nMulti-Arch: allowed\n\
             Essential: yes\nPriority: required\nPre-Depends: libc6 (>= 2.35)\nDepends: dpkg (>= 1.17.17)\nBreaks: a (<< 1),\n b\n\
             Conflicts: c | d\nProvides: perlapi-5.36.0, libfile-path-perl (= 2.18)\nDescription: minimal\n Perl: it is\n\
             Filename: ./pool/perl-base.deb\nSize: 1607712\nSHA256: {}\n",
            SHA.to_uppercase()
        );
        let [package] = <[Package; 1]>::try_from(packages(&text).unwrap()).unwrap();
        assert_eq!(package.to_string(), "perl-base 5.36.0-7+deb12u3 amd64");
        assert_eq!((package.repo, &*package.location, package.size), (RepoId(3), "pool/perl-base.deb", 1_607_712));
        assert_eq!((package.digest, package.installed_size), (Digest::of("foo"), 2048));
        assert!(package.essential && package.priority == 0 && package.multi_arch == MultiArch::Allowed);
        assert_eq!(package.provides[1].version, Some((Comparison::Equal, "2.18".into())));
        let relations = package.relations().unwrap();
        assert_eq!((relations.requires.len(), relations.conflicts.len()), (2, 3));
        assert!(
            matches!(&relations.requires[0], Requirement::One(first) if &*first.name == "libc6"),
            "Pre-Depends come first"
        );
    }

    #[test]
    fn other_architectures_are_left_out() {
        let entry =
            |arch| format!("Package: a\nVersion: 1\nArchitecture: {arch}\nFilename: a\nSize: 1\nSHA256: {SHA}\n\n");
        let text: String = ["amd64", "all", "arm64", "i386"].map(entry).concat();
        let archs: Vec<_> = packages(&text).unwrap().into_iter().map(|package| package.arch).collect();
        assert_eq!(archs, ["amd64".into(), "all".into()]);
    }

    #[test]
    fn names_of_fields_have_no_case() {
        let entry = format!(
            "Package: a\nVersion: 1\nArchitecture: all\nMulti-Arch: allowed\nFilename: a\nSize: 1\nSHA256: {SHA}\n"
        );
        let lower: String = entry
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| format!("{}:{value}\n", name.to_lowercase()))
            .collect();
        assert_eq!(packages(&lower).unwrap(), packages(&entry).unwrap());
        assert_eq!(packages(&lower).unwrap().len(), 1);
    }

    #[test]
    fn what_could_not_be_fetched_or_checked_is_refused_by_name() {
        let good = format!("Package: a\nVersion: 1\nArchitecture: all\nFilename: pool/a.deb\nSize: 1\nSHA256: {SHA}\n");
        assert!(packages(&good).is_ok());
        let long = format!("Package: {}", "a".repeat(2560));
        for (from, to, reported) in [
            ("Size: 1", "Size: -1", "Size"),
            ("SHA256: 2c", "SHA256: zz", "SHA256"),
            ("SHA256", "SHA1", "SHA256 is missing"),
            ("Version: 1", "Version: ", "Version is missing"),
            ("Filename: pool", "Filename: ../../etc", "leads out"),
            ("Filename: pool", "Filename: /etc", "leads out"),
            ("Filename: pool", "Filename: .//etc", "leads out"),
            ("Filename: pool", "Filename: //elsewhere.example", "leads out"),
            ("Filename: pool", "Filename: http://elsewhere.example", "leads out"),
            ("Filename: pool", "Filename: File:///etc", "leads out"),
            ("Filename: pool", "Filename: pool/%2e%2E/..%2fetc", "leads out"),
            ("Filename: pool", "Filename: pool/.%2E%5Cetc", "leads out"),
            ("Filename: pool", "Filename: pool\\..\\etc", "leads out"),
            ("Filename: pool", "Filename: pool/.\t./etc", "leads out"),
            ("Package: a", "Package: a b", "Package"),
            ("Package: a", "Package: -oDir=a", "Package begins with a hyphen"),
            ("Package: a", &long, "Package has more than 255 bytes"),
            ("Size: 1", "Size: 1\nProvides: b (>= 1)", "Provides"),
        ] {
            let error = packages(&good.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(reported) && error.len() < 1000, "{to}: {error}");
        }
    }
}
