//! Relations as their family writes them.

use kubexm_spec::Family;

use crate::model::{ArchWanted, Comparison, Constraint, Requirement};

/// `libc6 (>= 2.34)`, `awk | mawk`, or `libc.so.6`, `foo >= 1.2`, `(a if b else c)`.
pub(super) fn requirement(family: Family, wanted: &Requirement) -> String {
    use Requirement::{All, Any, If, One, Unless, With, Without};
    let inner = |one: &Requirement| requirement(family, one);
    let joined = |all: &[Requirement], word: &str| all.iter().map(inner).collect::<Vec<_>>().join(word);
    let choice = |then: &Requirement, word: &str, condition: &Requirement, otherwise: &Option<Box<Requirement>>| {
        let otherwise = otherwise.as_ref().map(|one| format!(" else {}", inner(one))).unwrap_or_default();
        format!("({} {word} {}{otherwise})", inner(then), inner(condition))
    };
    match wanted {
        One(one) => constraint(family, one),
        Any(all) if family == Family::Deb => joined(all, " | "),
        All(all) if family == Family::Deb => joined(all, ", "),
        Any(all) => format!("({})", joined(all, " or ")),
        All(all) => format!("({})", joined(all, " and ")),
        With(all) => format!("({})", joined(all, " with ")),
        Without(one, other) => format!("({} without {})", inner(one), inner(other)),
        If { condition, then, otherwise } => choice(then, "if", condition, otherwise),
        Unless { condition, then, otherwise } => choice(then, "unless", condition, otherwise),
    }
}

/// `python3:any (>= 3.11)` or `python3 >= 3.11`.
pub(super) fn constraint(family: Family, wanted: &Constraint) -> String {
    let arch = match &wanted.arch {
        ArchWanted::Own => String::new(),
        ArchWanted::Any | ArchWanted::Every => ":any".to_owned(),
        ArchWanted::Native => ":native".to_owned(),
        ArchWanted::Named(arch) => format!(":{arch}"),
    };
    match (&wanted.version, family) {
        (None, _) => format!("{}{arch}", wanted.name),
        (Some((comparison, version)), Family::Deb) => {
            format!("{}{arch} ({} {version})", wanted.name, symbol(*comparison, family))
        }
        (Some((comparison, version)), Family::Rpm) => {
            format!("{} {} {version}", wanted.name, symbol(*comparison, family))
        }
    }
}

/// `<<` or `<`.
pub(super) const fn symbol(comparison: Comparison, family: Family) -> &'static str {
    match (comparison, family) {
        (Comparison::Less, Family::Deb) => "<<",
        (Comparison::Less, Family::Rpm) => "<",
        (Comparison::LessOrEqual, _) => "<=",
        (Comparison::Equal, _) => "=",
        (Comparison::GreaterOrEqual, _) => ">=",
        (Comparison::Greater, Family::Deb) => ">>",
        (Comparison::Greater, Family::Rpm) => ">",
    }
}
