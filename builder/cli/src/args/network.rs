//! Registries and web servers that bundles are at: what the user said about them, once for all verbs.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use kubexm_builder::session::{Session, is_address};
use kubexm_terminal::Failure;

// Where a bundle is an address: a registry (push, pull) or a web server (any verb that reads one). A doc comment here would become
// the help of every verb that gets these options.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Network {
    /// Allow http:// for the bundle's web server or registry; without it only https is spoken
    #[arg(long, help_heading = "A bundle at an address")]
    pub plain_http: bool,
    /// CA certificates (PEM) to trust for it besides the usual ones
    #[arg(long, value_name = "FILE", help_heading = "A bundle at an address")]
    pub ca_file: Option<PathBuf>,
}

/// The arguments with addresses as they may be shown: without a name, a password and a query, which may be a key; with a
/// number where two are then alike. And the whole addresses, by what is shown in their place.
pub fn without_secrets(arguments: impl Iterator<Item = OsString>) -> (Vec<OsString>, HashMap<String, String>) {
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
    (shown, whole)
}

/// An address of a registry with a login in it, which is refused later, as it may be shown.
fn registry_without_login(address: &str) -> Option<String> {
    let (login, rest) = address.strip_prefix("oci://")?.split_once('@')?;
    (!login.contains('/')).then(|| format!("oci://***@{rest}"))
}

/// A verb that failed because a bundle could no longer be read over the network says so, whatever the bytes that did not
/// come were taken for.
pub fn explained(result: Result<(), Failure>, session: &Session) -> Result<(), Failure> {
    let Err(found) = result else { return Ok(()) };
    match session.broken_off() {
        // What was answered already keeps its words.
        Some((code, _)) if found.text.is_empty() => Err(Failure { code, ..found }),
        Some((code, text)) => Err(Failure { code, text, ..found }),
        None => Err(found),
    }
}
