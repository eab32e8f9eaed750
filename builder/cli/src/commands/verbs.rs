//! Verbs and the verbs below them: one list gives the enum, which of them a machine reads, and the call.

/// Variants with their modules, each of which has `Args` and `run`; a doc comment of `Args` is the help. Behind a module: `text` of
/// a verb that has no `--json`, `document` of one whose only answer is JSON, `verbs` of one that has verbs below it.
macro_rules! verbs {
    ($($verb:ident($module:ident) $($kind:ident)?),* $(,)?) => {
        #[derive(Debug, clap::Subcommand)]
        pub enum Verb {
            $($verb(Box<$module::Args>)),*
        }

        impl Verb {
            /// Whether a machine reads.
            pub fn json(&self) -> bool {
                match self {
                    $(Self::$verb(args) => $crate::commands::verbs::is_json!(args $($kind)?)),*
                }
            }

            pub fn run(&self, context: &$crate::context::Context<'_>) -> Result<(), kubexm_terminal::Failure> {
                match self {
                    $(Self::$verb(args) => $crate::commands::verbs::call!($module(args, context) $($kind)?)),*
                }
            }
        }
    };
}

macro_rules! is_json {
    ($args:ident) => {
        $args.json
    };
    ($args:ident text) => {{
        let _ = $args;
        false
    }};
    ($args:ident document) => {{
        let _ = $args;
        true
    }};
    ($args:ident verbs) => {
        $args.verb.json()
    };
}

macro_rules! call {
    ($module:ident($args:ident, $context:ident) verbs) => {
        $args.verb.run($context)
    };
    ($module:ident($args:ident, $context:ident) $($kind:ident)?) => {
        $module::run($args, $context)
    };
}

pub(crate) use {call, is_json, verbs};
