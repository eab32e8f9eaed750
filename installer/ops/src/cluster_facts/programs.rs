//! Where the programs of Kubernetes are on a host, and which packages of the operating system they belong to: an upgrade of an adopted
//! cluster replaces none that a package manager would put back.

use std::collections::BTreeMap;

use kubexm_plan::cluster_facts::ProgramFacts;

use crate::system::Program;
use crate::systemd::systemctl;
use crate::teardown::mounts;
use crate::{Machine, OpError, paths};

const UNIT: &str = "kubelet.service";
/// Looked for in PATH. The last two take snapshots of etcd, and verify them.
const OTHERS: [&str; 4] = ["kubeadm", "kubectl", "etcdctl", "etcdutl"];
/// A stale lock of rpm's database would block for ever.
const LIMIT_S: u64 = 10;

/// Those that are there; kubelet only if its unit says which program it starts.
pub(super) fn look(machine: &Machine) -> Result<Vec<ProgramFacts>, OpError> {
    let kubelet = started(machine)?.map(|path| ("kubelet", path));
    let others = OTHERS.into_iter().filter_map(|name| Some((name, in_path(machine, name)?)));
    let found: Vec<(&str, String)> =
        kubelet.into_iter().chain(others).map(|(name, path)| (name, target(machine, path))).collect();
    let mut packages = packages(machine, found.iter().map(|(_, path)| path.as_str()));
    let all = found.into_iter().map(|(name, path)| {
        let package = packages.remove(&path);
        ProgramFacts { name: name.to_owned(), path, package }
    });
    Ok(all.collect())
}

/// `ExecStart={ path=/usr/bin/kubelet ; argv[]=… }`: that of the last drop-in that sets it.
fn started(machine: &Machine) -> Result<Option<String>, OpError> {
    let shown = machine.run(&systemctl(["show", UNIT, "--property=ExecStart"]))?.stdout();
    Ok(path_of(&shown).map(str::to_owned))
}

fn path_of(shown: &str) -> Option<&str> {
    let line = shown.lines().find_map(|line| line.strip_prefix("ExecStart="))?;
    let path = line.split_once("path=")?.1.split(" ;").next()?.trim();
    path.starts_with('/').then_some(path)
}

fn in_path(machine: &Machine, name: &str) -> Option<String> {
    paths::PATH.split(':').map(|folder| format!("{folder}/{name}")).find(|path| machine.path(path).is_file())
}

/// What a link leads to: to replace the link would leave its target to whoever reads that.
fn target(machine: &Machine, path: String) -> String {
    match (machine.path(&path).canonicalize(), machine.root().canonicalize()) {
        (Ok(real), Ok(root)) => real.strip_prefix(&root).map_or(path, |below| mounts::named(machine, below)),
        _ => path,
    }
}

/// By path. A file that no package has is in none; so is everything where no package manager answers, as one that cannot answer takes
/// nothing back.
fn packages<'p>(machine: &Machine, files: impl Iterator<Item = &'p str>) -> BTreeMap<String, String> {
    let files: Vec<&str> = files.collect();
    let said = |program: &Program| machine.try_run(program).map(|output| output.stdout()).unwrap_or_default();
    let mut found = BTreeMap::new();
    if in_path(machine, "dpkg-query").is_some() {
        let search = Program::new("dpkg-query").arg("--search").args(files.iter().copied()).within(LIMIT_S);
        let text = said(&search);
        let owned = text.lines().filter_map(|line| line.split_once(": "));
        found.extend(owned.map(|(package, path)| (path.trim().to_owned(), package.to_owned())));
    }
    if in_path(machine, "rpm").is_some() {
        for path in files {
            let query = Program::new("rpm").args(["--query", "--queryformat", "%{NAME}", "--file", path]);
            match machine.try_run(&query.within(LIMIT_S)) {
                Ok(output) if output.code == 0 => {
                    drop(found.insert(path.to_owned(), output.stdout().trim().to_owned()))
                }
                _ => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_of_a_unit_is_the_one_that_is_started_and_not_one_of_its_arguments() {
        let shown = "ExecStart={ path=/usr/local/bin/kubelet ; argv[]=/usr/local/bin/kubelet $KUBECONFIGS --path=/etc ; ignore_errors=no }\n";
        assert_eq!(path_of(shown), Some("/usr/local/bin/kubelet"));
        assert_eq!(path_of("ExecStart={ path=/bin/sh ; argv[]=/bin/sh -c exec kubelet ; }\n"), Some("/bin/sh"));
        assert_eq!([path_of(""), path_of("ExecStart=\n")], [None, None]);
    }
}
