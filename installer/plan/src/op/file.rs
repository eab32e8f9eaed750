//! A file.

use std::fmt;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback};
use crate::path_state::PathState;
use crate::resource::ResourceChange;
use crate::slot::SlotName;

/// Where a file's content comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Content {
    /// A text of the plan.
    Text {
        /// Digest of the text.
        digest: Digest,
    },
    /// A text of the plan whose placeholders ([`SlotName::placeholder`]) are replaced by the slots' values on the host.
    Filled {
        /// Digest of the text with its placeholders.
        digest: Digest,
        /// The slots that it has placeholders for.
        slots: Vec<SlotName>,
    },
    /// A slot's value.
    Slot {
        /// The slot.
        slot: SlotName,
    },
}

/// A file with this content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct File {
    /// Absolute.
    pub path: String,
    /// Content.
    pub content: Content,
    /// Permission bits.
    pub mode: u32,
}

impl OpKind for File {
    type State = PathState;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        let content = match &self.content {
            Content::Text { digest } => digest.to_string(),
            Content::Filled { digest, slots } => {
                let slots: Vec<String> = slots.iter().map(SlotName::placeholder).collect();
                format!("{digest} {}", slots.join(" "))
            }
            Content::Slot { slot } => slot.placeholder(),
        };
        vec![ResourceChange::file(&self.path, format!("file {:04o} {content}", self.mode))]
    }

    fn needs(&self) -> Needs<'_> {
        match &self.content {
            Content::Text { digest } => Needs { text: Some(*digest), ..Needs::nothing() },
            Content::Filled { digest, slots } => Needs { slots, text: Some(*digest), ..Needs::nothing() },
            Content::Slot { slot } => Needs { slots: std::slice::from_ref(slot), ..Needs::nothing() },
        }
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::Host
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl fmt::Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let content = match &self.content {
            Content::Text { digest } => format!("text {}", digest.short()),
            Content::Filled { digest, slots } => {
                let slots: Vec<&str> = slots.iter().map(|slot| slot.0.as_str()).collect();
                format!("text {} with slot {}", digest.short(), slots.join(", "))
            }
            Content::Slot { slot } => format!("slot {}", slot.0),
        };
        write!(f, "file {} {:04o} from {content}", self.path, self.mode)
    }
}
