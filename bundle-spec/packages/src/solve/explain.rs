//! The solver's conflict in sentences.

use std::collections::{BTreeMap, HashSet, VecDeque};

use petgraph::Direction;
use petgraph::visit::EdgeRef;
use resolvo::SolvableId;
use resolvo::conflict::{ConflictCause, ConflictEdge, ConflictGraph, ConflictNode};

use super::Reason;
use super::kept::About;
use super::sat_model::Model;

/// The most sentences in an explanation.
const REPORTED: usize = 16;

/// From what was asked for downwards, each once.
pub(super) fn sentences(model: &Model<'_>, conflict: &ConflictGraph<SolvableId>) -> Vec<Reason> {
    let graph = &conflict.graph;
    let mut seen = HashSet::from([conflict.root_node]);
    let mut queue = VecDeque::from([conflict.root_node]);
    let mut reasons = Vec::new();
    while let Some(node) = queue.pop_front() {
        // In the order in which the graph was made, which is the order of the clauses; petgraph gives them backwards.
        let mut edges: Vec<_> = graph.edges_directed(node, Direction::Outgoing).collect();
        edges.reverse();
        let mut needs: BTreeMap<resolvo::Requirement, Vec<SolvableId>> = BTreeMap::new();
        let by = match graph[node] {
            ConflictNode::Solvable(id) => Some(id),
            _ => None,
        };
        for edge in edges {
            if seen.insert(edge.target()) {
                queue.push_back(edge.target());
            }
            match (edge.weight(), graph[edge.target()], by) {
                (ConflictEdge::Requires(wanted), ConflictNode::Solvable(target), _) => {
                    needs.entry(*wanted).or_default().push(target);
                }
                (ConflictEdge::Requires(wanted), _, by) => reasons.push(missing(model, *wanted, by)),
                (ConflictEdge::Conflict(ConflictCause::Constrains(set)), ConflictNode::Solvable(target), Some(by)) => {
                    let says = says(&model.set_text(*set).words);
                    let (by, with) = (model.owner(by), model.owner(target));
                    reasons.push(Reason::Conflicts {
                        by: model.universe.shown(by),
                        with: model.universe.shown(with),
                        says,
                    });
                    installed(model, target, &mut reasons);
                    installed_owner(model, by, &mut reasons);
                }
                (
                    ConflictEdge::Conflict(ConflictCause::ForbidMultipleInstances),
                    ConflictNode::Solvable(target),
                    Some(by),
                ) => {
                    two_versions(model, by, target, &mut reasons);
                }
                _ => {}
            }
        }
        let Some(by) = by else { continue };
        for (wanted, targets) in needs {
            let mut from: Vec<Box<str>> = targets
                .iter()
                .filter_map(|target| model.package(*target))
                .map(|target| model.universe.shown(target))
                .collect();
            from.dedup();
            reasons.push(Reason::Needs {
                by: model.universe.shown(model.owner(by)),
                wants: (&*model.text(wanted).words).into(),
                from,
            });
        }
    }
    let mut reported = HashSet::new();
    reasons.retain(|reason| reported.insert(reason.clone()));
    cut(reasons)
}

/// What a boolean dependency rules out is reported as the dependency.
fn says(words: &str) -> Box<str> {
    if words.starts_with("conflicts with ") || words.starts_with("obsoletes ") {
        words.into()
    } else {
        format!("needs {words}").into()
    }
}

fn missing(model: &Model<'_>, wanted: resolvo::Requirement, by: Option<SolvableId>) -> Reason {
    let text = model.text(wanted);
    let words = || Box::<str>::from(&*text.words);
    let (universe, pool) = (model.universe, model.universe.pool);
    let by = by.map(|by| universe.shown(model.owner(by)));
    let name = match (&text.about, &by) {
        (About::Unfit(why), Some(by)) => {
            let says = says(&text.words);
            return Reason::Unsolved { by: by.clone(), says, why: why.to_string().into() };
        }
        (About::One(one), Some(by)) => {
            if let Some((has, is)) = universe.of_wrong_arch(one) {
                return Reason::WrongArch { by: by.clone(), wants: words(), has, is };
            }
            Some(&one.name)
        }
        (About::One(one), _) => Some(&one.name),
        (About::Name(name), _) => Some(name),
        (About::Several | About::Unfit(_), _) => None,
    };
    let versions: Vec<Box<str>> =
        name.map(|name| pool.named(name).map(|id| pool.package(id).version.clone()).collect()).unwrap_or_default();
    match by {
        Some(by) => Reason::Missing { by, wants: words(), versions },
        None => Reason::UnknownRoot { wants: words(), versions, near: Vec::new() },
    }
}

fn installed(model: &Model<'_>, id: SolvableId, reasons: &mut Vec<Reason>) {
    if let Some(id) = model.package(id) {
        installed_owner(model, id, reasons);
    }
}

fn installed_owner(model: &Model<'_>, id: super::PackageId, reasons: &mut Vec<Reason>) {
    if model.universe.is_installed(id) {
        reasons.push(Reason::Installed { package: model.universe.shown(id) });
    }
}

fn two_versions(model: &Model<'_>, one: SolvableId, other: SolvableId, reasons: &mut Vec<Reason>) {
    let (Some(one_package), Some(other_package)) = (model.package(one), model.package(other)) else { return };
    let both = [model.universe.shown(one_package), model.universe.shown(other_package)];
    // The graph has a chain of all versions of a name: they are reported together.
    let chained = reasons.iter_mut().find_map(|reason| match reason {
        Reason::TwoVersions { packages } if packages.iter().any(|known| both.contains(known)) => Some(packages),
        _ => None,
    });
    match chained {
        Some(packages) => packages.extend(both.into_iter().filter(|one| !packages.contains(one)).collect::<Vec<_>>()),
        None => reasons.push(Reason::TwoVersions { packages: both.to_vec() }),
    }
    installed(model, one, reasons);
    installed(model, other, reasons);
}

/// Keeps what is in conflict before the way to it.
fn cut(reasons: Vec<Reason>) -> Vec<Reason> {
    let is_way = |reason: &Reason| matches!(reason, Reason::Needs { .. });
    let others = reasons.iter().filter(|reason| !is_way(reason)).count().min(REPORTED);
    let (mut ways, mut others) = (REPORTED - others, others);
    reasons
        .into_iter()
        .filter(|reason| {
            let left = if is_way(reason) { &mut ways } else { &mut others };
            let reported = *left > 0;
            *left = left.saturating_sub(1);
            reported
        })
        .collect()
}
