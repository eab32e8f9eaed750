//! `Release`, the text of a suite that is signed (Debian's wiki, "DebianRepository/Format"): what is in it, until when it is good, and
//! the sha256 of every index.

use std::collections::HashMap;

use kubexm_spec::Digest;

use super::control::{ControlError, Paragraph, text};

/// What is wrong with a `Release` or with what is asked of it.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// It cannot be read.
    #[error("its Release: {}", without_paragraph(.0))]
    Control(#[from] ControlError),
    /// It has no sha256 of anything: older algorithms are not trusted.
    #[error(
        "its Release lists no SHA256; a repository of today does (an old one may be mirrored with aptly or reprepro)"
    )]
    NoSha256,
    /// The component is not in the suite.
    #[error("it has no component {wanted}; it has {}", .has.join(", "))]
    NoComponent {
        /// Asked for.
        wanted: String,
        /// What there is.
        has: Vec<String>,
    },
    /// The architecture is not in the suite.
    #[error("it has no packages for {wanted}; it has {}", .has.join(", "))]
    NoArch {
        /// Asked for.
        wanted: String,
        /// What there is.
        has: Vec<String>,
    },
    /// The index that component and architecture promise is not listed, or only in a compression we do not read.
    #[error("its Release lists no {0} as .zst, .xz, .gz or plain")]
    NoIndex(String),
}

/// There is only one paragraph: it needs no name.
fn without_paragraph(error: &ControlError) -> String {
    match error {
        ControlError::Field { field, problem, .. } => format!("{field} {problem}"),
        other => other.to_string(),
    }
}

/// A file of a suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Of the file.
    pub digest: Digest,
    /// In bytes.
    pub size: u64,
}

/// What a `Release` says.
#[derive(Clone, Debug, Default)]
pub struct Release {
    /// `oldstable`, `jammy-updates`.
    pub suite: Option<String>,
    /// `bookworm`, `jammy`.
    pub codename: Option<String>,
    /// When it was made, in seconds of Unix time: always there of one that was read, since what was replayed shows by nothing else.
    pub date: Option<i64>,
    /// Until when it may be trusted, in seconds of Unix time; for ever when none.
    pub valid_until: Option<i64>,
    /// Whether indexes are served under their digests, too (`by-hash/SHA256/<hex>`).
    pub by_hash: bool,
    /// In the suite's own words; those of security suites begin with `updates/`.
    pub components: Vec<String>,
    /// `amd64`, `all`.
    pub architectures: Vec<String>,
    /// The indexes of each architecture have what fits all of them, too.
    pub all_is_in_each: bool,
    /// By path below the folder of the suite.
    pub files: HashMap<String, Listed>,
}

/// An index to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Below the folder of the suite, the best first: `main/binary-amd64/by-hash/SHA256/…`, `main/binary-amd64/Packages.xz`.
    pub paths: Vec<String>,
    /// As it is served.
    pub packed: Listed,
    /// The unpacked file, where the suite lists it: a cache may keep this one instead.
    pub plain: Option<Listed>,
}

/// In the order of what they cost to fetch and to unpack.
const ENDINGS: [&str; 4] = [".zst", ".xz", ".gz", ""];

impl Release {
    /// Reads a text whose signature was checked.
    pub fn parse(release: &str) -> Result<Self, ReleaseError> {
        let mut read = Self { all_is_in_each: true, ..Self::default() };
        let (mut any_sha256, mut no_support) = (false, None);
        for field in Paragraph::of(release).fields() {
            let (name, value) = field?;
            let of = |field| text(value, field, || "it".to_owned());
            let words = |field| -> Result<Vec<String>, ControlError> {
                Ok(of(field)?.split_ascii_whitespace().map(str::to_owned).collect())
            };
            match name.to_ascii_lowercase().as_slice() {
                b"suite" => read.suite = Some(of("Suite")?.to_owned()),
                b"codename" => read.codename = Some(of("Codename")?.to_owned()),
                b"date" => read.date = Some(date("Date", of("Date")?)?),
                b"valid-until" => read.valid_until = Some(date("Valid-Until", of("Valid-Until")?)?),
                b"acquire-by-hash" => read.by_hash = of("Acquire-By-Hash")?.eq_ignore_ascii_case("yes"),
                b"components" => read.components = words("Components")?,
                b"architectures" => read.architectures = words("Architectures")?,
                b"no-support-for-architecture-all" => no_support = Some(of("No-Support-for-Architecture-all")?),
                b"sha256" => {
                    any_sha256 = true;
                    read.files = files(of("SHA256")?)?;
                }
                _ => {}
            }
        }
        if read.date.is_none() {
            let problem = "is missing, so an old one cannot be distinguished from a current one; the maintainer of the repository can write it (as \
                           `apt-ftparchive release` does)";
            return Err(
                ControlError::Field { subject: "it".to_owned(), field: "Date", problem: problem.to_owned() }.into()
            );
        }
        if !any_sha256 {
            return Err(ReleaseError::NoSha256);
        }
        // apt: where `all` is an architecture of the suite it has indexes of its own, unless this field denies it.
        let all_is_listed = read.architectures.iter().any(|arch| arch == "all");
        let denied = no_support.is_some_and(|what| what.eq_ignore_ascii_case("Packages"));
        read.all_is_in_each = !all_is_listed || denied;
        Ok(read)
    }

    /// Whether it is what a suite of that name (`bookworm`, `stable`, `bookworm-security`) should be.
    ///
    /// All pockets of Ubuntu have the codename of their release (`jammy-proposed` says `Codename: jammy`) and one key: there only
    /// `Suite` distinguishes what is released from what is not. Debian's codenames have the pocket, too.
    pub fn is_of(&self, suite: &str) -> bool {
        let says = |word: &Option<String>| word.as_deref().is_some_and(|word| word == suite);
        let silent = self.suite.is_none() && self.codename.is_none();
        let pocket = |found: &str| found.strip_prefix(suite).is_some_and(|rest| rest.starts_with('-'));
        let is_pocket = self.suite.as_deref().is_some_and(pocket);
        silent || says(&self.suite) || (says(&self.codename) && !is_pocket)
    }

    /// The indexes of a component for an architecture: one, and where the suite keeps them apart that of `all`.
    pub fn indexes(&self, component: &str, arch: &str) -> Result<Vec<Index>, ReleaseError> {
        // Component `main` of a security suite calls itself `updates/main` and is served as `main`.
        let is = |known: &String| known == component || known.rsplit('/').next() == component.rsplit('/').next();
        if !self.components.is_empty() && !self.components.iter().any(is) {
            return Err(ReleaseError::NoComponent { wanted: component.to_owned(), has: self.components.clone() });
        }
        if !self.architectures.is_empty() && !self.architectures.iter().any(|known| known == arch || known == "all") {
            return Err(ReleaseError::NoArch { wanted: arch.to_owned(), has: self.architectures.clone() });
        }
        let served = component.rsplit('/').next().unwrap_or(component);
        let of = |folder: &str| {
            let plain = format!("{folder}/Packages");
            self.index(&plain.replacen(component, served, 1)).or_else(|| self.index(&plain))
        };
        let own = format!("{component}/binary-{arch}");
        let mut indexes: Vec<Index> = of(&own).into_iter().collect();
        if !self.all_is_in_each {
            indexes.extend(of(&format!("{component}/binary-all")));
        }
        if indexes.is_empty() {
            return Err(ReleaseError::NoIndex(format!("{own}/Packages")));
        }
        Ok(indexes)
    }

    /// The index of a flat repository, which has no components.
    pub fn flat_index(&self) -> Result<Index, ReleaseError> {
        self.index("Packages").ok_or_else(|| ReleaseError::NoIndex("Packages".to_owned()))
    }

    fn index(&self, plain: &str) -> Option<Index> {
        let mut served = ENDINGS.iter().map(|ending| format!("{plain}{ending}"));
        let (path, packed) = served.find_map(|path| self.listed(&path).map(|listed| (path, listed)))?;
        let mut paths = Vec::new();
        if self.by_hash {
            let folder = path.rsplit_once('/').map(|(folder, _)| format!("{folder}/")).unwrap_or_default();
            paths.push(format!("{folder}by-hash/SHA256/{}", packed.digest.hex()));
        }
        paths.push(path);
        Some(Index { paths, packed, plain: self.listed(plain) })
    }

    fn listed(&self, path: &str) -> Option<Listed> {
        self.files.get(path).or_else(|| self.files.get(&format!("./{path}"))).copied()
    }
}

/// ` <hex> <size> <path>` a line.
fn files(table: &str) -> Result<HashMap<String, Listed>, ControlError> {
    let mut files = HashMap::new();
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.split_ascii_whitespace();
        let listed = (|| {
            let digest = Digest::from_hex(&words.next()?.to_ascii_lowercase()).ok()?;
            let size = words.next()?.parse().ok()?;
            Some((words.next()?.to_owned(), Listed { digest, size }))
        })();
        let (path, listed) = listed.ok_or_else(|| ControlError::Field {
            subject: "it".to_owned(),
            field: "SHA256",
            problem: format!(
                "has a line that is not `digest size path`: {:?}",
                line.chars().take(120).collect::<String>()
            ),
        })?;
        files.insert(path, listed);
    }
    Ok(files)
}

fn date(field: &'static str, text: &str) -> Result<i64, ControlError> {
    parse_date(text).ok_or_else(|| ControlError::Field {
        subject: "it".to_owned(),
        field,
        problem: format!("is not a date of RFC 5322 in UTC: {:?}", text.chars().take(60).collect::<String>()),
    })
}

/// `Sat, 11 Jul 2026 10:16:37 UTC` in seconds of Unix time. The hour may be padded with a blank (as Ubuntu's are), the day of the week
/// left out; zones other than UTC are refused as apt does.
pub fn parse_date(text: &str) -> Option<i64> {
    let text = text.split_once(',').map_or(text, |(_, behind)| behind);
    let mut words = text.split_ascii_whitespace();
    let day: u8 = words.next()?.parse().ok()?;
    let month = words.next()?;
    let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))? as u8 + 1;
    let year: i32 = words.next().filter(|year| year.len() == 4)?.parse().ok()?;
    let mut clock = words.next()?.split(':').map(|part| part.parse::<u8>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    if clock.next().is_some()
        || !matches!(words.next()?, "UTC" | "GMT" | "Z" | "+0000" | "-0000" | "UT")
        || words.next().is_some()
    {
        return None;
    }
    let month = time::Month::try_from(month).ok()?;
    let date = time::Date::from_calendar_date(year, month, day).ok()?;
    // A leap second is as the last one of its minute.
    let time = time::Time::from_hms(hour, minute, second.min(if second == 60 { 59 } else { second })).ok()?;
    Some(time::PrimitiveDateTime::new(date, time).assume_utc().unix_timestamp())
}

/// A date as `Release` wants it. Seconds of Unix time; what no calendar has is shown as its beginning.
pub fn format_date(seconds: i64) -> String {
    let moment = time::OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(time::OffsetDateTime::UNIX_EPOCH);
    let weekday =
        ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"][usize::from(moment.weekday().number_days_from_monday())];
    let month = MONTHS[usize::from(u8::from(moment.month()) - 1)];
    let (day, year) = (moment.day(), moment.year());
    format!(
        "{weekday}, {day:02} {month} {year:04} {:02}:{:02}:{:02} UTC",
        moment.hour(),
        moment.minute(),
        moment.second()
    )
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

#[cfg(test)]
mod tests {
    use super::*;

    fn release(extra: &str, paths: &[&str]) -> Release {
        let lines: String = paths.iter().map(|path| format!(" {} 17 {path}\n", Digest::of(path).hex())).collect();
        let date = "Date: Sat, 11 Jul 2026 10:16:37 UTC";
        Release::parse(&format!(
            "Suite: oldstable\nCodename: bookworm\n{date}\n{extra}MD5Sum:\n 0 1 x\nSHA256:\n{lines}"
        ))
        .unwrap()
    }

    #[test]
    fn dates_of_debian_and_ubuntu_are_read_and_others_refused() {
        assert_eq!(parse_date("Sat, 11 Jul 2026 10:16:37 UTC"), Some(1_783_764_997));
        assert_eq!(parse_date("Fri, 20 Nov 2026  2:30:05 UTC"), Some(1_795_141_805));
        assert_eq!(parse_date("1 Jan 1970 00:00:00 +0000"), Some(0));
        assert_eq!(format_date(1_783_764_997), "Sat, 11 Jul 2026 10:16:37 UTC");
        for bad in [
            "",
            "now",
            "Sat, 31 Feb 2026 10:16:37 UTC",
            "Sat, 11 Jul 2026 10:16:37 CET",
            "Sat, 11 Jul 26 10:16:37 UTC",
            "11 Jul 2026 10:16 UTC",
        ] {
            assert_eq!(parse_date(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_release_is_reported_in_a_sentence() {
        let date = "Date: Sat, 11 Jul 2026 10:16:37 UTC\n";
        for (text, reported) in [
            (format!("{date}Valid-Until: soon\n"), "its Release: Valid-Until is not a date"),
            (format!("{date}SHA256:\n zz 1 x\n"), "its Release: SHA256 has a line"),
            (format!("{date}<html>\n"), "its Release: paragraph 1 has a line without a field"),
            ("SHA256:\n".to_owned(), "its Release: Date is missing"),
        ] {
            let error = Release::parse(&text).unwrap_err().to_string();
            assert!(error.starts_with(reported), "{error}");
        }
    }

    #[test]
    fn the_smallest_index_that_is_listed_is_taken_by_its_hash() {
        let listed = ["main/binary-amd64/Packages", "main/binary-amd64/Packages.gz", "main/binary-amd64/Packages.xz"];
        let index = release("Acquire-By-Hash: yes\n", &listed).indexes("main", "amd64").unwrap().remove(0);
        let hex = Digest::of("main/binary-amd64/Packages.xz").hex();
        assert_eq!(
            index.paths,
            [format!("main/binary-amd64/by-hash/SHA256/{hex}"), "main/binary-amd64/Packages.xz".to_owned()]
        );
        assert_eq!(index.plain.unwrap().digest, Digest::of("main/binary-amd64/Packages"));
        let index = release("", &listed[..2]).indexes("main", "amd64").unwrap().remove(0);
        assert_eq!(index.paths, ["main/binary-amd64/Packages.gz"]);
        let index = release("", &["./Packages.zst"]).flat_index().unwrap();
        assert_eq!(index.paths, ["Packages.zst"]);
    }

    #[test]
    fn another_pocket_of_a_release_is_not_taken_for_the_release() {
        let of = |suite: &str, codename: &str| Release {
            suite: Some(suite.to_owned()),
            codename: Some(codename.to_owned()),
            ..Release::default()
        };
        let ubuntu = ["jammy", "jammy-updates", "jammy-security", "jammy-proposed", "jammy-backports"];
        for asked in ubuntu {
            for served in ubuntu {
                assert_eq!(of(served, "jammy").is_of(asked), asked == served, "{served} for {asked}");
            }
        }
        let debian = [
            ("oldstable", "bookworm"),
            ("oldstable-updates", "bookworm-updates"),
            ("oldstable-backports", "bookworm-backports"),
            ("oldstable-security", "bookworm-security"),
        ];
        for (at, (suite, codename)) in debian.into_iter().enumerate() {
            for (other, (other_suite, other_codename)) in debian.into_iter().enumerate() {
                let release = of(other_suite, other_codename);
                assert_eq!(release.is_of(suite), at == other, "{other_suite} for {suite}");
                assert_eq!(release.is_of(codename), at == other, "{other_codename} for {codename}");
            }
        }
        assert!(of("stable", "trixie").is_of("stable") && of("stable", "trixie").is_of("trixie"));
        assert!(!of("stable", "trixie").is_of("bookworm"));
    }

    #[test]
    fn packages_for_all_are_read_where_a_suite_keeps_them_apart() {
        let listed = ["main/binary-amd64/Packages.gz", "main/binary-all/Packages.gz"];
        let count = |extra| release(extra, &listed).indexes("main", "amd64").unwrap().len();
        assert_eq!(count("Architectures: amd64\n"), 1);
        assert_eq!(count("Architectures: all amd64\n"), 2);
        assert_eq!(count("Architectures: all amd64\nNo-Support-for-Architecture-all: Packages\n"), 1);
    }

    #[test]
    fn components_of_security_suites_have_two_names() {
        let release = release("Components: updates/main updates/contrib\n", &["main/binary-amd64/Packages.xz"]);
        for name in ["main", "updates/main"] {
            assert_eq!(release.indexes(name, "amd64").unwrap()[0].paths, ["main/binary-amd64/Packages.xz"], "{name}");
        }
        let error = release.indexes("universe", "amd64").unwrap_err().to_string();
        assert!(error.contains("updates/main, updates/contrib"), "{error}");
    }

    #[test]
    fn what_is_not_there_is_reported_with_what_is() {
        let release = release("Architectures: amd64 arm64\n", &["main/binary-amd64/Packages.lzma"]);
        assert!(matches!(release.indexes("main", "riscv64"), Err(ReleaseError::NoArch { .. })));
        assert!(matches!(release.indexes("main", "amd64"), Err(ReleaseError::NoIndex(_))));
        let date = "Date: Sat, 11 Jul 2026 10:16:37 UTC";
        assert!(matches!(Release::parse(&format!("Suite: x\n{date}\nMD5Sum:\n 0 1 x\n")), Err(ReleaseError::NoSha256)));
        assert!(matches!(Release::parse("SHA256:\n zz 1 x\n"), Err(ReleaseError::Control(_))));
        assert!(release.is_of("bookworm") && release.is_of("oldstable") && !release.is_of("trixie"));
    }
}
