//! Values by names of the user's.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use serde_json::Value;

use super::{FieldType, Text};
use crate::yaml::{At, Shape};

/// `T` by names of the form `K`; a name of another form is reported at its value.
pub(in crate::cluster) struct Named<K, T>(PhantomData<(K, T)>);

impl<K: Text<Value = String>, T: FieldType> FieldType for Named<K, T> {
    type Value = BTreeMap<String, T::Value>;

    const SHAPE: Shape = Shape::Named(&T::SHAPE);

    fn read(at: &At<'_>) -> Option<Self::Value> {
        let map = at.open_mapping()?;
        let read = map.entries().map(|(name, at)| {
            let name = K::parse(name).map_err(|problem| at.bad(problem, "")).ok();
            let value = T::read(&at);
            Some((name?, value?))
        });
        read.collect::<Vec<_>>().into_iter().collect()
    }

    fn show(value: &Self::Value) -> Option<Value> {
        let show = |(name, value): (&String, &T::Value)| Some((name.clone(), T::show(value)?));
        (!value.is_empty()).then(|| Value::Object(value.iter().filter_map(show).collect()))
    }
}
