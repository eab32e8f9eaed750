//! What a key can do, and how the format calls it.

/// Which signatures a key makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// ECDSA over P-256 with SHA-256: what OpenSSL of any age and most hardware know.
    EcdsaP256,
    /// Ed25519 over the message itself (not the prehashed form).
    Ed25519,
}

impl Algorithm {
    /// The `alg` of a signature.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EcdsaP256 => "ecdsa-p256-sha256",
            Self::Ed25519 => "ed25519",
        }
    }
}

impl std::fmt::Display for Algorithm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
