//! Texts of a plan that are sent with a step.

use kubexm_plan::{Plan, Step, Texts};

/// The texts that a step's ops use: those whose digest appears in the ops.
pub fn texts_of(plan: &Plan, step: &Step) -> Texts {
    let mut texts = Texts::new();
    if let Ok(value) = serde_json::to_value(step) {
        collect(&value, plan, &mut texts);
    }
    texts
}

fn collect(value: &serde_json::Value, plan: &Plan, texts: &mut Texts) {
    match value {
        serde_json::Value::String(text) => {
            if let Some((digest, text)) = text.parse().ok().and_then(|digest| plan.texts.get_key_value(&digest)) {
                texts.insert(*digest, text.clone());
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| collect(item, plan, texts)),
        serde_json::Value::Object(fields) => fields.values().for_each(|field| collect(field, plan, texts)),
        _ => {}
    }
}
