//! What is so on a machine rooted in a directory: its file tree, and what the fake of its system remembers.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use kubexm_spec::Digest;
use serde_json::Value;

/// Left out: what a reboot forgets, logs, the ledger with its times and tries, and the ids of starts.
const LEFT_OUT: [&str; 4] = ["/run", "/var/lib/kubexm/ledger", "/var/lib/kubexm/runs", "/var/lib/kubexm/units"];
const FAKE: &str = "run/kubexm-double/state.json";

/// Path → kind, mode and content; and the fake's units, images, objects and API server without what is new with every start.
pub fn state_of(root: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut state = BTreeMap::new();
    walk(root, "", &mut state)?;
    if let Ok(bytes) = std::fs::read(root.join(FAKE)) {
        let Value::Object(fake) = serde_json::from_slice(&bytes)? else { return Ok(state) };
        for (key, mut value) in fake.into_iter().filter(|(key, _)| key != "starts") {
            if let (true, Some(units)) = (key == "units", value.as_object_mut()) {
                for unit in units.values_mut().filter_map(Value::as_object_mut) {
                    unit.remove("invocation");
                    unit.remove("started");
                }
            }
            if key == "apiServer" {
                value = value["read"].take();
            }
            if let (true, Some(pods)) = (key == "staticPods", value.as_object_mut()) {
                pods.values_mut().for_each(|pod| *pod = pod["read"].take());
            }
            state.insert(format!("(system) {key}"), value.to_string());
        }
    }
    Ok(state)
}

fn walk(root: &Path, below: &str, state: &mut BTreeMap<String, String>) -> io::Result<()> {
    for entry in std::fs::read_dir(root.join(below.trim_start_matches('/')))? {
        let entry = entry?;
        let path = format!("{below}/{}", entry.file_name().to_string_lossy());
        if LEFT_OUT.contains(&path.as_str()) {
            continue;
        }
        let metadata = entry.metadata()?;
        let mode = metadata.permissions().mode() & 0o7777;
        let what = if metadata.is_symlink() {
            format!("link {}", std::fs::read_link(entry.path())?.display())
        } else if metadata.is_dir() {
            walk(root, &path, state)?;
            format!("dir {mode:04o}")
        } else {
            format!("file {mode:04o} {}", Digest::of(std::fs::read(entry.path())?))
        };
        state.insert(path, what);
    }
    Ok(())
}
