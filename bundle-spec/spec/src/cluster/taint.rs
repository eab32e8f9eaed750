//! A taint of a node, written as kubectl does: `dedicated=database:NoSchedule`, or `dedicated:NoExecute` without a value.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::field::FieldType;
use super::parse::values::{is_label_key, is_label_value};
use crate::keywords::{Keyword, keywords};
use crate::yaml::{At, Shape};

/// What keeps pods off a node that do not tolerate it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// As a label's.
    pub key: String,
    /// As a label's; often empty.
    pub value: String,
    /// What happens to pods that do not tolerate it.
    pub effect: TaintEffect,
}

keywords! {
    /// The effects of a taint (core/v1).
    pub enum TaintEffect {
        /// They are not scheduled here.
        NoSchedule = "NoSchedule",
        /// They are scheduled elsewhere where that is possible.
        PreferNoSchedule = "PreferNoSchedule",
        /// They are not scheduled here, and those that run here are evicted.
        NoExecute = "NoExecute",
    }
}

/// Keys of Kubernetes and kubeadm, which their components set and remove.
const RESERVED: [&str; 2] = ["node.kubernetes.io/", "node-role.kubernetes.io/"];

impl Taint {
    fn parse(text: &str) -> Result<Self, String> {
        let form = || format!("{text:?} is not a taint: KEY=VALUE:EFFECT, or KEY:EFFECT");
        let (name, effect) = text.rsplit_once(':').ok_or_else(form)?;
        let (key, value) = name.split_once('=').unwrap_or((name, ""));
        if !is_label_key(key) || !is_label_value(value) {
            return Err(form());
        }
        let effect = TaintEffect::of_word(effect)
            .ok_or_else(|| format!("{text:?}: the effect is NoSchedule, PreferNoSchedule or NoExecute"))?;
        if RESERVED.iter().any(|prefix| key.starts_with(prefix)) {
            return Err(format!("{key} is a taint that Kubernetes sets itself; the roles of a host decide about it"));
        }
        Ok(Self { key: key.to_owned(), value: value.to_owned(), effect })
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value, effect } = self;
        match value.as_str() {
            "" => write!(f, "{key}:{effect}"),
            value => write!(f, "{key}={value}:{effect}"),
        }
    }
}

impl FieldType for Taint {
    type Value = Self;

    const SHAPE: Shape = Shape::Form("^[^=:]+(=[^=:]*)?:(NoSchedule|PreferNoSchedule|NoExecute)$");

    fn read(at: &At<'_>) -> Option<Self> {
        at.parsed(Self::parse)
    }

    fn show(value: &Self) -> Option<Value> {
        Some(value.to_string().into())
    }
}

/// The taints of a node: each key and effect once, as the API server wants it.
pub(super) struct Taints;

impl FieldType for Taints {
    type Value = Vec<Taint>;

    const SHAPE: Shape = Vec::<Taint>::SHAPE;

    fn read(at: &At<'_>) -> Option<Vec<Taint>> {
        let taints = Vec::<Taint>::read(at)?;
        let mut twice = None;
        for (index, (taint, at)) in taints.iter().zip(at.list()).enumerate() {
            let same = |other: &&Taint| (&other.key, other.effect) == (&taint.key, taint.effect);
            if let Some(other) = taints.iter().take(index).find(same) {
                at.bad(
                    format!("\"{taint}\" has the key and the effect of \"{other}\""),
                    "a node has each of them once",
                );
                twice = Some(());
            }
        }
        twice.is_none().then_some(taints)
    }

    fn show(value: &Vec<Taint>) -> Option<Value> {
        Vec::<Taint>::show(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taint_is_written_as_kubectl_does() {
        for text in ["dedicated=database:NoSchedule", "example.com/gpu:NoExecute", "a=:PreferNoSchedule"] {
            let taint = Taint::parse(text).expect(text);
            assert_eq!(taint.to_string(), text.replace("=:", ":"));
        }
        for (text, why) in [
            ("dedicated", "KEY=VALUE:EFFECT"),
            (":NoSchedule", "KEY=VALUE:EFFECT"),
            ("a=b=c:NoSchedule", "KEY=VALUE:EFFECT"),
            ("a=b:Never", "the effect is"),
            ("-a=b:NoSchedule", "KEY=VALUE:EFFECT"),
            ("a=b.:NoSchedule", "KEY=VALUE:EFFECT"),
            ("node-role.kubernetes.io/control-plane:NoSchedule", "roles of a host"),
        ] {
            let error = Taint::parse(text).expect_err(text);
            assert!(error.contains(why), "{error}");
        }
    }
}
