//! Tests of the whole: laws, golden plans, arrows between crates, whole programs.
