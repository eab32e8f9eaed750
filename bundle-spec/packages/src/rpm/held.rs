//! What the administrator of a host of rpm's family keeps as it is: what dnf.conf(5) excludes, and what the plugin versionlock
//! locks. Lines of the list of installed packages carry it ([`super::installed`]).

use std::collections::BTreeSet;
use std::fmt;

use super::version::Evr;
use crate::model::Package;

/// Steps of comparing all patterns with all packages; a list that locks every package of a host takes some hundred million.
const STEPS: u64 = 2_000_000_000;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// What matches this pattern does not come.
    Excluded(String),
    /// Of a name only what matches the pattern may come.
    Locked {
        /// Of the package; a pattern, too.
        name: String,
        /// Of name, version and architecture.
        pattern: String,
    },
}

impl fmt::Display for Hold {
    /// A line of the list, without its end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Excluded(pattern) => write!(f, "X\t{pattern}"),
            Self::Locked { name, pattern } => write!(f, "L\t{name}\t{pattern}"),
        }
    }
}

impl Hold {
    fn of_line(line: &str) -> Option<Self> {
        match line.split('\t').collect::<Vec<_>>()[..] {
            ["X", pattern] => Some(Self::Excluded(pattern.to_owned())),
            ["L", name, pattern] => Some(Self::Locked { name: name.to_owned(), pattern: pattern.to_owned() }),
            _ => None,
        }
    }

    /// Whether a package is of what this line is about.
    fn is_about(&self, package: &Package, forms: &[String], left: &mut u64) -> bool {
        match self {
            Self::Excluded(pattern) => matches(pattern, forms, left),
            Self::Locked { name, .. } => glob(name, &package.name, left),
        }
    }
}

/// Names of those of the offered packages that a list says must not come: all of them where it says so in more words than can be
/// compared.
pub fn held<'a>(list: &str, offered: impl IntoIterator<Item = &'a Package>) -> BTreeSet<Box<str>> {
    held_within(STEPS, list, offered)
}

fn held_within<'a>(mut left: u64, list: &str, offered: impl IntoIterator<Item = &'a Package>) -> BTreeSet<Box<str>> {
    let holds: Vec<Hold> = list.lines().filter_map(Hold::of_line).collect();
    if holds.is_empty() {
        return BTreeSet::new();
    }
    let mut forbidden = |package: &&Package| {
        let forms = forms(package);
        let (mut is_locked, mut is_one) = (false, false);
        for hold in &holds {
            if left == 0 {
                return true;
            }
            match hold {
                _ if !hold.is_about(package, &forms, &mut left) => {}
                Hold::Excluded(_) => return true,
                // Of several locks of a name any may be met.
                Hold::Locked { pattern, .. } => {
                    (is_locked, is_one) = (true, is_one || matches(pattern, &forms, &mut left));
                }
            }
        }
        left == 0 || (is_locked && !is_one)
    };
    offered.into_iter().filter(|package| forbidden(package)).map(|package| package.name.clone()).collect()
}

fn matches(pattern: &str, forms: &[String], left: &mut u64) -> bool {
    forms.iter().any(|form| glob(pattern, form, left))
}

/// As dnf names packages: by name, with its version with and without an epoch, each with and without its architecture; yum puts the
/// epoch first.
fn forms(package: &Package) -> Vec<String> {
    let (name, arch) = (&package.name, &package.arch);
    let evr = Evr::parse(&package.version);
    let rest = package.version.split_once(':').map_or(&*package.version, |(_, rest)| rest);
    let epoch = if evr.epoch.is_empty() { "0" } else { evr.epoch };
    let forms = [
        name.to_string(),
        format!("{name}-{}", evr.version),
        format!("{name}-{rest}"),
        format!("{name}-{epoch}:{rest}"),
        format!("{epoch}:{name}-{rest}"),
    ];
    forms.into_iter().flat_map(|form| [format!("{form}.{arch}"), form]).collect()
}

/// fnmatch(3) with `*`, `?` and `[…]`: the last star that was met takes one more whenever what follows does not fit. Each step is one of
/// those that are left, and so is each byte of a set.
fn glob(pattern: &str, text: &str, left: &mut u64) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut here, mut star) = (0, 0, None);
    while here < text.len() {
        let set = if pattern.get(at) == Some(&b'[') { pattern.len() - at } else { 0 };
        *left = left.saturating_sub(1 + set as u64);
        if *left == 0 {
            return false;
        }
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, here));
            at += 1;
        } else if let Some(taken) = one(&pattern[at..], text[here]) {
            (at, here) = (at + taken, here + 1);
        } else if let Some((place, taken)) = star {
            star = Some((place, taken + 1));
            (at, here) = (place + 1, taken + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// How many bytes of a pattern stand for this one byte; none where they do not.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', rest @ ..] if rest.iter().skip(1).any(|end| *end == b']') => {
            let (not, set) = match rest {
                [b'!' | b'^', set @ ..] => (true, set),
                set => (false, set),
            };
            // A bracket that comes first is one of the set.
            let end = 1 + set.iter().skip(1).position(|end| *end == b']')?;
            let mut found = false;
            let mut place = 0;
            while place < end {
                let (first, last) = match set[place..end] {
                    [first, b'-', last, ..] => (first, last),
                    [first, ..] => (first, first),
                    [] => break,
                };
                found |= (first..=last).contains(&byte);
                place += if set[place..end].len() > 2 && set[place + 1] == b'-' { 3 } else { 1 };
            }
            (found != not).then_some(1 + usize::from(not) + end + 1)
        }
        [literal, ..] => (*literal == byte).then_some(1),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::installed;
    use super::*;

    fn packages() -> Vec<Package> {
        let list = "N\tsocat\t0\t1.7\t3.el9\tx86_64\nN\tbash\t2\t5.1\t1.el9\tx86_64\nN\tphp-fpm\t0\t8\t1\tnoarch\n";
        installed::read(list).unwrap()
    }

    fn of(lines: &str) -> Vec<String> {
        held(lines, &packages()).into_iter().map(String::from).collect()
    }

    #[test]
    fn an_exclude_holds_a_package_under_every_name_that_dnf_knows() {
        for pattern in [
            "socat",
            "soc*",
            "s?cat",
            "socat.x86_64",
            "socat-1.7",
            "socat-1.7-3.el9",
            "socat-1.7-3.el9.x86_64",
            "socat-0:1.7-3.el9.*",
            "0:socat-1.7-3.el9.*",
            "[r-t]ocat",
            "[!a-c]ocat",
            "[]s]ocat",
        ] {
            assert_eq!(of(&format!("N\tx\t0\t1\t1\tnoarch\nX\t{pattern}\n")), ["socat"], "{pattern}");
        }
        for pattern in ["soca", "socat.noarch", "socat-1.8*", "ocat", "[a-c]ocat", "socat[", "*.i686", ""] {
            assert_eq!(of(&format!("X\t{pattern}\n")), [""; 0], "{pattern}");
        }
        assert_eq!(of("X\t*\n").len(), 3);
        assert_eq!(of("X\tphp*\nX\tbash-2:*\n"), ["bash", "php-fpm"]);
    }

    #[test]
    fn a_locked_version_may_come_and_no_other() {
        assert_eq!(of("L\tsocat\tsocat-0:1.7-3.el9.*\n"), [""; 0]);
        assert_eq!(of("L\tsocat\tsocat-0:1.6-3.el9.*\n"), ["socat"]);
        assert_eq!(of("L\tbash\t2:bash-5.1-1.el9.*\n"), [""; 0]);
        assert_eq!(of("L\tbash\tbash-5.0-1.el9.*\nL\tother\tother-1\n"), ["bash"]);
        // Of two that are locked either may come.
        assert_eq!(of("L\tbash\tbash-5.0-1.el9.*\nL\tbash\tbash-2:5.1-1.el9.*\n"), [""; 0]);
        assert_eq!(of("L\tbash\tbash-2:5.1-1.el9.*\nX\tbash\n"), ["bash"]);
    }

    #[test]
    fn a_pattern_of_many_stars_takes_no_time() {
        assert!(!glob(&"*a".repeat(2000), &"a".repeat(1999), &mut STEPS.clone()));
    }

    #[test]
    fn patterns_without_end_are_given_up_and_nothing_comes() {
        let list = "X\tnone*\n".repeat(1000);
        let steps = |left| held_within(left, &list, &packages()).len();
        assert_eq!((steps(STEPS), steps(1000)), (0, 3));
        let set = format!("X\t{}[{}]\n", "[a-z]".repeat(3), "x".repeat(1000));
        assert_eq!(held_within(1000, &set, &packages()).len(), 3);
    }

    #[test]
    fn lines_with_holds_are_ignored_by_the_reader_of_installed_packages() {
        let holds =
            [Hold::Excluded("a*".to_owned()), Hold::Locked { name: "b".to_owned(), pattern: "b-0:1-1.*".to_owned() }];
        let lines: String = holds.iter().map(|hold| format!("{hold}\n")).collect();
        let list = installed::reduced("N\tsocat\t0\t1\t1\tnoarch\n") + &lines;
        assert_eq!(installed::read(&list).unwrap().len(), 1);
        assert_eq!(list.lines().filter_map(Hold::of_line).collect::<Vec<_>>(), holds);
    }
}
