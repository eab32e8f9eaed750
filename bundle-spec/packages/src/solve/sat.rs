//! resolvo's SAT solver, asked for what greed did not find.

use resolvo::{Problem, Requirement as Wanted, Solver, UnsolvableOrCancelled};

use super::asked::Asked;
use super::kept::{About, Text};
use super::sat_model::Model;
use super::universe::Universe;
use super::{PackageId, Reason, explain};

/// What is to be added, or why there is nothing that would do.
pub(super) fn search(universe: &Universe<'_>, asked: &[Asked<'_>]) -> Result<Vec<PackageId>, Vec<Reason>> {
    let model = Model::new(universe);
    let mut wanted = Vec::new();
    for root in asked {
        let text = Text::of(root.words.clone(), About::Name(root.name.into()));
        wanted.push(model.one_of(&root.ways, model.text_id(text)).into());
    }
    for id in universe.installed() {
        let package = universe.package(id);
        let name = model.name_of(id);
        let text = Text::of(package.name.clone(), About::Name(package.name.clone()));
        let all = model.versions(name);
        wanted.push(Wanted::Single(model.set(name, all, model.text_id(text))).into());
    }
    let mut solver = Solver::new(model);
    let answer = solver.solve(Problem::new().requirements(wanted));
    let too_many = solver.provider().is_full();
    match answer {
        Ok(found) if !too_many => {
            let real = found.into_iter().filter_map(|id| solver.provider().package(id));
            let mut new: Vec<PackageId> = real.filter(|id| !universe.is_installed(*id)).collect();
            new.sort_unstable();
            Ok(new)
        }
        Err(UnsolvableOrCancelled::Unsolvable(conflict)) if !too_many => {
            Err(explain::sentences(solver.provider(), &conflict.graph(&solver)))
        }
        _ => Err(vec![Reason::TooHard { why: stopped(universe, asked, too_many) }]),
    }
}

/// Why it was given up.
fn stopped(universe: &Universe<'_>, asked: &[Asked<'_>], too_many: bool) -> Box<str> {
    let names: Vec<&str> = asked.iter().map(|root| root.name).collect();
    let names = names.join(", ");
    if universe.is_spent() {
        return universe.too_many_comparisons();
    }
    if too_many {
        return format!(
            "for {names} more than {} packages came into question for relations between them, which is more than any vendor's \
             repositories have; use another mirror",
            universe.limits.sets
        )
        .into();
    }
    format!(
        "{} decisions gave neither a set of packages nor a reason why there is none, for {names}; name the versions or other \
         packages, or use another mirror",
        universe.limits.decisions,
    )
    .into()
}
