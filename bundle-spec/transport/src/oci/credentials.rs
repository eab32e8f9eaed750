//! Credentials of registries: docker's `config.json` with its helpers, and the `auth.json` of podman and skopeo, which has
//! the same form and may also name a namespace (containers-auth.json(5)).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use docker_credential::{CredentialRetrievalError, DockerCredential};
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::{TransportError, bounded};

/// Where credentials are looked up. The caller says where; nothing is read from the environment here.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// For one registry, before any file.
    given: Option<Arc<Given>>,
    places: Vec<Place>,
    namespaces: Arc<OnceLock<BTreeSet<String>>>,
}

/// A name and a password for one registry alone.
struct Given {
    registry: String,
    user: String,
    password: Zeroizing<String>,
}

impl std::fmt::Debug for Given {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Given").field("registry", &self.registry).finish_non_exhaustive()
    }
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

/// The form of a file, as docker_credential reads it too. It says less of one that it cannot read.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Form {
    #[serde(default)]
    auths: Option<BTreeMap<String, Entry>>,
    #[serde(default)]
    creds_store: Option<String>,
    #[serde(default)]
    cred_helpers: Option<BTreeMap<String, String>>,
}

/// Only whether these are texts.
#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "auth")]
    _auth: Option<String>,
    #[serde(rename = "username")]
    _username: Option<String>,
    #[serde(rename = "password")]
    _password: Option<String>,
    #[serde(rename = "identitytoken")]
    _identity_token: Option<String>,
}

impl Form {
    /// Names of programs, without `docker-credential-`.
    fn helpers(&self) -> impl Iterator<Item = &String> {
        self.cred_helpers.iter().flat_map(BTreeMap::values).chain(&self.creds_store)
    }
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
        Self { given: None, places, namespaces: Arc::default() }
    }

    /// From this very file, which must be there: the one of `REGISTRY_AUTH_FILE`.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { given: None, places: vec![Place { path: path.into(), named: true }], namespaces: Arc::default() }
    }

    /// With a name and a password for one registry (`host[:port]`), which count before what files say. No other registry is
    /// shown them.
    #[must_use]
    pub fn with_password(self, registry: &str, user: &str, password: Zeroizing<String>) -> Self {
        let given = Given { registry: registry.to_owned(), user: user.to_owned(), password };
        Self { given: Some(Arc::new(given)), ..self }
    }

    /// The password that the files have for a user of a registry. May run a credential helper: call it from a blocking task.
    ///
    /// # Errors
    /// A file cannot be used, or has no password of this user. What is in it is not shown, and a helper only by its name.
    pub fn password(&self, registry: &str, user: &str) -> Result<Zeroizing<String>, TransportError> {
        let auth = self.of(registry, registry)?;
        let path = self.places.first().map(|place| place.path.clone()).unwrap_or_default();
        let wrong = |problem: String| Err(TransportError::Credentials { path, problem, whole: false });
        match auth {
            Auth::Basic(found, password) if found == user => Ok(Zeroizing::new(password)),
            Auth::Basic(..) => wrong(format!(
                "its login for {registry} is of another user than {user}: log in as {user} (`docker login {registry}`), or name the other user"
            )),
            Auth::IdentityToken(_) => wrong(format!(
                "it has an identity token for {registry}, which is no password: log in with a password or an access token of {user}"
            )),
            Auth::Anonymous => {
                wrong(format!("it has no login for {registry}: log in as {user} (`docker login {registry}`)"))
            }
        }
    }

    /// What part of a registry the credentials of a repository are about: a namespace that a file names, or all of it.
    pub(crate) fn scope(&self, registry: &str, repository: &str) -> String {
        let known = self.namespaces.get_or_init(|| {
            let keys = self.places.iter().filter_map(|place| bounded::read(&place.path).ok());
            let keys = keys.filter_map(|bytes| serde_json::from_slice::<Form>(&bytes).ok());
            keys.flat_map(|form| form.auths.unwrap_or_default().into_keys()).filter(|key| is_namespace(key)).collect()
        });
        let mut scope = format!("{registry}/{repository}");
        while scope.contains('/') && !known.contains(&scope) {
            scope.truncate(scope.rfind('/').unwrap_or(0));
        }
        scope
    }

    /// What to show a registry for a scope of it. May run a credential helper: call it from a blocking task.
    pub(crate) fn of(&self, registry: &str, scope: &str) -> Result<Auth, TransportError> {
        if let Some(given) = self.given.as_ref().filter(|given| given.registry == registry) {
            return Ok(Auth::Basic(given.user.clone(), given.password.to_string()));
        }
        for place in &self.places {
            let Some((bytes, form)) = read(place)? else { continue };
            for server in servers(registry, scope) {
                match of_file(&place.path, &bytes, &form, server)? {
                    Auth::Anonymous => {}
                    auth => return Ok(auth),
                }
            }
        }
        Ok(Auth::Anonymous)
    }
}

/// Under which keys a registry is, the closest first.
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

/// A file and its form; none where there is none, or nothing in it.
fn read(place: &Place) -> Result<Option<(Vec<u8>, Form)>, TransportError> {
    let path = &place.path;
    let wrong = |problem| TransportError::Credentials { path: path.clone(), problem, whole: true };
    let bytes = match bounded::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !place.named => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(wrong("it is not there; name the file that `docker login` or `podman login` wrote (--auth-file, REGISTRY_AUTH_FILE, or dockerConfig in cluster.yaml)".to_owned()));
        }
        Err(error) if error.kind() == io::ErrorKind::IsADirectory && place.named => {
            return Err(wrong("it is a folder: name the file in it (config.json, auth.json)".to_owned()));
        }
        // What docker makes of a mount from a file that is not there.
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
            return Err(wrong(
                "it is a folder and no file; move it away, and log in again (`docker login`)".to_owned(),
            ));
        }
        Err(error) => return Err(wrong(format!("it cannot be read: {error}; let this user read it, or move it away"))),
    };
    if let Some(found) = kubexm_spec::not_utf8(&bytes) {
        return Err(wrong(format!("it is not UTF-8{found}; save it as UTF-8, or log in again (`docker login`)")));
    }
    // docker and podman take an empty one for one without entries.
    if bytes.trim_ascii().is_empty() {
        return Ok(None);
    }
    match serde_json::from_slice::<Form>(&bytes) {
        // It would be run from elsewhere than where PATH leads.
        Ok(form) if form.helpers().any(|name| name.contains('/')) => {
            Err(wrong("a credential helper in it has a path for a name; take it out".to_owned()))
        }
        Ok(form) => Ok(Some((bytes, form))),
        // Not the error's own words: they may repeat what is there.
        Err(error) => {
            let place = format!("line {}, column {}", error.line(), error.column());
            let problem = match error.classify() {
                serde_json::error::Category::Data => format!(
                    "{place} is not as docker writes it (`auths` and `credHelpers` by registry, `credsStore` a name, all values texts)"
                ),
                _ => format!("it is not JSON ({place})"),
            };
            Err(wrong(format!("{problem}; fix it, or move it away and log in again (`docker login`)")))
        }
    }
}

fn of_file(path: &Path, bytes: &[u8], form: &Form, server: &str) -> Result<Auth, TransportError> {
    let wrong = |problem| TransportError::Credentials { path: path.to_owned(), problem, whole: false };
    let again = |what: &str| format!("{what}; log in again (`docker login {server}`), or take the entry out");
    let error = match docker_credential::get_credential_from_reader(bytes, server) {
        Ok(DockerCredential::UsernamePassword(user, password)) => return Ok(Auth::Basic(user, password)),
        Ok(DockerCredential::IdentityToken(token)) => return Ok(Auth::IdentityToken(token)),
        Err(error) => error,
    };
    // A helper's own output may hold a secret: only its name is reported.
    let helper = || {
        let own = form.cred_helpers.as_ref().and_then(|helpers| helpers.get(server)).filter(|name| !name.is_empty());
        let (name, by) =
            own.map(|name| (name, "credHelpers")).or(form.creds_store.as_ref().map(|name| (name, "credsStore")))?;
        Some(format!("the credential helper docker-credential-{name} of {server} ({by})"))
    };
    let helper = || helper().unwrap_or_else(|| format!("the credential helper of {server}"));
    Err(wrong(match error {
        CredentialRetrievalError::NoCredentialConfigured => return Ok(Auth::Anonymous),
        // Helpers answer so for hosts they do not know.
        CredentialRetrievalError::HelperFailure { stdout, .. } if stdout.contains("credentials not found") => {
            return Ok(Auth::Anonymous);
        }
        CredentialRetrievalError::HelperFailure { .. } => format!("{} fails; log in again, or take it out", helper()),
        CredentialRetrievalError::HelperCommunicationError => {
            format!("{} cannot be run; install it where PATH leads, or take it out", helper())
        }
        CredentialRetrievalError::MalformedHelperResponse => {
            format!("{} answers with something other than a name and a secret; fix it, or take it out", helper())
        }
        CredentialRetrievalError::CredentialDecodingError => {
            again(&format!("`auth` of its entry for {server} is not the base64 of name:password"))
        }
        CredentialRetrievalError::CredentialMismatchError => {
            again(&format!("`auth` of its entry for {server} differs from `username` and `password` there"))
        }
        CredentialRetrievalError::ConfigNotFound | CredentialRetrievalError::ConfigReadError => {
            again(&format!("its entry for {server} cannot be read"))
        }
    }))
}

#[cfg(test)]
mod tests {
    use std::fs;

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
    fn a_password_is_given_for_its_registry_and_its_user_alone_and_a_refusal_shows_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        let text = serde_json::json!({
            "auths": {
                "r.test:5000": {"auth": auth("robot")}, "https://old.test/v1/": {"auth": auth("robot")},
                "r.test/team": {"auth": auth("other")}, "token.test": {"identitytoken": "sesame-token"},
            },
            "credHelpers": {"helper.test": "kubexm-not-there"},
        });
        fs::write(&path, text.to_string()).unwrap();
        let credentials = Credentials::file(&path);
        for registry in ["r.test:5000", "old.test"] {
            assert_eq!(credentials.password(registry, "robot").unwrap().as_str(), "secret");
        }
        for (registry, user, said) in [
            ("r.test:5000", "alice", "is of another user than alice"),
            ("r.test", "robot", "no login for r.test"),
            ("token.test", "robot", "an identity token"),
            ("helper.test", "robot", "docker-credential-kubexm-not-there of helper.test"),
        ] {
            let error = credentials.password(registry, user).unwrap_err();
            let text = format!("{error} {error:?}");
            assert!(text.contains(said) && text.contains("config.json"), "{text}");
            assert!(!text.contains("sesame") && !text.contains("robot:") && !text.contains("secret"), "{text}");
        }
        fs::write(&path, r#"{"credsStore": "x/../../tmp/evil"}"#).unwrap();
        let error = Credentials::file(&path).password("r.test", "robot").unwrap_err().to_string();
        assert!(error.contains("a path for a name") && !error.contains("evil"), "{error}");
        let folder = Credentials::file(dir.path()).password("r.test", "robot").unwrap_err().to_string();
        assert!(folder.contains("it is a folder: name the file in it"), "{folder}");
    }

    #[test]
    fn a_file_that_was_named_must_be_there_and_a_broken_one_is_reported_without_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("auth.json");
        let error = Credentials::file(&path).of("a.test", "a.test").unwrap_err();
        assert!(error.to_string().contains("auth.json") && error.to_string().contains("is not there"), "{error}");
        fs::write(&path, " \n").unwrap();
        assert_eq!(name(&Credentials::file(&path), "a.test", "a"), "nobody", "docker and podman take it so");
        fs::write(&path, "{\"auths\": {\"a.test\": {\"auth\": \"sesame\"").unwrap();
        let error = Credentials::looked_up_in([path]).of("a.test", "a.test").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("sesame"), "{error:?}");
    }
}
