//! Where problems are collected, within limits: a few KB of a file may be wrong in millions of places.

use std::cell::{Cell, RefCell};

use super::problem::{Problem, ProblemKind, Problems};

/// Problems that are kept: more than anybody reads before mending the first ones.
const PROBLEMS: usize = 1000;
/// Of a problem's text and of its hint, in bytes: longer ones are cut. Ours have some hundred.
const LENGTH: usize = 1024;
/// Names that the ranges of one file stand for: 20 groups and lists of scripts that name 20,000 hosts each.
const NAMES: usize = 400_000;

/// Collects problems.
#[derive(Debug, Default)]
pub struct Sink {
    problems: RefCell<Vec<Problem>>,
    /// Found beyond those that are kept.
    more: Cell<usize>,
    /// Whether one of those that are kept is a secret: it has an exit code of its own.
    secret: Cell<bool>,
    names: Cell<usize>,
}

impl Sink {
    /// All problems by line and column, or the value when there are none.
    pub fn finish<T>(self, value: Option<T>) -> Result<T, Problems> {
        let mut problems = self.problems.into_inner();
        match value {
            Some(value) if problems.is_empty() => Ok(value),
            _ => {
                problems.sort_by(|a, b| (a.line, a.column, &a.path).cmp(&(b.line, b.column, &b.path)));
                problems.dedup();
                if let (Some(last), more @ 1..) = (problems.last(), self.more.get()) {
                    problems.push(Problem {
                        path: String::new(),
                        text: format!("there are {more} more problems, which are not listed"),
                        hint: "mend the listed ones, and read the file again".to_owned(),
                        ..last.clone()
                    });
                }
                Err(Problems(problems))
            }
        }
    }

    /// Whether what comes now is only counted: nobody needs a hint for it.
    pub(super) fn is_full(&self) -> bool {
        self.problems.borrow().len() >= PROBLEMS
    }

    pub(super) fn push(&self, mut problem: Problem) {
        let secret = problem.kind == ProblemKind::InlineSecret;
        let mut problems = self.problems.borrow_mut();
        if problems.len() >= PROBLEMS {
            self.more.set(self.more.get() + 1);
            // The exit code is about it.
            if !secret || self.secret.get() {
                return;
            }
            problems.pop();
        }
        self.secret.set(secret || self.secret.get());
        cut(&mut problem.text);
        cut(&mut problem.hint);
        problems.push(problem);
    }

    /// Counts names that ranges stand for, before they are written out.
    pub(super) fn stand_for(&self, names: usize) -> Result<(), String> {
        self.names.set(self.names.get().saturating_add(names));
        match self.names.get() > NAMES {
            true => {
                Err(format!("the ranges of this file stand for more than {NAMES} names; name each host once a role"))
            }
            false => Ok(()),
        }
    }
}

/// No longer than is shown.
fn cut(text: &mut String) {
    if text.len() > LENGTH {
        text.truncate(text.floor_char_boundary(LENGTH));
        text.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(line: usize, kind: ProblemKind) -> Problem {
        Problem { line, column: 1, path: String::new(), kind, text: "x".repeat(5000), hint: "y".repeat(5000) }
    }

    #[test]
    fn problems_are_kept_up_to_a_number_and_a_length_and_the_rest_is_counted() {
        let sink = Sink::default();
        (1..=PROBLEMS + 7).for_each(|line| sink.push(problem(line, ProblemKind::Missing)));
        assert!(sink.is_full());
        let all = sink.finish::<()>(None).unwrap_err();
        assert_eq!(all.0.len(), PROBLEMS + 1);
        assert!(all.0.iter().all(|one| one.text.len() <= LENGTH + 3 && one.hint.len() <= LENGTH + 3));
        assert!(all.0[PROBLEMS].text.contains("there are 7 more problems"), "{}", all.0[PROBLEMS]);
        assert_eq!(all.exit_code(), crate::ExitCode::Config);
    }

    #[test]
    fn a_secret_beyond_the_problems_that_are_kept_has_its_exit_code() {
        let sink = Sink::default();
        (1..=PROBLEMS).for_each(|line| sink.push(problem(line, ProblemKind::Missing)));
        (1..=3).for_each(|more| sink.push(problem(PROBLEMS + more, ProblemKind::InlineSecret)));
        let all = sink.finish::<()>(None).unwrap_err();
        assert_eq!((all.0.len(), all.exit_code()), (PROBLEMS + 1, crate::ExitCode::InlineSecret));
    }
}
