//! A format's description as a JSON Schema (draft 2020-12), for editors.
//!
//! The schema takes everything that the reader takes; the reader is stricter, since much of what it refuses no schema can say
//! (networks that overlap, a role of a host that is not there).

use serde_json::{Map, Value, json};

use super::shape::{Field, Object, Shape};

/// The dialect that the schema is written in.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The schema of a whole file. `default` knows what a place has when it is left out, by its path (`spec.hosts[].port`).
pub fn schema(title: &str, root: &'static Object, default: &impl Fn(&str) -> Option<Value>) -> Value {
    let mut schema = object(root, "", default);
    if let Value::Object(schema) = &mut schema {
        schema.insert("$schema".to_owned(), DIALECT.into());
        schema.insert("title".to_owned(), title.into());
    }
    schema
}

type Default<'d> = dyn Fn(&str) -> Option<Value> + 'd;

fn object(of: &'static Object, path: &str, default: &Default<'_>) -> Value {
    let properties: Map<String, Value> =
        of.fields.iter().map(|field| (field.name.to_owned(), property(field, path, default))).collect();
    let mut schema = json!({
        "type": "object",
        "description": of.about,
        "properties": properties,
        "additionalProperties": false,
    });
    let required: Vec<&str> = of.fields.iter().filter(|field| field.needed).map(|field| field.name).collect();
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if !of.one_of.is_empty() {
        schema["oneOf"] = of.one_of.iter().map(|key| json!({"required": [key]})).collect();
    }
    schema
}

fn property(field: &'static Field, path: &str, default: &Default<'_>) -> Value {
    let path = if path.is_empty() { field.name.to_owned() } else { format!("{path}.{}", field.name) };
    let mut schema = shape(&field.shape, &path, default);
    if !field.needed {
        nullable(&mut schema);
    }
    schema["description"] = field.about.into();
    if let Some(value) = default(&path) {
        schema["default"] = value;
    }
    schema
}

/// A key without a value is as if it were not there.
fn nullable(schema: &mut Value) {
    if let Some(Value::String(kind)) = schema.get("type") {
        schema["type"] = json!([kind, "null"]);
    } else if let Some(Value::Array(kinds)) = schema.get_mut("type") {
        kinds.push("null".into());
    } else if let Some(Value::Array(words)) = schema.get_mut("enum") {
        words.push(Value::Null);
    } else {
        *schema = json!({"anyOf": [schema.take(), {"type": "null"}]});
    }
}

fn shape(of: &'static Shape, path: &str, default: &Default<'_>) -> Value {
    let list = || format!("{path}[]");
    match of {
        // Numbers are taken as they are written: `version: 1.34` is a text to the reader and a number to a schema.
        Shape::Text => json!({"type": ["string", "number"]}),
        Shape::Form(pattern) => json!({"type": ["string", "number"], "pattern": pattern}),
        Shape::Words(words) => json!({"enum": words}),
        Shape::Constant(text) => json!({"const": text}),
        Shape::Number(from, to) => json!({"type": "integer", "minimum": from, "maximum": to}),
        Shape::Bool => json!({"type": "boolean"}),
        Shape::List(item) => json!({"type": "array", "items": shape(item, &list(), default)}),
        Shape::Some(item) => json!({"type": "array", "minItems": 1, "items": shape(item, &list(), default)}),
        Shape::OneOrTwo(item) => {
            let item = shape(item, path, default);
            json!({"anyOf": [item, {"type": "array", "minItems": 1, "maxItems": 2, "items": item}]})
        }
        Shape::Either(one, other) => json!({"anyOf": [shape(one, path, default), shape(other, path, default)]}),
        Shape::Mapping(of) => object(of, path, default),
        Shape::Named(item) => {
            json!({"type": "object", "additionalProperties": shape(item, &format!("{path}{{}}"), default)})
        }
        Shape::Raw => json!({"type": "object"}),
        Shape::Refused => json!({"not": {}}),
    }
}
