//! `spec.operators`: for whom the cluster's authorities are sealed.

use super::field::{AgeRecipient, Line, section};

section! {
    /// Somebody who may change the cluster from a machine of their own
    ///
    /// One of `spec.operators`.
    pub struct Operator {
        /// Who it is
        #[yaml("name" as Line, required)]
        pub name: String,
        /// Their public key, as `kubexm-install identity` prints it on their machine (age1…)
        #[yaml("recipient" as AgeRecipient, required)]
        pub recipient: String,
    }
}
