//! Kernel modules, now and at boot. A built-in module counts as loaded.

use std::collections::{BTreeMap, BTreeSet};

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

/// Folders of files with names of modules (modules-load.d(5)): a file hides those with the same name in later folders.
const FOLDERS: [&str; 4] =
    ["/etc/modules-load.d", "/run/modules-load.d", "/usr/local/lib/modules-load.d", "/usr/lib/modules-load.d"];
/// Those of these modules that the next boot has, for facts.
pub(crate) fn at_boot(machine: &Machine, names: &[&str]) -> Result<BTreeSet<String>, OpError> {
    let same = |name: &str| name.replace('-', "_");
    let loaded = fsio::read_text(&machine.path("/proc/modules"))?.unwrap_or_default();
    let is_loaded = |name: &str| loaded.lines().any(|line| line.split(' ').next() == Some(name));
    let listed = listed(machine)?;
    let mut found = BTreeSet::new();
    for name in names {
        let built_in = || Ok::<_, OpError>(!is_loaded(&same(name)) && present(machine, name)?);
        if listed.iter().any(|listed| same(listed) == same(name)) || built_in()? {
            found.insert((*name).to_owned());
        }
    }
    Ok(found)
}

fn listed(machine: &Machine) -> Result<BTreeSet<String>, OpError> {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for folder in FOLDERS {
        let Ok(entries) = std::fs::read_dir(machine.path(folder)) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".conf") {
                files.entry(name.clone()).or_insert_with(|| format!("{folder}/{name}"));
            }
        }
    }
    let mut found = BTreeSet::new();
    // /etc/modules counts where a link in these folders names it, as on Debian.
    for path in files.values() {
        let text = fsio::read_text(&machine.path(path)).unwrap_or_default().unwrap_or_default();
        let names = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
        found.extend(names.map(str::to_owned));
    }
    Ok(found)
}
