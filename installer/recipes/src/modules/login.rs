//! The login of the cluster's own depot and registry (`spec.registry.auths`), as its clients and servers keep it.
//!
//! A client must be able to show the password, so its file is readable by root only. A server gets a hash.

use kubexm_plan::op::File;
use kubexm_plan::{LoginForm, SlotProvider};
use kubexm_spec::cluster::RegistryLogin;

use crate::draft::Draft;

/// Slot of the header that clients send.
pub const HEADER_SLOT: &str = "depot-login";
/// Slot of the line that servers compare it with.
const HTPASSWD_SLOT: &str = "depot-htpasswd";

/// Who makes a login in this form.
pub fn provider(login: RegistryLogin<'_>, form: LoginForm) -> SlotProvider {
    SlotProvider::RegistryLogin { field: login.field(), username: login.username.to_owned(), form }
}

/// The file of a client; none if the depot demands no login.
pub fn client_file(draft: &mut Draft<'_>, path: &str) -> Option<File> {
    let login = draft.cx.cluster.depot_login()?;
    Some(draft.slot_file(path, 0o600, HEADER_SLOT, provider(login, LoginForm::Header)))
}

/// The file of a server; none if it demands no login.
pub fn server_file(draft: &mut Draft<'_>, path: &str, mode: u32) -> Option<File> {
    let login = draft.cx.cluster.depot_login()?;
    Some(draft.slot_file(path, mode, HTPASSWD_SLOT, provider(login, LoginForm::Htpasswd)))
}

/// The path of a login's file for what reads it; none if there is none.
pub fn path_of(file: Option<&File>) -> Option<String> {
    file.map(|file| file.path.clone())
}
