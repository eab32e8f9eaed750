//! Sizes on the command line.

/// Bytes of `4095M`, `4G`, `650MiB`, `1000000`: K, M, G and T are powers of 1024, as in `split` and `truncate`.
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no size: give a number with K, M, G or T behind it, such as 4095M");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim_end_matches("iB").to_ascii_uppercase().as_str() {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        _ => return Err(wrong()),
    };
    let size = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).ok_or_else(wrong)?;
    if size == 0 { Err(wrong()) } else { Ok(size) }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn units_are_powers_of_1024() {
        for (text, size) in [("1", 1), ("4095M", 4095 << 20), ("2g", 2 << 30), ("1KiB", 1024), ("3T", 3 << 40)] {
            assert_eq!(parse(text), Ok(size), "{text}");
        }
    }

    #[test]
    fn invalid_sizes_are_refused() {
        for text in ["", "M", "4 G", "-1", "1.5G", "4GB", "0", "99999999999T"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
