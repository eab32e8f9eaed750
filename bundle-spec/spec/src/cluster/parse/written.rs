//! What of a file was written, by the paths that [`crate::cluster::document`] gives it again.

use std::collections::BTreeSet;

use crate::yaml::At;

/// Paths of everything that is written, `spec.hosts[0].port`. What is at another place than it is shown at (an alias, a
/// short form) has both.
pub(super) fn written(root: &At<'_>) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    add(root, &mut paths);
    if paths.contains("spec.roleGroups.control-plane") {
        paths.insert("spec.roleGroups.master".to_owned());
    }
    let text = |at: Option<At<'_>>| at.and_then(|at| at.text_quiet().map(str::to_owned));
    let spec = get(root, "spec");
    if text(spec.as_ref().and_then(|spec| get(&get(spec, "network")?, "plugin"))).as_deref() == Some("multus") {
        paths.insert("spec.network.multus".to_owned());
        paths.remove("spec.network.plugin");
    }
    let hosts = spec.and_then(|spec| get(&spec, "hosts")).filter(At::is_list).map(|at| at.list()).unwrap_or_default();
    for roles in hosts.iter().filter_map(|host| get(host, "roles")).filter(At::is_list) {
        for role in roles.list().iter().filter_map(At::text_quiet) {
            let role = if role == "control-plane" { "master" } else { role };
            paths.insert(format!("spec.roleGroups.{role}"));
        }
    }
    for host in hosts {
        let jumps = get(&host, "via").filter(At::is_list).map(|at| at.list()).unwrap_or_default();
        for jump in jumps.iter().filter(|jump| !jump.is_mapping()) {
            let short = jump.text_quiet().unwrap_or_default();
            let place = short.rsplit_once('@').map_or(short, |(_, place)| place);
            let port = place.rsplit_once(']').map_or(place, |(_, after)| after).contains(':');
            let said = [("address", true), ("user", short.contains('@')), ("port", port)];
            paths.extend(said.iter().filter(|(_, said)| *said).map(|(key, _)| format!("{}.{key}", jump.path())));
        }
    }
    paths
}

fn get<'a>(at: &At<'a>, key: &str) -> Option<At<'a>> {
    at.open_mapping_quiet()?.get(key)
}

fn add(at: &At<'_>, paths: &mut BTreeSet<String>) {
    if at.is_list() {
        at.list().iter().for_each(|item| add(item, paths));
    } else if let Some(map) = at.open_mapping_quiet() {
        // a key without a value is as if it were not there
        map.entries().filter(|(_, at)| !at.is_nothing()).for_each(|(_, at)| add(&at, paths));
    }
    paths.insert(at.path().to_owned());
}
