//! What is wrong with a file that a person wrote.

use std::fmt;

use crate::ExitCode;

/// All problems of one file, in the order of lines; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

/// One problem and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
    /// `spec.hosts[0].name`; empty when the file as a whole is meant.
    pub path: String,
    /// Its kind.
    pub kind: ProblemKind,
    /// What was found.
    pub text: String,
    /// How to fix it; may be empty.
    pub hint: String,
}

/// Kinds of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProblemKind {
    /// This is not YAML, or YAML that the format does not use.
    Syntax,
    /// A key that the format does not have.
    UnknownKey,
    /// A list where a text should be, and the like.
    WrongType,
    /// The type is right, the value is not.
    BadValue,
    /// Something that must be there.
    Missing,
    /// A secret in a file that travels in the bundle.
    InlineSecret,
}

impl Problems {
    /// The exit code of a program that ends with them.
    pub fn exit_code(&self) -> ExitCode {
        if self.0.iter().any(|p| p.kind == ProblemKind::InlineSecret) {
            ExitCode::InlineSecret
        } else {
            ExitCode::Config
        }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            fmt::Display::fmt(problem, f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: ", self.line, self.column)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.text)?;
        if !self.hint.is_empty() {
            write!(f, " ({})", self.hint)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// A longer name is like no other: a comparison takes the product of both lengths.
const LONGEST_NAME: usize = 128;

/// The nearest, if it is near enough to be what was meant.
pub fn near<'a>(name: &str, candidates: &[&'a str]) -> Option<&'a str> {
    if name.len() > LONGEST_NAME {
        return None;
    }
    let nearest = nearest(name, candidates.iter().copied()).into_iter().next()?;
    let distance = strsim::damerau_levenshtein(&name.to_lowercase(), &nearest.to_lowercase());
    // Of a word that is typed wrong at least half is right.
    (distance <= 1.max(name.chars().count() / 2)).then_some(nearest)
}

/// What one look for the nearest may take: products of lengths, summed. Of 20,000 hosts with names of 30 letters it is 18 million.
const COMPARED: usize = 50_000_000;

/// The candidates by how near they are to a name, nearest first. What is too long to be compared is left out, and so is what comes
/// after too many others: candidates may be as little known as the name.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    nearest_within(COMPARED, name, candidates)
}

fn nearest_within<'a>(most: usize, name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let candidates = candidates.into_iter().filter(|candidate| candidate.len() <= LONGEST_NAME);
    if name.len() > LONGEST_NAME {
        let mut all: Vec<&str> = candidates.collect();
        all.sort_unstable();
        return all;
    }
    let (name, mut left) = (name.to_lowercase(), most);
    let mut all: Vec<&str> = candidates
        .map_while(|candidate| {
            left = left.checked_sub((name.len() + 1) * (candidate.len() + 1))?;
            Some(candidate)
        })
        .collect();
    all.sort_by_cached_key(|candidate| (strsim::damerau_levenshtein(&name, &candidate.to_lowercase()), *candidate));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_long_nor_endless_candidates_are_compared() {
        let long = "b".repeat(LONGEST_NAME + 1);
        assert_eq!(nearest("node1", ["master1", long.as_str(), "node2"]), ["node2", "master1"]);
        assert_eq!(nearest(&long, [long.as_str(), "node2"]), ["node2"]);
        let name = "a".repeat(LONGEST_NAME);
        let one = (LONGEST_NAME + 1) * (LONGEST_NAME + 1);
        assert_eq!(nearest_within(7 * one, &name, std::iter::repeat_n(name.as_str(), 1000)).len(), 7);
    }
}
