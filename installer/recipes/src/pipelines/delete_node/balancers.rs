//! The proxies before the API servers, on workers and on hosts of the load balancer, without the API servers of deleted control
//! planes.

use kubexm_plan::balancer::HostProxy;
use kubexm_plan::ledger::not_rolled_back;
use kubexm_plan::op::{Content, File};
use kubexm_plan::{Op, Step, StepId, Undo};
use kubexm_spec::Digest;

use super::check::Leaving;
use super::context::DeleteContext;
use crate::balancer::{self, BackEnd, Proxy, external};
use crate::error::RecipeError;

/// Whether the cluster has this node, and it is Ready.
pub(super) fn is_ready(cx: &DeleteContext<'_>, host: &str) -> bool {
    cx.running.nodes.iter().any(|node| node.name == host && node.ready)
}

/// The proxy of a cluster, wherever it runs.
enum Kind {
    OnWorkers(&'static Proxy),
    OnHosts(&'static HostProxy),
}

impl Kind {
    const fn program(&self) -> &'static str {
        match self {
            Self::OnWorkers(proxy) => proxy.program,
            Self::OnHosts(proxy) => proxy.program,
        }
    }

    const fn path(&self) -> &'static str {
        match self {
            Self::OnWorkers(proxy) => proxy.config,
            Self::OnHosts(proxy) => proxy.config,
        }
    }
}

/// One step for each host that stays and has a proxy, and the texts of these steps. Before the API servers stop: no connection is
/// made to one that does.
pub(super) fn without(
    cx: &DeleteContext<'_>,
    leaving: &[Leaving<'_>],
    after: &[StepId],
) -> Result<(Vec<Step>, Vec<String>), RecipeError> {
    let gone = |name: &str| leaving.iter().any(|host| host.name == name);
    let (workers, hosts) = (balancer::of(cx.cluster), external::of(cx.cluster));
    let kind = match (workers, &hosts) {
        (Some(proxy), _) => Kind::OnWorkers(proxy),
        (None, Some(external)) => Kind::OnHosts(external.proxy),
        (None, None) => return Ok((Vec::new(), Vec::new())),
    };
    if !leaving.iter().any(|host| host.control_plane) {
        return Ok((Vec::new(), Vec::new()));
    }
    let planes = cx.cluster.role_groups.control_plane.iter().filter(|name| !gone(name));
    let back_ends: Vec<BackEnd> =
        planes.filter_map(|name| Some(BackEnd::of(name, cx.cluster.host(name)?.node_ip()?))).collect();
    let text = match (&kind, &hosts) {
        (Kind::OnWorkers(proxy), _) => balancer::config(proxy, &back_ends)?,
        (Kind::OnHosts(_), Some(external)) => external::config(external, &back_ends)?,
        (Kind::OnHosts(_), None) => return Ok((Vec::new(), Vec::new())),
    };
    // Of a cluster of an earlier program, too, they ask at the port that the configuration has from now on.
    let scripts = match &kind {
        Kind::OnHosts(proxy) => external::scripts(proxy)?,
        Kind::OnWorkers(_) => Vec::new(),
    };
    let content = Content::Text { digest: Digest::of(&text) };
    let mut steps = Vec::new();
    for host in cx.hosts.iter().filter(|host| !gone(host.name)) {
        let config = File { path: kind.path().to_owned(), content: content.clone(), mode: 0o644 };
        let ops = || not_rolled_back(host.ledger.iter()).flat_map(|record| &record.ops);
        let newest = |path: &str| {
            let files = ops().filter_map(|op| if let Op::File(file) = op { Some(file) } else { None });
            files.filter(|file| file.path == path).last()
        };
        if newest(kind.path()).is_none_or(|file| *file == config) {
            continue;
        }
        let others: Vec<File> = scripts
            .iter()
            .map(|(path, text)| File {
                path: path.clone(),
                content: Content::Text { digest: Digest::of(text) },
                mode: 0o755,
            })
            .filter(|script| newest(&script.path).is_some_and(|written| written != script))
            .collect();
        let names: Vec<&str> = leaving.iter().filter(|host| host.control_plane).map(|host| host.name).collect();
        let title = format!("Remove {} from the back-ends of {}", names.join(", "), kind.program());
        let step = Step::on(host.name, "delete.balancer", &title).ensure(config).undo(Undo::RestoreBefore);
        let step = match (&kind, is_ready(cx, host.name)) {
            (Kind::OnHosts(proxy), _) => {
                let checker = external::checker(proxy).filter(|_| !others.is_empty());
                step.ensure_all(others).ensure(external::serves(proxy)).ensure_all(checker)
            }
            (Kind::OnWorkers(proxy), true) => step
                .ensure(balancer::loaded(proxy, cx.cluster.runtime.kind))
                .probe(balancer::answers(), 90)
                .timeout_s(320),
            // Nobody can say whether its proxy runs, and a node that is broken must not keep another one in the cluster. The
            // proxy reads the file when it starts; one that runs still finds out that the API server is gone.
            (Kind::OnWorkers(_), false) => step,
        };
        steps.push(Step { after: after.to_vec(), ..step.build() });
    }
    let is_used = |text: &String| {
        let digest = Digest::of(text);
        steps.iter().flat_map(|step: &Step| &step.ops).any(|op| op.text() == Some(digest))
    };
    let texts = std::iter::once(text).chain(scripts.into_iter().map(|(_, text)| text)).filter(is_used).collect();
    Ok((steps, texts))
}
