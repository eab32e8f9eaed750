//! Registries and web servers that bundles are at: what the user said about them, once for all verbs.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use kubexm_archive::{Bundle, ReadAt};
use kubexm_spec::digest::Hasher;
use kubexm_spec::{Digest, ExitCode};
use kubexm_terminal::{Display, Failure, Mode};
use kubexm_transport::{Credentials, FileCandidate, HttpFile, HttpOptions, RegistriesConf, Watch};

/// Where a bundle is an address: a registry (push, pull) or a web server (any verb that reads one).
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Network {
    /// Allow http:// for the bundle's web server or registry; without it only https is spoken
    #[arg(long, global = true, hide = true, help_heading = "A bundle at an address")]
    plain_http: bool,
    /// CA certificates (PEM) to trust for it besides the usual ones
    #[arg(long, global = true, hide = true, value_name = "FILE", help_heading = "A bundle at an address")]
    ca_file: Option<PathBuf>,
}

/// What was said of an address and is not to be shown: by the address as it is shown, the whole of it.
static WHOLE: OnceLock<HashMap<String, String>> = OnceLock::new();

/// The arguments with addresses as they may be shown: without a name, a password and a query, which may be a key; with a
/// number where two are then alike. The whole address is known here only.
pub fn without_secrets(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut whole = HashMap::new();
    let shown = arguments
        .map(|argument| {
            let Some(text) = argument.to_str() else { return argument };
            let (option, address) = match text.split_once('=') {
                Some((option, address)) if option.starts_with("--") => (format!("{option}="), address),
                _ => (String::new(), text),
            };
            if let Some(shown) = registry_without_login(address) {
                return format!("{option}{shown}").into();
            }
            if is_address(Path::new(address)).is_none() {
                return argument;
            }
            let plain = kubexm_transport::http::shown(address);
            // `shown` leaves no fragment, so these are names of nothing else.
            let names = std::iter::once(plain.clone()).chain((2..).map(|number: usize| format!("{plain}#{number}")));
            let is_free = |name: &String| whole.get(name).is_none_or(|known: &String| known == address);
            let shown = names.into_iter().find(is_free).unwrap_or(plain);
            whole.insert(shown.clone(), address.to_owned());
            format!("{option}{shown}").into()
        })
        .collect();
    let _ = WHOLE.set(whole);
    shown
}

/// An address of a registry with a login in it, which is refused later, as it may be shown.
fn registry_without_login(address: &str) -> Option<String> {
    let (login, rest) = address.strip_prefix("oci://")?.split_once('@')?;
    (!login.contains('/')).then(|| format!("oci://***@{rest}"))
}

/// Set once, before the verb runs: bundles are opened deep inside of verbs that know nothing of networks.
static SAID: OnceLock<Network> = OnceLock::new();

impl Network {
    /// For the rest of the run.
    pub fn keep(self) {
        // It is set in one place only.
        let _ = SAID.set(self);
    }

    /// Whether anything was said.
    pub fn is_said(&self) -> bool {
        self.plain_http || self.ca_file.is_some()
    }
}

/// Who is told for whom transfers wait.
static TOLD: OnceLock<&'static Display> = OnceLock::new();

/// For the rest of the run.
pub fn tell(display: &'static Display) {
    // It is set in one place only.
    let _ = TOLD.set(display);
}

/// How to talk to origins. People are told when one is waited for; programs are by the verbs whose output is events.
pub fn options(events: bool) -> HttpOptions {
    let told = TOLD.get().copied().filter(|display| events || display.mode() != Mode::Json);
    let watch = told.map(|display| Watch::new(|kind| display.emit(kind))).unwrap_or_default();
    HttpOptions { watch, ..HttpOptions::default() }
}

/// Whether plain http may be spoken.
pub fn plain_http() -> bool {
    SAID.get().is_some_and(|said| said.plain_http)
}

/// The CA file that was given.
pub fn ca_file() -> Option<PathBuf> {
    SAID.get().and_then(|said| said.ca_file.clone())
}

/// Whether a bundle is named by an address of a web server.
pub fn is_address(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| text.starts_with("https://") || text.starts_with("http://"))
}

/// Opens a bundle on a web server; only what is read of it moves.
pub fn open(address: &str) -> Result<Bundle, Failure> {
    if address.starts_with("http://") && !plain_http() {
        return Err(Failure::new(
            ExitCode::Usage,
            format!(
                "{} is plain http, where anybody on the way can read and change it: use https, or give --plain-http",
                kubexm_transport::http::shown(address)
            ),
        ));
    }
    let whole = WHOLE.get().and_then(|all| all.get(address)).map_or(address, String::as_str);
    let candidate = FileCandidate { plain_http_allowed: plain_http(), ca_file: ca_file(), ..FileCandidate::new(whole) };
    let file = HttpFile::open(&candidate, options(false)).map_err(|e| Failure::from_error(e.exit_code(), &e))?;
    let (name, file) = (PathBuf::from(file.name()), Arc::new(file));
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&file));
    Bundle::open_source(name, file).map_err(|e| Failure::from_error(e.exit_code(), &e))
}

/// Bundles that are read over the network in this run.
static OPEN: Mutex<Vec<Arc<HttpFile>>> = Mutex::new(Vec::new());

/// Name without folders and digest of a file that was opened here by its address; all of it is read.
pub fn digest(address: &str) -> Result<Option<(String, Digest)>, Failure> {
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let wanted = kubexm_transport::http::shown(address);
    let Some(file) = open.iter().find(|file| file.name() == wanted) else { return Ok(None) };
    let (mut hasher, mut piece, mut done) = (Hasher::default(), vec![0; PIECE], 0);
    while done < file.len() {
        let read = file.read_at(&mut piece, done);
        let read = read.map_err(|e| Failure::new(ExitCode::OriginDown, format!("cannot read {wanted}: {e}")))?;
        if read == 0 {
            return Err(Failure::new(ExitCode::OriginDown, format!("{wanted} ends before its length")));
        }
        hasher.update(&piece[..read]);
        done += read as u64;
    }
    let name = wanted.rsplit('/').next().unwrap_or_default().to_owned();
    Ok(Some((name, hasher.finish())))
}

/// Bytes that are asked for at once where all of a file is read.
const PIECE: usize = 8 << 20;

/// Why a bundle could no longer be read over the network, if one was given up.
pub fn failure() -> Option<(ExitCode, String)> {
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.iter().find_map(|file| file.failure())
}

/// A verb that failed because a bundle could no longer be read over the network says so, whatever the bytes that did not
/// come were taken for.
pub fn explained(result: Result<(), Failure>) -> Result<(), Failure> {
    let Err(found) = result else { return Ok(()) };
    match failure() {
        // What was answered already keeps its words.
        Some((code, _)) if found.text.is_empty() => Err(Failure { code, ..found }),
        Some((code, text)) => Err(Failure { code, text, ..found }),
        None => Err(found),
    }
}

fn environment(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// `$REGISTRY_AUTH_FILE` alone, else podman's and skopeo's place and then docker's (containers-auth.json(5)):
/// `$XDG_RUNTIME_DIR/containers/auth.json`, `~/.config/containers/auth.json`, `$DOCKER_CONFIG` or `~/.docker`.
pub fn credentials() -> Credentials {
    if let Some(file) = environment("REGISTRY_AUTH_FILE") {
        return Credentials::file(file);
    }
    let home = environment("HOME");
    let config = environment("XDG_CONFIG_HOME").or_else(|| home.as_ref().map(|home| home.join(".config")));
    let docker = environment("DOCKER_CONFIG").or_else(|| home.map(|home| home.join(".docker")));
    let containers = environment("XDG_RUNTIME_DIR").into_iter().chain(config);
    let containers = containers.map(|folder| folder.join("containers/auth.json"));
    Credentials::looked_up_in(containers.chain(docker.map(|folder| folder.join("config.json"))))
}

/// A file that was named alone; else where podman and skopeo look (containers-registries.conf(5)): the user's file, or the
/// system's with what lies in its folder and in the user's.
pub fn registries(named: Option<&Path>) -> Result<RegistriesConf, Failure> {
    let failed = |e: kubexm_transport::TransportError| Failure::from_error(e.exit_code(), &e);
    if let Some(file) = named {
        return RegistriesConf::read(&[file.to_owned()], true).map_err(failed);
    }
    let user = environment("XDG_CONFIG_HOME").or_else(|| environment("HOME").map(|home| home.join(".config")));
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
    RegistriesConf::read(&files, false).map_err(failed)
}

/// `*.conf` of a folder by name; none where there is no such folder.
fn dropped_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "conf")).collect();
    files.sort();
    files
}
