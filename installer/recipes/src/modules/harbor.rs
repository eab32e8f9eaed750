//! Harbor on the registry host, if `spec.registry.type` is `harbor`: docker's static programs with a prefix, a socket and data
//! of their own, compose, the offline installer, then projects and the bundle's images through Harbor's own API
//! ([decision 0059](../../../../docs/decisions/0059-harbor-runs-beside-the-depot.md)).

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use kubexm_plan::op::{
    Blobs, Dir, File, HARBOR_UNIT, HarborAccess, HarborImage, HarborImages, HarborProjects, StateDir, Unit,
};
use kubexm_plan::{Probe, SlotProvider, Step, Undo, runtime};
use kubexm_spec::cluster::{Cluster, HARBOR_ADMIN, HARBOR_DATABASE, Harbor, RegistryKind, RuntimeKind, overlap};
use kubexm_spec::depot::{Repository, by_tag, served_as};
use kubexm_spec::manifest::Artifact;
use kubexm_spec::{Kind, Program, names};
use minijinja::context;
use serde_json::{Value, json};

use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::modules::{depot, programs};
use crate::templates::template;
use crate::{paths, templates, yaml};

const ENGINE_UNIT: &str = "kubexm-harbor-engine.service";
/// The name of the robot by which nodes pull.
const ROBOT: &str = "kubexm-nodes";
/// What Harbor puts before it.
const ROBOT_PREFIX: &str = "robot$";
/// Slots of the robot's secret, and of the header with it.
const ROBOT_SLOT: &str = "harbor-robot";
pub const ROBOT_LOGIN_SLOT: &str = "harbor-robot-login";
/// What its secret is derived for.
const ROBOT_PURPOSE: &str = "harbor-robot";
/// Fields of harbor.yml that follow from other fields of cluster.yaml.
const OURS: [&str; 5] = ["hostname", "https", "external_url", "data_volume", "_version"];
/// Harbor's own default of the port that redirects to https.
const HTTP_PORT: u16 = 80;
/// Where its containers send their logs to, on the host itself (goharbor/harbor, make/photon/prepare/templates/docker_compose).
pub const LOG_PORT: u16 = 1514;
/// Networks that its containers may have; the first that overlaps none of the cluster's is taken.
const POOLS: [&str; 4] = ["172.29.128.0/20", "10.211.128.0/20", "192.168.240.0/20", "198.18.128.0/20"];

/// Harbor and its content; no steps if the cluster uses another registry.
pub fn steps(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Vec<Step>, RecipeError> {
    let cx = draft.cx;
    if cx.cluster.registry.kind != RegistryKind::Harbor {
        return Ok(Vec::new());
    }
    let config = config(cx);
    let images = images(cx)?;
    Ok(vec![
        programs(cx, node)?,
        serve(draft, node, &config)?,
        projects(draft, node, &config, &images),
        fill(cx, node, images),
    ])
}

/// `spec.registry.harborConfig`, or its defaults.
pub fn config(cx: &PlanContext<'_>) -> Harbor {
    cx.cluster.registry.harbor.clone().unwrap_or_default()
}

/// `registry.demo.kubexm.internal`, with the port where it is not that of https. Harbor's tokens name it in this form.
pub fn address(cluster: &Cluster) -> String {
    let name = names::registry_name(&cluster.name);
    match cluster.registry.port {
        443 => name,
        port => format!("{name}:{port}"),
    }
}

/// How ops on its host reach it.
pub fn access(cluster: &Cluster) -> HarborAccess {
    HarborAccess {
        registry: address(cluster),
        ca: paths::HARBOR_CA.to_owned(),
        admin_password: paths::HARBOR_ADMIN_PASSWORD.to_owned(),
    }
}

/// Who makes the header that nodes show; none if everybody may pull.
pub fn header(cx: &PlanContext<'_>) -> Option<SlotProvider> {
    (!config(cx).public).then(robot_login)
}

fn robot_login() -> SlotProvider {
    let username = format!("{ROBOT_PREFIX}{ROBOT}");
    SlotProvider::DerivedPassword { purpose: ROBOT_PURPOSE.to_owned(), username: Some(username) }
}

/// The port that redirects to https.
pub fn http_port(harbor: &Harbor) -> u16 {
    let port = harbor.config.get("http").and_then(|http| http.get("port")).and_then(Value::as_u64);
    port.and_then(|port| u16::try_from(port).ok()).unwrap_or(HTTP_PORT)
}

fn home(below: &str) -> String {
    format!("{}/{below}", paths::HARBOR_HOME)
}

fn programs(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let (bin, compose, installer) = (home("bin"), home("compose"), home("installer"));
    let written = ["common", "docker-compose.yml", "harbor.yml", "input"];
    Ok(Step::on(node.name(), "harbor.programs", "Install docker's programs for Harbor, and Harbor's installer")
        .ensure(Dir { path: paths::HARBOR_HOME.to_owned(), mode: 0o755 })
        .ensure(Dir { path: bin.clone(), mode: 0o755 })
        // Apart from docker's archive, which owns every file of its folder.
        .ensure(Dir { path: compose.clone(), mode: 0o755 })
        .ensure(Dir { path: installer.clone(), mode: 0o755 })
        .ensure(programs::install(cx, node, Program::Docker, &bin)?)
        .ensure(programs::install(cx, node, Program::DockerCompose, &compose)?)
        .ensure(programs::install(cx, node, Program::Harbor, &installer)?)
        .ensure_all(written.map(|name| StateDir { path: format!("{installer}/{name}") }))
        .timeout_s(1200)
        .undo(Undo::RestoreBefore)
        .build())
}

fn serve(draft: &mut Draft<'_>, node: &PlannedHost<'_>, harbor: &Harbor) -> Result<Step, RecipeError> {
    let cx = draft.cx;
    let data_dir = cx.cluster.registry.data_dir.as_str();
    let (head, database, logs) = harbor_yml(cx, node, harbor)?;
    let mut loaded = Vec::new();
    let mut files: Vec<File> = Vec::new();
    let mut add = |file: File| {
        loaded.push(file.path.clone());
        files.push(file);
    };
    let given = [
        (harbor.admin_password.is_some(), paths::HARBOR_ADMIN_SOURCE, "harbor-admin", HARBOR_ADMIN),
        (harbor.database_password.is_some(), paths::HARBOR_DATABASE_SOURCE, "harbor-database", HARBOR_DATABASE),
    ];
    let [admin, own_database] = given.map(|(given, path, slot, field)| {
        let source = SlotProvider::Secret { field: field.to_owned() };
        given.then(|| add(draft.slot_file(path, 0o600, slot, source))).map_or("", |()| path)
    });
    let identity = depot::issued(cx.cluster, node.name(), node.ip, (paths::HARBOR_CERT, paths::HARBOR_KEY));
    draft.issued(identity).into_iter().for_each(&mut add);
    add(draft.file(paths::HARBOR_CONFIG, 0o600, head));
    add(draft.file(paths::HARBOR_DATABASE, 0o600, database));
    let values = context! {
        home => paths::HARBOR_HOME,
        state => paths::HARBOR_STATE,
        data_dir,
        config => paths::HARBOR_CONFIG,
        database => paths::HARBOR_DATABASE,
        admin_password => admin,
        database_password => own_database,
        images => cx.program(Program::Harbor, node.platform)?.digest.to_string(),
    };
    add(draft.file(home("start"), 0o755, templates::render(template!("harbor-start.sh"), values.clone())?));
    add(draft.template(paths::unit(HARBOR_UNIT), template!("kubexm-harbor.service"), values.clone())?);
    let stop = draft.file(home("stop"), 0o755, templates::render(template!("harbor-stop.sh"), values.clone())?);
    let engine_values = context! { home => paths::HARBOR_HOME, config => paths::HARBOR_ENGINE_CONFIG };
    let engine = [
        draft.file(paths::HARBOR_ENGINE_CONFIG, 0o644, engine_config(cx, node)?),
        draft.file(home("engine"), 0o755, templates::render(template!("harbor-engine.sh"), engine_values)?),
        draft.template(paths::unit(ENGINE_UNIT), template!("kubexm-harbor-engine.service"), values)?,
    ];
    let engine_loaded = engine.iter().map(|file| file.path.clone()).collect();
    let stopped = draft.file(home("stopped"), 0o755, templates::render(template!("harbor-stopped.sh"), context! {})?);
    let unit = |name: &str, loaded| Unit {
        name: name.to_owned(),
        enabled: true,
        running: Some(true),
        loaded,
        reloaded: Vec::new(),
    };
    Ok(Step::on(node.name(), "harbor.serve", "Start Harbor")
        .ensure(Dir { path: paths::HARBOR_CONFIG_DIR.to_owned(), mode: 0o700 })
        .ensure(draft.slot_file(paths::HARBOR_CA, 0o644, depot::CA_SLOT, SlotProvider::REGISTRY_CA))
        // What others push stays when Harbor is taken away: a folder with content is not removed.
        .ensure(Dir { path: data_dir.to_owned(), mode: 0o755 })
        .ensure_all([StateDir::at(paths::HARBOR_STATE), StateDir { path: logs }])
        .ensure_all(written_elsewhere().map(StateDir::at))
        .ensure_all(files)
        .ensure_all([stop, stopped])
        .ensure_all(engine)
        .ensure(unit(ENGINE_UNIT, engine_loaded))
        .ensure(unit(HARBOR_UNIT, loaded))
        .probe(
            Probe::HarborHealthy { url: format!("https://{}", address(cx.cluster)), ca: paths::HARBOR_CA.to_owned() },
            600,
        )
        .timeout_s(2400)
        .undo(Undo::RestoreBefore)
        .build())
}

fn projects(
    draft: &mut Draft<'_>,
    node: &PlannedHost<'_>,
    harbor: &Harbor,
    images: &BTreeMap<String, HarborImage>,
) -> Step {
    let cx = draft.cx;
    let project = |image: &HarborImage| image.repository.split('/').next().unwrap_or_default().to_owned();
    let secret = SlotProvider::DerivedPassword { purpose: ROBOT_PURPOSE.to_owned(), username: None };
    let login = draft.slot_file(paths::HARBOR_LOGIN, 0o600, ROBOT_LOGIN_SLOT, robot_login());
    Step::on(node.name(), "harbor.projects", "Make Harbor's projects, and the account by which nodes pull")
        .ensure(login)
        .ensure(HarborProjects {
            harbor: access(cx.cluster),
            projects: images.values().map(project).collect(),
            public: harbor.public,
            quota: harbor.project_quota,
            robot: ROBOT.to_owned(),
            slots: vec![draft.slot(ROBOT_SLOT, secret)],
        })
        .timeout_s(300)
        .undo(Undo::RestoreBefore)
        .build()
}

fn fill(cx: &PlanContext<'_>, node: &PlannedHost<'_>, images: BTreeMap<String, HarborImage>) -> Step {
    let mut repositories: BTreeMap<String, Repository> = BTreeMap::new();
    for image in images.values() {
        let repository = repositories.entry(image.repository.clone()).or_default();
        repository.tags.extend(image.tag.iter().map(|tag| (tag.clone(), image.manifest)));
        repository.manifests.insert(image.manifest);
        repository.blobs.extend(image.blobs.iter().copied().filter(|blob| *blob != image.manifest));
    }
    let of_images = cx.manifest.artifacts.iter().filter(|artifact| artifact.key.kind() == Kind::Image);
    let blobs: BTreeSet<_> = of_images.flat_map(|artifact| artifact.blobs.iter().copied()).collect();
    Step::on(node.name(), "harbor.images", "Push the bundle's images to Harbor")
        .ensure(HarborImages { harbor: access(cx.cluster), images })
        .probe(
            Probe::RegistryServes {
                url: format!("https://{}", address(cx.cluster)),
                ca: paths::HARBOR_CA.to_owned(),
                // Harbor answers 401 to whoever asks a public project without a token.
                login: Some(paths::HARBOR_LOGIN.to_owned()),
                repositories,
            },
            60,
        )
        .timeout_s(Blobs::delivery_s(blobs.iter().map(|blob| blob.size).sum()))
        .retries(2)
        .undo(Undo::RestoreBefore)
        .build()
}

/// Every image of the bundle by upstream's name. Each is what the bundle's one platform has: Harbor refuses an index of which
/// other platforms are missing.
fn images(cx: &PlanContext<'_>) -> Result<BTreeMap<String, HarborImage>, RecipeError> {
    let several = cx.manifest.platforms.len() > 1;
    let mut by_digest = Vec::new();
    let mut images = BTreeMap::new();
    let by_tag = by_tag(cx.manifest);
    for artifact in cx.manifest.artifacts.iter().filter(|artifact| artifact.key.kind() == Kind::Image) {
        let Artifact { name, digest, manifest, blobs, .. } = artifact;
        let manifest = manifest.unwrap_or(*digest);
        let (path, tag) = served_as(name, &by_tag);
        if name.contains('@') && manifest != *digest {
            by_digest.push(name.clone());
        }
        let (host, below) = path.split_once('/').unwrap_or(("docker.io", path));
        let image = HarborImage {
            repository: format!("{}/{below}", names::registry_folder(host)),
            tag: tag.map(str::to_owned),
            manifest,
            blobs: blobs.iter().map(|blob| blob.digest).filter(|blob| *blob == manifest || blob != digest).collect(),
        };
        images.insert(name.clone(), image);
    }
    let unsupported = |what: String, hint: &str| Err(RecipeError::Unsupported { what, hint: hint.to_owned() });
    if several {
        return unsupported(
            "Harbor with a bundle of several platforms".to_owned(),
            "name one platform in `spec.bundle.platforms` and build the bundle again, or use another registry",
        );
    }
    if !by_digest.is_empty() {
        return unsupported(
            format!("Harbor with images that are named by the digest of an index ({})", by_digest.join(", ")),
            "name them by a tag: Harbor refuses an index whose other platforms are missing",
        );
    }
    Ok(images)
}

/// harbor.yml without passwords, the fields of its database, and the folder of its logs. `prepare` reads the line of
/// `data_volume` with grep and awk, so it is plain.
fn harbor_yml(
    cx: &PlanContext<'_>,
    node: &PlannedHost<'_>,
    harbor: &Harbor,
) -> Result<(String, String, String), RecipeError> {
    let taken: Vec<&str> = OURS.into_iter().filter(|key| harbor.config.contains_key(*key)).collect();
    if !taken.is_empty() {
        return Err(RecipeError::Unsupported {
            what: format!("{} in spec.registry.harborConfig.config", taken.join(", ")),
            hint: "leave it out: it follows from the cluster's name, spec.registry.port and spec.registry.dataDir"
                .to_owned(),
        });
    }
    let version = &cx.program(Program::Harbor, node.platform)?.version;
    let minor: Vec<&str> = version.split('.').take(2).collect();
    let mut all = json!({
        "hostname": names::registry_name(&cx.cluster.name),
        "http": {"port": HTTP_PORT},
        "https": {
            "port": cx.cluster.registry.port,
            "certificate": paths::HARBOR_CERT,
            "private_key": paths::HARBOR_KEY,
        },
        "database": {"max_idle_conns": 100, "max_open_conns": 900, "conn_max_lifetime": "5m", "conn_max_idle_time": 0},
        // Its databases of vulnerabilities are in no bundle, so it is not started; `prepare` wants the fields.
        "trivy": {"ignore_unfixed": false, "skip_update": true, "offline_scan": true, "security_check": "vuln", "insecure": false},
        "jobservice": {
            "max_job_workers": 10,
            "job_loggers": ["STD_OUTPUT", "FILE"],
            "logger_sweeper_duration": 1,
        },
        "notification": {"webhook_job_max_retry": 3, "webhook_job_http_client_timeout": 3},
        "log": {
            "level": "info",
            "local": {"rotate_count": 50, "rotate_size": "200M", "location": paths::HARBOR_LOGS},
        },
        "proxy": {"http_proxy": null, "https_proxy": null, "no_proxy": null, "components": ["core", "jobservice", "trivy"]},
        "_version": format!("{}.0", minor.join(".")),
    });
    yaml::merge(&mut all, &harbor.config);
    let logs = all["log"]["local"]["location"].as_str().unwrap_or(paths::HARBOR_LOGS).to_owned();
    let database = all.as_object_mut().and_then(|all| all.remove("database")).unwrap_or_else(|| json!({}));
    let head = format!("data_volume: {}\n{}", cx.cluster.registry.data_dir, text(&all)?);
    let database = match &database {
        Value::Object(fields) if fields.is_empty() => String::new(),
        fields => text(fields)?.lines().map(|line| format!("  {line}\n")).collect(),
    };
    Ok((head, database, logs))
}

fn text(value: &Value) -> Result<String, RecipeError> {
    let text = yaml::documents("harbor.yml", std::slice::from_ref(value))?;
    Ok(text.trim_start_matches("---\n").to_owned())
}

/// What the engine writes wherever its configuration puts it: its key, and a folder of the plugin `opt` of the default runtime, which it starts.
fn written_elsewhere() -> impl Iterator<Item = &'static str> {
    let of_runtime = runtime::of(RuntimeKind::default()).state.iter().copied();
    of_runtime.filter(|path| path.starts_with("/opt/")).chain(["/etc/docker"])
}

/// It changes nothing of the host's network: no rule of iptables, so neither FORWARD's policy nor anybody's chains; no bridge
/// but that of Harbor's own containers; ports are passed on by its proxy process.
fn engine_config(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<String, RecipeError> {
    let run = paths::HARBOR_RUN;
    let mut config = json!({
        "hosts": [format!("unix://{run}/docker.sock")],
        "data-root": format!("{}/engine", paths::HARBOR_STATE),
        "exec-root": format!("{run}/engine"),
        "pidfile": format!("{run}/engine.pid"),
        "bridge": "none",
        "iptables": false,
        "ip6tables": false,
        "ip-forward": false,
        "ip-masq": false,
        "userland-proxy": true,
        "userland-proxy-path": home("bin/docker-proxy"),
        "default-address-pools": [{"base": pool(cx)?, "size": 24}],
        "log-driver": "json-file",
        "log-opts": {"max-size": "10m", "max-file": "3"},
    });
    // With version 1 it would put its containers into a group `docker`, which any other engine of the host uses too; with
    // version 2 systemd makes a unit for each.
    match node.facts.cgroup_version {
        1 => config["cgroup-parent"] = "/kubexm-harbor".into(),
        _ => config["exec-opts"] = json!(["native.cgroupdriver=systemd"]),
    }
    let fault = |error: serde_json::Error| RecipeError::Document { name: "engine config", reason: error.to_string() };
    Ok(serde_json::to_string_pretty(&config).map_err(fault)? + "\n")
}

/// It follows from cluster.yaml alone, so that it stays the same.
fn pool(cx: &PlanContext<'_>) -> Result<&'static str, RecipeError> {
    let network = &cx.cluster.network;
    let mut taken: Vec<IpNet> = vec![network.pod_cidr, network.service_cidr];
    taken.extend(network.more_pod_cidrs.iter().chain(&network.more_service_cidrs).copied());
    let hosts: Vec<_> = cx.cluster.hosts.iter().filter_map(|host| host.node_ip()).collect();
    let is_free = |pool: &&str| {
        pool.parse::<IpNet>().is_ok_and(|pool| {
            !taken.iter().any(|other| overlap(pool, *other)) && !hosts.iter().any(|host| pool.contains(host))
        })
    };
    POOLS.into_iter().find(is_free).ok_or_else(|| RecipeError::BadNetwork {
        field: "spec.network.podCidr",
        value: network.pod_cidr.to_string(),
        reason: format!("leaves no network for Harbor's containers; one of {} must be free", POOLS.join(", ")),
    })
}
