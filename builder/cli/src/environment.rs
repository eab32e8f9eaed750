//! What the program passes to the library about this machine; only the program reads the environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use kubexm_builder::session::Environment;
use kubexm_spec::{ExitCode, names};
use kubexm_terminal::Failure;
use kubexm_transport::Credentials;

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn path(name: &str) -> Option<PathBuf> {
    variable(name).map(PathBuf::from)
}

/// The environment of this process.
pub fn environment() -> Environment {
    let user_home = path("HOME");
    let zone = |name: &'static str| Some((name, std::env::var(name).ok().filter(|text| !text.is_empty())?));
    Environment {
        home: path(names::HOME_ENV).or_else(|| user_home.as_ref().map(|home| home.join(names::HOME_DIR))),
        zones: [names::ZONE_ENV, names::OLD_ZONE_ENV].into_iter().filter_map(zone).collect(),
        programs: std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned)),
        registries: registries(),
        proxies: true,
        user_home,
    }
}

/// `$REGISTRY_AUTH_FILE` alone, else podman's and skopeo's place and then docker's (containers-auth.json(5)):
/// `$XDG_RUNTIME_DIR/containers/auth.json`, `~/.config/containers/auth.json`, `$DOCKER_CONFIG` or `~/.docker`.
pub fn credentials() -> Credentials {
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

/// Where podman and skopeo look (containers-registries.conf(5)): the user's file, or the system's with what lies in its folder
/// and in the user's.
fn registries() -> Vec<PathBuf> {
    let user = path("XDG_CONFIG_HOME").or_else(|| path("HOME").map(|home| home.join(".config")));
    let user = user.map(|config| config.join("containers"));
    let own = user.as_ref().map(|folder| folder.join("registries.conf")).filter(|file| file.is_file());
    let system = Path::new("/etc/containers");
    let mut files = Vec::new();
    match own {
        Some(own) => files.push(own),
        None => {
            files.push(system.join("registries.conf"));
            files.extend(dropped_in(&system.join("registries.conf.d")));
        }
    }
    files.extend(user.into_iter().flat_map(|folder| dropped_in(&folder.join("registries.conf.d"))));
    files
}

/// `*.conf` of a folder by name; none where there is no such folder.
fn dropped_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "conf")).collect();
    files.sort();
    files
}

/// `SOURCE_DATE_EPOCH` (reproducible-builds.org): the time that outputs depend on, in seconds of Unix time.
pub fn source_date() -> Result<Option<i64>, Failure> {
    let Some(text) = variable("SOURCE_DATE_EPOCH") else { return Ok(None) };
    let seconds = text.to_str().and_then(|text| text.parse::<u32>().ok());
    seconds.map(|seconds| Some(i64::from(seconds))).ok_or_else(|| {
        Failure::new(ExitCode::Usage, format!("SOURCE_DATE_EPOCH is {text:?}, and should be seconds of Unix time"))
    })
}
