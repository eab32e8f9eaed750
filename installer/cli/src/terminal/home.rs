//! Folders of this machine, from the environment.

use std::path::PathBuf;

use kubexm_session::{Home, SessionError};
use kubexm_spec::{ExitCode, names};
use kubexm_terminal::Failure;

/// `$KUBEXM_HOME`, or `.kubexm` in the user's home. Absolute, so that printed commands can be given anywhere.
pub fn home() -> Result<Home, Failure> {
    let read = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let user = read("HOME");
    let root = match (read(names::HOME_ENV), &user) {
        (Some(root), _) => root,
        (None, Some(user)) => user.join(names::HOME_DIR),
        (None, None) => {
            let text = format!("neither {} nor HOME is set: set one", names::HOME_ENV);
            return Err(Failure::new(ExitCode::Config, text));
        }
    };
    let root = std::path::absolute(&root).map_err(|error| SessionError::disk("find", &root, &error))?;
    Ok(Home::new(root, user, read("SSH_AUTH_SOCK")))
}
