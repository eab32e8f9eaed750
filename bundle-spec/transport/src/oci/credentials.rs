//! Credentials of registries, from a docker `config.json` (also podman's `auth.json`, which has the same form).

use std::fs::File;
use std::io::{self, BufReader};
use std::path::PathBuf;

use docker_credential::{CredentialRetrievalError, DockerCredential};
use oci_distribution::secrets::RegistryAuth;

use crate::TransportError;

/// Where credentials are looked up. The caller says where; nothing is read from the environment here.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    config: Option<PathBuf>,
}

impl Credentials {
    /// Every registry is asked without a name.
    pub fn anonymous() -> Self {
        Self::default()
    }

    /// From `config.json` in this folder (`$DOCKER_CONFIG`, or `~/.docker`), with its helpers. Without the file, as
    /// [`Credentials::anonymous`].
    pub fn docker_config_dir(dir: impl Into<PathBuf>) -> Self {
        Self { config: Some(dir.into().join("config.json")) }
    }

    /// From this very file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { config: Some(path.into()) }
    }

    /// What to show a registry. May run a credential helper: call it from a blocking task.
    pub(crate) fn of(&self, registry: &str) -> Result<RegistryAuth, TransportError> {
        let Some(path) = &self.config else { return Ok(RegistryAuth::Anonymous) };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(RegistryAuth::Anonymous),
            Err(error) => return Err(self.wrong(format!("cannot be read: {error}"))),
        };
        // Docker Hub's own entry is under the address of its first API.
        let server = match registry {
            "docker.io" | "index.docker.io" | "registry-1.docker.io" => "https://index.docker.io/v1/",
            other => other,
        };
        match docker_credential::get_credential_from_reader(BufReader::new(file), server) {
            Ok(DockerCredential::UsernamePassword(user, password)) => Ok(RegistryAuth::Basic(user, password)),
            Ok(DockerCredential::IdentityToken(_)) => Err(TransportError::Denied {
                origin: registry.to_owned(),
                reason: format!(
                    "{} holds an identity token for it, which this program cannot use; log in with name and password",
                    path.display()
                ),
            }),
            Err(CredentialRetrievalError::NoCredentialConfigured) => Ok(RegistryAuth::Anonymous),
            // A helper's own output may hold a secret: only its name is told. Helpers answer so for hosts they do not know.
            Err(CredentialRetrievalError::HelperFailure { helper, stdout, .. }) => {
                if stdout.contains("credentials not found") {
                    return Ok(RegistryAuth::Anonymous);
                }
                Err(self.wrong(format!("its credential helper {helper} fails for {registry}")))
            }
            Err(error) => Err(self.wrong(format!("its entry for {registry}: {error}"))),
        }
    }

    fn wrong(&self, problem: String) -> TransportError {
        let path = self.config.as_deref().map(|path| path.display().to_string()).unwrap_or_default();
        TransportError::Setting { what: format!("registry credentials in {path}"), problem }
    }
}
