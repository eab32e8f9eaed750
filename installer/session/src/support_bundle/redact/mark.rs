/// Replacement of a secret.
pub const MARK: &str = "<redacted>";
