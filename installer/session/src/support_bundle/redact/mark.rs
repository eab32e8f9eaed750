/// What is where a secret stood.
pub const MARK: &str = "<redacted>";
