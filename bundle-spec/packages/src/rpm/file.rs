//! An .rpm: who signed it, and what it says of itself. All but its payload is read.

use std::borrow::Cow;
use std::io::Read;

use base64::Engine as _;
use kubexm_spec::Digest;

use super::dependency::{Kind, Lines};
use super::header::{Header, HeaderError, Limits, malformed, taken};
use super::tag;
use super::version::Evr;
use crate::model::{Comparison, Deferred, MultiArch, Package, Provide, RepoId};

/// Of the lead, which all but its magic is history.
const LEAD: usize = 96;
const LEAD_MAGIC: [u8; 4] = [0xed, 0xab, 0xee, 0xdb];
/// Signatures are few.
const SIGNATURES: Limits = Limits { entries: 64, data: 16 * 1024 * 1024, region: tag::signature::REGION, values: 1000 };
/// The largest packages (firmware, documentation in many languages) have headers of some 20 MiB, and some 100,000 files.
const MAIN: Limits = Limits { entries: 4096, data: 64 * 1024 * 1024, region: tag::REGION, values: 1_000_000 };
/// The kernel's PATH_MAX.
const LONGEST_PATH: usize = 4096;
/// Of all paths of a package, in bytes: one of 100,000 files has some 10 MiB.
const PATHS: usize = 256 << 20;
/// Of a dependency in parentheses, as of an index's.
const LONGEST_DEPENDENCY: usize = super::primary::BOOLEAN;
/// sha256 among the algorithms of OpenPGP.
const SHA256: u64 = 8;

/// What a signature is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Covers {
    /// The main header, which says the digest of the payload: [`Rpm::payload`] must hold, too.
    Header,
    /// Main header and payload: all that older rpms have (EL7).
    HeaderAndPayload,
}

/// An OpenPGP signature packet and what it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// What was signed.
    pub covers: Covers,
    /// The packet, binary.
    pub packet: Vec<u8>,
}

/// An .rpm without its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rpm {
    /// What is in its signature header.
    pub signatures: Vec<Signature>,
    /// What it says of itself. [`Header::bytes`] are what [`Covers::Header`] covers.
    pub main: Header,
    /// Where the main header begins and where it ends, in bytes of the file; there the payload begins.
    pub range: (u64, u64),
}

impl Rpm {
    /// Reads up to where the payload begins. The main header is compared with the sha256 that is beside its signatures.
    pub fn read(reader: &mut impl Read) -> Result<Self, HeaderError> {
        let lead = taken(reader, LEAD)?;
        if lead[..4] != LEAD_MAGIC {
            return Err(malformed("it does not begin as one"));
        }
        let signature = Header::read(reader, SIGNATURES)?;
        let padding = signature.bytes().len().wrapping_neg() % 8;
        taken(reader, padding)?;
        let main = Header::read(reader, MAIN)?;
        let start = (LEAD + signature.bytes().len() + padding) as u64;
        let range = (start, start + main.bytes().len() as u64);
        if let Some(reported) = signature.text(tag::signature::SHA256) {
            let found = Digest::of(main.bytes());
            if reported != found.hex() {
                return Err(malformed(format!("its header should have the sha256 {reported} and has {}", found.hex())));
            }
        }
        Ok(Self { signatures: signatures(&signature)?, main, range })
    }

    /// The digest that its payload must have; none in packages of before rpm 4.14.
    pub fn payload(&self) -> Option<Digest> {
        if self.main.number(tag::PAYLOADDIGESTALGO) != Some(SHA256) {
            return None;
        }
        Digest::from_hex(&self.main.text(tag::PAYLOADDIGEST)?).ok()
    }

    /// Its name alone.
    pub fn name(&self) -> String {
        self.main.text(tag::NAME).unwrap_or_default().into_owned()
    }

    /// Epoch, version and release.
    pub fn version(&self) -> String {
        let epoch = self.main.number(tag::EPOCH).unwrap_or(0).to_string();
        let text = |tag| self.main.text(tag).unwrap_or_default();
        Evr::written(&epoch, &text(tag::VERSION), Some(&text(tag::RELEASE)))
    }

    /// `src` for a source package.
    pub fn arch(&self) -> String {
        let source = self.main.number(tag::SOURCEPACKAGE).is_some() || self.main.text(tag::SOURCERPM).is_none();
        if source { "src".to_owned() } else { self.main.text(tag::ARCH).unwrap_or_default().into_owned() }
    }

    /// What it is and needs, as an index would say it, with all of its files.
    pub fn package(&self, repo: RepoId, location: &str, size: u64, digest: Digest) -> Result<Package, HeaderError> {
        let name = self.main.text(tag::NAME).unwrap_or_default();
        // They are arguments of programs later.
        let strange = |text: &str| {
            text.is_empty() || text.starts_with('-') || text.contains(|c: char| c == '/' || c.is_control())
        };
        let (version, arch) = (self.version(), self.arch());
        if strange(&name) || strange(&version) || strange(&arch) {
            let [name, version, arch] = [&*name, &version, &arch].map(begin);
            return Err(malformed(format!("it calls itself {name:?} {version:?} {arch:?}")));
        }
        let mut provides = self.dependencies(tag::PROVIDES)?;
        let own = Some((Comparison::Equal, version.as_str().into()));
        provides.retain(|provide| *provide.name != *name || provide.version != own);
        let mut lines = Lines::default();
        for (kind, tags) in
            [(Kind::Requires, tag::REQUIRES), (Kind::Conflicts, tag::CONFLICTS), (Kind::Obsoletes, tag::OBSOLETES)]
        {
            for dependency in self.dependencies(tags)? {
                let version = dependency.version.as_ref().map(|(comparison, version)| (*comparison, &**version));
                lines.push(kind, &dependency.name, version);
            }
        }
        Ok(Package {
            name: name.into(),
            arch: arch.into(),
            repo,
            location: location.into(),
            size,
            digest,
            installed_size: self.installed_size(),
            provides,
            files: self.files()?.into_iter().map(|file| file.path.into()).collect(),
            multi_arch: MultiArch::No,
            module: self.module(),
            essential: false,
            priority: 3,
            relations: Deferred::Rpm(lines.finish()),
            version: version.into(),
        })
    }

    /// Size of its files, in bytes.
    pub fn installed_size(&self) -> u64 {
        self.main.number(tag::LONGSIZE).or_else(|| self.main.number(tag::SIZE)).unwrap_or(0)
    }

    /// Name and stream of the module it was built for.
    pub fn module(&self) -> Option<Box<str>> {
        let label = self.main.text(tag::MODULARITYLABEL)?;
        let mut parts = label.split(':');
        Some(format!("{}:{}", parts.next()?, parts.next()?).into())
    }

    /// Names and versions of one kind of dependency, in their order.
    pub(super) fn dependencies(&self, [names, flags, versions]: [u32; 3]) -> Result<Vec<Provide>, HeaderError> {
        let (flags, versions) = (self.main.numbers(flags), self.main.texts(versions));
        let mut found = Vec::new();
        for (place, name) in self.main.texts(names).into_iter().enumerate() {
            if name.len() > LONGEST_DEPENDENCY {
                return Err(malformed(format!("a dependency has more than {LONGEST_DEPENDENCY} bytes")));
            }
            if name.contains(['\t', '\n']) {
                return Err(malformed(format!("a dependency has a line break or a tab: {name:?}")));
            }
            let version = versions.get(place).filter(|version| !version.is_empty());
            let version = match (comparison(flags.get(place).copied().unwrap_or(0)), version) {
                (Some(comparison), Some(version)) => {
                    let evr = Evr::parse(version);
                    Some((comparison, Evr::written(evr.epoch, evr.version, evr.release).into()))
                }
                _ => None,
            };
            found.push(Provide { name: name.into(), version });
        }
        Ok(found)
    }

    /// Its files, in their order.
    pub(super) fn files(&self) -> Result<Vec<File>, HeaderError> {
        self.files_within(PATHS)
    }

    /// `left`: what all paths together may have, in bytes.
    fn files_within(&self, mut left: usize) -> Result<Vec<File>, HeaderError> {
        let (modes, flags) = (self.main.numbers(tag::FILEMODES), self.main.numbers(tag::FILEFLAGS));
        let kind = |place: usize| {
            let is_folder = modes.get(place).is_some_and(|mode| mode & 0o170_000 == 0o040_000);
            let is_ghost = flags.get(place).is_some_and(|flags| flags & 64 != 0);
            if is_folder {
                FileKind::Folder
            } else if is_ghost {
                FileKind::Ghost
            } else {
                FileKind::File
            }
        };
        let names = self.main.texts(tag::BASENAMES);
        if names.is_empty() {
            let whole = self.main.texts(tag::OLDFILENAMES).into_iter().enumerate();
            let file = |(place, path): (usize, Cow<'_, str>)| match path.len() > LONGEST_PATH {
                true => Err(malformed(format!("a path has more than {LONGEST_PATH} bytes"))),
                false => Ok(File { path: path.into_owned(), kind: kind(place) }),
            };
            return whole.map(file).collect();
        }
        let (folders, places) = (self.main.texts(tag::DIRNAMES), self.main.numbers(tag::DIRINDEXES));
        // One text of a header may stand for the folder of each of a million files.
        let mut files = Vec::new();
        for (place, name) in names.iter().enumerate() {
            let folder = places.get(place).and_then(|folder| folders.get(usize::try_from(*folder).ok()?));
            let folder = folder.ok_or_else(|| malformed(format!("file {:?} is in no folder", begin(name))))?;
            let length = folder.len() + name.len();
            left = left.checked_sub(length).filter(|_| length <= LONGEST_PATH).ok_or_else(|| {
                malformed(format!("its paths have more than {LONGEST_PATH} bytes, or {} MiB together", PATHS >> 20))
            })?;
            files.push(File { path: format!("{folder}{name}"), kind: kind(place) });
        }
        Ok(files)
    }
}

/// As much of a text as an error shows: a header has texts of megabytes.
fn begin(text: &str) -> &str {
    &text[..text.floor_char_boundary(80)]
}

/// A file of a package.
pub(super) struct File {
    pub path: String,
    pub kind: FileKind,
}

/// The files that an index lists.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    File,
    Folder,
    /// Belongs to the package and is not in it.
    Ghost,
}

fn signatures(header: &Header) -> Result<Vec<Signature>, HeaderError> {
    use tag::signature::{DSA, GPG, OPENPGP, PGP, RSA};
    let mut found = Vec::new();
    for text in header.texts(OPENPGP) {
        let packet = base64::engine::general_purpose::STANDARD.decode(text.as_bytes());
        let packet = packet.map_err(|e| malformed(format!("a signature is not base64: {e}")))?;
        found.push(Signature { covers: Covers::Header, packet });
    }
    for (tag, covers) in
        [(RSA, Covers::Header), (DSA, Covers::Header), (PGP, Covers::HeaderAndPayload), (GPG, Covers::HeaderAndPayload)]
    {
        found.extend(header.binary(tag).map(|packet| Signature { covers, packet: packet.to_owned() }));
    }
    Ok(found)
}

/// `RPMSENSE_LESS`, `_GREATER` and `_EQUAL`.
pub(super) const fn comparison(flags: u64) -> Option<Comparison> {
    match flags & 0b1110 {
        0b0010 => Some(Comparison::Less),
        0b1010 => Some(Comparison::LessOrEqual),
        0b1000 => Some(Comparison::Equal),
        0b1100 => Some(Comparison::GreaterOrEqual),
        0b0100 => Some(Comparison::Greater),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Requirement;

    /// Built by rpm 4.18.
    const ALPHA: &[u8] = include_bytes!("../../tests/data/alpha-2.0-3.el9.noarch.rpm");

    fn alpha() -> Rpm {
        Rpm::read(&mut &ALPHA[..]).unwrap()
    }

    #[test]
    fn a_package_says_the_same_of_itself_as_an_index_would() {
        let rpm = alpha();
        // What createrepo_c 0.17 says of it.
        assert_eq!(rpm.range, (4504, 6325));
        let package = rpm.package(RepoId(0), "a.rpm", 6471, Digest::of(ALPHA)).unwrap();
        assert_eq!(package.to_string(), "alpha 1:2.0-3.el9 noarch");
        assert_eq!(package.files, ["/usr/bin/alpha".into(), "/usr/share/alpha".into(), "/usr/share/alpha/f".into()]);
        assert_eq!(package.provides, [Provide { name: "virt".into(), version: Some((Comparison::Equal, "5".into())) }]);
        let relations = package.relations().unwrap();
        assert!(matches!(&relations.requires[..], [Requirement::If { .. }, Requirement::One(_)]), "{relations:?}");
        assert_eq!(relations.obsoletes[0].version, Some((Comparison::Less, "3".into())));
        assert_eq!(rpm.payload(), Some(Digest::of(&ALPHA[6325..])));
        assert!(rpm.signatures.is_empty());
    }

    /// A header of these texts; the index of a folder is a number.
    fn package_of(texts: &[(u32, &str)]) -> Rpm {
        let words = |words: [u32; 4]| words.into_iter().flat_map(u32::to_be_bytes);
        let (mut index, mut data) = (Vec::new(), Vec::new());
        for (tag, text) in texts {
            let kind = if *tag == tag::DIRINDEXES { 4 } else { 8 };
            index.extend(words([*tag, kind, u32::try_from(data.len()).unwrap(), 1]));
            data.extend(text.bytes().chain([0]));
        }
        let (entries, at) = (u32::try_from(texts.len()).unwrap() + 1, u32::try_from(data.len()).unwrap());
        let mut bytes: Vec<u8> = words([0x8ead_e801, 0, entries, at + 16]).collect();
        bytes.extend(words([tag::REGION, 7, at, 16]));
        bytes.extend(index.into_iter().chain(data));
        bytes.extend(words([tag::REGION, 7, (16 * entries).wrapping_neg(), 16]));
        let main = Header::read(&mut bytes.as_slice(), MAIN).unwrap();
        Rpm { signatures: Vec::new(), main, range: (0, 0) }
    }

    #[test]
    fn an_error_shows_the_begin_of_a_name_and_not_all_of_it() {
        let long: &str = &"ä/".repeat(1 << 20);
        for (texts, said) in [
            (&[(tag::NAME, long), (tag::VERSION, long), (tag::RELEASE, "1")][..], "it calls itself"),
            (&[(tag::NAME, "--root=x"), (tag::VERSION, "1"), (tag::RELEASE, "1")], "it calls itself"),
            (&[(tag::NAME, "a\u{1b}"), (tag::VERSION, "1"), (tag::RELEASE, "1")], "it calls itself"),
            (&[(tag::NAME, "a"), (tag::VERSION, "1"), (tag::RELEASE, "1"), (tag::BASENAMES, long)], "is in no folder"),
        ] {
            let error = package_of(texts).package(RepoId(0), "a.rpm", 1, Digest::of("a")).unwrap_err().to_string();
            assert!(error.contains(said) && error.len() < 500, "{} bytes: {}", error.len(), begin(&error));
        }
    }

    #[test]
    fn paths_of_more_bytes_than_any_package_has_are_refused_before_they_are_made() {
        let rpm = alpha();
        let length: usize = rpm.files().unwrap().iter().map(|file| file.path.len()).sum();
        assert_eq!(rpm.files_within(length).map(|files| files.len()).unwrap(), 3);
        for few in [length - 1, 5] {
            let error = rpm.files_within(few).err().unwrap().to_string();
            assert!(error.contains("or 256 MiB together"), "{error}");
        }
    }

    #[test]
    fn a_path_that_no_kernel_takes_is_refused_in_either_form_of_a_header() {
        let path = |length: usize| format!("/{}", "x".repeat(length - 1));
        let (longest, longer) = (path(LONGEST_PATH), path(LONGEST_PATH + 1));
        let whole = |path: &str| package_of(&[(tag::OLDFILENAMES, path)]).files();
        assert_eq!(whole(&longest).unwrap()[0].path, longest);
        let error = whole(&longer).err().unwrap().to_string();
        assert!(error.contains("a path has more than 4096 bytes"), "{error}");
        let split = |path: &str| {
            package_of(&[(tag::DIRNAMES, "/"), (tag::BASENAMES, &path[1..]), (tag::DIRINDEXES, "\0\0\0\0")]).files()
        };
        assert_eq!(split(&longest).unwrap()[0].path, longest);
        let error = split(&longer).err().unwrap().to_string();
        assert!(error.contains("its paths have more than 4096 bytes"), "{error}");
    }

    #[test]
    fn a_header_with_another_byte_is_refused() {
        for at in [4504, 4520, 5000, 6000, 6324] {
            let mut bytes = ALPHA.to_vec();
            bytes[at] ^= 1;
            assert!(Rpm::read(&mut bytes.as_slice()).is_err(), "byte {at}");
        }
    }

    #[test]
    fn an_entry_of_more_texts_than_a_package_has_is_refused_before_they_are_made() {
        let main = &ALPHA[4504..6325];
        assert!(Header::read(&mut &main[..], Limits { values: 16, ..MAIN }).is_ok());
        let error = Header::read(&mut &main[..], Limits { values: 2, ..MAIN }).unwrap_err().to_string();
        assert!(error.contains("values, and 2 are the most that a package has"), "{error}");
    }

    #[test]
    fn what_is_cut_or_claims_more_than_it_has_is_refused() {
        for end in [0, 3, 95, 96, 111, 400, 4504, 6324] {
            assert!(Rpm::read(&mut &ALPHA[..end]).is_err(), "cut at {end}");
        }
        let mut bytes = ALPHA.to_vec();
        bytes[4504 + 12] = 0x03;
        let error = Rpm::read(&mut bytes.as_slice()).unwrap_err();
        assert!(error.to_string().contains("ends in the middle"), "{error}");
        bytes[4504 + 12] = 0xff;
        let error = Rpm::read(&mut bytes.as_slice()).unwrap_err();
        assert!(error.to_string().contains("entries and"), "{error}");
    }
}
