//! Fields of relations (Debian Policy 7.1).

use crate::model::{RelationError, Requirement};

/// The requirements of a field, in its order; none of an empty one.
pub fn parse(field: &str) -> Result<Vec<Requirement>, RelationError> {
    if field.trim().is_empty() {
        return Ok(Vec::new());
    }
    Err(RelationError { text: field.chars().take(80).collect(), why: "not read yet".to_owned() })
}
