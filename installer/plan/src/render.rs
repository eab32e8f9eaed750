//! A plan as text that a person (or a change board) reads: one line for a step, one for each op.

use std::fmt::Write as _;

use crate::op::{Act, Content, Op, Probe};
use crate::{Plan, Step, Undo};

impl Plan {
    /// The whole plan. The same plan gives the same text; contents appear by digest.
    pub fn render(&self) -> String {
        let bundle = self.bundle.map_or_else(|| "none".to_owned(), |digest| digest.short());
        let mut text = format!("{} {} (bundle {bundle})\n", self.pipeline, self.cluster_name);
        for host in &self.hosts {
            let _ = writeln!(text, "host {}: {}", host.name, host.roles.join(", "));
        }
        for (name, provider) in &self.slots {
            let secret = if provider.secret() { " (secret)" } else { "" };
            let _ = writeln!(text, "slot {}{secret}", name.0);
        }
        for step in &self.steps {
            text.push('\n');
            text.push_str(&step.render());
        }
        text
    }
}

impl Step {
    /// The step with its ops, what it waits for and how it is taken back.
    pub fn render(&self) -> String {
        let mut text = format!("{}: {}\n", self.id, self.title);
        if !self.after.is_empty() {
            let after: Vec<_> = self.after.iter().map(|id| id.0.as_str()).collect();
            let _ = writeln!(text, "  after {}", after.join(", "));
        }
        if !self.settled.is_empty() {
            let settled: Vec<_> = self.settled.iter().map(|id| id.0.as_str()).collect();
            let _ = writeln!(text, "  after the end of {}", settled.join(", "));
        }
        for op in &self.ops {
            let _ = writeln!(text, "  {op}");
        }
        if let Some(timed) = &self.probe {
            let _ = writeln!(text, "  until {} (within {} s)", timed.probe, timed.within_s);
        }
        let retries = if self.retries == 0 { String::new() } else { format!(", {} retries", self.retries) };
        let _ = writeln!(text, "  timeout {} s{retries}; undo: {}", self.timeout_s, self.undo);
        text
    }
}

impl std::fmt::Display for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(file) => write!(f, "file {} {:04o} from {}", file.path, file.mode, content(&file.content)),
            Self::Dir(dir) => write!(f, "directory {} {:04o}", dir.path, dir.mode),
            Self::StateDir(dir) => write!(f, "what a service puts into {}", dir.path),
            Self::MoveAside(aside) => write!(f, "what was in {} is moved aside", aside.paths.join(" ")),
            Self::Link(link) => write!(f, "link {} to {}", link.path, link.target),
            Self::Blobs(blobs) => {
                write!(f, "{} blobs in the store, {} bytes", blobs.blobs.len(), blobs.blobs.values().sum::<u64>())
            }
            Self::Binary(binary) => write!(f, "program {} from {}", binary.path, binary.blob.short()),
            Self::Unpacked(unpacked) => {
                let mut places: Vec<String> = unpacked.members.values().cloned().collect();
                places.extend(unpacked.all_into.iter().map(|all| format!("{}/*", all.directory)));
                write!(f, "unpacked {} from {}", places.join(" "), unpacked.blob.short())
            }
            Self::RegistryLayout(layout) => {
                write!(f, "{} repositories in {}", layout.repositories.len(), layout.data_dir)
            }
            Self::Packages(packages) => {
                write!(f, "packages from {}", packages.repository)?;
                for (name, package) in &packages.packages {
                    let how = if package.upgrade { " (an upgrade)" } else { "" };
                    write!(f, "\n    {name} {} {}{how}", package.version, package.arch)?;
                }
                packages.replaced.keys().try_for_each(|name| write!(f, "\n    in the place of {name}"))
            }
            Self::Unit(unit) => {
                let running = match unit.running {
                    Some(true) => ", running",
                    Some(false) => ", stopped",
                    None => "",
                };
                write!(f, "unit {} {}{running}", unit.name, if unit.enabled { "enabled" } else { "disabled" })?;
                if unit.loaded.is_empty() { Ok(()) } else { write!(f, ", with {}", unit.loaded.join(" ")) }
            }
            Self::Sysctl(sysctl) => {
                let values: Vec<_> = sysctl.values.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(f, "sysctl {} {}", sysctl.path, values.join(" "))?;
                sysctl.remembered.iter().try_for_each(|name| write!(f, "\n    remembering {name}"))
            }
            Self::KernelModule(module) => write!(f, "modules {} {}", module.path, module.modules.join(" ")),
            Self::SwapOff(_) => f.write_str("no swap"),
            Self::HostsBlock(block) => write!(f, "/etc/hosts of {}: {}", block.own_name, block.lines.join("; ")),
            Self::Resolver(resolver) => write!(f, "resolver {}", resolver.nameservers.join(" ")),
            Self::SelinuxMode(_) => f.write_str("SELinux at most permissive"),
            Self::Hostname(name) => write!(f, "hostname {}", name.name),
            Self::ImageLoaded(image) => {
                let from = if image.source.is_registry() { "" } else { " from the store" };
                write!(f, "image {} {} at {}{from}", image.reference, image.platform, image.digest.short())
            }
            Self::Kubeconfig(config) => write!(f, "kubeconfig of {}", config.user),
            Self::KubeObject(object) => write!(f, "objects {} from {}", object.name, object.text.short()),
            Self::NodeUntainted(node) => write!(f, "node {} without taint {}", node.node, node.key),
            Self::NodeLabel(label) => write!(f, "node {} with label {}={}", label.node, label.key, label.value),
            Self::Stamp(stamp) => write!(f, "stamp of cluster {}", stamp.cluster),
            Self::Act(act) => write!(f, "{act}"),
            Self::Reset(reset) => write!(f, "{reset}"),
        }
    }
}

fn content(content: &Content) -> String {
    match content {
        Content::Text { digest } => format!("text {}", digest.short()),
        Content::Slot { slot } => format!("slot {}", slot.0),
    }
}

impl std::fmt::Display for Act {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::KubeadmInit { config, ignore, .. } if ignore.is_empty() => {
                write!(f, "act kubeadm init with {config}")
            }
            Self::KubeadmInit { config, ignore, .. } => {
                write!(f, "act kubeadm init with {config}, ignoring {}", ignore.join(", "))
            }
            Self::KubeadmJoin { config, control_plane, .. } => {
                let role = if *control_plane { "control plane" } else { "worker" };
                write!(f, "act kubeadm join as {role} with text {}", config.short())
            }
            Self::NodeAwaited { node } => write!(f, "act await node {node}"),
            Self::NodeDelete { node } => write!(f, "act delete node {node}"),
            Self::KubeadmReset { .. } => f.write_str("act kubeadm reset"),
        }
    }
}

impl std::fmt::Display for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::CriReady { config_dump } => {
                write!(f, "containerd answers over CRI with {}", config_dump.join(" | "))
            }
            Self::Https { url, ca } => write!(f, "{url} answers, trusted by {ca}"),
            Self::RegistryServes { url, repositories, .. } => {
                write!(f, "{url} serves every reference and blob of {} repositories", repositories.len())
            }
            Self::ClockFollows { servers } => write!(f, "the clock follows {}", servers.join(" or ")),
            Self::NodeReady { node } => write!(f, "node {node} is Ready"),
            Self::PodsRunning { namespaces, images } => {
                write!(f, "pods of {} run, with none but {} images", namespaces.join(" and "), images.len())
            }
            Self::PodNetwork { node, name, dns, service, .. } => {
                write!(f, "from a pod on {node} {dns} resolves {name} and {service} answers")
            }
        }
    }
}

impl std::fmt::Display for Undo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RestoreBefore => f.write_str("restore what was there"),
            Self::Act { act } => write!(f, "{act}"),
            Self::WithParent { step } => write!(f, "with {step}"),
            Self::Irreversible { why } => write!(f, "IRREVERSIBLE: {why}"),
            Self::Nothing => f.write_str("nothing to take back"),
        }
    }
}
