//! `apt-get`, `dpkg` and `dpkg-query` with a status file. Packages are taken from the links of kubexm's repository; each
//! installs one file.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::rooted::{FOLDER, RootedSystem};
use crate::system::Output;
use crate::{OpError, fsio};

const STATUS: &str = "/var/lib/dpkg/status";

/// Files of packages that matter outside of dpkg: a unit, its program.
const FILES: [(&str, &[(&str, &str)]); 2] = [
    (
        "chrony",
        &[
            ("/usr/sbin/chronyd", "#!/bin/true\n"),
            (
                "/lib/systemd/system/chrony.service",
                "[Service]\nExecStart=/usr/sbin/chronyd\n[Install]\nWantedBy=multi-user.target\n",
            ),
            (CHRONY_CONF, "pool 2.debian.pool.ntp.org iburst\n"),
        ],
    ),
    (
        "systemd-timesyncd",
        &[(
            "/lib/systemd/system/systemd-timesyncd.service",
            "[Service]\nExecStart=/usr/sbin/ip\n[Install]\nWantedBy=sysinit.target\n",
        )],
    ),
];
/// It stays until the package is purged.
const CHRONY_CONF: &str = "/etc/chrony/chrony.conf";

fn files(name: &str) -> &'static [(&'static str, &'static str)] {
    FILES.iter().find(|(package, _)| *package == name).map_or(&[], |(_, files)| files)
}

/// A package in the status: its version, its architecture, and whether more than its configuration is installed.
struct Package {
    version: String,
    arch: String,
    installed: bool,
}

type All = BTreeMap<String, Package>;

/// Runs one of the three programs; none for another program.
pub(super) fn run(system: &RootedSystem, name: &str, args: &[&str]) -> Result<Option<Output>, OpError> {
    let mut all = load(system);
    let output = match name {
        "apt-get" => apt_get(system, args, &mut all)?,
        "dpkg" => dpkg(system, args, &mut all)?,
        "dpkg-query" if args.first() == Some(&"--search") => return Ok(Some(owners(system, &args[1..]))),
        "dpkg-query" => return Ok(Some(query(args, &all))),
        _ => return Ok(None),
    };
    save(system, &all)?;
    Ok(Some(output))
}

fn apt_get(system: &RootedSystem, args: &[&str], all: &mut All) -> Result<Output, OpError> {
    let source = args.iter().find_map(|arg| arg.strip_prefix("Dir::Etc::sourcelist=")).unwrap_or_default();
    if !system.at(source).is_file() {
        return Ok(Output::failed(100, format!("E: Unable to read {source} - open (2: No such file or directory)")));
    }
    let folder = source.rsplit_once('/').map_or("", |(folder, _)| folder);
    let Some(place) = args.iter().position(|arg| *arg == "install") else { return Ok(Output::default()) };
    let simulated = args.contains(&"--simulate");
    let mut reported = String::new();
    for wanted in &args[place + 1..] {
        if let Some((name, version)) = wanted.split_once('=') {
            let (name, arch) = name.split_once(':').unwrap_or((name, "all"));
            let offered = std::fs::read_dir(system.at(folder)).into_iter().flatten().flatten().any(|entry| {
                entry.file_name().to_string_lossy().starts_with(&format!("{name}_"))
                    && std::fs::read_link(entry.path()).is_ok_and(|to| system.at(&to.to_string_lossy()).is_file())
            });
            if !offered {
                return Ok(Output::failed(100, format!("E: Unable to locate package {name}")));
            }
            // Writing to a String cannot fail.
            let _ = writeln!(reported, "Inst {name} ({version} kubexm [{arch}])");
            if !simulated {
                install(system, all, name, version, arch)?;
            }
        } else if let Some(name) = wanted.strip_suffix('-') {
            let _ = writeln!(reported, "Remv {name}");
            if !simulated {
                remove(system, all, name, false)?;
            }
        }
    }
    Ok(Output::text(reported))
}

fn dpkg(system: &RootedSystem, args: &[&str], all: &mut All) -> Result<Output, OpError> {
    let acts = !args.contains(&"--no-act");
    for arg in args.iter().filter(|arg| !arg.starts_with("--")) {
        if args.contains(&"--install") {
            let file = arg.rsplit('/').next().unwrap_or(arg).trim_end_matches(".deb");
            if let [name, version, arch] = file.split('_').collect::<Vec<_>>()[..] {
                install(system, all, name, &version.replace("%3a", ":"), arch)?;
            }
        } else if acts {
            let name = arg.split(':').next().unwrap_or(arg);
            remove(system, all, name, args.contains(&"--purge"))?;
        }
    }
    Ok(Output::default())
}

/// `dpkg-query --search`, by the lines of `dpkg-owners`: `kubelet: /usr/bin/kubelet`.
fn owners(system: &RootedSystem, files: &[&str]) -> Output {
    let owners = system.read(&format!("{FOLDER}/dpkg-owners")).unwrap_or_default();
    let named = |line: &&str| line.split_once(": ").is_some_and(|(_, path)| files.contains(&path));
    Output::text(owners.lines().filter(named).map(|line| format!("{line}\n")).collect::<String>())
}

fn query(args: &[&str], all: &All) -> Output {
    let Some(("--showformat", format_and_names)) = args.get(1).map(|first| (*first, &args[2..])) else {
        let mut text = String::new();
        let plain = args[1..].iter().map(|name| name.split(':').next().unwrap_or(name));
        for name in plain.filter(|name| all.get(*name).is_some_and(|known| known.installed)) {
            let _ = writeln!(text, "{}", path(name));
            for (file, _) in files(name) {
                let _ = writeln!(text, "{file}");
            }
        }
        return Output::text(text);
    };
    let mut text = String::new();
    let mut code = 0;
    for name in format_and_names.iter().skip(1) {
        match all.get(*name) {
            Some(Package { version, arch, installed }) => {
                let _ = writeln!(text, "{name}\t{arch}\t{}\t{version}", if *installed { "ii " } else { "rc " });
            }
            None => code = 1,
        }
    }
    Output { code, ..Output::text(text) }
}

fn install(system: &RootedSystem, all: &mut All, name: &str, version: &str, arch: &str) -> Result<(), OpError> {
    all.insert(name.to_owned(), Package { version: version.to_owned(), arch: arch.to_owned(), installed: true });
    let put = |path: &str, text: &str| {
        let file = system.at(path);
        fsio::make_parent(&file)?;
        std::fs::write(&file, text).map_err(OpError::path("write", &file))
    };
    for (path, text) in files(name) {
        // Existing configuration is kept.
        if *path != CHRONY_CONF || !system.at(path).exists() {
            put(path, text)?;
        }
    }
    put(&path(name), version)
}

fn remove(system: &RootedSystem, all: &mut All, name: &str, purged: bool) -> Result<(), OpError> {
    if purged {
        all.remove(name);
    } else if let Some(known) = all.get_mut(name) {
        known.installed = false;
    }
    for (path, _) in files(name).iter().filter(|(path, _)| purged || *path != CHRONY_CONF) {
        let file = system.at(path);
        fsio::remove(&file)?;
        if *path == CHRONY_CONF {
            let _ = file.parent().map(std::fs::remove_dir);
        }
    }
    let file = system.at(&path(name));
    fsio::remove(&file)?;
    // The package's own folder.
    file.parent().map_or(Ok(()), |folder| match std::fs::remove_dir(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(OpError::path("remove", folder)(error)),
        _ => Ok(()),
    })
}

/// Packages that are installed from the start, with their files.
pub(super) fn seed(system: &RootedSystem, status: &str) -> Result<(), OpError> {
    let file = system.at(STATUS);
    fsio::make_parent(&file)?;
    std::fs::write(&file, status).map_err(OpError::path("write", &file))?;
    let mut all = load(system);
    let known: Vec<(String, String, String)> =
        all.iter().map(|(name, known)| (name.clone(), known.version.clone(), known.arch.clone())).collect();
    known.iter().try_for_each(|(name, version, arch)| install(system, &mut all, name, version, arch))
}

fn path(name: &str) -> String {
    format!("/usr/share/doc/{name}/version")
}

fn load(system: &RootedSystem) -> All {
    let text = system.read(STATUS).unwrap_or_default();
    let field = |entry: &str, name: &str| {
        entry.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned()
    };
    let entries = text.split("\n\n").filter(|entry| !entry.trim().is_empty());
    let known = |entry: &str| {
        let (version, arch) = (field(entry, "Version:"), field(entry, "Architecture:"));
        (
            field(entry, "Package:"),
            Package { version, arch, installed: field(entry, "Status:").ends_with(" installed") },
        )
    };
    entries.map(known).collect()
}

fn save(system: &RootedSystem, all: &All) -> Result<(), OpError> {
    if all.is_empty() && !system.at(STATUS).exists() {
        return Ok(());
    }
    let mut text = String::new();
    for (name, Package { version, arch, installed }) in all {
        let status = if *installed { "install ok installed" } else { "deinstall ok config-files" };
        let _ = write!(text, "Package: {name}\nStatus: {status}\nArchitecture: {arch}\nVersion: {version}\n\n");
    }
    let file = system.at(STATUS);
    fsio::make_parent(&file)?;
    std::fs::write(&file, text).map_err(OpError::path("write", &file))
}
