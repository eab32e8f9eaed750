//! Credentials of registries: docker's `config.json` with its helpers, and the `auth.json` of podman and skopeo, which has
//! the same form and may also name a namespace (containers-auth.json(5)).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use docker_credential::{CredentialRetrievalError, DockerCredential};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::TransportError;

/// Where credentials are looked up. The caller says where; nothing is read from the environment here.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    places: Vec<Place>,
    namespaces: Arc<OnceLock<BTreeSet<String>>>,
}

#[derive(Clone, Debug)]
struct Place {
    path: PathBuf,
    /// Named by the user: it must be there.
    named: bool,
}

/// What a registry is shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Auth {
    Anonymous,
    Basic(String, String),
    /// A refresh token of the token service (distribution, "OAuth2 token authentication").
    IdentityToken(String),
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Anonymous => "Anonymous",
            Self::Basic(..) => "Basic",
            Self::IdentityToken(_) => "IdentityToken",
        })
    }
}

/// What is read of a file here; the rest is docker_credential's.
#[derive(Default, Deserialize)]
struct Keys {
    #[serde(default)]
    auths: Option<BTreeMap<String, IgnoredAny>>,
}

impl Credentials {
    /// Every registry is asked without a name.
    pub fn anonymous() -> Self {
        Self::default()
    }

    /// From `config.json` in this folder (`$DOCKER_CONFIG`, or `~/.docker`), with its helpers. Without the file, as
    /// [`Credentials::anonymous`].
    pub fn docker_config_dir(dir: impl Into<PathBuf>) -> Self {
        Self::looked_up_in([dir.into().join("config.json")])
    }

    /// From these files in order; one that is not there is passed over. The first that has something for a registry counts.
    pub fn looked_up_in(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let places = paths.into_iter().map(|path| Place { path, named: false }).collect();
        Self { places, namespaces: Arc::default() }
    }

    /// From this very file, which must be there.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { places: vec![Place { path: path.into(), named: true }], namespaces: Arc::default() }
    }

    /// What part of a registry the credentials of a repository are about: a namespace that a file names, or all of it.
    pub(crate) fn scope(&self, registry: &str, repository: &str) -> String {
        let known = self.namespaces.get_or_init(|| {
            let keys = self.places.iter().filter_map(|place| fs::read(&place.path).ok());
            let keys = keys.filter_map(|bytes| serde_json::from_slice::<Keys>(&bytes).ok());
            keys.flat_map(|keys| keys.auths.unwrap_or_default().into_keys()).filter(|key| is_namespace(key)).collect()
        });
        let mut scope = format!("{registry}/{repository}");
        while scope.contains('/') && !known.contains(&scope) {
            scope.truncate(scope.rfind('/').unwrap_or(0));
        }
        scope
    }

    /// What to show a registry for a scope of it. May run a credential helper: call it from a blocking task.
    pub(crate) fn of(&self, registry: &str, scope: &str) -> Result<Auth, TransportError> {
        for place in &self.places {
            let bytes = match fs::read(&place.path) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound && !place.named => continue,
                Err(error) => return Err(wrong(&place.path, format!("cannot be read: {error}"))),
            };
            for server in servers(registry, scope) {
                match of_file(&place.path, &bytes, server)? {
                    Auth::Anonymous => {}
                    auth => return Ok(auth),
                }
            }
        }
        Ok(Auth::Anonymous)
    }
}

/// Under which keys a registry stands, the closest first.
fn servers<'a>(registry: &'a str, scope: &'a str) -> Vec<&'a str> {
    let mut servers = Vec::new();
    if scope != registry {
        servers.push(scope);
    }
    match registry {
        // Docker's own entry is under the address of its first API; podman's is under the name.
        "docker.io" | "index.docker.io" | "registry-1.docker.io" => {
            servers.extend(["https://index.docker.io/v1/", "docker.io"]);
        }
        other => servers.push(other),
    }
    servers
}

/// `quay.io/team`, not `quay.io` and not `https://index.docker.io/v1/`.
fn is_namespace(key: &str) -> bool {
    !key.contains("://") && key.split_once('/').is_some_and(|(_, rest)| !rest.is_empty() && !rest.starts_with("v1"))
}

fn of_file(path: &Path, bytes: &[u8], server: &str) -> Result<Auth, TransportError> {
    match docker_credential::get_credential_from_reader(bytes, server) {
        Ok(DockerCredential::UsernamePassword(user, password)) => Ok(Auth::Basic(user, password)),
        Ok(DockerCredential::IdentityToken(token)) => Ok(Auth::IdentityToken(token)),
        Err(CredentialRetrievalError::NoCredentialConfigured) => Ok(Auth::Anonymous),
        // A helper's own output may hold a secret: only its name is told. Helpers answer so for hosts they do not know.
        Err(CredentialRetrievalError::HelperFailure { helper, stdout, .. }) => {
            if stdout.contains("credentials not found") {
                return Ok(Auth::Anonymous);
            }
            Err(wrong(path, format!("its credential helper {helper} fails for {server}")))
        }
        Err(error) => Err(wrong(path, format!("its entry for {server}: {error}"))),
    }
}

fn wrong(path: &Path, problem: String) -> TransportError {
    TransportError::Setting { what: format!("registry credentials in {}", path.display()), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auth(name: &str) -> String {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.encode(format!("{name}:secret"))
    }

    fn name(credentials: &Credentials, registry: &str, repository: &str) -> String {
        match credentials.of(registry, &credentials.scope(registry, repository)).unwrap() {
            Auth::Basic(name, _) => name,
            Auth::IdentityToken(token) => format!("token {token}"),
            Auth::Anonymous => "nobody".to_owned(),
        }
    }

    #[test]
    fn the_closest_entry_counts_and_the_first_file_that_has_one() {
        let dir = tempfile::tempdir().unwrap();
        let (podman, docker) = (dir.path().join("auth.json"), dir.path().join("config.json"));
        let entry = |name: &str| serde_json::json!({ "auth": auth(name) });
        let first = serde_json::json!({"auths": {
            "quay.io": entry("all"), "quay.io/team": entry("team"), "quay.io/team/app": entry("app"), "docker.io": entry("hub"),
        }});
        let second = serde_json::json!({"auths": {
            "quay.io": entry("late"), "ghcr.io": entry("github"), "gitlab.test": {"identitytoken": "t1"},
            "https://index.docker.io/v1/": entry("late"), "https://old.test/v1/": entry("old"),
        }});
        fs::write(&podman, first.to_string()).unwrap();
        fs::write(&docker, second.to_string()).unwrap();
        let credentials = Credentials::looked_up_in([dir.path().join("none.json"), podman, docker]);
        for (registry, repository, expected) in [
            ("quay.io", "team/app", "app"),
            ("quay.io", "team/other", "team"),
            ("quay.io", "team/app2", "team"),
            ("quay.io", "teams/app", "all"),
            ("quay.io", "app", "all"),
            ("docker.io", "library/busybox", "hub"),
            ("ghcr.io", "a/b", "github"),
            ("gitlab.test", "a/b", "token t1"),
            ("old.test", "a/b", "old"),
            ("elsewhere.test", "a/b", "nobody"),
        ] {
            assert_eq!(name(&credentials, registry, repository), expected, "{registry}/{repository}");
        }
    }

    #[test]
    fn a_file_that_was_named_must_be_there_and_a_broken_one_is_told_without_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("auth.json");
        let error = Credentials::file(&path).of("a.test", "a.test").unwrap_err();
        assert!(error.to_string().contains("auth.json"), "{error}");
        fs::write(&path, "{\"auths\": {\"a.test\": {\"auth\": \"sesame\"").unwrap();
        let error = Credentials::looked_up_in([path]).of("a.test", "a.test").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("sesame"), "{error:?}");
    }
}
