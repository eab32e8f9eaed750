//! Relations as their family writes them.

use std::fmt::{self, Write};

use kubexm_spec::Family;

use crate::model::{ArchWanted, Comparison, Constraint, Requirement};

/// Of a relation in messages and reasons, in bytes: the longest real ones have some hundred, and one is kept for each package that it
/// brings.
const LENGTH: usize = 1000;

/// `libc6 (>= 2.34)`, `awk | mawk`, or `libc.so.6`, `foo >= 1.2`, `(a if b else c)`; no more of it than people read.
pub(super) fn requirement(family: Family, wanted: &Requirement) -> String {
    let mut words = Words::default();
    // An error says that the rest is left out.
    let _ = words.requirement(family, wanted);
    words.0
}

/// `python3:any (>= 3.11)` or `python3 >= 3.11`.
pub(super) fn constraint(family: Family, wanted: &Constraint) -> String {
    let mut words = Words::default();
    let _ = words.constraint(family, wanted);
    words.0
}

/// A text that takes no more than [`LENGTH`].
#[derive(Default)]
struct Words(String);

impl Write for Words {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let left = LENGTH.saturating_sub(self.0.len());
        if text.len() <= left {
            self.0.push_str(text);
            return Ok(());
        }
        self.0.push_str(&text[..text.floor_char_boundary(left)]);
        self.0.push('…');
        Err(fmt::Error)
    }
}

impl Words {
    fn requirement(&mut self, family: Family, wanted: &Requirement) -> fmt::Result {
        use Requirement::{All, Any, If, One, Unless, With, Without};
        match wanted {
            One(one) => self.constraint(family, one),
            Any(all) if family == Family::Deb => self.joined(family, all, " | "),
            All(all) if family == Family::Deb => self.joined(family, all, ", "),
            Any(all) => self.group(family, all, " or "),
            All(all) => self.group(family, all, " and "),
            With(all) => self.group(family, all, " with "),
            Without(one, other) => self.choice(family, [one, other], "without", None),
            If { condition, then, otherwise } => self.choice(family, [then, condition], "if", otherwise.as_deref()),
            Unless { condition, then, otherwise } => {
                self.choice(family, [then, condition], "unless", otherwise.as_deref())
            }
        }
    }

    fn joined(&mut self, family: Family, all: &[Requirement], word: &str) -> fmt::Result {
        for (at, one) in all.iter().enumerate() {
            if at > 0 {
                self.write_str(word)?;
            }
            self.requirement(family, one)?;
        }
        Ok(())
    }

    fn group(&mut self, family: Family, all: &[Requirement], word: &str) -> fmt::Result {
        self.write_str("(")?;
        self.joined(family, all, word)?;
        self.write_str(")")
    }

    fn choice(
        &mut self,
        family: Family,
        [one, other]: [&Requirement; 2],
        word: &str,
        otherwise: Option<&Requirement>,
    ) -> fmt::Result {
        self.write_str("(")?;
        self.requirement(family, one)?;
        write!(self, " {word} ")?;
        self.requirement(family, other)?;
        if let Some(otherwise) = otherwise {
            self.write_str(" else ")?;
            self.requirement(family, otherwise)?;
        }
        self.write_str(")")
    }

    fn constraint(&mut self, family: Family, wanted: &Constraint) -> fmt::Result {
        self.write_str(&wanted.name)?;
        let version = wanted.version.as_ref().map(|(comparison, version)| (symbol(*comparison, family), version));
        if let (Some((symbol, version)), Family::Rpm) = (&version, family) {
            return write!(self, " {symbol} {version}");
        }
        match &wanted.arch {
            ArchWanted::Own => {}
            ArchWanted::Any | ArchWanted::Every => self.write_str(":any")?,
            ArchWanted::Native => self.write_str(":native")?,
            ArchWanted::Named(arch) => write!(self, ":{arch}")?,
        }
        match version {
            Some((symbol, version)) => write!(self, " ({symbol} {version})"),
            None => Ok(()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relation_is_written_as_its_family_writes_it_and_no_longer_than_people_read() {
        let of = |text: &str| requirement(Family::Rpm, &crate::rpm::dependency::parse(text).unwrap());
        for text in ["a", "a >= 1:2.0", "(a or b)", "(a if b else c)", "(a without b)", "(a and (b unless c >= 1))"] {
            assert_eq!(of(text), text);
        }
        let many: Vec<String> = (0..1000).map(|at| format!("name{at}")).collect();
        let long = of(&format!("({})", many.join(" and ")));
        assert!(long.starts_with("(name0 and name1 and") && long.ends_with('…') && long.len() < LENGTH + 4, "{long}");
    }
}
