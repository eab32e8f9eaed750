//! `ctr`, with a registry that is a table of names and digests.

use std::collections::BTreeMap;
use std::io::Read;

use kubexm_spec::Digest;

use super::api_server;
use super::rooted::RootedSystem;
use super::state::{Image, State};
use crate::system::{Output, Piece};

pub(super) fn ctr(system: &RootedSystem, state: &mut State, args: &[&str], archive: &[Piece]) -> Output {
    if args == ["--version"] {
        return Output::text("ctr github.com/containerd/containerd/v2 v2.2.9\n");
    }
    if !state.units.get("containerd.service").is_some_and(|unit| unit.active) {
        return Output::failed(1, "ctr: failed to dial \"/run/containerd/containerd.sock\": connection refused");
    }
    if args == ["plugins", "list", "id==cri"] {
        let line = "io.containerd.grpc.v1    cri    -            ok";
        return Output::text(format!("TYPE                     ID     PLATFORMS    STATUS\n{line}\n"));
    }
    let args = args.strip_prefix(&["--namespace", "k8s.io"]).unwrap_or(args);
    if let Some(output) = api_server::ctr(system, state, args) {
        return output;
    }
    match args {
        ["images", "import", "--local", "--platform", _, "-"] => import(state, archive),
        ["images", "pull", rest @ ..] => pull(system, state, rest),
        ["images", "list"] => Output::text(list(state, |_| true)),
        ["images", "list", filter] => Output::text(list(state, |name| filter.strip_prefix("name==") == Some(name))),
        ["images", "check", "--quiet", filters @ ..] => {
            let wanted = |name: &String| filters.iter().any(|filter| filter.strip_prefix("name==") == Some(name));
            Output::text(
                state.images.keys().filter(|name| wanted(name)).map(|name| format!("{name}\n")).collect::<String>(),
            )
        }
        ["images", "tag", "--force", from, to] => match state.images.get(*from) {
            Some(image) => {
                // The transfer service does not copy labels.
                let tagged = Image { digest: image.digest.clone(), labels: BTreeMap::new() };
                state.images.insert((*to).to_owned(), tagged);
                Output::default()
            }
            None => Output::failed(1, format!("ctr: image \"{from}\": not found")),
        },
        ["images", "label", name, labels @ ..] => match state.images.get_mut(*name) {
            Some(image) => {
                image
                    .labels
                    .extend(labels.iter().filter_map(|l| l.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())));
                Output::default()
            }
            None => Output::failed(1, format!("ctr: image \"{name}\": not found")),
        },
        ["images", "remove", name] => {
            state.images.remove(*name);
            Output::default()
        }
        other => Output::failed(1, format!("the fake of ctr does not know `{}`", other.join(" "))),
    }
}

fn pull(system: &RootedSystem, state: &mut State, args: &[&str]) -> Output {
    let registry: BTreeMap<String, String> = system.setting("registry.json").unwrap_or_default();
    let name = args.last().copied().unwrap_or_default();
    let Some(digest) = registry.get(name) else {
        return Output::failed(1, format!("ctr: failed to resolve reference \"{name}\": {name}: not found"));
    };
    let labels = args
        .windows(2)
        .filter(|pair| pair[0] == "--label")
        .filter_map(|pair| pair[1].split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    state.images.insert(name.to_owned(), Image { digest: digest.clone(), labels });
    Output::default()
}

/// Imports the images in an archive's index.json; a blob with another digest than its name is refused.
fn import(state: &mut State, archive: &[Piece]) -> Output {
    match images_of(archive) {
        Ok(images) => {
            for (name, digest) in images {
                state.images.insert(name, Image { digest, labels: BTreeMap::new() });
            }
            Output::default()
        }
        Err(error) => Output::failed(1, format!("ctr: {error}")),
    }
}

fn images_of(archive: &[Piece]) -> std::io::Result<Vec<(String, String)>> {
    let mut bytes = Vec::new();
    archive.iter().try_for_each(|piece| piece.write_to(&mut bytes))?;
    let mut members: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for member in tar::Archive::new(bytes.as_slice()).entries()? {
        let mut member = member?;
        let name = member.path()?.to_string_lossy().into_owned();
        let mut content = Vec::new();
        member.read_to_end(&mut content)?;
        if name.strip_prefix("blobs/sha256/").is_some_and(|hex| hex != Digest::of(&content).hex()) {
            return Err(std::io::Error::other(format!("unexpected digest of {name}")));
        }
        members.insert(name, content);
    }
    let index = members.get("index.json").filter(|_| members.contains_key("oci-layout"));
    let index: serde_json::Value = serde_json::from_slice(index.map_or(b"null", Vec::as_slice))?;
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let images = index["manifests"].as_array().into_iter().flatten();
    images
        .map(|image| (text(&image["annotations"]["io.containerd.image.name"]), text(&image["digest"])))
        .map(|(name, digest)| {
            let there = members.contains_key(&format!("blobs/{}", digest.replace(':', "/")));
            if there { Ok((name, digest)) } else { Err(std::io::Error::other(format!("content {digest}: not found"))) }
        })
        .collect()
}

fn list(state: &State, wanted: impl Fn(&str) -> bool) -> String {
    let mut text = String::from("REF TYPE DIGEST SIZE PLATFORMS LABELS\n");
    for (name, image) in state.images.iter().filter(|(name, _)| wanted(name)) {
        let labels: Vec<String> = image.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let labels = if labels.is_empty() { "-".to_owned() } else { labels.join(",") };
        text.push_str(&format!(
            "{name} application/vnd.oci.image.index.v1+json {} 300.1 KiB linux/amd64 {labels}\n",
            image.digest
        ));
    }
    text
}
