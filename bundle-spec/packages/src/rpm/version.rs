//! Versions: `[epoch:]version[-release]`, the order that rpm gives them (rpm-version(7)), and which versions a dependency means.

use std::cmp::Ordering;

use crate::model::Comparison;

/// A version in its three parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evr<'a> {
    /// Decimal digits; 0 and none are the same.
    pub epoch: &'a str,
    /// What upstream calls it.
    pub version: &'a str,
    /// What the packager counts; none in a dependency that means any release.
    pub release: Option<&'a str>,
}

impl<'a> Evr<'a> {
    /// The parts of a text. What is before the first `:` is an epoch only if it has digits alone; the release follows the
    /// last `-`, and an empty one is none.
    pub fn parse(text: &'a str) -> Self {
        let (epoch, rest) = match text.split_once(':') {
            Some((epoch, rest)) if epoch.bytes().all(|b| b.is_ascii_digit()) => (epoch, rest),
            _ => ("", text),
        };
        let (version, release) =
            rest.rsplit_once('-').map_or((rest, None), |(version, release)| (version, Some(release)));
        Self { epoch, version, release: release.filter(|release| !release.is_empty()) }
    }

    /// Without epoch 0, as [`crate::model::Package::version`] has it.
    pub fn written(epoch: &str, version: &str, release: Option<&str>) -> String {
        let epoch = epoch.trim_start_matches('0');
        let colon = if epoch.is_empty() { "" } else { ":" };
        match release.filter(|release| !release.is_empty()) {
            Some(release) => format!("{epoch}{colon}{version}-{release}"),
            None => format!("{epoch}{colon}{version}"),
        }
    }

    fn epoch_and_version(&self, other: &Self) -> Ordering {
        numbers(self.epoch, other.epoch).then_with(|| part(self.version, other.version))
    }
}

/// The order of two versions. Where only one has a release, it is the greater.
pub fn compare(one: &str, other: &str) -> Ordering {
    if one == other {
        return Ordering::Equal;
    }
    let (one, other) = (Evr::parse(one), Evr::parse(other));
    one.epoch_and_version(&other).then_with(|| match (one.release, other.release) {
        (Some(one), Some(other)) => part(one, other),
        (one, other) => one.is_some().cmp(&other.is_some()),
    })
}

/// Whether something that is provided in some versions may be what is wanted: whether their ranges meet.
///
/// A side without versions means any. Where one side names no release, its version stands for every release of it (rpm's
/// rule for dependencies), so that 1.0-5 is `= 1.0` and not `> 1.0`.
pub fn meets(provided: Option<(Comparison, &str)>, wanted: Option<(Comparison, &str)>) -> bool {
    let (Some((is, found)), Some((wants, limit))) = (provided, wanted) else { return true };
    if (below(is) && below(wants)) || (above(is) && above(wants)) {
        return true;
    }
    let (found, limit) = (Evr::parse(found), Evr::parse(limit));
    let order = found.epoch_and_version(&limit);
    let order = match (order, found.release, limit.release) {
        (Ordering::Equal, Some(found), Some(limit)) => part(found, limit),
        (Ordering::Equal, None, Some(_)) => return equal(is),
        (Ordering::Equal, Some(_), None) => return equal(wants),
        (order, _, _) => order,
    };
    match order {
        Ordering::Less => below(wants) || above(is),
        Ordering::Equal => equal(is) && equal(wants),
        Ordering::Greater => above(wants) || below(is),
    }
}

const fn below(comparison: Comparison) -> bool {
    matches!(comparison, Comparison::Less | Comparison::LessOrEqual)
}

const fn above(comparison: Comparison) -> bool {
    matches!(comparison, Comparison::Greater | Comparison::GreaterOrEqual)
}

const fn equal(comparison: Comparison) -> bool {
    matches!(comparison, Comparison::LessOrEqual | Comparison::Equal | Comparison::GreaterOrEqual)
}

/// The order of two versions, or of two releases, alone: `rpmvercmp`.
///
/// Both are read as runs of digits and runs of ASCII letters; all else parts them and counts for nothing, but for `~`, which is
/// before everything, even the end, and `^`, which is after the end and before everything else.
pub fn part(one: &str, other: &str) -> Ordering {
    if one == other {
        return Ordering::Equal;
    }
    let (mut one, mut other) = (one.as_bytes(), other.as_bytes());
    loop {
        one = without_separators(one);
        other = without_separators(other);
        match (one.first(), other.first()) {
            (Some(b'~'), Some(b'~')) | (Some(b'^'), Some(b'^')) => {
                (one, other) = (&one[1..], &other[1..]);
                continue;
            }
            (Some(b'~'), _) => return Ordering::Less,
            (_, Some(b'~')) => return Ordering::Greater,
            (Some(b'^'), None) => return Ordering::Greater,
            (None, Some(b'^')) => return Ordering::Less,
            (Some(b'^'), _) => return Ordering::Less,
            (_, Some(b'^')) => return Ordering::Greater,
            (None, None) => return Ordering::Equal,
            // Whoever has more left is newer.
            (one, other) if one.is_none() || other.is_none() => return one.is_some().cmp(&other.is_some()),
            _ => {}
        }
        let digits = one[0].is_ascii_digit();
        if digits != other[0].is_ascii_digit() {
            // A run of digits is newer than a run of letters.
            return digits.cmp(&!digits);
        }
        let run = |bytes: &[u8]| {
            let inside = |b: &u8| if digits { b.is_ascii_digit() } else { b.is_ascii_alphabetic() };
            bytes.iter().take_while(|b| inside(b)).count()
        };
        let ((mine, one_left), (theirs, other_left)) = (one.split_at(run(one)), other.split_at(run(other)));
        let order = if digits { by_value(mine, theirs) } else { mine.cmp(theirs) };
        if order.is_ne() {
            return order;
        }
        (one, other) = (one_left, other_left);
    }
}

fn without_separators(bytes: &[u8]) -> &[u8] {
    let counts = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'~' | b'^');
    &bytes[bytes.iter().position(counts).unwrap_or(bytes.len())..]
}

fn numbers(one: &str, other: &str) -> Ordering {
    by_value(one.as_bytes(), other.as_bytes())
}

/// The order of two decimal numbers of any length.
fn by_value(one: &[u8], other: &[u8]) -> Ordering {
    let significant = |digits: &[u8]| digits.iter().position(|d| *d != b'0').unwrap_or(digits.len());
    let (one, other) = (&one[significant(one)..], &other[significant(other)..]);
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual};

    #[test]
    fn tilde_is_before_the_end_and_caret_after_it() {
        for (one, other) in [
            ("1.0~rc1", "1.0"),
            ("1.0~~", "1.0~"),
            ("1.0", "1.0^git1"),
            ("1.0^git1", "1.0.1"),
            ("1.0~rc1^git1", "1.0"),
            ("1.0^", "1.0^git"),
            ("1.0~rc1", "1.0~rc1^x"),
            ("a", "1"),
            ("1.a", "1.0"),
            ("9", "10"),
            ("1.0", "1.0a"),
            ("5.5p1", "5.5p10"),
            ("ab", "b"),
            ("99999999999999999999999", "100000000000000000000000"),
        ] {
            assert_eq!(part(one, other), Ordering::Less, "{one} < {other}");
            assert_eq!(part(other, one), Ordering::Greater, "{other} > {one}");
        }
        for (one, other) in [("1.0", "1_0"), ("1.05", "1.5"), ("1.0", "1.0."), ("2a", "2.a"), ("", "_")] {
            assert_eq!(part(one, other), Ordering::Equal, "{one} = {other}");
        }
    }

    #[test]
    fn epoch_outranks_version_and_version_outranks_release() {
        assert_eq!(compare("1:1.0-1", "2.0-1"), Ordering::Greater);
        assert_eq!(compare("0:1.0-1", "1.0-1"), Ordering::Equal);
        assert_eq!(compare("2.0-1", "1.9-99"), Ordering::Greater);
        assert_eq!(compare("1.0-1.el9", "1.0-1.el9_2"), Ordering::Less);
        assert_eq!(compare("1.0", "1.0-1"), Ordering::Less);
        assert_eq!(Evr::written("0", "1.0", Some("1")), "1.0-1");
        assert_eq!(Evr::written("3", "1.0", None), "3:1.0");
    }

    #[test]
    fn a_dependency_without_release_means_every_release() {
        let provided = Some((Equal, "1.0-5"));
        for (wants, limit, holds) in [
            (Equal, "1.0", true),
            (GreaterOrEqual, "1.0", true),
            (LessOrEqual, "1.0", true),
            (Greater, "1.0", false),
            (Less, "1.0", false),
            (Greater, "1.0-4", true),
            (Equal, "1.0-4", false),
            (Equal, "0:1.0-5", true),
            (GreaterOrEqual, "1:0.1", false),
            (Less, "1:0.1", true),
        ] {
            assert_eq!(meets(provided, Some((wants, limit))), holds, "1.0-5 {wants:?} {limit}");
        }
        assert!(meets(Some((Equal, "1.0")), Some((Greater, "1.0-4"))));
        assert!(meets(None, Some((Greater, "9"))));
        assert!(meets(Some((GreaterOrEqual, "5")), Some((Greater, "9"))));
        assert!(meets(Some((GreaterOrEqual, "5")), Some((LessOrEqual, "5"))));
        assert!(!meets(Some((GreaterOrEqual, "5")), Some((Less, "5"))));
    }
}
