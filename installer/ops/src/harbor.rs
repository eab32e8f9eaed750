//! Harbor's API v2.0: projects, robots, quotas, health (goharbor/harbor, api/v2.0/swagger.yaml; the same paths from 2.5 to 2.15).

mod artifacts;

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kubexm_plan::op::HarborAccess;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::system::{HttpsAnswer, HttpsRequest};
use crate::{Machine, OpError, fsio};

/// The user who may do everything.
pub(crate) const ADMIN: &str = "admin";
/// The id of that user, whatever its name is.
const ADMINS_ID: i64 = 1;
/// The most entries of a page.
const PAGE: usize = 100;

/// A Harbor, and its administrator.
pub(crate) struct Harbor<'m> {
    machine: &'m Machine,
    url: String,
    ca: Vec<u8>,
    login: Option<Zeroizing<String>>,
}

/// An answer that was none of those that were expected.
enum Failed {
    /// Nobody answered.
    Silent(OpError),
    /// Harbor refused, in its own words.
    Refused(OpError),
}

impl From<Failed> for OpError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Silent(error) | Failed::Refused(error) => error,
        }
    }
}

/// The password in a file; none if Harbor was not started yet.
pub(crate) fn password(machine: &Machine, path: &str) -> Result<Option<Zeroizing<String>>, OpError> {
    let text = fsio::read_text(&machine.path(path))?.map(Zeroizing::new);
    Ok(text.map(|text| Zeroizing::new(kubexm_spec::cluster::password_line(&text).to_owned())))
}

/// Says that Harbor has to be started first.
pub(crate) fn not_started(access: &HarborAccess) -> OpError {
    let HarborAccess { ca, admin_password, .. } = access;
    OpError::other(format!("{ca} or {admin_password} is missing: Harbor was not started"))
}

/// The value of an `Authorization` header.
pub(crate) fn basic(username: &str, password: &str) -> Zeroizing<String> {
    let pair = Zeroizing::new(format!("{username}:{password}"));
    Zeroizing::new(format!("Basic {}", BASE64.encode(pair.as_bytes())))
}

impl<'m> Harbor<'m> {
    /// As its administrator; none if it was not set up yet.
    pub(crate) fn of(machine: &'m Machine, access: &HarborAccess) -> Result<Option<Self>, OpError> {
        Self::at(machine, &access.url(), &access.ca, Some(&access.admin_password))
    }

    /// Nothing is asked yet; none if a file is missing, since Harbor was not set up yet.
    pub(crate) fn at(machine: &'m Machine, url: &str, ca: &str, admin: Option<&str>) -> Result<Option<Self>, OpError> {
        let Some(ca) = fsio::read(&machine.path(ca))? else { return Ok(None) };
        let login = match admin {
            None => None,
            Some(file) => match password(machine, file)? {
                Some(password) => Some(basic(ADMIN, &password)),
                None => return Ok(None),
            },
        };
        Ok(Some(Self { machine, url: url.to_owned(), ca, login }))
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<(u16, Value), Failed> {
        let url = format!("{}/api/v2.0{path}", self.url);
        let body = body.map(ToString::to_string).map(Zeroizing::new);
        let request = HttpsRequest {
            method,
            url: &url,
            ca: &self.ca,
            certificate: &[],
            key: &[],
            login: self.login.as_ref().map(|login| login.as_str()),
            body: body.as_ref().map_or("", |body| body.as_str()),
            content: None,
            accept: None,
            over: None,
        };
        let HttpsAnswer { status, body: bytes, .. } =
            self.machine.system().https_request(&request).map_err(Failed::Silent)?;
        // While it starts, its proxy answers for it.
        if matches!(status, 502..=504) {
            return Err(Failed::Silent(OpError::other(format!("{method} {url}: {status}, it is not up yet"))));
        }
        Ok((status, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
    }

    fn refused(&self, doing: &str, status: u16, body: &Value) -> Failed {
        let said: Vec<String> = body["errors"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|error| format!("{}: {}", text(&error["code"]), text(&error["message"])))
            .collect();
        let said = if said.is_empty() { "no message".to_owned() } else { said.join("; ") };
        let mend = match status {
            401 => {
                "; the password of its user admin is another one than it was installed with: name the source of the right one in \
                    spec.registry.harborConfig.adminPasswordFrom"
            }
            403 => "; the user admin must be a system administrator there",
            412 => "; a rule of its project keeps the tag from being changed, or an index of somebody else's names it",
            _ => "",
        };
        Failed::Refused(OpError::other(format!("Harbor at {} refuses to {doing} ({status}): {said}{mend}", self.url)))
    }

    /// Problems of components; empty if it is healthy.
    pub(crate) fn problems(&self) -> Result<Vec<String>, OpError> {
        let (status, body) = self.ask("GET", "/health", None)?;
        if status != 200 {
            return Ok(vec![format!("/api/v2.0/health answers {status}")]);
        }
        let components = body["components"].as_array().into_iter().flatten();
        let bad = components.filter(|component| component["status"] != "healthy");
        let bad: Vec<String> = bad
            .map(|component| {
                format!("{} {}", text(&component["name"]), text(&component["error"])).trim_end().to_owned()
            })
            .collect();
        Ok(match (bad.is_empty(), body["status"] == "healthy") {
            (true, false) => vec![format!("it is {}", text(&body["status"]))],
            _ => bad,
        })
    }

    /// Whether it answers at all, be it with a refusal.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.ask("GET", "/projects?page_size=1", None), Ok((status, _)) if status < 500)
    }

    /// Id, visibility and most bytes of a project (-1 for no limit); none if there is none.
    pub(crate) fn project(&self, name: &str) -> Result<Option<Project>, OpError> {
        let (status, body) = self.ask("GET", &format!("/projects/{name}"), None)?;
        match status {
            404 => return Ok(None),
            200 => {}
            _ => return Err(self.refused(&format!("show the project {name}"), status, &body).into()),
        }
        let id = body["project_id"].as_i64().ok_or_else(|| self.odd("a project without project_id"))?;
        let path = format!("/quotas?reference=project&reference_id={id}");
        let (status, quotas) = self.ask("GET", &path, None)?;
        if status != 200 {
            return Err(self.refused(&format!("show the quota of the project {name}"), status, &quotas).into());
        }
        let quota = &quotas[0];
        Ok(Some(Project {
            // Harbor leaves the name out when the account is deleted; whom that user has added may still push.
            owner: match (body["owner_name"].as_str(), body["owner_id"].as_i64()) {
                (Some(name), _) if !name.is_empty() => name.to_owned(),
                (_, Some(ADMINS_ID)) => ADMIN.to_owned(),
                _ => "whose account is deleted".to_owned(),
            },
            public: body["metadata"]["public"] == "true",
            storage: quota["hard"]["storage"].as_i64().unwrap_or(-1),
            quota: quota["id"].as_i64(),
        }))
    }

    /// Makes a project. One that somebody made meanwhile is changed.
    pub(crate) fn make_project(&self, name: &str, public: bool, storage: i64) -> Result<(), OpError> {
        let body = json!({
            "project_name": name,
            "metadata": {"public": public.to_string()},
            "storage_limit": storage,
        });
        match self.ask("POST", "/projects", Some(&body))? {
            (201 | 409, _) => Ok(()),
            (status, body) => Err(self.refused(&format!("make the project {name}"), status, &body).into()),
        }
    }

    /// Gives a project this visibility and quota.
    pub(crate) fn change_project(&self, name: &str, public: bool, storage: i64) -> Result<(), OpError> {
        let found = self.project(name)?.ok_or_else(|| self.odd(&format!("no project {name} after it was made")))?;
        if !found.is_administrators() {
            let Self { url, .. } = self;
            let owner = found.owner.escape_default().take(300).collect::<String>();
            return Err(OpError::other(format!(
                "the project {name} of Harbor at {url} was made by its user {owner}, who may move the tags that nodes pull from there: see \
                 what is in it, delete the project, and run `create` again, which makes it for the administrator"
            )));
        }
        if found.public != public {
            let body = json!({"metadata": {"public": public.to_string()}});
            let (status, body) = self.ask("PUT", &format!("/projects/{name}"), Some(&body))?;
            if status != 200 {
                return Err(self.refused(&format!("change the project {name}"), status, &body).into());
            }
        }
        if found.storage != storage {
            let id = found.quota.ok_or_else(|| self.odd(&format!("no quota of the project {name}")))?;
            let body = json!({"hard": {"storage": storage}});
            let (status, body) = self.ask("PUT", &format!("/quotas/{id}"), Some(&body))?;
            if status != 200 {
                return Err(self.refused(&format!("set the quota of the project {name}"), status, &body).into());
            }
        }
        Ok(())
    }

    /// Removes a project if it is empty.
    pub(crate) fn remove_empty_project(&self, name: &str) -> Result<(), OpError> {
        match self.ask("DELETE", &format!("/projects/{name}"), None)? {
            (200 | 404 | 412, _) => Ok(()),
            (status, body) => Err(self.refused(&format!("remove the project {name}"), status, &body).into()),
        }
    }

    /// A robot of the system by its name without Harbor's prefix.
    pub(crate) fn robot(&self, name: &str) -> Result<Option<Value>, OpError> {
        let full = format!("{ROBOT_PREFIX}{name}");
        for page in 1.. {
            let (status, body) = self.ask("GET", &format!("/robots?page={page}&page_size={PAGE}"), None)?;
            if status != 200 {
                return Err(self.refused("list robots", status, &body).into());
            }
            let all = body.as_array().cloned().unwrap_or_default();
            if let Some(robot) = all.iter().find(|robot| robot["name"] == full.as_str()) {
                return Ok(Some(robot.clone()));
            }
            if all.len() < PAGE {
                break;
            }
        }
        Ok(None)
    }

    /// Makes the robot, or gives it these rights, and sets its secret. What it could pull before it can pull further: pods of an earlier
    /// bundle may be made again at any time.
    pub(crate) fn make_robot(&self, name: &str, projects: &[&str], secret: &str) -> Result<(), OpError> {
        let found = self.robot(name)?;
        let mut all: BTreeSet<&str> = projects.iter().copied().collect();
        for project in found.iter().flat_map(namespaces).filter(|project| *project != EVERY_PROJECT) {
            // Rights to a project that is gone are refused, and one that somebody else has made is not the cluster's.
            let is_ours = |found: Project| found.is_administrators();
            if !all.contains(project) && self.project(project)?.is_some_and(is_ours) {
                all.insert(project);
            }
        }
        let permissions: Vec<Value> = all.iter().map(|project| permission(project)).collect();
        let mut wanted = json!({
            "name": name,
            "description": "Nodes of the Kubernetes cluster pull with it (kubexm)",
            "level": "system",
            "duration": -1,
            "disable": false,
            "permissions": permissions,
        });
        let id = match &found {
            None => {
                let (status, body) = self.ask("POST", "/robots", Some(&wanted))?;
                if status != 201 {
                    return Err(self.refused(&format!("make the robot {name}"), status, &body).into());
                }
                if body["name"] != format!("{ROBOT_PREFIX}{name}").as_str() {
                    return Err(OpError::other(format!(
                        "Harbor at {} calls the robot {:?}, and nodes log in as {ROBOT_PREFIX}{name}: set its robot name prefix to \
                         {ROBOT_PREFIX:?}",
                        self.url,
                        text(&body["name"])
                    )));
                }
                body["id"].clone()
            }
            Some(robot) => {
                wanted["name"] = robot["name"].clone();
                wanted["id"] = robot["id"].clone();
                let (status, body) = self.ask("PUT", &format!("/robots/{}", robot["id"]), Some(&wanted))?;
                if status != 200 {
                    return Err(self.refused(&format!("change the robot {name}"), status, &body).into());
                }
                robot["id"].clone()
            }
        };
        // A secret that is given when it is made is ignored.
        let (status, body) = self.ask("PATCH", &format!("/robots/{id}"), Some(&json!({"secret": secret})))?;
        match status {
            200 => Ok(()),
            _ => Err(self.refused(&format!("set the secret of the robot {name}"), status, &body).into()),
        }
    }

    /// Removes the robot.
    pub(crate) fn remove_robot(&self, name: &str) -> Result<(), OpError> {
        let Some(robot) = self.robot(name)? else { return Ok(()) };
        match self.ask("DELETE", &format!("/robots/{}", robot["id"]), None)? {
            (200 | 404, _) => Ok(()),
            (status, body) => Err(self.refused(&format!("remove the robot {name}"), status, &body).into()),
        }
    }

    /// Whether somebody may log in to the registry.
    pub(crate) fn accepts(&self, username: &str, password: &str) -> Result<bool, OpError> {
        let login = basic(username, password);
        let url = format!("{}/v2/", self.url);
        let server = crate::system::HttpsServer { url: &url, ca: &self.ca, login: Some(&login) };
        Ok(self.machine.system().https_get(&server)? == 200)
    }

    fn odd(&self, what: &str) -> OpError {
        OpError::other(format!("Harbor at {} answers with {what}, which its API does not have", self.url))
    }
}

/// What Harbor puts before a robot's name, unless its administrator set another prefix.
pub(crate) const ROBOT_PREFIX: &str = "robot$";

/// A project as Harbor has it.
pub(crate) struct Project {
    /// Who made it, and may move its tags.
    pub(crate) owner: String,
    pub(crate) public: bool,
    /// In bytes; -1 for no limit.
    pub(crate) storage: i64,
    quota: Option<i64>,
}

impl Project {
    /// Whoever makes a project administers it, and Harbor lets every user make some.
    pub(crate) fn is_administrators(&self) -> bool {
        self.owner == ADMIN
    }
}

fn permission(project: &str) -> Value {
    json!({
        "kind": "project",
        "namespace": project,
        "access": [{"resource": "repository", "action": "pull"}],
    })
}

/// Stands for all projects, those that come later too.
const EVERY_PROJECT: &str = "*";

/// The projects that a robot has rights to.
fn namespaces(robot: &Value) -> impl Iterator<Item = &str> {
    robot["permissions"].as_array().into_iter().flatten().filter_map(|one| one["namespace"].as_str())
}

/// Whether a robot may pull from these projects, may do nothing else (of named projects: those of earlier bundles, too), is not disabled
/// and does not end.
pub(crate) fn has_rights(robot: &Value, projects: &[&str]) -> bool {
    let all = robot["permissions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let pulls = |one: &Value| {
        let rights = one["access"].as_array().map(Vec::as_slice).unwrap_or_default();
        !rights.is_empty()
            && rights.iter().all(|access| access["resource"] == "repository" && access["action"] == "pull")
    };
    let of: BTreeSet<&str> = namespaces(robot).collect();
    robot["disable"] != true
        && robot["duration"] == -1
        && !of.contains(EVERY_PROJECT)
        && projects.iter().all(|project| of.contains(project))
        && all.iter().all(pulls)
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(String::new, |text| text.escape_default().take(300).collect())
}
