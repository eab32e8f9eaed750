//! What a plain scalar means to KubeKey. It turns its file into JSON with sigs.k8s.io/yaml, which is go-yaml v2 (`resolve.go`):
//! YAML 1.1's words and bases, where cluster.yaml has YAML 1.2's. What is carried over is the value, in 1.2's spelling.

use kubexm_spec::yaml::{Data, Node};

use super::yaml::Yaml;

/// A scalar's value; quoted ones are texts.
pub fn value(node: &Node) -> Option<Yaml> {
    match &node.data {
        Data::Scalar { text, plain: true } => Some(plain(text)),
        Data::Scalar { text, plain: false } => Some(Yaml::Text(text.clone())),
        Data::Sequence(_) | Data::Mapping(_) => None,
    }
}

/// A plain scalar's value.
pub fn plain(text: &str) -> Yaml {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Yaml::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => return Yaml::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Yaml::Bool(false);
        }
        _ => {}
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) {
        return Yaml::Text(text.to_owned());
    }
    let digits = text.replace('_', "");
    if let Some(number) = integer(&digits) {
        return Yaml::Int(number);
    }
    match digits.parse::<f64>() {
        Ok(number) if is_float(&digits) && number.is_finite() => float(number),
        _ => Yaml::Text(text.to_owned()),
    }
}

/// As Go's `strconv.ParseInt` with base 0: `0x`, `0o`, `0b`, and a leading zero is octal; within 64 bits.
fn integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = [("0x", 16), ("0o", 8), ("0b", 2)]
        .iter()
        .find_map(|(prefix, radix)| lower.strip_prefix(prefix).map(|digits| (*radix, digits)))
        .or_else(|| lower.strip_prefix('0').filter(|rest| !rest.is_empty()).map(|rest| (8, rest)))
        .unwrap_or((10, &lower));
    // from_str_radix takes a sign of its own.
    let digits = Some(digits).filter(|digits| digits.bytes().all(|b| b.is_ascii_alphanumeric()))?;
    let number = i128::from_str_radix(digits, radix).ok()?;
    let number = if negative { -number } else { number };
    (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&number).then_some(number)
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (number, exponent) = text.split_once(['e', 'E']).map_or((text, None), |(number, e)| (number, Some(e)));
    let (whole, part) = number.split_once('.').map_or((number, None), |(whole, part)| (whole, Some(part)));
    digits(whole)
        && part.is_none_or(digits)
        && !(whole.is_empty() && part.is_none_or(str::is_empty))
        && exponent.is_none_or(|e| {
            let e = e.strip_prefix(['-', '+']).unwrap_or(e);
            !e.is_empty() && digits(e)
        })
}

/// JSON has no other spelling for 1000.0 than 1000.
#[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^53 is exact in both types")]
fn float(number: f64) -> Yaml {
    let exact = 2_f64.powi(53);
    match number.fract().abs() < f64::EPSILON && number.trunc().to_bits() == number.to_bits() && number.abs() < exact {
        true => Yaml::Int(number as i128),
        false => Yaml::Float(number),
    }
}
