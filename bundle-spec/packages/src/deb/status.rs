//! dpkg's status file (`/var/lib/dpkg/status`): what is installed on a node.

use std::collections::HashMap;
use std::io::BufRead;

use super::control::{ControlError, Paragraphs};
use super::index::Known;
use crate::model::{Package, RepoId};

/// The repository of what is installed already: none.
pub const INSTALLED: RepoId = RepoId(u16::MAX);

/// The most names in all relations of a status: each takes some 100 bytes of memory, though two bytes may say it. Some hosts have fifty
/// thousand.
const RELATIONS: usize = 1_000_000;
/// The most packages of one name: dpkg has one of an architecture.
const OF_A_NAME: usize = 32;

/// A package that is on a node with more than its configuration files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// What it says of itself. It has no location, no size and no digest.
    pub package: Package,
    /// The administrator holds it at this version (`dpkg --set-selections`, `apt-mark hold`).
    pub held: bool,
    /// It is unpacked and configured; else an installation was cut off, and dpkg wants it fixed first. One that owes others' triggers,
    /// or waits for its own, is whole: dpkg runs those with whatever it does next.
    pub whole: bool,
}

/// All that is installed, in the order of the file; every architecture, since a foreign one may stand in the way too.
pub fn read(reader: impl BufRead, arch: &str) -> Result<Vec<Installed>, ControlError> {
    let mut installed: Vec<Installed> = Vec::new();
    let (mut of_a_name, mut left) = (HashMap::<Box<str>, usize>::new(), RELATIONS);
    let mut paragraphs = Paragraphs::new(reader);
    while let Some(paragraph) = paragraphs.read_next()? {
        let fields = Known::of(&paragraph)?;
        // dpkg(1): what is wanted, whether something is wrong, and how far it is.
        let words: Vec<&str> = fields.status.split_ascii_whitespace().collect();
        let [wanted, flag, state] = words[..] else {
            return Err(fields.wrong("Status", "is not three words"));
        };
        if matches!(state, "not-installed" | "config-files") {
            continue;
        }
        left = left.checked_sub(fields.relations()).ok_or_else(|| {
            fields.wrong("Depends", format!("and what else is like it names more than {RELATIONS} packages up to here"))
        })?;
        let count = of_a_name.entry(fields.name.into()).or_default();
        *count += 1;
        if *count > OF_A_NAME {
            return Err(fields.wrong("Package", format!("is that of more than {OF_A_NAME} packages")));
        }
        let whole = flag == "ok" && matches!(state, "installed" | "triggers-pending" | "triggers-awaited");
        installed.push(Installed { package: fields.package(INSTALLED, arch)?, held: wanted == "hold", whole });
    }
    Ok(installed)
}

/// Fields that [`read`] looks at; a status has some twenty more of each package.
const READ: [&str; 13] = [
    "Package",
    "Status",
    "Architecture",
    "Version",
    "Multi-Arch",
    "Essential",
    "Important",
    "Priority",
    "Provides",
    "Pre-Depends",
    "Depends",
    "Conflicts",
    "Breaks",
];

/// The same status with no more than [`read`] looks at: a sixth of it. What is not UTF-8 is replaced by marks.
pub fn reduced(reader: impl BufRead) -> Result<String, ControlError> {
    let mut kept = String::new();
    let mut paragraphs = Paragraphs::new(reader);
    while let Some(paragraph) = paragraphs.read_next()? {
        let begun = kept.len();
        let mut gone = false;
        for field in paragraph.fields() {
            let (name, value) = field?;
            let Some(name) = READ.iter().find(|known| name.eq_ignore_ascii_case(known.as_bytes())) else { continue };
            let value = String::from_utf8_lossy(value);
            gone =
                gone || (*name == "Status" && (value.ends_with(" not-installed") || value.ends_with(" config-files")));
            kept.extend([name, ": ", value.trim(), "\n"]);
        }
        if gone { kept.truncate(begun) } else { kept.push('\n') }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_removed_is_not_installed_and_what_was_cut_off_is_reported() {
        let entry = |name: &str, status: &str| {
            format!(
                "Package: {name}\nStatus: {status}\nArchitecture: amd64\nVersion: 1:2-3\nProvides: p-{name}\nConffiles:\n /etc/x 00\n\n"
            )
        };
        let text = [
            entry("whole", "install ok installed"),
            entry("held", "hold ok installed"),
            entry("purged", "purge ok not-installed"),
            entry("removed", "deinstall ok config-files"),
            entry("cut", "install ok half-configured"),
            entry("broken", "install reinstreq half-installed"),
            entry("triggers", "install ok triggers-pending"),
        ]
        .concat();
        let read = read(text.as_bytes(), "amd64").unwrap();
        let reported: Vec<_> = read.iter().map(|one| (&*one.package.name, one.held, one.whole)).collect();
        assert_eq!(
            reported,
            [
                ("whole", false, true),
                ("held", true, true),
                ("cut", false, false),
                ("broken", false, false),
                ("triggers", false, true)
            ]
        );
        assert_eq!(&*read[0].package.provides[0].name, "p-whole");
    }

    #[test]
    fn a_reduced_status_reads_as_the_whole_one() {
        let more =
            "Description: x\n y\nMaintainer: m\nDepends: a (>= 1),\n b | c\nMulti-Arch: foreign\nEssential: yes\n\n";
        let entry = |name: &str, status: &str| {
            format!("Package: {name}\nStatus: {status}\nArchitecture: amd64\nVersion: 1\n{more}")
        };
        let whole = [
            entry("one", "hold ok installed"),
            entry("two", "deinstall ok config-files"),
            entry("three", "install ok unpacked"),
        ]
        .concat();
        let reduced = reduced(whole.as_bytes()).unwrap();
        assert_eq!(read(reduced.as_bytes(), "amd64").unwrap(), read(whole.as_bytes(), "amd64").unwrap());
        assert!(!reduced.contains("Maintainer") && !reduced.contains("two"), "{reduced}");
    }

    #[test]
    fn a_status_of_more_than_any_host_has_is_refused() {
        let entry =
            |more: &str| format!("Package: a\nStatus: install ok installed\nArchitecture: all\nVersion: 1\n{more}\n");
        let of = |text: String| read(text.as_bytes(), "amd64").map(|all| all.len()).map_err(|error| error.to_string());
        assert_eq!(of(entry("").repeat(OF_A_NAME)), Ok(OF_A_NAME));
        assert!(of(entry("").repeat(OF_A_NAME + 1)).unwrap_err().contains("more than 32 packages"));
        for field in ["Depends", "Provides", "Conflicts"] {
            let many = |count: usize| entry(&format!("{field}: b{}\n", ",b".repeat(count - 1)));
            assert_eq!(of(many(RELATIONS / 2).repeat(2)), Ok(2), "{field}");
            assert!(of(many(RELATIONS / 2 + 1).repeat(2)).unwrap_err().contains("more than 1000000"), "{field}");
        }
    }

    #[test]
    fn a_file_that_is_no_status_is_refused() {
        assert!(read("Package: a\nVersion: 1\nArchitecture: all\n".as_bytes(), "amd64").is_err());
        assert!(read("<html>\n".as_bytes(), "amd64").is_err());
        assert_eq!(read("".as_bytes(), "amd64").unwrap(), []);
    }
}
