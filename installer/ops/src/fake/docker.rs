//! Docker's client and engine, and cri-dockerd's socket: images that `docker load` reads, and containers of static pods.

use std::collections::BTreeMap;
use std::io::Read;

use kubexm_plan::runtime::docker::{CRI_UNIT, EXEC_ROOT, SOCKET};
use kubexm_spec::Digest;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::rooted::RootedSystem;
use super::state::{Image, State, StaticPod};
use super::{api_server, containers};
use crate::OpError;
use crate::system::{Output, Piece};

const UNIT: &str = "docker.service";
const FOLDER: &str = "/usr/local/lib/kubexm-docker/";
const CRI_SOCKET: &str = "/run/cri-dockerd.sock";
const CONFIG: &str = "/etc/docker/daemon.json";
/// Label of the fake's images: the container that keeps one.
const KEEPER: &str = "keeper";

/// Whether a program is of docker's archive.
pub(super) fn is_its(program: &str) -> bool {
    program.starts_with(FOLDER)
}

/// What a unit makes when it starts; nothing of other units.
pub(super) fn started(system: &RootedSystem, unit: &str) -> Result<(), OpError> {
    let sockets: &[&str] = match unit {
        UNIT => &[
            SOCKET,
            "/run/kubexm-docker/docker.pid",
            "/run/docker/plugins/.keep",
            "/run/containerd/s/1",
            "/etc/docker/key.json",
        ],
        CRI_UNIT => &[CRI_SOCKET],
        _ => &[],
    };
    for path in sockets {
        let path = system.at(path);
        crate::fsio::make_parent(&path)?;
        std::fs::write(&path, b"").map_err(OpError::path("write", &path))?;
    }
    Ok(())
}

pub(super) fn stopped(system: &RootedSystem, unit: &str) -> Result<(), OpError> {
    match unit {
        UNIT => {
            crate::fsio::remove(&system.at(SOCKET))?;
            crate::fsio::remove(&system.at("/run/kubexm-docker/docker.pid"))?;
            let _ = std::fs::remove_dir(system.at(EXEC_ROOT));
        }
        CRI_UNIT => crate::fsio::remove(&system.at(CRI_SOCKET))?,
        _ => {}
    }
    Ok(())
}

pub(super) fn run(
    system: &RootedSystem,
    state: &mut State,
    program: &str,
    args: &[&str],
    archive: &[Piece],
) -> Result<Output, OpError> {
    if !system.at(program).exists() {
        return Err(OpError::other(format!("the program `{program}` is not on this host; install it")));
    }
    let ["--config", _, "--host", "unix:///run/docker.sock", args @ ..] = args else {
        return Ok(Output::failed(1, format!("docker: another socket than docker's: `{}`", args.join(" "))));
    };
    if !state.units.get(UNIT).is_some_and(|unit| unit.active) {
        return Ok(Output::failed(1, format!("Cannot connect to the Docker daemon at unix://{SOCKET}")));
    }
    Ok(match args {
        ["info", "--format", "{{json .}}"] => info(system),
        ["image", "ls", "--no-trunc", "--format", _] => Output::text(images(state)),
        ["image", "load", "--quiet"] => load(state, archive),
        ["image", "rm", name] => match state.images.remove(*name) {
            Some(_) => Output::text(format!("Untagged: {name}\n")),
            None => Output::failed(1, format!("Error: No such image: {name}")),
        },
        ["container", rest @ ..] => container(system, state, rest),
        other => Output::failed(1, format!("the fake of docker does not know `{}`", other.join(" "))),
    })
}

fn info(system: &RootedSystem) -> Output {
    let text = system.read(CONFIG).unwrap_or_default();
    let config: Value = serde_json::from_str(&text).unwrap_or_default();
    let driver = config["exec-opts"][0].as_str().and_then(|text| text.strip_prefix("native.cgroupdriver="));
    let unit = system.read("/etc/systemd/system/docker.service").unwrap_or_default();
    let mut words = unit.lines().filter_map(|line| line.strip_prefix("Environment=")).flat_map(str::split_whitespace);
    let proxy = words.find_map(|word| word.strip_prefix("HTTPS_PROXY="));
    let info = json!({
        "Driver": config["storage-driver"],
        "CgroupDriver": driver.unwrap_or("cgroupfs"),
        "HttpsProxy": proxy,
        "LiveRestoreEnabled": config["live-restore"],
        "LoggingDriver": config["log-driver"],
        "DockerRootDir": config["data-root"],
    });
    Output::text(info.to_string())
}

fn container(system: &RootedSystem, state: &mut State, args: &[&str]) -> Output {
    match args {
        ["create", "--name", keeper, "--label", label, "--network", "none", "--pull", "never", name, _] => {
            match state.images.get_mut(*name) {
                Some(image) if label.ends_with(&image.digest) => {
                    image.labels.insert(KEEPER.to_owned(), (*keeper).to_owned());
                    Output::text("c0ffee\n")
                }
                _ => Output::failed(1, format!("Error: No such image: {name}")),
            }
        }
        ["ls", "--all", "--filter", _, "--format", _] => {
            let kept = state.images.values().filter_map(|image| Some((image.labels.get(KEEPER)?, &image.digest)));
            Output::text(kept.map(|(name, digest)| format!("{name}\t{digest}\n")).collect::<String>())
        }
        ["rm", "--volumes", keeper] => {
            let of_it = |image: &&mut Image| image.labels.get(KEEPER).is_some_and(|name| name == keeper);
            match state.images.values_mut().find(of_it) {
                Some(image) => {
                    image.labels.remove(KEEPER);
                    Output::default()
                }
                None => Output::failed(1, format!("Error: No such container: {keeper}")),
            }
        }
        ["ls", "--all", "--no-trunc", "--format", _, "--filter", _, "--filter", filter] => {
            let pod = filter.rsplit('=').next().unwrap_or_default();
            // kubelet restarts a container that ended.
            if api_server::get(state, pod).is_some_and(|found| found.ended) {
                api_server::set(state, pod, None);
                api_server::run_manifest(system, state);
            }
            let line = |found: &StaticPod| {
                let word = if found.ended { "exited" } else { "running" };
                format!("{}\t{word}\n", found.id)
            };
            Output::text(api_server::get(state, pod).map(line).unwrap_or_default())
        }
        ["inspect", "--format", "{{.Created}}", id] => {
            let started = api_server::find(state, id).map(|(_, found)| i128::from(found.started));
            let started = started.and_then(|started| OffsetDateTime::from_unix_timestamp_nanos(started).ok());
            match started.and_then(|started| started.format(&Rfc3339).ok()) {
                Some(created) => Output::text(format!("{created}\n")),
                None => Output::failed(1, format!("Error: No such container: {id}")),
            }
        }
        ["kill", "--signal", signal, id] => kill(system, state, id, signal),
        other => Output::failed(1, format!("the fake of docker does not know `container {}`", other.join(" "))),
    }
}

fn kill(system: &RootedSystem, state: &mut State, id: &str, signal: &str) -> Output {
    match containers::signal(system, state, id, signal) {
        true => Output::default(),
        false => Output::failed(
            1,
            format!("Error response from daemon: Cannot kill container: {id}: No such container: {id}"),
        ),
    }
}

/// As docker shortens them.
fn images(state: &State) -> String {
    let line = |(name, image): (&String, &Image)| {
        let short = name.strip_prefix("docker.io/library/").or_else(|| name.strip_prefix("docker.io/")).unwrap_or(name);
        let (repository, tag) = short.rsplit_once(':').unwrap_or((short, "<none>"));
        format!("{repository}\t{tag}\t{}\n", image.digest)
    };
    state.images.iter().map(line).collect()
}

/// Takes in the images of an archive of docker's form.
pub(super) fn load(state: &mut State, archive: &[Piece]) -> Output {
    match images_of(archive) {
        Ok(images) => {
            for (name, digest) in images {
                let labels = state.images.get(&name).filter(|image| image.digest == digest);
                let labels = labels.map(|image| image.labels.clone()).unwrap_or_default();
                state.images.insert(name, Image { digest, labels });
            }
            Output::default()
        }
        Err(error) => Output::failed(1, error.to_string()),
    }
}

/// What manifest.json names is in the archive, and is what its name says.
fn images_of(archive: &[Piece]) -> std::io::Result<Vec<(String, String)>> {
    let mut bytes = Vec::new();
    archive.iter().try_for_each(|piece| piece.write_to(&mut bytes))?;
    let mut members: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for member in tar::Archive::new(bytes.as_slice()).entries()? {
        let mut member = member?;
        let name = member.path()?.to_string_lossy().into_owned();
        let mut content = Vec::new();
        member.read_to_end(&mut content)?;
        members.insert(name, content);
    }
    let manifest: Value = serde_json::from_slice(members.get("manifest.json").map_or(b"null", Vec::as_slice))?;
    let mut images = Vec::new();
    for image in manifest.as_array().into_iter().flatten() {
        let digest = |path: &Value| {
            let path = path.as_str().unwrap_or_default();
            let content = members.get(path).ok_or_else(|| std::io::Error::other(format!("{path}: not found")))?;
            let digest = Digest::of(content);
            let right = path == format!("blobs/sha256/{}", digest.hex());
            if right {
                Ok(digest.to_string())
            } else {
                Err(std::io::Error::other(format!("{path} has another digest")))
            }
        };
        image["Layers"].as_array().into_iter().flatten().try_for_each(|layer| digest(layer).map(drop))?;
        let config = digest(&image["Config"])?;
        let tags = image["RepoTags"].as_array().into_iter().flatten().filter_map(Value::as_str);
        images.extend(tags.map(|tag| (tag.to_owned(), config.clone())));
    }
    if images.is_empty() {
        Err(std::io::Error::other("open manifest.json: no such file or directory"))
    } else {
        Ok(images)
    }
}
