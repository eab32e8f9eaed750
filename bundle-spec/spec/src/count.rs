//! Numbers of things, for people.

/// `1 difference`, `3 differences`: a number and the English word for that many, which takes an `s` when there is not one.
pub fn counted(number: impl Into<u64>, thing: &str) -> String {
    match number.into() {
        1 => format!("1 {thing}"),
        number => format!("{number} {thing}s"),
    }
}

/// The same of what is in a list.
pub fn counted_of<T>(things: &[T], thing: &str) -> String {
    counted(things.len() as u64, thing)
}

/// Units of 1024 bytes each.
const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];

/// `1.4 GiB`, rounded down, as what is free is said; bytes below 1 KiB.
pub fn amount(bytes: u64) -> String {
    rounded(bytes, 0)
}

/// The same rounded up, as what is needed is said: beside what is free it is never the same text, if more is needed.
pub fn amount_needed(bytes: u64) -> String {
    rounded(bytes, u128::MAX)
}

/// `up`: at most so much of the unit is added before it is rounded down.
fn rounded(bytes: u64, up: u128) -> String {
    let power = (bytes.checked_ilog2().unwrap_or(0) / 10).min(5);
    let Some(unit) = power.checked_sub(1).and_then(|at| UNITS.get(usize::try_from(at).ok()?)) else {
        return counted(bytes, "byte");
    };
    let most = (1_u128 << (10 * power)) - 1;
    let tenths = (u128::from(bytes) * 10 + up.min(most)) >> (10 * power);
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_count_of_one_is_singular() {
        assert_eq!([0u64, 1, 2].map(|number| counted(number, "hole")), ["0 holes", "1 hole", "2 holes"]);
        assert_eq!(counted_of(&["a"], "artifact"), "1 artifact");
    }

    #[test]
    fn bytes_are_said_in_the_largest_unit_of_which_there_is_one() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1023 bytes"),
            (1024, "1.0 KiB"),
            (1_610_612_736, "1.5 GiB"),
            (u64::MAX, "16383.9 PiB"),
        ] {
            assert_eq!(amount(bytes), text);
        }
    }

    #[test]
    fn what_is_needed_differs_from_what_is_free_if_it_is_more() {
        for (bytes, text) in
            [(1023, "1023 bytes"), (3 << 20, "3.0 MiB"), ((3 << 20) + 1, "3.1 MiB"), (u64::MAX, "16384.0 PiB")]
        {
            assert_eq!(amount_needed(bytes), text);
        }
        for free in [1023, 1024, 1025, 1_610_612_735, 1_610_612_736] {
            assert_ne!(amount(free), amount_needed(free + 1));
        }
    }
}
