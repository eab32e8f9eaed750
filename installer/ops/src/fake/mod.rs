//! A strict fake of a system, for machines rooted in a directory.
//!
//! It changes the file tree as the programs of a node do and refuses what they refuse: to start a unit whose file or
//! program is missing, to run `kubeadm init` twice, to pull an image that no registry serves. Its own state is below
//! `/run/kubexm-double` (the name is in recorded fixtures), so that a new process finds it. Tests set there: `cpus`, `arch`, `page-size`,
//! `space.json`, `inodes.json`, `interfaces.json`, `xfs-info`, `missing-modules.json`, `registry.json`, and `kill-kubeadm-init` or
//! `kill-kubeadm-join` to end an init or a join half-way. [`RootedSystem::share`] puts several hosts into one cluster.

mod api_server;
mod etcd;

mod containers;
mod control_plane;
mod cri_o;
mod docker;
mod external;
mod external_ca;
mod harbor;
pub mod harbor_host;
mod harbor_state;
mod helm;
pub mod host;
mod images;
pub mod isulad;
mod join;
mod kubeadm;
mod kubectl;
mod moved_address;
mod objects;
mod packages;
mod proxies;
mod registry;
mod releases;
mod rooted;
mod scripts;
mod seed;
mod state;
mod teardown;
mod unit_files;
mod units;
mod upgrade;
mod versions;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kubexm_plan::facts::{Inodes, Interface};
use kubexm_plan::{Op, Plan};
pub use rooted::{FOLDER, RELABELLED, RootedSystem};
pub use seed::seed;
use state::State;

#[cfg(test)]
pub(crate) use control_plane::{CA, CA_KEY};

use crate::system::{
    ActContext, Head, HttpsAnswer, HttpsRequest, HttpsServer, Kernel, Output, Program, PushRequest, Space, System,
};
use crate::{Machine, OpError, paths};

/// Programs that a plan installs: they must exist to be run.
const BROUGHT: [&str; 4] = ["kubeadm", "kubectl", "ctr", "helm"];

impl RootedSystem {
    /// Makes the registry serve the plan's images, in addition to those that it serves.
    pub fn serve_images_of(&self, plan: &Plan) -> Result<(), OpError> {
        let mut images: BTreeMap<String, String> = self.setting("registry.json").unwrap_or_default();
        let of_plan = plan.steps.iter().flat_map(|step| &step.ops).filter_map(|op| match op {
            Op::ImageLoaded(image) => Some((image.reference.clone(), image.digest.to_string())),
            _ => None,
        });
        images.extend(of_plan);
        let text = serde_json::to_vec(&images)
            .map_err(|error| OpError::other(format!("the fake's registry cannot be written as JSON: {error}")))?;
        self.put("registry.json", &text)
    }

    /// Sets dpkg's status.
    pub fn set_packages(&self, status: &str) -> Result<(), OpError> {
        packages::seed(self, status)
    }

    /// Puts an object into the cluster, as JSON.
    pub fn put_object(&self, text: &str) -> Result<(), OpError> {
        let _lock = self.lock()?;
        let mut state = State::load(self)?;
        let before = state.clone();
        state.cluster.objects.extend(objects::documents(text));
        state.save(self, &before)
    }

    /// An object of the cluster by `Kind/name`.
    pub fn object(&self, key: &str) -> Result<Option<String>, OpError> {
        let _lock = self.lock()?;
        Ok(State::load(self)?.cluster.objects.get(key).cloned())
    }

    /// Names of the node objects.
    pub fn nodes(&self) -> Result<Vec<String>, OpError> {
        let _lock = self.lock()?;
        Ok(State::load(self)?.cluster.nodes.into_keys().collect())
    }

    /// The host of a node is gone: the cluster has not heard of its kubelet for a while.
    pub fn lose_node(&self, name: &str) -> Result<(), OpError> {
        let _lock = self.lock()?;
        let mut state = State::load(self)?;
        let before = state.clone();
        if let Some(node) = state.cluster.nodes.get_mut(name) {
            node["status"]["conditions"] = serde_json::json!([{"type": "Ready", "status": "Unknown"}]);
        }
        state.save(self, &before)
    }

    /// Switches a member of etcd off, by its host's node name: it stays in the member list.
    pub fn kill_member(&self, name: &str) -> Result<(), OpError> {
        let _lock = self.lock()?;
        let mut state = State::load(self)?;
        let before = state.clone();
        state.cluster.members.values_mut().filter(|member| member.name == name).for_each(|member| member.dead = true);
        state.save(self, &before)
    }
}

impl Machine {
    /// A machine with `root` as its file system, and a strict fake of a system.
    pub fn rooted(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        let system = Arc::new(RootedSystem::new(&root));
        Self::with_system(root, system)
    }
}

impl System for RootedSystem {
    fn run(&self, program: &Program) -> Result<Output, OpError> {
        let _lock = self.lock()?;
        if BROUGHT.contains(&program.name.as_str()) && !self.is_installed(&program.name) {
            return Err(OpError::other(format!(
                "the program `{}` is not on this host (looked in {}); install it",
                program.name,
                paths::PATH
            )));
        }
        let args: Vec<&str> = program.args.iter().map(String::as_str).collect();
        let mut state = State::load(self)?;
        let before = state.clone();
        let output = match program.name.as_str() {
            "systemctl" => units::systemctl(self, &mut state, &args)?,
            "kubeadm" => kubeadm::kubeadm(self, &mut state, &args, &program.hidden)?,
            "kubectl" => kubectl::kubectl(self, &mut state, &args, program.stdin.as_deref().unwrap_or_default()),
            "helm" => helm::helm(self, &mut state, &args, program.stdin.as_deref().unwrap_or_default()),
            name if cri_o::is_its(name) => cri_o::run(self, &mut state, name, &args)?,
            name if isulad::is_its(name) => isulad::run(self, &mut state, name, &args)?,
            name if docker::is_its(name) => docker::run(self, &mut state, name, &args, &program.pieces)?,
            "ctr" => images::ctr(self, &mut state, &args, &program.pieces),
            "etcdctl" => etcd::etcdctl(self, &state, &args)?,
            "etcdutl" => etcd::etcdutl(self, &args)?,
            "modprobe" => self.modprobe(&args)?,
            "swapoff" => self.swap(&args, false)?,
            "swapon" => self.swap(&args, true)?,
            // `config dump` of 2.x writes strings in single quotes, whatever quotes the file has.
            "containerd" => {
                let config = self.read("/etc/containerd/config.toml").unwrap_or_default();
                let old = config.lines().any(|line| line == "version = 2");
                Output::text(if old { config } else { config.replace('"', "'") })
            }
            "chronyc" if state.units.get("chrony.service").is_some_and(|unit| unit.active) => {
                Output::text("^,*,10.0.0.9,3,6,377,23,-0.000000012,-0.000021,0.000139\n")
            }
            "chronyc" => Output::failed(1, "506 Cannot talk to daemon"),
            "bash" => scripts::bash(self, &args)?,
            "getent" => Output::failed(2, ""),
            "xfs_info" => Output::text(self.read(&format!("{FOLDER}/xfs-info")).unwrap_or_default()),
            "setsebool" => self.setsebool(&args)?,
            "restorecon" => {
                let before = self.read(&format!("{FOLDER}/{RELABELLED}")).unwrap_or_default();
                self.put(RELABELLED, format!("{before}{}\n", args.join(" ")).as_bytes())?;
                Output::default()
            }
            "journalctl" => Output::text(
                self.read(&format!("{FOLDER}/journal-{}", args.get(1).copied().unwrap_or_default()))
                    .unwrap_or_default(),
            ),
            "ip" => teardown::ip(self, &args)?,
            "tc" => teardown::tc(self, &args)?,
            "ipvsadm" if args == ["--clear"] => teardown::ipvsadm(self)?,
            "umount" => teardown::umount(self, &args)?,
            "ipset" if args == ["list", "-name"] => Output::default(),
            "busctl" if args.first() == Some(&"call") => Output::default(),
            other => {
                let stdin = program.stdin.as_deref().unwrap_or_default();
                if let Some(output) = packages::run(self, other, &args)? {
                    return Ok(output);
                }
                if let Some(output) = teardown::filter(self, other, stdin)? {
                    return Ok(output);
                }
                return Err(OpError::other(format!("the fake system does not know the program `{other}`")));
            }
        };
        api_server::run_manifest(self, &mut state);
        state.save(self, &before)?;
        Ok(output)
    }

    fn run_act(&self, act: &ActContext, program: &Program) -> Result<Output, OpError> {
        let output = self.run(program)?;
        let log = self.at(&act.log());
        crate::fsio::make_parent(&log)?;
        let said = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
        std::fs::write(&log, said).map_err(OpError::path("write", &log))?;
        Ok(output)
    }

    fn hostname(&self) -> Result<String, OpError> {
        Ok(self.read("/proc/sys/kernel/hostname").map_or_else(|| "localhost".to_owned(), |name| name.trim().to_owned()))
    }

    fn set_hostname(&self, name: &str) -> Result<(), OpError> {
        let path = self.at("/proc/sys/kernel/hostname");
        crate::fsio::make_parent(&path)?;
        std::fs::write(&path, format!("{name}\n")).map_err(OpError::path("write", &path))
    }

    fn kernel(&self) -> Result<Kernel, OpError> {
        Ok(Kernel {
            release: self
                .read("/proc/sys/kernel/osrelease")
                .map_or_else(|| "6.1.0-37-amd64".to_owned(), |r| r.trim().to_owned()),
            machine: self.read(&format!("{FOLDER}/arch")).map_or_else(|| "x86_64".to_owned(), |a| a.trim().to_owned()),
            page_size: self.setting("page-size").unwrap_or(4096),
            cpus: self.setting("cpus").unwrap_or(4),
        })
    }

    fn space(&self, path: &str) -> Result<Space, OpError> {
        let all: BTreeMap<String, (u64, u64)> = self.setting("space.json").unwrap_or_default();
        // The longest folder that is a prefix, as mount points are found.
        let found = all.iter().rfind(|(folder, _)| Path::new(path).starts_with(folder)).map(|(_, space)| *space);
        let (free, size) = found.unwrap_or((100 << 30, 120 << 30));
        let inodes: Option<(u64, u64)> = self.setting("inodes.json");
        Ok(Space { free, size, inodes: inodes.map(|(free, total)| Inodes { free, total }) })
    }

    fn write_us(&self, _: &str) -> Result<Option<u64>, OpError> {
        Ok(self.setting("write-us"))
    }

    fn delete_datapath(&self, name: &str) -> Result<(), OpError> {
        let _lock = self.lock()?;
        teardown::delete_datapath(self, name)
    }

    fn interfaces(&self) -> Result<Vec<Interface>, OpError> {
        let _lock = self.lock()?;
        let mut interfaces = self.own_interfaces();
        let moved = moved_address::of(self, &State::load(self)?);
        if let (Some(first), Some(address)) = (interfaces.first_mut(), moved) {
            first.addresses.push(address);
        }
        Ok(interfaces)
    }

    fn https_get(&self, server: &HttpsServer<'_>) -> Result<u16, OpError> {
        let _lock = self.lock()?;
        if server.ca.is_empty() {
            return Err(OpError::other(format!("{}: the CA file is empty", server.url)));
        }
        if let Some(status) = proxies::api_server(self, &State::load(self)?, server) {
            return status;
        }
        // The only other server that a plan installs is the depot.
        registry::get(self, &State::load(self)?, server)
    }

    fn http_get(&self, port: u16) -> Result<String, OpError> {
        let _lock = self.lock()?;
        proxies::revision(&State::load(self)?, port)
    }

    fn https_request(&self, request: &HttpsRequest<'_>) -> Result<HttpsAnswer, OpError> {
        let _lock = self.lock()?;
        let mut state = State::load(self)?;
        let before = state.clone();
        let (status, body) = if request.url.contains("/api/v2.0/") {
            harbor::answer(&mut state, request)?
        } else {
            etcd::answer(self, &mut state, request)?
        };
        state.save(self, &before)?;
        Ok(HttpsAnswer { status, date: None, body })
    }

    fn https_heads(&self, server: &HttpsServer<'_>, paths: &[String]) -> Result<Vec<Head>, OpError> {
        let _lock = self.lock()?;
        if server.ca.is_empty() {
            return Err(OpError::other(format!("{}: the CA file is empty", server.url)));
        }
        registry::heads(self, &State::load(self)?, server, paths)
    }

    fn push_images(&self, request: &PushRequest<'_>) -> Result<String, OpError> {
        let _lock = self.lock()?;
        let mut state = State::load(self)?;
        let before = state.clone();
        let pushed = harbor::push(&mut state, request)?;
        state.save(self, &before)?;
        Ok(pushed)
    }

    fn pod_network(&self, _pid: u32, name: &str, _dns: &str, service: &str) -> Result<String, OpError> {
        Ok(format!("{name} resolves and {service} accepts"))
    }

    fn host_network(&self, name: &str, _dns: &str, service: &str) -> Result<String, OpError> {
        Ok(format!("{name} resolves and {service} accepts"))
    }

    /// `dns.json` has an address for each suffix of names that exist.
    fn dns_addresses(
        &self,
        servers: &[IpAddr],
        names: &[String],
        _: std::time::Duration,
    ) -> BTreeMap<String, (IpAddr, IpAddr)> {
        let text = self.read(&format!("{FOLDER}/dns.json")).unwrap_or_default();
        let all: BTreeMap<String, IpAddr> = serde_json::from_str(&text).unwrap_or_default();
        let of =
            |name: &String| all.iter().find(|(suffix, _)| name.ends_with(suffix.as_str())).map(|(_, address)| *address);
        let Some(server) = servers.first() else { return BTreeMap::new() };
        names.iter().filter_map(|name| Some((name.clone(), (*server, of(name)?)))).collect()
    }

    fn signal(&self, pid: u32, kill: bool) -> Result<(), OpError> {
        teardown::signal(self, pid, kill)
    }

    fn is_real(&self) -> bool {
        false
    }
}

impl RootedSystem {
    fn modprobe(&self, args: &[&str]) -> Result<Output, OpError> {
        let Some(name) = args.iter().rfind(|arg| !arg.starts_with('-')) else {
            return Ok(Output::failed(1, "modprobe: no module given"));
        };
        let module = name.replace('-', "_");
        let missing: Vec<String> = self.setting("missing-modules.json").unwrap_or_default();
        if args.contains(&"--dry-run") {
            let lacks = |arg: &&str| missing.contains(&arg.replace('-', "_"));
            let code = i32::from(args.iter().any(lacks));
            return Ok(Output { code, ..Output::default() });
        }
        let folder = self.at(&format!("/sys/module/{module}"));
        if missing.contains(&module) {
            return Ok(Output::failed(
                1,
                format!("modprobe: FATAL: Module {name} not found in directory /lib/modules"),
            ));
        }
        if args.contains(&"-r") {
            // A second -r finds the module already absent.
            let _ = std::fs::remove_dir(&folder);
            if module == "br_netfilter" {
                let _ = std::fs::remove_dir_all(self.at("/proc/sys/net/bridge"));
            }
            return Ok(Output::default());
        }
        std::fs::create_dir_all(&folder).map_err(OpError::path("make the folder", &folder))?;
        if module == "br_netfilter" {
            for name in ["bridge-nf-call-iptables", "bridge-nf-call-ip6tables"] {
                let path = self.at(&format!("/proc/sys/net/bridge/{name}"));
                crate::fsio::make_parent(&path)?;
                std::fs::write(&path, "1\n").map_err(OpError::path("write", &path))?;
            }
        }
        Ok(Output::default())
    }

    fn swap(&self, args: &[&str], on: bool) -> Result<Output, OpError> {
        let device = args.last().copied().unwrap_or_default();
        let path = self.at("/proc/swaps");
        let text = self.read("/proc/swaps").unwrap_or_default();
        let is_it = |line: &&str| line.split_whitespace().next() == Some(device);
        let mut lines: Vec<&str> = text.lines().collect();
        let line = format!("{device} partition\t1000000\t\t0\t\t-2");
        if on {
            lines.push(&line);
        } else if lines.iter().any(is_it) {
            lines.retain(|line| !is_it(line));
        } else {
            return Ok(Output::failed(255, format!("swapoff: {device}: swapoff failed: Invalid argument")));
        }
        std::fs::write(&path, lines.join("\n") + "\n").map_err(OpError::path("write", &path))?;
        Ok(Output::default())
    }

    /// Refuses what the policy does not have, as the real one does.
    fn setsebool(&self, args: &[&str]) -> Result<Output, OpError> {
        for (name, value) in args.iter().filter_map(|arg| arg.split_once('=')) {
            let path = self.at(&format!("/sys/fs/selinux/booleans/{name}"));
            if !path.exists() {
                return Ok(Output::failed(1, format!("Boolean {name} is not defined")));
            }
            let text = if value == "on" { "1 1" } else { "0 0" };
            std::fs::write(&path, text).map_err(OpError::path("write", &path))?;
        }
        Ok(Output::default())
    }
}
