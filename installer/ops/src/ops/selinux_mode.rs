//! SELinux at most permissive, now and at boot. Never `disabled`: going back would need a relabel.

use kubexm_plan::op::{Modes, SelinuxMode};

use crate::fsio;
use crate::path_state::{self, Look, PathState, PutBack};
use crate::{Converge, Machine, OpError, Wave};

const ENFORCE: &str = "/sys/fs/selinux/enforce";
const CONFIG: &str = "/etc/selinux/config";

impl Converge for SelinuxMode {
    fn observe(&self, machine: &Machine) -> Result<Modes, OpError> {
        Ok(Modes {
            enforcing: fsio::read_text(&machine.path(ENFORCE))?.map(|text| text.trim() == "1"),
            configured: fsio::read_text(&machine.path(CONFIG))?.and_then(|text| configured(&text)),
            config: PathState::look(machine, CONFIG)?,
        })
    }

    fn satisfied(&self, found: &Modes, _: &Machine) -> bool {
        found.enforcing != Some(true) && found.configured.as_deref() != Some("enforcing")
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        vec![CONFIG.to_owned()]
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let path = machine.path(CONFIG);
        if let Some(text) = fsio::read_text(&path)?
            && configured(&text).as_deref() == Some("enforcing")
        {
            let mut permissive: String = text
                .lines()
                .map(|line| if is_setting(line) { "SELINUX=permissive" } else { line })
                .collect::<Vec<_>>()
                .join("\n");
            permissive.push('\n');
            let access = path_state::access_like(machine, CONFIG, 0o644)?;
            machine.write_file(CONFIG, &fsio::to_bytes(&permissive), access)?;
        }
        set(machine, false)
    }

    fn restore(&self, machine: &Machine, before: &Modes, wave: Wave) -> Result<(), OpError> {
        if wave != Wave::Data {
            return Ok(());
        }
        before.config.restore(machine)?;
        before.enforcing.map_or(Ok(()), |enforcing| set(machine, enforcing))
    }
}

/// Written in place: these are files of the kernel.
fn set(machine: &Machine, enforcing: bool) -> Result<(), OpError> {
    let path = machine.path(ENFORCE);
    match fsio::read_text(&path)? {
        Some(text) if (text.trim() == "1") != enforcing => {
            std::fs::write(&path, if enforcing { "1" } else { "0" }).map_err(OpError::path("write", &path))
        }
        _ => Ok(()),
    }
}

fn is_setting(line: &str) -> bool {
    line.trim_start().strip_prefix("SELINUX").is_some_and(|rest| rest.trim_start().starts_with('='))
}

fn configured(text: &str) -> Option<String> {
    let line = text.lines().rfind(|line| is_setting(line))?;
    Some(line.split_once('=')?.1.trim().to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    impl Cases for SelinuxMode {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[("SELinux", |h| {
            h.put("/sys/fs/selinux/enforce", "1");
            h.put("/etc/selinux/config", "# c\nSELINUX=enforcing\nSELINUXTYPE=targeted\n");
            SelinuxMode {}
        })]);
    }
}
