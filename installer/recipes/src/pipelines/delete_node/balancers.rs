//! The proxies of the workers that stay, without the API servers of deleted control planes.

use kubexm_plan::ledger::not_rolled_back;
use kubexm_plan::op::{Content, File};
use kubexm_plan::{Op, Step, StepId, Undo};
use kubexm_spec::Digest;

use super::check::Leaving;
use super::context::DeleteContext;
use crate::balancer::{self, BackEnd};
use crate::error::RecipeError;

/// One step for each host that stays and has a proxy, and the texts of these steps. Before the API servers stop: no connection is
/// made to one that does.
pub(super) fn without(
    cx: &DeleteContext<'_>,
    leaving: &[Leaving<'_>],
    after: &[StepId],
) -> Result<(Vec<Step>, Vec<String>), RecipeError> {
    let gone = |name: &str| leaving.iter().any(|host| host.name == name);
    let Some(proxy) = balancer::of(cx.cluster).filter(|_| leaving.iter().any(|host| host.control_plane)) else {
        return Ok((Vec::new(), Vec::new()));
    };
    let planes = cx.cluster.role_groups.control_plane.iter().filter(|name| !gone(name));
    let back_ends: Vec<BackEnd> =
        planes.filter_map(|name| Some(BackEnd::of(name, cx.cluster.host(name)?.node_ip()?))).collect();
    let text = balancer::config(proxy, &back_ends)?;
    let content = Content::Text { digest: Digest::of(&text) };
    let mut steps = Vec::new();
    for host in cx.hosts.iter().filter(|host| !gone(host.name)) {
        let config = File { path: proxy.config.to_owned(), content: content.clone(), mode: 0o644 };
        let ops = || not_rolled_back(host.ledger.iter()).flat_map(|record| &record.ops);
        let newest = ops().filter_map(|op| if let Op::File(file) = op { Some(file) } else { None });
        let newest = newest.filter(|file| file.path == proxy.config).last();
        if newest.is_none_or(|file| *file == config) {
            continue;
        }
        let names: Vec<&str> = leaving.iter().filter(|host| host.control_plane).map(|host| host.name).collect();
        let title = format!("Remove {} from the back-ends of {}", names.join(", "), proxy.program);
        let step = Step::on(host.name, "delete.balancer", &title)
            .ensure(config)
            .ensure(balancer::loaded(proxy, cx.cluster.runtime.kind))
            .probe(balancer::answers(), 90)
            .timeout_s(320)
            .undo(Undo::RestoreBefore)
            .build();
        steps.push(Step { after: after.to_vec(), ..step });
    }
    let texts = if steps.is_empty() { Vec::new() } else { vec![text] };
    Ok((steps, texts))
}
