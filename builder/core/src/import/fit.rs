//! Checks the result with the strict reader of cluster.yaml: what it refuses is left out and reported, and where
//! that would make another cluster of it, nothing is written.

use std::collections::BTreeSet;

use kubexm_spec::cluster;
use kubexm_spec::yaml::Problem;

use super::error::ImportError;
use super::left::{Left, left_of};
use super::secrets;
use super::yaml::{Map, Origin, Yaml, text};

/// Each round takes out what the one before brought to light: a value, the block that needs it, the list that is in.
const ROUNDS: usize = 24;

/// Places that a cluster is another one without. Below those with a dot at their end everything counts.
const ESSENTIAL: &[&str] = &[
    "metadata",
    "metadata.",
    "spec",
    "spec.hosts",
    "spec.hosts[]",
    "spec.hosts[].name",
    "spec.hosts[].address",
    "spec.hosts[].address.",
    "spec.hosts[].internalAddress",
    "spec.hosts[].internalAddress.",
    "spec.hosts[].user",
    "spec.hosts[].port",
    "spec.hosts[].passwordFrom",
    "spec.hosts[].passwordFrom.",
    "spec.roleGroups",
    "spec.roleGroups.",
    "spec.kubernetes.version",
    "spec.kubernetes.dnsDomain",
    "spec.etcd",
    "spec.etcd.type",
    "spec.etcd.externalConfig",
    "spec.etcd.externalConfig.",
    "spec.network",
    "spec.network.plugin",
    "spec.network.podCidr",
    "spec.network.podCidr.",
    "spec.network.serviceCidr",
    "spec.network.serviceCidr.",
    "spec.loadBalancer",
    "spec.loadBalancer.",
    "spec.registry",
    "spec.registry.type",
    "spec.registry.privateRegistry",
    "spec.bundle.platforms",
    "spec.bundle.platforms.",
];

/// The text of a cluster.yaml that our reader takes, and what was taken out of it for that.
pub fn fit(mut root: Map) -> Result<(String, Vec<Left>), ImportError> {
    let scrubbed = secrets::scrub(&mut root);
    // What is missing now may have been taken out for what it was.
    let refuse = |more: Vec<Left>| Err(ImportError::Refused(scrubbed.iter().cloned().chain(more).collect()));
    let mut left = scrubbed.clone();
    for _ in 0..ROUNDS {
        let text = text(&root).map_err(ImportError::Encode)?;
        let Err(mut problems) = cluster::parse(&text) else { return Ok((text, left)) };
        // Of more than a thousand problems the last says how many are not listed: these are listed in the next round.
        if problems.0.len() > 1 {
            problems.0.pop_if(|last| last.path.is_empty());
        }
        let refused: Vec<Left> =
            problems.0.iter().filter(|p| is_essential(&p.path)).map(|p| problem_at_source(&root, p)).collect();
        if !refused.is_empty() {
            return refuse(refused);
        }
        let mut gone = BTreeSet::new();
        // From behind, so that the numbers of list items hold.
        for problem in problems.0.iter().rev() {
            let within = |one: &str, other: &str| {
                one.strip_prefix(other).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
            };
            if gone.iter().any(|path: &String| within(&problem.path, path) || within(path, &problem.path)) {
                continue;
            }
            let one = problem_at_source(&root, problem);
            if !remove(&mut root, &problem.path) {
                return refuse(vec![one]);
            }
            left.push(one);
            gone.insert(problem.path.clone());
        }
    }
    let problems = text(&root).map_err(ImportError::Encode).map(|text| cluster::parse(&text).err())?;
    refuse(problems.iter().flat_map(|problems| &problems.0).map(|problem| problem_at_source(&root, problem)).collect())
}

fn is_essential(path: &str) -> bool {
    let mut plain = String::new();
    for (index, part) in path.split('[').enumerate() {
        match part.split_once(']').filter(|_| index > 0) {
            Some((_, rest)) => plain = format!("{plain}[]{rest}"),
            None => plain.push_str(part),
        }
    }
    path.is_empty()
        || ESSENTIAL.iter().any(|known| match known.strip_suffix('.') {
            Some(block) => plain.strip_prefix(block).is_some_and(|rest| rest.starts_with(['.', '['])),
            None => plain == *known,
        })
}

/// The message about a problem, with the line that the value came from.
fn problem_at_source(root: &Map, problem: &Problem) -> Left {
    let hint = if problem.hint.is_empty() { String::new() } else { format!(" ({})", problem.hint) };
    let reason = format!("it is not valid as {} of cluster.yaml: {}{hint}", problem.path, problem.text);
    let left = Left { line: 0, path: problem.path.clone(), reason };
    match nearest(root, &problem.path, None) {
        Some(origin) => left_of(&left, &origin),
        None => left,
    }
}

/// The value that a path of the reader's names may begin with: keys may have dots in them.
fn rest<'p>(path: &'p str, name: &str) -> Option<&'p str> {
    path.strip_prefix(name).filter(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn index(path: &str) -> Option<(usize, &str)> {
    let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
    Some((index.parse().ok()?, rest))
}

fn nearest(map: &Map, path: &str, above: Option<&Origin>) -> Option<Origin> {
    let above = map.origin.as_ref().or(above);
    let path = path.strip_prefix('.').unwrap_or(path);
    let found = map.fields.iter().find_map(|field| Some((field, rest(path, &field.name)?)));
    let Some((field, path)) = found else { return above.cloned() };
    let above = field.origin.as_ref().or(above);
    match (&field.value, index(path)) {
        (Yaml::Map(map), _) => nearest(map, path, above),
        (Yaml::List(list), Some((index, path))) => match list.get(index) {
            Some(Yaml::Map(map)) => nearest(map, path, above),
            _ => above.cloned(),
        },
        _ => above.cloned(),
    }
}

/// Whether something stood at the path, and is gone.
fn remove(map: &mut Map, path: &str) -> bool {
    let path = path.strip_prefix('.').unwrap_or(path);
    for at in 0..map.fields.len() {
        let field = &mut map.fields[at];
        let Some(path) = rest(path, &field.name) else { continue };
        let removed = match (&mut field.value, index(path)) {
            _ if path.is_empty() => {
                map.fields.remove(at);
                true
            }
            (Yaml::Map(map), _) => remove(map, path),
            (Yaml::List(list), Some((index, rest))) if index < list.len() => match &mut list[index] {
                _ if rest.is_empty() => {
                    list.remove(index);
                    true
                }
                Yaml::Map(map) => remove(map, rest),
                _ => false,
            },
            _ => false,
        };
        if removed {
            return true;
        }
    }
    false
}
