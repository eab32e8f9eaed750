//! A flat repository of our own: `Packages` and `Release` as texts. The same packages and date give the same bytes.

use std::fmt::Write as _;

use kubexm_spec::Digest;

use super::control::{ControlError, Paragraph};
use super::release::format_date;
use super::version;

/// A package file that is to be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its control paragraph ([`super::archive::control`]).
    pub control: String,
    /// Below the folder of the repository: `socat_1.7.4.4-2_amd64.deb`.
    pub file_name: String,
    /// In bytes.
    pub size: u64,
    /// Of the file.
    pub digest: Digest,
}

/// What a repository says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// `Origin` and `Label`: who made it.
    pub origin: String,
    /// `Suite` and `Codename`: `kubexm`.
    pub suite: String,
    /// What its packages are for, besides `all`: `amd64`.
    pub architectures: Vec<String>,
    /// `Date`, in seconds of Unix time. There is no `Valid-Until`: what is behind a gap does not age.
    pub date: i64,
}

/// Fields that the list sets itself: what a package says of them is not trusted.
const OURS: [&str; 8] = ["Filename", "Size", "SHA256", "SHA512", "SHA1", "MD5sum", "Status", "Conffiles"];

/// `Packages`, in the order of name, version and architecture.
pub fn packages(entries: &[Entry]) -> Result<String, ControlError> {
    let mut listed = Vec::with_capacity(entries.len());
    for entry in entries {
        let paragraph = Paragraph::of(&entry.control);
        let of = |name| Ok::<_, ControlError>(paragraph.get(name)?.unwrap_or_default());
        listed.push((of("Package")?, of("Version")?, of("Architecture")?, entry));
    }
    listed.sort_by(|one, other| {
        (one.0.cmp(other.0))
            .then_with(|| version::compare(one.1, other.1))
            .then_with(|| (one.1, one.2, &one.3.file_name).cmp(&(other.1, other.2, &other.3.file_name)))
    });
    let mut text = String::new();
    for (_, _, _, entry) in listed {
        paragraph(&mut text, entry)?;
    }
    Ok(text)
}

fn paragraph(text: &mut String, entry: &Entry) -> Result<(), ControlError> {
    for field in Paragraph::of(&entry.control).fields() {
        let (name, value) = field?;
        let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
        if !value.is_empty() && !OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours)) {
            // A String takes whatever is written to it.
            let _ = writeln!(text, "{name}: {value}");
        }
    }
    let _ = write!(text, "Filename: {}\nSize: {}\nSHA256: {}\n\n", entry.file_name, entry.size, entry.digest.hex());
    Ok(())
}

/// `Release`, to be signed: with the sha256 of each of `files`, given by name and content in any order.
pub fn release(about: &About, files: &[(&str, &[u8])]) -> String {
    let mut architectures = about.architectures.clone();
    architectures.sort();
    let About { origin, suite, date, .. } = about;
    let mut text = format!(
        "Origin: {origin}\nLabel: {origin}\nSuite: {suite}\nCodename: {suite}\nDate: {}\nArchitectures: {}\n\
         No-Support-for-Architecture-all: Packages\nSHA256:\n",
        format_date(*date),
        architectures.join(" "),
    );
    let mut files: Vec<_> = files.to_vec();
    files.sort_by_key(|(name, _)| *name);
    for (name, content) in files {
        let _ = writeln!(text, " {} {:>9} {name}", Digest::of(content).hex(), content.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::gzip;
    use crate::deb::index;
    use crate::deb::release::Release;
    use crate::model::RepoId;

    fn entry(name: &str, version: &str) -> Entry {
        Entry {
            control: format!(
                "Package: {name}\nVersion: {version}\nArchitecture: amd64\nSize: 1\nFilename: /etc/passwd\nEmpty:\nDepends: b,\n c\nDescription: x\n y"
            ),
            file_name: format!("{name}_{version}.deb"),
            size: 42,
            digest: Digest::of(name),
        }
    }

    #[test]
    fn what_is_published_reads_back_as_it_was() {
        let text = packages(&[entry("b", "1"), entry("a", "10"), entry("a", "9")]).unwrap();
        let read = index::read(text.as_bytes(), RepoId(0), "amd64").unwrap();
        let reported: Vec<_> = read.iter().map(|p| (p.to_string(), p.location.to_string(), p.size, p.digest)).collect();
        let expected = |name: &str, version: &str| {
            (format!("{name} {version} amd64"), format!("{name}_{version}.deb"), 42, Digest::of(name))
        };
        assert_eq!(reported, [expected("a", "9"), expected("a", "10"), expected("b", "1")]);
        assert_eq!(read[0].relations().unwrap().requires.len(), 2);
        let zipped = gzip(text.as_bytes());
        assert_eq!(crate::compression::all_unpacked(&zipped, 1 << 20).unwrap(), text.as_bytes());
        let about = About {
            origin: "kubexm".into(),
            suite: "kubexm".into(),
            architectures: vec!["amd64".into()],
            date: 1_783_764_997,
        };
        let release =
            Release::parse(&release(&about, &[("Packages.gz", &zipped), ("Packages", text.as_bytes())])).unwrap();
        let index = release.flat_index().unwrap();
        assert_eq!((index.packed.digest, index.plain.unwrap().size), (Digest::of(&zipped), text.len() as u64));
        assert_eq!((release.date, release.valid_until), (Some(1_783_764_997), None));
    }

    #[test]
    fn the_order_in_which_packages_come_does_not_show() {
        let (one, other) = ([entry("a", "1"), entry("b", "1")], [entry("b", "1"), entry("a", "1")]);
        assert_eq!(packages(&one).unwrap(), packages(&other).unwrap());
        assert_eq!(gzip(b"text"), gzip(b"text"));
    }
}
