//! A limit of requests that was reached: after that nothing more is asked there, and one failure says so for all.

use std::sync::{Mutex, PoisonError};

use kubexm_transport::TransportError;

use crate::BuildError;

/// The first answer that said so, and what was not learnt because of it.
#[derive(Default)]
pub struct Limit(Mutex<State>);

#[derive(Default)]
struct State {
    error: Option<TransportError>,
    missing: Vec<String>,
}

impl Limit {
    pub fn is_reached(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).error.is_some()
    }

    /// Nothing is asked about a component.
    pub fn add_not_asked(&self, name: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).missing.push(name.to_owned());
    }

    /// Keeps an error that says that the limit is reached; any other is returned.
    pub fn note(&self, name: &str, error: BuildError) -> Option<BuildError> {
        let BuildError::Fetch { item, source } = error else { return Some(error) };
        match limited(*source) {
            Ok(limited) => {
                let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                state.error.get_or_insert(limited);
                state.missing.push(name.to_owned());
                None
            }
            Err(source) => Some(BuildError::Fetch { item, source: Box::new(source) }),
        }
    }

    /// What is reported at the end.
    pub fn failure(self, with_token: bool) -> Option<BuildError> {
        let State { error, mut missing } = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        missing.sort();
        Some(BuildError::RequestLimit { missing, with_token, source: Box::new(error?) })
    }
}

/// The limit, where it is why nobody answered.
fn limited(error: TransportError) -> Result<TransportError, TransportError> {
    match error {
        TransportError::AllFailed { what, mut tried } => {
            match tried.iter().position(|one| matches!(one, TransportError::Limited { .. })) {
                Some(index) => Ok(tried.swap_remove(index)),
                None => Err(TransportError::AllFailed { what, tried }),
            }
        }
        limited @ TransportError::Limited { .. } => Ok(limited),
        other => Err(other),
    }
}
