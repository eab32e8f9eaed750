//! etcd's JSON gateway: the member list that the hosts of a cluster share, and its quorum.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use kubexm_plan::etcd;
use kubexm_spec::digest::Hasher;
use serde_json::{Value, json};

use super::external;
use super::rooted::RootedSystem;
use super::state::{Cluster, ETCD_FOLDER, Member, State};
use crate::OpError;
use crate::system::{HttpsRequest, Output};

/// Of members whose program names none.
const VERSION: &str = "3.6.5";

/// A member answers if it is up; a change needs a quorum.
pub(super) fn answer(
    system: &RootedSystem,
    state: &mut State,
    request: &HttpsRequest<'_>,
) -> Result<(u16, Vec<u8>), OpError> {
    let away = || OpError::other(format!("{}: Connection refused", request.url));
    if let Some(answer) = external::answer(system, request)? {
        return Ok(answer);
    }
    let (host, path) = request.url.trim_start_matches("https://").split_once(":2379/").ok_or_else(away)?;
    let own = system.address()?;
    let asked = if host == "127.0.0.1" { own.as_str() } else { host };
    let own = state.cluster.members.iter().find(|(_, member)| member.address == asked && !member.dead);
    let (id, own) = own.ok_or_else(away)?;
    let (id, version) = (id.clone(), own.version.clone().unwrap_or_else(|| VERSION.to_owned()));
    let body: Value = serde_json::from_str(request.body).unwrap_or_default();
    let (status, answer) = match path {
        "v3/cluster/member/list" => {
            let members: Vec<Value> = state.cluster.members.iter().map(|(id, member)| shown(id, member)).collect();
            (200, json!({ "members": members }))
        }
        "v3/maintenance/status" => {
            let leader = if state.cluster.has_quorum() { "1" } else { "0" };
            let sizes = json!({"dbSize": "25165824", "dbSizeInUse": "12582912", "dbSizeQuota": "2147483648"});
            let mut status =
                json!({"version": version, "leader": leader, "header": {"cluster_id": "77", "member_id": id}});
            if let (Some(status), Value::Object(sizes)) = (status.as_object_mut(), sizes) {
                status.extend(sizes);
            }
            (200, status)
        }
        "v3/kv/range" => {
            let keys = state.cluster.objects.len();
            (200, if keys == 0 { json!({}) } else { json!({"count": keys.to_string()}) })
        }
        "v3/cluster/member/remove" if !state.cluster.has_quorum() => {
            (503, json!({"code": 14, "message": "etcdserver: no leader"}))
        }
        // The file: members that have not been connected long enough refuse one change.
        "v3/cluster/member/remove" if std::fs::remove_file(system.at("/run/kubexm-double/etcd-unsettled")).is_ok() => {
            (503, json!({"code": 14, "message": "etcdserver: unhealthy cluster"}))
        }
        "v3/cluster/member/remove" => {
            let id = body["ID"].as_str().unwrap_or_default();
            match state.cluster.members.remove(id) {
                Some(_) => (200, json!({})),
                None => (404, json!({"code": 5, "message": "etcdserver: member not found"})),
            }
        }
        "v3/cluster/member/add" if !state.cluster.has_quorum() => {
            (503, json!({"code": 14, "message": "etcdserver: no leader"}))
        }
        "v3/cluster/member/add" => {
            let peer = body.pointer("/peerURLs/0").and_then(Value::as_str).unwrap_or_default();
            let address = peer.trim_start_matches("https://").trim_end_matches(":2380").to_owned();
            state.starts += 1;
            let learner = body["isLearner"].as_bool().unwrap_or(false);
            let id = new_id(state);
            // Not started yet: it has no name.
            state.cluster.members.insert(id, Member { address, dead: true, learner, ..Member::default() });
            (200, json!({}))
        }
        "v3/cluster/member/promote" => match state.cluster.members.get_mut(body["ID"].as_str().unwrap_or_default()) {
            Some(member) if member.dead => {
                let message = "etcdserver: can only promote a learner member which is in sync with leader";
                (412, json!({"code": 9, "message": message}))
            }
            Some(member) => {
                member.learner = false;
                (200, json!({}))
            }
            None => (404, json!({"code": 5, "message": "etcdserver: member not found"})),
        },
        _ => (404, json!({"code": 5, "message": "Not Found"})),
    };
    Ok((status, answer.to_string().into_bytes()))
}

fn shown(id: &str, member: &Member) -> Value {
    // As every gateway: what is false or empty is left out.
    let mut shown = json!({"ID": id, "peerURLs": [format!("https://{}:2380", member.address)]});
    if !member.name.is_empty() {
        shown["name"] = json!(member.name);
        shown["clientURLs"] = json!([format!("https://{}:2379", member.address)]);
    }
    if member.learner {
        shown["isLearner"] = json!(true);
    }
    shown
}

/// Its data there.
const DATA: &str = "member/snap/db";
const PAGE: usize = 512;
/// Data that is not kept in memory.
const MANY: u64 = 1 << 20;

/// `etcdctl snapshot save`: pages with what etcd's data folder has, and their checksum. The file `cut-snapshot` makes it cut
/// one off.
pub(super) fn etcdctl(system: &RootedSystem, state: &State, args: &[&str]) -> Result<Output, OpError> {
    let Some(["snapshot", "save", target]) = args.get(args.len().saturating_sub(3)..) else {
        return Ok(Output::failed(1, "the fake etcdctl saves snapshots alone"));
    };
    if !state.cluster.has_quorum() {
        return Ok(Output::failed(1, "rpc error: code = Unavailable desc = etcdserver: no leader"));
    }
    let data = format!("{}/{DATA}", state.cluster.etcd_folder());
    save(&system.at(&data), Path::new(target)).map_err(OpError::path("write", target))?;
    if std::fs::remove_file(system.at("/run/kubexm-double/cut-snapshot")).is_ok() {
        let cut = |file: File| file.set_len(file.metadata()?.len() - 1);
        File::options().write(true).open(target).and_then(cut).map_err(OpError::path("cut", target))?;
    }
    Ok(Output::text("Snapshot saved\n"))
}

/// `etcdutl snapshot status` and `restore`. The file `old-etcdutl` makes it one before 3.5.10.
pub(super) fn etcdutl(system: &RootedSystem, args: &[&str]) -> Result<Output, OpError> {
    if args == ["snapshot", "restore", "--help"] {
        let old = system.at("/run/kubexm-double/old-etcdutl").exists();
        return Ok(Output::text(if old { "--data-dir" } else { "--bump-revision --data-dir --mark-compacted" }));
    }
    if let Some(["snapshot", "restore", path]) = args.get(..3) {
        return restore(path, args);
    }
    let Some(["snapshot", "status", path]) = args.get(..3) else {
        return Ok(Output::failed(1, "the fake etcdutl shows the status of snapshots, and restores them"));
    };
    let size = std::fs::metadata(path).map_err(OpError::path("read", path))?.len();
    Ok(Output::text(
        json!({"hash": 1, "revision": 7, "totalKey": 3, "totalSize": size, "version": "3.6.0"}).to_string(),
    ))
}

/// The data filled up to a page, and its checksum; in pieces, since a test has much of it.
fn save(data: &Path, target: &Path) -> std::io::Result<()> {
    let mut file = File::create(target)?;
    let mut hasher = Hasher::default();
    let (mut size, mut buffer) = (0, vec![0; 1 << 17]);
    let mut source: Box<dyn Read> =
        if data.is_file() { Box::new(File::open(data)?) } else { Box::new(std::io::empty()) };
    loop {
        let mut count = source.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        size += count;
        if count < buffer.len() {
            let rest = size.next_multiple_of(PAGE) - size;
            buffer[count..count + rest].fill(0);
            (count, size) = (count + rest, size + rest);
        }
        hasher.update(&buffer[..count]);
        file.write_all(&buffer[..count])?;
    }
    if size == 0 {
        hasher.update(&[0; PAGE]);
        file.write_all(&[0; PAGE])?;
    }
    let digest = hasher.finish().hex();
    let sum: Vec<u8> = (0..32).filter_map(|at| u8::from_str_radix(digest.get(at * 2..at * 2 + 2)?, 16).ok()).collect();
    file.write_all(&sum)
}

/// `etcdutl snapshot restore`: the pages without their checksum, in a new folder.
fn restore(path: &str, args: &[&str]) -> Result<Output, OpError> {
    let folder = args.windows(2).find(|pair| pair[0] == "--data-dir").map(|pair| pair[1]).unwrap_or_default();
    if std::fs::exists(folder).unwrap_or(false) {
        return Ok(Output::failed(1, format!("Error: data-dir {folder:?} not empty or could not be read")));
    }
    let snap = Path::new(folder).join("member/snap");
    std::fs::create_dir_all(&snap).map_err(OpError::path("make the folder", &snap))?;
    let write = || {
        let (source, mut target) = (File::open(path)?, File::create(snap.join("db"))?);
        let size = source.metadata()?.len().saturating_sub(32);
        if size > MANY {
            return std::io::copy(&mut source.take(size), &mut target).map(drop);
        }
        let mut bytes = Vec::new();
        source.take(size).read_to_end(&mut bytes)?;
        // A page that was filled up when it was saved.
        bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
        target.write_all(&bytes)
    };
    write().map_err(OpError::path("write", &snap))?;
    Ok(Output::text("restored snapshot\n"))
}

/// Adds a member on this host.
pub(super) fn add(system: &RootedSystem, state: &mut State, name: &str) -> Result<(), OpError> {
    state.starts += 1;
    let address = system.address()?;
    let id = new_id(state);
    state.cluster.members.insert(id, Member { name: name.to_owned(), address, ..Member::default() });
    Ok(())
}

/// As large as etcd's own ids, so that a loss of digits is noticed.
fn new_id(state: &State) -> String {
    (0xA000_0000_0000_0000_u64 + state.cluster.members.len() as u64 * 0x1_0000 + state.starts).to_string()
}

/// kubexm's unit starts: with its data it is the member that it was, without any a new one. Returns why it cannot.
pub(super) fn start(system: &RootedSystem, state: &mut State) -> Result<Option<String>, OpError> {
    let files = [etcd::CA, etcd::SERVER_CERT, etcd::SERVER_KEY, etcd::PEER_CERT, etcd::PEER_KEY];
    if let Some(missing) = files.into_iter().find(|path| !system.at(path).is_file()) {
        return Ok(Some(format!("open {missing}: no such file or directory")));
    }
    let config = system.read(etcd::CONFIG).unwrap_or_default();
    let value = |key: &str| config.lines().find_map(|line| line.strip_prefix(key)).map(|value| value.trim().to_owned());
    let Some(name) = value("name:") else { return Ok(Some(format!("{} has no name", etcd::CONFIG))) };
    let own = system.address()?;
    let folder = value("data-dir:").unwrap_or_else(|| ETCD_FOLDER.to_owned());
    let data = format!("{}/{DATA}", folder.trim_matches('"'));
    let has_data = system.at(&data).is_file();
    if !has_data && system.at(etcd::FORMED).is_file() {
        return Ok(Some("it has lost its data".to_owned()));
    }
    let added = state.cluster.members.values_mut().find(|member| member.address == own && member.name.is_empty());
    if let Some(added) = added.filter(|_| !has_data) {
        let named = format!("{name}=https://{own}:2380");
        if value("initial-cluster-state:").as_deref() != Some("existing") || !config.contains(&named) {
            return Ok(Some(format!("{} does not say that it joins {named}", etcd::CONFIG)));
        }
        added.name = name;
        super::control_plane::put(system, &data, "double: etcd's data\n")?;
    } else if !has_data {
        if value("initial-cluster-state:").as_deref() == Some("existing") {
            return Ok(Some("error validating peerURLs: member count is unequal".to_owned()));
        }
        state.cluster.members.retain(|_, member| member.address != own);
        if !state.cluster.members.values().any(|member| !member.dead) {
            state.cluster = Cluster { apart: true, ..Cluster::default() };
        }
        super::control_plane::put(system, &data, "double: etcd's data\n")?;
        add(system, state, &name)?;
    }
    let version = program_version(system);
    for member in state.cluster.members.values_mut().filter(|member| member.address == own) {
        member.dead = false;
        member.version.clone_from(&version);
    }
    Ok(None)
}

/// From `etcd-v3.6.5-linux-amd64/etcd of binary/etcd 3.6.5 for Amd64`.
fn program_version(system: &RootedSystem) -> Option<String> {
    let text = system.read("/usr/local/bin/etcd")?;
    text.split_whitespace().skip_while(|word| *word != "binary/etcd").nth(1).map(str::to_owned)
}

/// kubexm's unit stops; the member stays one.
pub(super) fn stop(system: &RootedSystem, state: &mut State) -> Result<(), OpError> {
    let own = system.address()?;
    state.cluster.members.values_mut().filter(|member| member.address == own).for_each(|member| member.dead = true);
    Ok(())
}
