//! Several errors that have one cause, such as a server that does not answer, are reported together.

/// How many things that failed for one cause are named.
const NAMED: usize = 8;

/// A line each for `errors`; those of one cause together: how many `things` they are, and the names of the first.
pub(crate) fn lines<E>(
    errors: &[E],
    thing: &str,
    cause: impl Fn(&E) -> Option<String>,
    name: impl Fn(&E) -> Option<String>,
    alone: impl Fn(&E) -> String,
) -> String {
    let mut groups: Vec<(Option<String>, Vec<&E>)> = Vec::new();
    for error in errors {
        let cause = cause(error);
        match groups.iter_mut().find(|(known, _)| cause.is_some() && *known == cause) {
            Some((_, same)) => same.push(error),
            None => groups.push((cause, vec![error])),
        }
    }
    let line = |(cause, errors): &(Option<String>, Vec<&E>)| match (cause, errors.as_slice()) {
        (Some(cause), [_, _, ..]) => {
            let names: Vec<String> = errors.iter().filter_map(|error| name(error)).collect();
            let separator = if cause.contains('\n') { ":\n  - " } else { ": " };
            let count = kubexm_spec::counted_of(errors, thing);
            format!("\n- {count}{separator}{cause}\n  needed for {}", first_of(&names))
        }
        (_, errors) => errors.iter().map(|error| format!("\n- {}", alone(error))).collect(),
    };
    groups.iter().map(line).collect()
}

/// One error of several, or the only one.
pub(crate) fn one_or<E>(mut errors: Vec<E>, several: impl FnOnce(Vec<E>) -> E) -> E {
    if errors.len() == 1 { errors.remove(0) } else { several(errors) }
}

/// The first names, and how many more there are.
pub fn first_of(names: &[String]) -> String {
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", "))
}
