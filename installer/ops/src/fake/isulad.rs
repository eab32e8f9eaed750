//! isulad and its client as its package has them, and the bundle's crictl: images that `isula load` reads, and containers of static pods.

use serde_json::{Value, json};

use super::rooted::RootedSystem;
use super::state::{Image, State};
use super::{containers, docker};
use crate::OpError;
use crate::system::{Output, Piece};

const UNIT: &str = "isulad.service";
const CRICTL: &str = "/usr/local/lib/kubexm-isulad/crictl";
const CLIENT: &str = "/usr/bin/isula";
const ENDPOINT: &str = "unix:///run/isulad.sock";
const CONFIG: &str = "/etc/isulad/daemon.json";
/// What it makes when it starts.
const MADE: [&str; 3] = ["/run/isulad.sock", "/run/isulad.pid", "/run/isula/.keep"];
/// Label of the fake's images: the container that keeps one.
const KEEPER: &str = "keeper";

/// What the package has, for hosts of tests that have it already.
pub const FILES: [(&str, &str); 5] = [
    ("/usr/bin/isulad", "#!/bin/true\n"),
    (CLIENT, "#!/bin/true\n"),
    ("/usr/bin/isulad-shim", "#!/bin/true\n"),
    (
        "/usr/lib/systemd/system/isulad.service",
        "[Service]\nExecStart=/usr/bin/isulad $OPTIONS\n[Install]\nWantedBy=multi-user.target\n",
    ),
    (CONFIG, "{\"default-runtime\": \"runc\"}\n"),
];

/// Whether a program is isulad's client, or the crictl beside its runc.
pub(super) fn is_its(program: &str) -> bool {
    program == "isula" || program == CRICTL
}

/// What its unit makes when it starts; nothing of other units.
pub(super) fn started(system: &RootedSystem, unit: &str) -> Result<(), OpError> {
    for path in MADE.iter().filter(|_| unit == UNIT) {
        let path = system.at(path);
        crate::fsio::make_parent(&path)?;
        std::fs::write(&path, b"").map_err(OpError::path("write", &path))?;
    }
    Ok(())
}

pub(super) fn stopped(system: &RootedSystem, unit: &str) -> Result<(), OpError> {
    MADE.iter().filter(|path| unit == UNIT && !path.ends_with(".keep")).try_for_each(|path| {
        let path = system.at(path);
        crate::fsio::remove(&path)
    })
}

pub(super) fn run(system: &RootedSystem, state: &mut State, program: &str, args: &[&str]) -> Result<Output, OpError> {
    let file = if program == CRICTL { CRICTL } else { CLIENT };
    if !system.at(file).exists() {
        return Err(OpError::other(format!("the program `{program}` is not on this host; install it")));
    }
    if !state.units.get(UNIT).is_some_and(|unit| unit.active) {
        return Ok(Output::failed(1, "Can not connect with server. Is the iSulad daemon running on the host?"));
    }
    if program == CRICTL {
        return Ok(crictl(system, state, args));
    }
    let [command, "--host", ENDPOINT, args @ ..] = args else {
        return Ok(Output::failed(1, format!("isula: another socket than isulad's: `{}`", args.join(" "))));
    };
    Ok(match (*command, args) {
        ("info", []) => info(system),
        ("load", ["--input", path]) => load(system, state, path)?,
        ("rmi", [name]) => match state.images.get(*name) {
            Some(image) if image.labels.contains_key(KEEPER) => Output::failed(1, "Image used by c0ffee"),
            Some(_) => {
                state.images.remove(*name);
                Output::text(format!("Image \"{name}\" removed\n"))
            }
            None => Output::failed(1, format!("No such image:{name}")),
        },
        ("ps", ["--all", "--filter", "label=io.kubexm.keeps-image", "--format", "{{.Names}}"]) => {
            let names = state.images.values().filter_map(|image| image.labels.get(KEEPER));
            Output::text(names.map(|name| format!("{name:<40}\n")).collect::<String>())
        }
        ("create", ["--name", keeper, "--label", label, "--net", "none", "--pull", "never", name, _]) => {
            match state.images.get_mut(*name) {
                Some(image) if label.ends_with(&image.digest) => {
                    image.labels.insert(KEEPER.to_owned(), (*keeper).to_owned());
                    Output::text("c0ffee\n")
                }
                _ => Output::failed(1, format!("No such image:{name}")),
            }
        }
        ("rm", ["--volumes", keeper]) => {
            let mut all = state.images.values_mut();
            match all.find(|image| image.labels.get(KEEPER).is_some_and(|name| name == keeper)) {
                Some(image) => {
                    image.labels.remove(KEEPER);
                    Output::default()
                }
                None => Output::failed(1, format!("No such container: {keeper}")),
            }
        }
        ("kill", ["--signal", signal, id]) => match containers::signal(system, state, id, signal) {
            true => Output::default(),
            false => Output::failed(1, format!("No such container:{id}")),
        },
        (command, args) => Output::failed(1, format!("the fake of isula does not know `{command} {}`", args.join(" "))),
    })
}

fn info(system: &RootedSystem) -> Output {
    let config: Value = serde_json::from_str(&system.read(CONFIG).unwrap_or_default()).unwrap_or_default();
    let unit = system.read("/etc/systemd/system/isulad.service").unwrap_or_default();
    let mut words = unit.lines().filter_map(|line| line.strip_prefix("Environment=")).flat_map(str::split_whitespace);
    let proxy = words.find_map(|word| word.strip_prefix("HTTPS_PROXY=")).unwrap_or_default();
    let text = |key: &str| config[key].as_str().unwrap_or_default();
    Output::text(format!(
        "Containers: 0\nServer Version: 2.1.6\nStorage Driver: {}\n Backing Filesystem: extfs\nCgroup Driver: cgroupfs\niSulad Root Dir: \
         {}\nHttps Proxy: {proxy}\n",
        text("storage-driver"),
        text("graph"),
    ))
}

fn load(system: &RootedSystem, state: &mut State, path: &str) -> Result<Output, OpError> {
    let real = system.at(path);
    let size = real.metadata().map_err(OpError::path("read", &real))?.len();
    Ok(docker::load(state, &[Piece::File { path: real, size }]))
}

fn crictl(system: &RootedSystem, state: &mut State, args: &[&str]) -> Output {
    let ["--runtime-endpoint", ENDPOINT, "--image-endpoint", ENDPOINT, "--timeout", "30s", args @ ..] = args else {
        return Output::failed(1, format!("crictl: another endpoint than isulad's: `{}`", args.join(" ")));
    };
    let config: Value = serde_json::from_str(&system.read(CONFIG).unwrap_or_default()).unwrap_or_default();
    if config["enable-cri-v1"] != true {
        return Output::failed(1, "rpc error: code = Unimplemented desc = unknown service runtime.v1.RuntimeService");
    }
    match args {
        ["version"] => Output::text("Version:  0.1.0\nRuntimeName:  iSulad\nRuntimeVersion:  2.1.6\n"),
        ["images", "--output", "json"] => {
            // As isulad shortens them.
            let short = |name: &String| name.trim_start_matches("docker.io/").trim_start_matches("library/").to_owned();
            let image = |(name, image): (&String, &Image)| json!({"id": image.digest.trim_start_matches("sha256:"), "repoTags": [short(name)], "repoDigests": []});
            Output::text(json!({"images": state.images.iter().map(image).collect::<Vec<_>>()}).to_string())
        }
        ["ps", "--all", "--output", "json", "--label", _, "--label", label] => containers::listed(system, state, label),
        ["inspect", "--output", "json", id] => containers::inspected(state, id),
        other => Output::failed(1, format!("the fake of crictl does not know `{}`", other.join(" "))),
    }
}
