//! Address and credentials of the API server, from admin.conf.

use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kubexm_spec::Digest;

use crate::system::Connections;

/// The last credentials that were read, with the digest of their file: their connections stay open.
#[derive(Debug, Default)]
pub(crate) struct LastCredentials(Mutex<Option<(Digest, Option<Arc<Credentials>>)>>);

impl LastCredentials {
    /// Of a file with this text.
    pub(super) fn of(&self, text: &str) -> Option<Arc<Credentials>> {
        let digest = Digest::of(text);
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((of, known)) if *of == digest => known.clone(),
            _ => {
                let read = Credentials::parse(text).map(Arc::new);
                *last = Some((digest, read.clone()));
                read
            }
        }
    }
}

/// Address and credentials of the API server, from admin.conf.
pub(crate) struct Credentials {
    pub(super) server: String,
    pub(super) ca: Vec<u8>,
    pub(super) certificate: Vec<u8>,
    pub(super) key: Vec<u8>,
    pub(super) connections: Connections,
}

// The key is a secret.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Parses kubeadm's format: one cluster and one user, each value on a separate line. None for other files, which
    /// kubectl can use.
    pub(super) fn parse(text: &str) -> Option<Self> {
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
            connections: Connections::default(),
        })
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
        let api = Credentials::parse(CONF).unwrap();
        assert_eq!((api.server.as_str(), api.ca.as_slice()), ("https://lb.demo:6443", b"ca".as_slice()));
        assert_eq!((api.certificate.as_slice(), api.key.as_slice()), (b"crt".as_slice(), b"key".as_slice()));
        assert!(!format!("{api:?}").contains("key"), "a secret would be shown");
        assert!(Credentials::parse(&CONF.replace("client-key-data", "client-key")).is_none());
        let second = format!("{CONF}- name: other\n  user:\n    client-key-data: b3RoZXI=\n");
        assert!(Credentials::parse(&second).is_none(), "which user is meant is not ours to guess");
    }
}
