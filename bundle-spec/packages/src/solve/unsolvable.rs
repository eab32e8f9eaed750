//! Why there is no set of packages that satisfies all, in sentences.

use std::fmt;

/// There is no set of packages that satisfies all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsolvable {
    /// What is in conflict, from what was asked for downwards.
    pub reasons: Vec<Reason>,
    /// Paths that no package is known to have: with lists of files that have not been read yet there may be an answer.
    pub needs_files: Vec<Box<str>>,
}

/// One sentence of an explanation. Packages are reported as `name version`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// What was asked for is nowhere.
    UnknownRoot {
        /// As asked for, with its versions.
        wants: Box<str>,
        /// Versions that there are of it.
        versions: Vec<Box<str>>,
        /// Names that are near.
        near: Vec<Box<str>>,
    },
    /// What was asked for is only a name that several packages provide.
    Ambiguous {
        /// As asked for.
        wants: Box<str>,
        /// The packages, by name.
        providers: Vec<Box<str>>,
    },
    /// Something a package needs is nowhere.
    Missing {
        /// Who needs it.
        by: Box<str>,
        wants: Box<str>,
        /// Versions that there are of it.
        versions: Vec<Box<str>>,
    },
    /// Something a package needs is there, and not as its qualifier wants it (Debian's family).
    WrongArch {
        /// Who needs it.
        by: Box<str>,
        wants: Box<str>,
        /// Which package would do otherwise.
        has: Box<str>,
        /// Why it does not: `it is of amd64`.
        is: Box<str>,
    },
    /// A boolean dependency that is too much for the solver.
    Unsolved {
        by: Box<str>,
        /// In its words: `needs (a or b)`, `conflicts with (a and b)`.
        says: Box<str>,
        /// What is too much.
        why: Box<str>,
    },
    /// A package needs another one, or one of several.
    Needs {
        /// Who needs it.
        by: Box<str>,
        wants: Box<str>,
        /// Who would satisfy it.
        from: Vec<Box<str>>,
    },
    /// Two packages cannot be there at once.
    Conflicts {
        /// Who says so.
        by: Box<str>,
        /// Whom it does not stand.
        with: Box<str>,
        /// In its words: `conflicts with exim4`, `obsoletes docker < 1.12`.
        says: Box<str>,
    },
    /// Two versions of one name would be needed.
    TwoVersions {
        /// Both, as `name version`.
        packages: Vec<Box<str>>,
    },
    /// A package is installed, and neither removed nor made older.
    Installed { package: Box<str> },
    /// A package's relations do not follow the grammar, so it cannot be taken.
    Unreadable {
        package: Box<str>,
        /// What is wrong.
        why: Box<str>,
    },
    /// The search was given up.
    TooHard {
        /// At which limit.
        why: Box<str>,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownRoot { wants, versions, near } => {
                write!(f, "no repository has {wants}{}", there_is(versions))?;
                if versions.is_empty() && !near.is_empty() {
                    write!(f, "; close to it: {}", near.join(", "))?;
                }
                Ok(())
            }
            Self::Ambiguous { wants, providers } => {
                write!(f, "{wants} is not a package; name one of those that provide it: {}", providers.join(", "))
            }
            Self::Missing { by, wants, versions } => {
                write!(f, "{by} needs {wants}, which no repository has{}", there_is(versions))
            }
            Self::WrongArch { by, wants, has, is } => write!(f, "{by} needs {wants}, which {has} is not: {is}"),
            Self::Unsolved { by, says, why } => write!(f, "{by} {says}, which is {why}"),
            Self::Needs { by, wants, from } => match from.as_slice() {
                [] => write!(f, "{by} needs {wants}"),
                [one] if **one == **wants || one.split_once(' ').is_some_and(|(name, _)| name == &**wants) => {
                    write!(f, "{by} needs {wants}")
                }
                [one] => write!(f, "{by} needs {wants}, and that is {one}"),
                several => write!(f, "{by} needs {wants}, and that is one of {}", listed(several)),
            },
            Self::Conflicts { by, with, says } => write!(f, "{by} {says}, and so cannot be installed with {with}"),
            Self::TwoVersions { packages } => write!(f, "only one of {} can be installed", listed(packages)),
            Self::Installed { package } => write!(f, "{package} is installed, and is neither removed nor made older"),
            Self::Unreadable { package, why } => write!(f, "{package} cannot be used: {why}"),
            Self::TooHard { why } => write!(f, "the search was stopped: {why}"),
        }
    }
}

/// At most so many names are reported.
const REPORTED: usize = 5;

fn listed(names: &[Box<str>]) -> String {
    let reported = names.iter().take(REPORTED).map(|name| &**name).collect::<Vec<_>>().join(", ");
    if names.len() > REPORTED { format!("{reported} and {} more", names.len() - REPORTED) } else { reported }
}

fn there_is(versions: &[Box<str>]) -> String {
    if versions.is_empty() { String::new() } else { format!(" (there is {})", listed(versions)) }
}

/// One sentence after the other, with semicolons between them.
impl fmt::Display for Unsolvable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.reasons.is_empty() {
            return f.write_str("no set of packages satisfies all dependencies");
        }
        for (at, reason) in self.reasons.iter().enumerate() {
            if at > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{reason}")?;
        }
        Ok(())
    }
}

impl Unsolvable {
    /// Whether no answer was found within the limits, so that there may be one.
    pub(super) fn is_too_hard(&self) -> bool {
        self.reasons.iter().any(|reason| matches!(reason, Reason::TooHard { .. }))
    }
}

impl std::error::Error for Unsolvable {}
