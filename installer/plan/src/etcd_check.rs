//! What a control plane is asked about an etcd of the user's before anything is changed, and its answer.

use serde::{Deserialize, Serialize};

use crate::ClusterId;

/// The question; the key of the certificate is sent beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EtcdAsk {
    /// `https://10.0.0.5:2379`.
    pub endpoints: Vec<String>,
    /// PEM with the members' CA.
    pub ca: String,
    /// PEM with the client's certificate.
    pub certificate: String,
    /// What the API server's keys begin with.
    pub prefix: String,
    /// Asked with the certificate that the host's API server has, which is there, and not with one that is sent: whether the keys are this
    /// cluster's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<ClusterId>,
    /// Asked with the files that the manifest of the host's API server names, and not with ones that are sent: a control plane of a cluster
    /// that was adopted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub as_api_server: bool,
}

/// Whose the keys below the prefix are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum KeysOf {
    /// The cluster's of the question: kubexm's record among them has its id.
    This,
    /// The record has another id.
    Other,
    /// There is no such record, or it is encrypted.
    Unknown,
    /// Keys of another cluster are among them, below this folder of the prefix.
    Shared(String),
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EtcdAnswer {
    /// One for each endpoint, in their order.
    pub endpoints: Vec<EndpointAnswer>,
    /// How many keys begin with the prefix; none if that could not be asked.
    pub keys: Option<u64>,
    /// Client addresses of the voting members that a majority agrees on; none without a quorum.
    pub members: Option<Vec<String>>,
    /// Why one of the two is not known.
    pub why: Option<String>,
    /// Whose the keys are, if that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys_of: Option<KeysOf>,
}

/// What one endpoint has said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EndpointAnswer {
    /// It.
    pub endpoint: String,
    /// `3.6.5`; none if it did not answer.
    pub version: Option<String>,
    /// The id of its cluster.
    pub cluster: Option<String>,
    /// Why it did not answer, or what it complains of.
    pub trouble: Option<String>,
    /// By how many seconds its clock is ahead of that of the host which asked; behind, where negative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead_s: Option<i64>,
}
