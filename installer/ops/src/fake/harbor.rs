//! Harbor: what of its API a plan uses, and what was pushed. That outlives it, as its data volume does; only the volume's own files are
//! not there. Beside it, what its engine and its installer write elsewhere.

use serde_json::{Value, json};

use super::harbor_state::{Harbor, Project};
use super::rooted::RootedSystem;
use super::state::State;
use crate::OpError;
use crate::system::{Head, HttpsRequest, HttpsServer, PushRequest};

pub(super) const UNIT: &str = kubexm_plan::op::HARBOR_UNIT;
const ENGINE: &str = "kubexm-harbor-engine.service";
/// Written by the engine when it starts.
const OF_ENGINE: [(&str, &str); 3] = [
    ("/etc/docker/key.json", "{}\n"),
    ("/opt/containerd/lib/of-its-engine", ""),
    ("/var/lib/kubexm-harbor/engine/engine-id", "id\n"),
];
/// Written by the script that starts it, and by the `prepare` that it calls.
const OF_HARBOR: [(&str, &str); 6] = [
    ("/var/lib/kubexm-harbor/admin-password", "Harbor12345\n"),
    ("/var/lib/kubexm-harbor/loaded", "images\n"),
    ("/usr/local/lib/kubexm-harbor/installer/harbor.yml", "hostname: registry\n"),
    ("/usr/local/lib/kubexm-harbor/installer/docker-compose.yml", "services: {}\n"),
    ("/usr/local/lib/kubexm-harbor/installer/common/config/core/env", "A=b\n"),
    ("/var/log/harbor/core.log", "started\n"),
];

pub(super) fn runs(state: &State) -> bool {
    state.units.get(UNIT).is_some_and(|unit| unit.active)
}

/// What a unit of it writes when it starts; nothing for others.
pub(super) fn started(system: &RootedSystem, unit: &str) -> Result<(), OpError> {
    let files = match unit {
        ENGINE => OF_ENGINE.as_slice(),
        UNIT => OF_HARBOR.as_slice(),
        _ => &[],
    };
    for (path, text) in files {
        let path = system.at(path);
        crate::fsio::make_parent(&path)?;
        std::fs::write(&path, text).map_err(OpError::path("write", &path))?;
    }
    Ok(())
}

fn refuse(status: u16, code: &str, message: &str) -> (u16, Value) {
    (status, json!({"errors": [{"code": code, "message": message}]}))
}

pub(super) fn answer(state: &mut State, request: &HttpsRequest<'_>) -> Result<(u16, Vec<u8>), OpError> {
    if !runs(state) {
        return Err(OpError::other(format!("{}: nothing listens there", request.url)));
    }
    let path = request.url.split_once("/api/v2.0").map(|(_, path)| path).unwrap_or_default();
    let body: Value = serde_json::from_str(request.body).unwrap_or(Value::Null);
    let (status, answer) = if path == "/health" {
        (200, json!({"status": "healthy", "components": [{"name": "core", "status": "healthy"}]}))
    } else if request.login != Some("Basic YWRtaW46SGFyYm9yMTIzNDU=") {
        refuse(401, "UNAUTHORIZED", "unauthorized")
    } else {
        asked(&mut state.harbor, request.method, path, &body)
    };
    Ok((status, answer.to_string().into_bytes()))
}

fn asked(harbor: &mut Harbor, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    // Its API refuses larger pages.
    let page = query.split('&').find_map(|pair| pair.strip_prefix("page_size=")?.parse::<u32>().ok());
    if page.is_some_and(|size| size > 100) {
        return refuse(422, "UNPROCESSABLE_ENTITY", "page_size in query should be less than or equal to 100");
    }
    match (method, parts.as_slice()) {
        ("GET", ["projects"]) => (200, json!([])),
        ("POST", ["projects"]) => {
            let name = body["project_name"].as_str().unwrap_or_default().to_owned();
            if harbor.projects.contains_key(&name) {
                return refuse(409, "CONFLICT", &format!("The project named {name} already exists"));
            }
            let public = body["metadata"]["public"] == "true";
            let storage = body["storage_limit"].as_i64().unwrap_or(-1);
            let id = harbor.projects.len() + 1;
            harbor.projects.insert(name, Project { id, public, storage, owner: String::new() });
            (201, Value::Null)
        }
        (_, ["projects", name]) => {
            let full = harbor.references.keys().any(|key| key.starts_with(&format!("{name}/")));
            let Some(project) = harbor.projects.get_mut(*name) else {
                return refuse(404, "NOT_FOUND", &format!("project {name} not found"));
            };
            match method {
                "GET" => {
                    let owner = if project.owner.is_empty() { "admin" } else { &project.owner };
                    let metadata = json!({"public": project.public.to_string()});
                    let mut shown = json!({"project_id": project.id, "metadata": metadata});
                    if owner == "(deleted)" {
                        shown["owner_id"] = 7.into();
                    } else {
                        shown["owner_name"] = owner.into();
                    }
                    (200, shown)
                }
                "PUT" => {
                    project.public = body["metadata"]["public"] == "true";
                    (200, Value::Null)
                }
                "DELETE" if full => refuse(412, "PRECONDITION", "the project contains repositories"),
                _ => {
                    harbor.projects.remove(*name);
                    (200, Value::Null)
                }
            }
        }
        ("GET", ["quotas"]) => {
            let id = query.rsplit('=').next().and_then(|id| id.parse::<usize>().ok());
            let found = harbor.projects.values().find(|project| Some(project.id) == id);
            (200, found.map_or(json!([]), |one| json!([{"id": one.id, "hard": {"storage": one.storage}}])))
        }
        ("PUT", ["quotas", id]) => {
            for project in harbor.projects.values_mut().filter(|project| project.id.to_string() == *id) {
                project.storage = body["hard"]["storage"].as_i64().unwrap_or(-1);
            }
            (200, Value::Null)
        }
        (_, ["projects", project, "repositories", name, "artifacts", rest @ ..]) => {
            artifact(harbor, method, &format!("{project}/{}", name.replace("%252F", "/")), (rest, body))
        }
        ("POST", ["system", "gc", "schedule"]) => (201, Value::Null),
        ("GET", ["system", "gc"]) => (200, json!([{"id": 1, "job_status": "Success"}])),
        ("GET", ["robots"]) => (200, harbor.robots.values().cloned().collect()),
        ("POST", ["robots"]) => {
            let id = harbor.robots.len() + 1;
            let mut robot = body.clone();
            robot["id"] = id.into();
            robot["name"] = format!("robot${}", body["name"].as_str().unwrap_or_default()).into();
            harbor.robots.insert(id.to_string(), robot.clone());
            (201, json!({"id": id, "name": robot["name"], "secret": "theirs"}))
        }
        (_, ["robots", id]) => {
            let Some(robot) = harbor.robots.get_mut(*id) else { return refuse(404, "NOT_FOUND", "robot not found") };
            match method {
                "PUT" => *robot = body.clone(),
                "PATCH" => robot["kubexmSecret"] = body["secret"].clone(),
                _ => drop(harbor.robots.remove(*id)),
            }
            (200, Value::Null)
        }
        _ => refuse(404, "NOT_FOUND", &format!("{method} {path} is not known")),
    }
}

/// An image by its digest, and one of its tags.
fn artifact(harbor: &mut Harbor, method: &str, repository: &str, (rest, body): (&[&str], &Value)) -> (u16, Value) {
    let own = format!("{repository}/");
    let asked = rest.first().copied().unwrap_or_default();
    // By a tag, too.
    let Some(digest) = harbor.references.get(&format!("{own}{asked}")).cloned() else {
        return refuse(404, "NOT_FOUND", &format!("artifact {repository}@{asked} not found"));
    };
    let tags = harbor.references.iter().filter(|(_, names)| **names == digest);
    let tags: Vec<String> = tags.filter_map(|(key, _)| Some(key.strip_prefix(&own)?.to_owned())).collect();
    let tags: Vec<String> = tags.into_iter().filter(|tag| !tag.starts_with("sha256:")).collect();
    match (method, rest) {
        ("GET", [_]) => {
            let tags: Vec<Value> = tags.iter().map(|tag| json!({"name": tag})).collect();
            (200, json!({"digest": digest, "tags": tags}))
        }
        ("DELETE", [_]) => {
            harbor.references.retain(|key, names| !(key.starts_with(&own) && *names == digest));
            (200, Value::Null)
        }
        ("POST", [_, "tags"]) => {
            let tag = body["name"].as_str().unwrap_or_default();
            if harbor.references.contains_key(&format!("{own}{tag}")) {
                return refuse(409, "CONFLICT", &format!("tag {tag} already exists"));
            }
            harbor.references.insert(format!("{own}{tag}"), digest);
            (201, Value::Null)
        }
        ("DELETE", [_, "tags", tag]) => {
            harbor.references.remove(&format!("{own}{tag}"));
            (200, Value::Null)
        }
        _ => refuse(404, "NOT_FOUND", "not known"),
    }
}

/// Whether a login is the robot's.
pub(super) fn get(state: &State, server: &HttpsServer<'_>) -> Result<u16, OpError> {
    if !runs(state) {
        return Err(OpError::other(format!("{}: nothing listens there", server.url)));
    }
    Ok(if knows(state, server.login) { 200 } else { 401 })
}

fn knows(state: &State, login: Option<&str>) -> bool {
    use base64::Engine as _;
    let pair = login.and_then(|login| login.strip_prefix("Basic "));
    let pair = pair.and_then(|text| base64::engine::general_purpose::STANDARD.decode(text).ok());
    let pair = pair.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let (user, password) = pair.split_once(':').unwrap_or_default();
    let is_it = |robot: &Value| robot["name"] == user && robot["kubexmSecret"] == password;
    (user, password) == ("admin", "Harbor12345") || state.harbor.robots.values().any(is_it)
}

pub(super) fn heads(state: &State, server: &HttpsServer<'_>, paths: &[String]) -> Vec<Head> {
    let known = knows(state, server.login);
    let one = |path: &String| {
        if !known {
            return Head { status: 401, digest: None };
        }
        let name = path.trim_start_matches("/v2/").replacen("/manifests/", "/", 1).replacen("/blobs/", "/", 1);
        let digest = state.harbor.references.get(&name).cloned();
        Head { status: if digest.is_some() { 200 } else { 404 }, digest }
    };
    paths.iter().map(one).collect()
}

pub(super) fn push(state: &mut State, request: &PushRequest<'_>) -> Result<String, OpError> {
    if !runs(state) {
        return Err(OpError::other(format!("{}: nothing listens there", request.registry)));
    }
    for image in request.images.values() {
        let project = image.repository.split('/').next().unwrap_or_default();
        if !state.harbor.projects.contains_key(project) {
            return Err(OpError::other(format!("project {project} not found")));
        }
        for blob in &image.blobs {
            if !request.blobs.join(blob.hex()).is_file() {
                return Err(OpError::other(format!("{blob} is not in the store")));
            }
            state.harbor.references.insert(format!("{}/{blob}", image.repository), blob.to_string());
        }
        let digest = image.manifest.to_string();
        state.harbor.references.insert(format!("{}/{digest}", image.repository), digest.clone());
        if let Some(tag) = &image.tag {
            state.harbor.references.insert(format!("{}/{tag}", image.repository), digest);
        }
    }
    Ok(format!("{} images pushed", request.images.len()))
}
