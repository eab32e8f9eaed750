/// What stands where a secret stood.
pub const MARK: &str = "<redacted>";
