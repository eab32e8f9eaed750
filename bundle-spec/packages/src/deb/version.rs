//! Versions (deb-version(7)), compared as texts: a solve compares thousands, and none needs a copy.

use std::cmp::Ordering;

/// The order of two versions: `[epoch:]upstream[-revision]`. Any two texts have an order; what is no version is compared as far
/// as the rules go.
pub fn compare(one: &str, other: &str) -> Ordering {
    if one == other {
        return Ordering::Equal;
    }
    let ((epoch, upstream, revision), (other_epoch, other_upstream, other_revision)) = (parts(one), parts(other));
    numbers(epoch, other_epoch)
        .then_with(|| piece(upstream, other_upstream))
        .then_with(|| piece(revision, other_revision))
}

/// Epoch, upstream version and revision; an absent epoch is as 0, an absent revision as `0` (deb-version(7)).
fn parts(version: &str) -> (&[u8], &[u8], &[u8]) {
    let version = version.as_bytes();
    let colon = version.iter().position(|byte| !byte.is_ascii_digit()).filter(|at| *at != 0 && version[*at] == b':');
    let (epoch, rest) = match colon {
        Some(at) => (&version[..at], &version[at + 1..]),
        None => (&[][..], version),
    };
    match rest.iter().rposition(|byte| *byte == b'-') {
        Some(at) => (epoch, &rest[..at], &rest[at + 1..]),
        None => (epoch, rest, &[]),
    }
}

/// "The Sorting Algorithm" of deb-version(7): what is no number and what is one take turns.
fn piece(mut one: &[u8], mut other: &[u8]) -> Ordering {
    while !one.is_empty() || !other.is_empty() {
        loop {
            let (a, b) = (weight(one.first()), weight(other.first()));
            if a != b {
                return a.cmp(&b);
            }
            if a == 0 {
                break;
            }
            (one, other) = (&one[1..], &other[1..]);
        }
        let (a, b) = (digits(one), digits(other));
        match numbers(&one[..a], &other[..b]) {
            Ordering::Equal => (one, other) = (&one[a..], &other[b..]),
            unequal => return unequal,
        }
    }
    Ordering::Equal
}

/// Where a byte is outside numbers: `~` before the end, which digits count as, then letters, then all others.
fn weight(byte: Option<&u8>) -> i32 {
    match byte {
        None => 0,
        Some(byte) if byte.is_ascii_digit() => 0,
        Some(b'~') => -1,
        Some(byte) if byte.is_ascii_alphabetic() => i32::from(*byte),
        Some(byte) => i32::from(*byte) + 256,
    }
}

fn digits(text: &[u8]) -> usize {
    text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len())
}

/// Numbers of any length.
fn numbers(one: &[u8], other: &[u8]) -> Ordering {
    let significant = |digits: &[u8]| digits.iter().position(|byte| *byte != b'0').unwrap_or(digits.len());
    let (one, other) = (&one[significant(one)..], &other[significant(other)..]);
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}

/// Whether a text is a version that dpkg would take (deb-version(7), "the allowed characters").
pub fn is_valid(version: &str) -> bool {
    let (epoch, upstream, revision) = parts(version);
    let has_revision = version.contains('-');
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b".+~".contains(byte);
    epoch.len() < 10
        && upstream.first().is_some_and(u8::is_ascii_digit)
        && upstream.iter().all(|byte| plain(byte) || *byte == b'-' || (*byte == b':' && !epoch.is_empty()))
        && (!has_revision || !revision.is_empty())
        && revision.iter().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_in_debian_policy() {
        let rising = [
            "0~~",
            "0~",
            "0",
            "0a",
            "1.0~beta1~svn1245",
            "1.0~beta1",
            "1.0",
            "1.0-1~bpo",
            "1.0-1",
            "1.0-1+b1",
            "1.0-1.1",
            "1.0+",
            "1.0.1",
            "1.2a",
            "1.10",
            "010.1",
            "99999999999999999999999999",
            "1:0",
            "1:0-0+",
            "2:0",
            "10:0",
        ];
        for (at, one) in rising.iter().enumerate() {
            for (behind, other) in rising.iter().enumerate() {
                assert_eq!(compare(one, other), at.cmp(&behind), "{one} and {other}");
            }
        }
    }

    #[test]
    fn missing_version_parts_count_as_zero() {
        for (one, other) in [("0:1.0", "1.0"), ("1.0-0", "1.0"), ("1.0-00", "1.0-0"), ("1.01", "1.1"), ("00:1", "1")] {
            assert_eq!(compare(one, other), Ordering::Equal, "{one} and {other}");
        }
    }

    #[test]
    fn versions_that_dpkg_refuses_are_reported() {
        for good in ["1", "1.0-1", "1:2.3-4-5", "1.0~rc1+dfsg", "1:1:1"] {
            assert!(is_valid(good), "{good}");
        }
        for bad in ["", "a1", "1_0", "1.0-", ":1", "1 0", "1.0-1:2", "1a:2", "12345678901:1"] {
            assert!(!is_valid(bad), "{bad}");
        }
    }
}
