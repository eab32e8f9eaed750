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

/// So many versions of one name are named as such of which only one can be there.
const VERSIONS: usize = 1_000;

/// Sentences as they are found. Of each kind no more are made than can be reported: what one is about may be a hundred thousand packages,
/// and so may those be that it is about.
#[derive(Default)]
struct Reasons {
    all: Vec<Reason>,
    ways: usize,
}

impl Reasons {
    fn push(&mut self, reason: impl FnOnce() -> Reason) {
        if self.all.len() - self.ways < REPORTED {
            self.once(reason());
        }
    }

    /// On the way to a conflict.
    fn push_way(&mut self, reason: impl FnOnce() -> Reason) {
        if self.ways < REPORTED && self.once(reason()) {
            self.ways += 1;
        }
    }

    fn once(&mut self, reason: Reason) -> bool {
        let is_new = !self.all.contains(&reason);
        self.all.extend(is_new.then_some(reason));
        is_new
    }
}

/// From what was asked for downwards, each once.
pub(super) fn sentences(model: &Model<'_>, conflict: &ConflictGraph<SolvableId>) -> Vec<Reason> {
    let graph = &conflict.graph;
    let mut seen = HashSet::from([conflict.root_node]);
    let mut queue = VecDeque::from([conflict.root_node]);
    let mut reasons = Reasons::default();
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
                (ConflictEdge::Requires(wanted), _, by) => reasons.push(|| missing(model, *wanted, by)),
                (ConflictEdge::Conflict(ConflictCause::Constrains(set)), ConflictNode::Solvable(target), Some(by)) => {
                    let (by, with) = (model.owner(by), model.owner(target));
                    reasons.push(|| Reason::Conflicts {
                        by: model.universe.shown(by),
                        with: model.universe.shown(with),
                        says: says(&model.set_text(*set).words),
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
            reasons.push_way(|| {
                let targets = targets.iter().filter_map(|target| model.package(*target));
                let mut from: Vec<Box<str>> = targets.map(|target| model.universe.shown(target)).collect();
                from.dedup();
                let (by, wants) = (model.universe.shown(model.owner(by)), (&*model.text(wanted).words).into());
                Reason::Needs { by, wants, from }
            });
        }
    }
    cut(reasons.all)
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

fn installed(model: &Model<'_>, id: SolvableId, reasons: &mut Reasons) {
    if let Some(id) = model.package(id) {
        installed_owner(model, id, reasons);
    }
}

fn installed_owner(model: &Model<'_>, id: super::PackageId, reasons: &mut Reasons) {
    if model.universe.is_installed(id) {
        reasons.push(|| Reason::Installed { package: model.universe.shown(id) });
    }
}

fn two_versions(model: &Model<'_>, one: SolvableId, other: SolvableId, reasons: &mut Reasons) {
    let (Some(one_package), Some(other_package)) = (model.package(one), model.package(other)) else { return };
    let both = [model.universe.shown(one_package), model.universe.shown(other_package)];
    // The graph has a chain of all versions of a name: they are reported together.
    let chained = reasons.all.iter_mut().find_map(|reason| match reason {
        Reason::TwoVersions { packages } if packages.iter().any(|known| both.contains(known)) => Some(packages),
        _ => None,
    });
    match chained {
        Some(packages) if packages.len() >= VERSIONS => {}
        Some(packages) => packages.extend(both.into_iter().filter(|one| !packages.contains(one)).collect::<Vec<_>>()),
        None => reasons.push(|| Reason::TwoVersions { packages: both.to_vec() }),
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn no_more_sentences_are_made_than_can_be_reported() {
        let made = Cell::new(0);
        let mut reasons = Reasons::default();
        let of = |at: usize| {
            made.set(made.get() + 1);
            Reason::Installed { package: at.to_string().into() }
        };
        // Each may have all versions of a name in it.
        for at in 0..100_000 {
            reasons.push(|| of(at));
            reasons.push_way(|| Reason::Needs { by: at.to_string().into(), wants: "x".into(), from: vec!["y".into()] });
        }
        assert_eq!((made.get(), reasons.all.len()), (REPORTED, 2 * REPORTED));
        let mut twice = Reasons::default();
        (0..10).for_each(|_| twice.push(|| of(0)));
        assert_eq!(twice.all.len(), 1);
        assert_eq!(cut(reasons.all).len(), REPORTED);
    }
}
