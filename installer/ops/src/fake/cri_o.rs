//! CRI-O with the programs of its archive: `crictl`, `crio status config` and `runc kill`, with the registry of `ctr`'s fake.

use std::collections::BTreeMap;

use super::containers;
use super::rooted::RootedSystem;
use super::state::{Image, State};
use crate::OpError;
use crate::system::Output;

pub(super) const UNIT: &str = "crio.service";
const FOLDER: &str = "/usr/local/lib/cri-o/";
const SOCKET: &str = "/run/crio/crio.sock";
const CONFIGS: &str = "/etc/crio/crio.conf.d";

/// Whether a program is of CRI-O's archive.
pub(super) fn is_its(program: &str) -> bool {
    program.starts_with(FOLDER)
}

pub(super) fn started(system: &RootedSystem) -> Result<(), OpError> {
    let socket = system.at(SOCKET);
    crate::fsio::make_parent(&socket)?;
    std::fs::write(&socket, b"").map_err(OpError::path("write", &socket))
}

pub(super) fn stopped(system: &RootedSystem) -> Result<(), OpError> {
    crate::fsio::remove(&system.at(SOCKET))?;
    let _ = std::fs::remove_dir(system.at("/run/crio"));
    Ok(())
}

pub(super) fn run(system: &RootedSystem, state: &mut State, program: &str, args: &[&str]) -> Result<Output, OpError> {
    if !system.at(program).exists() {
        return Err(OpError::other(format!("the program `{program}` is not on this host; install it")));
    }
    let name = program.strip_prefix(FOLDER).unwrap_or_default();
    if !state.units.get(UNIT).is_some_and(|unit| unit.active) {
        return Ok(Output::failed(1, format!("{name}: dial unix {SOCKET}: connect: no such file or directory")));
    }
    Ok(match (name, args) {
        ("crio", ["status", "--socket", SOCKET, "config"]) => Output::text(config(system)?),
        ("runc", ["--root", _, "kill", id, signal]) => match containers::signal(system, state, id, signal) {
            true => Output::default(),
            false => Output::failed(1, "container does not exist"),
        },
        ("crictl", args) => crictl(system, state, args),
        _ => Output::failed(1, format!("the fake of {name} does not know `{}`", args.join(" "))),
    })
}

/// Every drop-in in the order of their names: the last value of a key wins, wherever its section is.
fn config(system: &RootedSystem) -> Result<String, OpError> {
    let folder = system.at(CONFIGS);
    let mut names: Vec<_> = match std::fs::read_dir(&folder) {
        Ok(entries) => entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect(),
        Err(_) => Vec::new(),
    };
    names.sort();
    let mut values: BTreeMap<String, String> = BTreeMap::new();
    for name in names.iter().filter(|name| name.ends_with(".conf")) {
        let text = system.read(&format!("{CONFIGS}/{name}")).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.split_once(" = "));
        values.extend(lines.map(|(key, value)| (key.trim().to_owned(), value.to_owned())));
    }
    Ok(values.iter().map(|(key, value)| format!("    {key} = {value}\n")).collect())
}

fn crictl(system: &RootedSystem, state: &mut State, args: &[&str]) -> Output {
    let [
        "--runtime-endpoint",
        "unix:///run/crio/crio.sock",
        "--image-endpoint",
        "unix:///run/crio/crio.sock",
        "--timeout",
        "30s",
        args @ ..,
    ] = args
    else {
        return Output::failed(1, format!("crictl: another endpoint than CRI-O's: `{}`", args.join(" ")));
    };
    match args {
        ["images", "--output", "json"] => match config(system) {
            Ok(config) => Output::text(images(state, &pinned(&config)).to_string()),
            Err(error) => Output::failed(1, error.full()),
        },
        ["pull", name] => pull(system, state, name),
        ["rmi", name] => {
            state.images.remove(*name);
            Output::default()
        }
        ["ps", "--all", "--output", "json", "--label", _, "--label", label] => containers::listed(system, state, label),
        ["inspect", "--output", "json", id] => containers::inspected(state, id),
        other => Output::failed(1, format!("the fake of crictl does not know `{}`", other.join(" "))),
    }
}

/// The patterns of `pinned_images`: a name, or its beginning with `*`.
fn pinned(config: &str) -> Vec<String> {
    let value = config.lines().find_map(|line| line.trim().strip_prefix("pinned_images = "));
    let words = value.unwrap_or_default().split('"').skip(1).step_by(2);
    words.map(str::to_owned).collect()
}

fn images(state: &State, pinned: &[String]) -> serde_json::Value {
    let is_pinned = |name: &str| {
        pinned.iter().any(|pattern| pattern.strip_suffix('*').map_or(name == pattern, |start| name.starts_with(start)))
    };
    let image = |(name, image): (&String, &Image)| {
        let repository =
            name.split_once('@').or_else(|| name.rsplit_once(':')).map_or(name.as_str(), |(before, _)| before);
        let digests = [format!("{repository}@{}", image.digest)];
        let tags: Vec<&String> = if name.contains('@') { Vec::new() } else { vec![name] };
        serde_json::json!({"repoTags": tags, "repoDigests": digests, "pinned": is_pinned(name), "size": "300000"})
    };
    serde_json::json!({ "images": state.images.iter().map(image).collect::<Vec<_>>() })
}

fn pull(system: &RootedSystem, state: &mut State, name: &str) -> Output {
    let registry: BTreeMap<String, String> = system.setting("registry.json").unwrap_or_default();
    let Some(digest) = registry.get(name) else {
        return Output::failed(1, format!("rpc error: reading manifest in {name}: manifest unknown"));
    };
    state.images.insert(name.to_owned(), Image { digest: digest.clone(), labels: BTreeMap::new() });
    Output::text("Image is up to date\n")
}
