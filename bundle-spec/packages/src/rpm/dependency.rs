//! Dependencies: simple ones with their flags, boolean ones (rpm-dependencies(7), “boolean dependencies”), and how an index keeps
//! them until they are looked at.

use crate::model::{ArchWanted, Comparison, Constraint, RelationError, Relations, Requirement};

/// How deep boolean dependencies may be nested; real ones stay below five.
const DEPTH: usize = 32;
/// Of a text in an error.
const SHOWN: usize = 120;

/// What a package says of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It needs them.
    Requires,
    /// It cannot be together with them.
    Conflicts,
    /// It takes their place.
    Obsoletes,
}

/// How the flags of an index (`EQ`, `LT`, `LE`, `GT`, `GE`) compare.
pub fn comparison(flags: &str) -> Option<Comparison> {
    Some(match flags {
        "EQ" => Comparison::Equal,
        "LT" => Comparison::Less,
        "LE" => Comparison::LessOrEqual,
        "GT" => Comparison::Greater,
        "GE" => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

/// Dependencies as an index keeps them: a line for each, unparsed.
#[derive(Debug, Default)]
pub struct Lines(String);

impl Lines {
    /// Adds one. What rpm itself must know (`rpmlib(…)`) is left out: it is no package.
    pub fn push(&mut self, kind: Kind, name: &str, version: Option<(Comparison, &str)>) {
        if name.starts_with("rpmlib(") || name.is_empty() {
            return;
        }
        let kind = match kind {
            Kind::Requires => 'R',
            Kind::Conflicts => 'C',
            Kind::Obsoletes => 'O',
        };
        self.0.push(kind);
        self.0.push_str(name);
        if let Some((comparison, version)) = version {
            self.0.push('\t');
            self.0.push_str(symbol(comparison));
            self.0.push('\t');
            self.0.push_str(version);
        }
        self.0.push('\n');
    }

    /// The lines; [`relations`] reads them.
    pub fn finish(self) -> Box<str> {
        self.0.into()
    }
}

/// What the lines of [`Lines`] say, in their order.
pub fn relations(lines: &str) -> Result<Relations, RelationError> {
    let mut relations = Relations::default();
    for line in lines.lines() {
        let (kind, rest) = line.split_at_checked(1).unwrap_or_default();
        let mut fields = rest.split('\t');
        let name = fields.next().unwrap_or_default();
        let version = match (fields.next(), fields.next()) {
            (Some(symbol), Some(version)) => {
                Some((by_symbol(symbol).ok_or_else(|| wrong(line, "its comparison"))?, version))
            }
            _ => None,
        };
        match kind {
            "R" => relations.requires.push(requirement(name, version)?),
            "C" => relations.conflicts.push(requirement(name, version)?),
            _ => relations.obsoletes.push(constraint(name, version)),
        }
    }
    Ok(relations)
}

/// One dependency. A name in parentheses is a boolean one.
pub fn requirement(name: &str, version: Option<(Comparison, &str)>) -> Result<Requirement, RelationError> {
    if name.starts_with('(') { boolean(name) } else { Ok(Requirement::One(constraint(name, version))) }
}

/// A dependency as people and spec files write it: `name`, `name >= 1:2.0`, `(a or b)`.
pub fn parse(text: &str) -> Result<Requirement, RelationError> {
    let text = text.trim();
    if text.starts_with('(') {
        return boolean(text);
    }
    let mut words = Words { whole: text, left: text };
    let simple = words.simple()?;
    if words.left.trim().is_empty() { Ok(simple) } else { Err(wrong(text, "something follows it")) }
}

fn constraint(name: &str, version: Option<(Comparison, &str)>) -> Constraint {
    let version = version.map(|(comparison, version)| (comparison, version.into()));
    Constraint { name: name.into(), arch: ArchWanted::Own, version }
}

fn boolean(text: &str) -> Result<Requirement, RelationError> {
    let mut words = Words { whole: text, left: text };
    let requirement = words.operand(0)?;
    if words.left.trim().is_empty() {
        Ok(requirement)
    } else {
        Err(wrong(text, "something follows its last parenthesis"))
    }
}

fn wrong(text: &str, why: impl Into<String>) -> RelationError {
    RelationError { text: text.chars().take(SHOWN).collect(), why: why.into() }
}

/// As much of a word as an error shows.
fn begin(word: &str) -> String {
    word.chars().take(SHOWN).flat_map(char::escape_debug).collect()
}

const fn symbol(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Less => "<",
        Comparison::LessOrEqual => "<=",
        Comparison::Equal => "=",
        Comparison::GreaterOrEqual => ">=",
        Comparison::Greater => ">",
    }
}

fn by_symbol(symbol: &str) -> Option<Comparison> {
    Some(match symbol {
        "<" => Comparison::Less,
        "<=" | "=<" => Comparison::LessOrEqual,
        "=" | "==" => Comparison::Equal,
        ">=" | "=>" => Comparison::GreaterOrEqual,
        ">" => Comparison::Greater,
        _ => return None,
    })
}

struct Words<'a> {
    whole: &'a str,
    left: &'a str,
}

impl<'a> Words<'a> {
    fn wrong(&self, why: impl Into<String>) -> RelationError {
        wrong(self.whole, why)
    }

    /// The next word: up to white space or a closing parenthesis that it did not open.
    fn peek(&mut self) -> &'a str {
        self.left = self.left.trim_start();
        let mut open = 0_usize;
        let end = self.left.find(|c: char| match c {
            '(' => {
                open += 1;
                false
            }
            ')' if open == 0 => true,
            ')' => {
                open -= 1;
                false
            }
            c => c.is_whitespace() && open == 0,
        });
        &self.left[..end.unwrap_or(self.left.len())]
    }

    fn word(&mut self) -> Result<&'a str, RelationError> {
        let word = self.peek();
        if word.is_empty() {
            return Err(self.wrong("a name or a version is missing"));
        }
        self.left = &self.left[word.len()..];
        Ok(word)
    }

    fn simple(&mut self) -> Result<Requirement, RelationError> {
        let name = self.word()?;
        let version = match by_symbol(self.peek()) {
            Some(comparison) => {
                self.word()?;
                Some((comparison, self.word()?))
            }
            None => None,
        };
        Ok(Requirement::One(constraint(name, version)))
    }

    fn operand(&mut self, depth: usize) -> Result<Requirement, RelationError> {
        self.left = self.left.trim_start();
        let Some(inside) = self.left.strip_prefix('(') else { return self.simple() };
        if depth == DEPTH {
            return Err(self.wrong(format!("it is nested more than {DEPTH} deep")));
        }
        self.left = inside;
        let whole = self.operation(depth + 1)?;
        self.left = self.left.trim_start();
        self.left = self.left.strip_prefix(')').ok_or_else(|| self.wrong("a parenthesis is not closed"))?;
        Ok(whole)
    }

    fn operation(&mut self, depth: usize) -> Result<Requirement, RelationError> {
        let first = self.operand(depth)?;
        let operator = self.peek();
        match operator {
            "" => Ok(first),
            "and" | "or" | "with" => {
                let mut operands = vec![first];
                while self.peek() == operator {
                    self.word()?;
                    operands.push(self.operand(depth)?);
                }
                let next = self.peek();
                if !next.is_empty() {
                    let next = begin(next);
                    return Err(self.wrong(format!("`{operator}` and `{next}` stand in one pair of parentheses")));
                }
                Ok(match operator {
                    "and" => Requirement::All(operands),
                    "or" => Requirement::Any(operands),
                    _ => Requirement::With(operands),
                })
            }
            "without" => {
                self.word()?;
                Ok(Requirement::Without(Box::new(first), Box::new(self.operand(depth)?)))
            }
            "if" | "unless" => {
                self.word()?;
                let (then, condition) = (Box::new(first), Box::new(self.operand(depth)?));
                let mut otherwise = None;
                if self.peek() == "else" {
                    self.word()?;
                    otherwise = Some(Box::new(self.operand(depth)?));
                }
                Ok(match operator {
                    "if" => Requirement::If { condition, then, otherwise },
                    _ => Requirement::Unless { condition, then, otherwise },
                })
            }
            other => Err(self.wrong(format!("`{}` is not an operator", begin(other)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str) -> Requirement {
        Requirement::One(constraint(name, None))
    }

    fn boxed(name: &str) -> Box<Requirement> {
        Box::new(one(name))
    }

    #[test]
    fn what_is_wrong_with_a_dependency_quotes_a_part_of_it() {
        let long = "x".repeat(60_000);
        for text in [format!("(a {long} b)"), format!("(a and b {long})"), format!("(a and b {long}\u{1b} c)")] {
            let error = parse(&text).unwrap_err();
            assert!(error.to_string().len() < 1000, "{} bytes", error.to_string().len());
            assert!(!error.to_string().contains('\u{1b}'), "{error}");
        }
    }

    #[test]
    fn every_operator_is_read_with_its_operands_in_place() {
        let versioned =
            |name: &str, comparison, version| Requirement::One(constraint(name, Some((comparison, version))));
        for (text, meant) in [
            ("(a and b and c)", Requirement::All(vec![one("a"), one("b"), one("c")])),
            ("(a or (b and c))", Requirement::Any(vec![one("a"), Requirement::All(vec![one("b"), one("c")])])),
            ("(a with b)", Requirement::With(vec![one("a"), one("b")])),
            ("(a without b)", Requirement::Without(boxed("a"), boxed("b"))),
            ("(a if b)", Requirement::If { condition: boxed("b"), then: boxed("a"), otherwise: None }),
            (
                "(a if b else c)",
                Requirement::If { condition: boxed("b"), then: boxed("a"), otherwise: Some(boxed("c")) },
            ),
            ("(a unless b)", Requirement::Unless { condition: boxed("b"), then: boxed("a"), otherwise: None }),
            (
                "((selinux-policy >= 34.1-1 if selinux-policy-base))",
                Requirement::If {
                    condition: boxed("selinux-policy-base"),
                    then: Box::new(versioned("selinux-policy", Comparison::GreaterOrEqual, "34.1-1")),
                    otherwise: None,
                },
            ),
            (
                "(python3dist(urllib3) >= 1.21 with python3dist(urllib3) < 3)",
                Requirement::With(vec![
                    versioned("python3dist(urllib3)", Comparison::GreaterOrEqual, "1.21"),
                    versioned("python3dist(urllib3)", Comparison::Less, "3"),
                ]),
            ),
            ("libc.so.6(GLIBC_2.4)(64bit)", one("libc.so.6(GLIBC_2.4)(64bit)")),
            ("iptables = 1:1.8", versioned("iptables", Comparison::Equal, "1:1.8")),
        ] {
            assert_eq!(parse(text).unwrap(), meant, "{text}");
        }
    }

    #[test]
    fn what_is_no_dependency_is_refused() {
        for text in [
            "",
            "(",
            "()",
            "(a",
            "(a b)",
            "(a and b or c)",
            "(a and)",
            "(a if b c)",
            "(a or b) c",
            "a b",
            "a >=",
            "(a >= )",
        ] {
            assert!(parse(text).is_err(), "{text} passed");
        }
        let deep = format!("{}a{}", "(".repeat(100_000), ")".repeat(100_000));
        assert!(parse(&deep).is_err(), "depth is not bounded");
    }

    #[test]
    fn lines_give_back_what_was_put_in_and_rpm_itself_is_no_package() {
        let mut lines = Lines::default();
        lines.push(Kind::Requires, "rpmlib(CompressedFileNames)", Some((Comparison::LessOrEqual, "3.0.4-1")));
        lines.push(Kind::Requires, "/usr/bin/a b", None);
        lines.push(Kind::Conflicts, "(a if b)", None);
        lines.push(Kind::Obsoletes, "old", Some((Comparison::Less, "1:2-3")));
        let found = relations(&lines.finish()).unwrap();
        assert_eq!(found.requires, [one("/usr/bin/a b")]);
        assert_eq!(found.conflicts, [parse("(a if b)").unwrap()]);
        assert_eq!(found.obsoletes, [constraint("old", Some((Comparison::Less, "1:2-3")))]);
        assert_eq!(relations("").unwrap(), Relations::default());
    }
}
