//! Kernel modules, now and at boot. A built-in module counts as loaded.

use kubexm_plan::op::{KernelModule, Modules};

use crate::fsio::{self, Access};
use crate::path_state::{Look, PathState, PutBack};
use crate::system::Program;
use crate::{Converge, Machine, OpError, Wave};

impl Converge for KernelModule {
    fn observe(&self, machine: &Machine) -> Result<Modules, OpError> {
        let present = self
            .modules
            .iter()
            .map(|name| Ok((name.clone(), present(machine, name)?)))
            .collect::<Result<_, OpError>>()?;
        let settled = fsio::read(&machine.path(&self.path))?.is_some_and(|bytes| bytes == text(self).as_bytes());
        Ok(Modules { file: PathState::look(machine, &self.path)?, settled, present })
    }

    fn satisfied(&self, found: &Modules, _: &Machine) -> bool {
        found.settled && found.present.values().all(|present| *present)
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        vec![self.path.clone()]
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        for name in &self.modules {
            if !present(machine, name)? {
                machine.run(&Program::new("modprobe").arg(name.as_str()))?;
                if !present(machine, name)? {
                    return Err(OpError::other(format!(
                        "modprobe {name} succeeded, but the kernel does not show the module; look at `dmesg`"
                    )));
                }
            }
        }
        machine.write_file(&self.path, text(self).as_bytes(), Access::mode(0o644))
    }

    fn restore(&self, machine: &Machine, before: &Modules, wave: Wave) -> Result<(), OpError> {
        if wave != Wave::Data {
            return Ok(());
        }
        before.file.restore(machine)?;
        for (name, _) in before.present.iter().filter(|(_, present)| !**present) {
            // A module that is in use by now stays loaded, which is harmless.
            let _ = machine.try_run(&Program::new("modprobe").args(["-r", name]))?;
        }
        Ok(())
    }
}

fn text(op: &KernelModule) -> String {
    let mut text = String::from("# Managed by KubeXM: modules that Kubernetes needs.\n");
    for name in &op.modules {
        text.push_str(name);
        text.push('\n');
    }
    text
}

/// Loaded or built in.
pub(crate) fn present(machine: &Machine, name: &str) -> Result<bool, OpError> {
    let name = name.replace('-', "_");
    if machine.path(format!("/sys/module/{name}")).exists()
        || (name == "br_netfilter" && machine.path("/proc/sys/net/bridge").exists())
    {
        return Ok(true);
    }
    let filesystems = fsio::read_text(&machine.path("/proc/filesystems"))?.unwrap_or_default();
    if filesystems.lines().any(|line| line.split_whitespace().next_back() == Some(&name)) {
        return Ok(true);
    }
    let release = machine.system().kernel()?.release;
    let file = format!("/{}.ko", name.replace('_', "-"));
    for folder in ["/lib/modules", "/usr/lib/modules"] {
        let builtin = fsio::read_text(&machine.path(format!("{folder}/{release}/modules.builtin")))?;
        if builtin.is_some_and(|list| list.lines().any(|line| line.replace('_', "-").ends_with(&file))) {
            return Ok(true);
        }
    }
    Ok(false)
}
