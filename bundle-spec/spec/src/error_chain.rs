//! An error as one line of text.

use std::error::Error;

/// An error with its causes, outermost first: `what: why: because`. A cause that a text holds already is not repeated:
/// transparent wrappers are their cause, others have it within a sentence of their own.
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Failed {
        #[error("cannot read a.yaml")]
        Read(#[source] std::io::Error),
        #[error("{0}, so that is that")]
        Within(#[source] Box<Failed>),
    }

    #[test]
    fn causes_follow_once_each() {
        let failed = || Failed::Read(std::io::Error::other("no such disk"));
        assert_eq!(error_chain(&failed()), "cannot read a.yaml: no such disk");
        let within = Failed::Within(Box::new(failed()));
        assert_eq!(error_chain(&within), "cannot read a.yaml, so that is that: no such disk");
    }
}
