//! Logins of registries: what the operator gives, else what docker and podman have on this machine. Never a bundle's.

use std::path::{Path, PathBuf};

use kubexm_seed::Credentials;
use kubexm_session::{Credentials as _, Home};
use kubexm_spec::ExitCode;
use kubexm_spec::cluster::SecretSource;
use kubexm_terminal::Failure;
use zeroize::Zeroizing;

use super::secrets::Secrets;

/// A name with a password for one registry, or a file; else the places of docker and podman.
pub fn credentials(
    file: Option<&Path>,
    given: Option<(&str, &SecretSource)>,
    registry: &str,
    home: &Home,
) -> Result<Credentials, Failure> {
    if let Some((user, source)) = given {
        let wrong = |problem: String| Failure::new(ExitCode::Config, problem);
        let text = Secrets.secret(source, home).map_err(wrong)?;
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.is_empty() || line.contains(['\n', '\r']) {
            return Err(wrong("the password of --password-from is empty, or has more than one line".to_owned()));
        }
        let password = Zeroizing::new(line.to_owned());
        return Ok(Credentials::anonymous().with_password(registry, user, password));
    }
    if let Some(file) = file {
        return Ok(Credentials::file(file));
    }
    Ok(of_environment())
}

/// `$REGISTRY_AUTH_FILE` alone, else podman's places and then docker's (containers-auth.json(5)).
fn of_environment() -> Credentials {
    let path = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(file) = path("REGISTRY_AUTH_FILE") {
        return Credentials::file(file);
    }
    let home = path("HOME");
    let config = path("XDG_CONFIG_HOME").or_else(|| home.as_ref().map(|home| home.join(".config")));
    let docker = path("DOCKER_CONFIG").or_else(|| home.map(|home| home.join(".docker")));
    let containers = path("XDG_RUNTIME_DIR").into_iter().chain(config);
    let containers = containers.map(|folder| folder.join("containers/auth.json"));
    Credentials::looked_up_in(containers.chain(docker.map(|folder| folder.join("config.json"))))
}
