//! Whom to believe: keys by fingerprint, and what they have signed.
