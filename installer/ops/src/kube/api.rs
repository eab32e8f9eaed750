//! The API server without kubectl, for looks: a request of some milliseconds instead of a process.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

use crate::system::HttpsRequest;
use crate::{Machine, OpError, fsio, paths};

/// Where the API server is and who we are there, as admin.conf says.
pub(crate) struct Api {
    server: String,
    ca: Vec<u8>,
    certificate: Vec<u8>,
    key: Vec<u8>,
}

// The key is a secret.
impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Api {
    /// Of a real machine's admin.conf; none when there is none, or when it is not as kubeadm writes it: kubectl knows more
    /// ways to log in.
    pub(crate) fn of(machine: &Machine) -> Result<Option<Self>, OpError> {
        if !machine.is_real() {
            return Ok(None);
        }
        Ok(fsio::read_text(&machine.path(paths::ADMIN_CONF))?.as_deref().and_then(Self::parse))
    }

    /// kubeadm writes one cluster and one user, each value on a line of its own. A file with more is for kubectl.
    fn parse(text: &str) -> Option<Self> {
        let value = |key: &str| {
            let mut values = text.lines().filter_map(|line| line.trim().strip_prefix(key)?.strip_prefix(": "));
            let first = values.next()?.trim();
            values.next().is_none().then_some(first)
        };
        let bytes = |key: &str| BASE64.decode(value(key)?).ok();
        Some(Self {
            server: value("server")?.trim_end_matches('/').to_owned(),
            ca: bytes("certificate-authority-data")?,
            certificate: bytes("client-certificate-data")?,
            key: bytes("client-key-data")?,
        })
    }

    /// The object, or list, at a path (`/api/v1/nodes/n1`); none when there is no such.
    pub(crate) fn get(&self, machine: &Machine, path: &str) -> Result<Option<Value>, OpError> {
        let url = format!("{}{path}", self.server);
        let request = HttpsRequest {
            method: "GET",
            url: &url,
            ca: &self.ca,
            certificate: &self.certificate,
            key: &self.key,
            body: "",
        };
        match machine.system().https_request(&request)? {
            (200, body) => serde_json::from_slice(&body)
                .map(Some)
                .map_err(|error| OpError::other(format!("{url} did not answer JSON: {error}"))),
            (404, _) => Ok(None),
            (status, _) => Err(OpError::other(format!("{url} answers {status}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONF: &str = "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: Y2E=\n    \
                        server: https://lb.demo:6443\n  name: demo\nusers:\n- name: kubernetes-admin\n  user:\n    \
                        client-certificate-data: Y3J0\n    client-key-data: a2V5\n";

    #[test]
    fn admin_conf_is_read_as_kubeadm_writes_it_and_any_other_is_for_kubectl() {
        let api = Api::parse(CONF).unwrap();
        assert_eq!((api.server.as_str(), api.ca.as_slice()), ("https://lb.demo:6443", b"ca".as_slice()));
        assert_eq!((api.certificate.as_slice(), api.key.as_slice()), (b"crt".as_slice(), b"key".as_slice()));
        assert!(!format!("{api:?}").contains("key"), "a secret would be shown");
        assert!(Api::parse(&CONF.replace("client-key-data", "client-key")).is_none());
        let second = format!("{CONF}- name: other\n  user:\n    client-key-data: b3RoZXI=\n");
        assert!(Api::parse(&second).is_none(), "which user is meant is not ours to guess");
    }
}
