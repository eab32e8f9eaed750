//! What a site's CA has signed for a cluster, when its key stays with the site.

use std::collections::BTreeMap;

use kubexm_plan::cluster_facts::Leaf;
use kubexm_spec::Digest;

/// What the site has signed, as it was read and checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignedCertificates {
    /// By the name of the request.
    pub certificates: BTreeMap<String, SignedCertificate>,
    /// The public key (PEM) of service accounts' tokens, and its digest: the key is in the same folder of the controller as those of the
    /// requests. None in a home where no requests were made.
    pub service_account: Option<(String, Digest)>,
    /// What is wrong with each of the others, by the name of its request.
    pub faults: BTreeMap<String, Vec<String>>,
    /// The CA's certificate, as hosts have it; none if it cannot be read.
    pub ca: Option<String>,
}

/// A certificate that the site has signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedCertificate {
    /// One certificate in PEM.
    pub pem: String,
    /// Digest of its public key (SubjectPublicKeyInfo in DER).
    pub public: Digest,
    /// When it ends, in seconds of Unix time.
    pub ends: i64,
    /// Which one it is.
    pub leaf: Leaf,
}
