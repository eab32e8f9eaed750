//! `s3://BUCKET/PREFIX`.

use std::fmt;

/// The words before an address.
pub const SCHEME: &str = "s3://";
/// An object's name has 1,024 bytes; the rest is for what is put below a prefix.
const LONGEST_PREFIX: usize = 512;

/// A bucket, and a folder in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Address {
    bucket: String,
    /// Without `/` at its ends; empty for the whole bucket.
    prefix: String,
}

/// Why a text is no address. It does not repeat the text: people write keys into addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}; wanted is s3://BUCKET/PREFIX")]
pub struct AddressError(&'static str);

impl S3Address {
    /// Whether a text is meant as one.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// Reads one.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let rest = text.strip_prefix(SCHEME).ok_or(AddressError("it does not begin with s3://"))?;
        if rest.contains(['@', '?', '#']) {
            return Err(AddressError("a key, a query or a fragment has no place in the address of a backup"));
        }
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        // Amazon's rules for names of buckets.
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
        let ends = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let fits = (3..=63).contains(&bucket.len()) && bucket.chars().all(plain) && !bucket.contains("..");
        if !fits || !bucket.starts_with(ends) || !bucket.ends_with(ends) {
            return Err(AddressError("a bucket's name has 3 to 63 lower-case letters, digits, dots and dashes"));
        }
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        if prefix.len() > LONGEST_PREFIX || prefix.chars().any(char::is_control) {
            return Err(AddressError("a prefix has at most 512 bytes, none of them a control character"));
        }
        if !prefix.is_empty() && prefix.split('/').any(|part| ["", ".", ".."].contains(&part)) {
            return Err(AddressError("a prefix has no empty part, and none that is `.` or `..`"));
        }
        Ok(Self { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }

    /// The bucket.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The name of an object below the prefix.
    pub fn key(&self, name: &str) -> String {
        match self.prefix.as_str() {
            "" => name.to_owned(),
            prefix => format!("{prefix}/{name}"),
        }
    }

    /// A folder below this one.
    pub fn join(&self, name: &str) -> Self {
        Self { bucket: self.bucket.clone(), prefix: self.key(name) }
    }
}

impl fmt::Display for S3Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.bucket)?;
        if self.prefix.is_empty() { Ok(()) } else { write!(f, "/{}", self.prefix) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_bucket_with_a_prefix_and_nothing_else() {
        let address = S3Address::parse("s3://backups/sites/a/").unwrap();
        assert_eq!((address.bucket(), address.key("x").as_str()), ("backups", "sites/a/x"));
        assert_eq!(address.join("lab-1").to_string(), "s3://backups/sites/a/lab-1");
        let whole = S3Address::parse("s3://backups").unwrap();
        assert_eq!((whole.key("x").as_str(), whole.to_string().as_str()), ("x", "s3://backups"));
        for wrong in [
            "s3://",
            "s3:///x",
            "s3://ab",
            "s3://Upper/x",
            "s3://a..b/x",
            "s3://-abc",
            "s3://abc/../x",
            "s3://abc//x",
            "s3://abc/x\ny",
            "https://abc/x",
            "s3://abc/x?versionId=1",
        ] {
            assert!(S3Address::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_error_does_not_repeat_a_key_that_was_written_into_an_address() {
        let error = S3Address::parse("s3://AKIA:hunter2@backups/x").unwrap_err().to_string();
        assert!(!error.contains("hunter2") && error.contains("s3://BUCKET/PREFIX"), "{error}");
    }
}
