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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_count_of_one_is_singular() {
        assert_eq!([0u64, 1, 2].map(|number| counted(number, "hole")), ["0 holes", "1 hole", "2 holes"]);
        assert_eq!(counted_of(&["a"], "artifact"), "1 artifact");
    }
}
