//! Types of fields that are no texts of a form, and lists and options of any type.

use std::marker::PhantomData;
use std::net::IpAddr;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::FieldType;
use crate::Arch;
use crate::cluster::parse::take::each;
use crate::cluster::parse::{addresses, values};
use crate::cluster::{Keyword, MaterialFile};
use crate::yaml::{At, Shape};

/// A whole number, both bounds included.
pub(in crate::cluster) struct Number<const MIN: u32, const MAX: u32, T = u32>(PhantomData<T>);

/// A TCP port.
pub(in crate::cluster) type Port = Number<1, 65535, u16>;

impl<const MIN: u32, const MAX: u32, T: TryFrom<u32> + Into<Value> + Copy> FieldType for Number<MIN, MAX, T> {
    type Value = T;

    const SHAPE: Shape = Shape::Number(MIN, MAX);

    fn read(at: &At<'_>) -> Option<T> {
        at.number(MIN..=MAX).and_then(|number| T::try_from(number).ok())
    }

    fn show(value: &T) -> Option<Value> {
        Some((*value).into())
    }
}

impl FieldType for bool {
    type Value = Self;

    const SHAPE: Shape = Shape::Bool;

    fn read(at: &At<'_>) -> Option<Self> {
        at.boolean()
    }

    fn show(value: &Self) -> Option<Value> {
        Some((*value).into())
    }
}

/// A text of any form.
impl FieldType for String {
    type Value = Self;

    const SHAPE: Shape = Shape::Text;

    fn read(at: &At<'_>) -> Option<Self> {
        at.text().map(str::to_owned)
    }

    fn show(value: &Self) -> Option<Value> {
        Some(value.as_str().into())
    }
}

impl FieldType for IpAddr {
    type Value = Self;

    const SHAPE: Shape = Shape::Text;

    fn read(at: &At<'_>) -> Option<Self> {
        at.parsed(addresses::ip)
    }

    fn show(value: &Self) -> Option<Value> {
        Some(value.to_string().into())
    }
}

/// A path on this machine.
impl FieldType for PathBuf {
    type Value = Self;

    const SHAPE: Shape = Shape::Text;

    fn read(at: &At<'_>) -> Option<Self> {
        at.parsed(values::path)
    }

    /// Paths were read from a text, and so are one.
    fn show(value: &Self) -> Option<Value> {
        Some(value.to_string_lossy().into())
    }
}

impl FieldType for MaterialFile {
    type Value = Self;

    const SHAPE: Shape = Shape::Text;

    fn read(at: &At<'_>) -> Option<Self> {
        at.parsed(Self::parse)
    }

    fn show(value: &Self) -> Option<Value> {
        Some(value.name.as_str().into())
    }
}

impl<T: Keyword> FieldType for T {
    type Value = Self;

    const SHAPE: Shape = Shape::Words(T::WORDS);

    fn read(at: &At<'_>) -> Option<Self> {
        at.word()
    }

    fn show(value: &Self) -> Option<Value> {
        Some(value.word().into())
    }
}

impl FieldType for Arch {
    type Value = Self;

    const SHAPE: Shape = Shape::Form("^(amd64|x86_64|arm64|aarch64)$");

    fn read(at: &At<'_>) -> Option<Self> {
        at.parsed(|text| Self::from_any(text).ok_or_else(|| format!("{text:?} is not amd64 or arm64")))
    }

    fn show(value: &Self) -> Option<Value> {
        Some(value.to_string().into())
    }
}

/// A mapping of somebody else's format: kept as it is.
impl FieldType for Map<String, Value> {
    type Value = Self;

    const SHAPE: Shape = Shape::Raw;

    fn read(at: &At<'_>) -> Option<Self> {
        at.open_mapping()?;
        match at.json() {
            Value::Object(map) => Some(map),
            _ => None,
        }
    }

    fn show(value: &Self) -> Option<Value> {
        (!value.is_empty()).then(|| value.clone().into())
    }
}

/// What is set is shown, also when nothing in it is (`harborConfig: {}`).
impl<T: FieldType> FieldType for Option<T> {
    type Value = Option<T::Value>;

    const SHAPE: Shape = T::SHAPE;

    fn read(at: &At<'_>) -> Option<Self::Value> {
        T::read(at).map(Some)
    }

    fn show(value: &Self::Value) -> Option<Value> {
        value.as_ref().map(|value| T::show(value).unwrap_or_else(|| Map::new().into()))
    }
}

impl<T: FieldType> FieldType for Vec<T> {
    type Value = Vec<T::Value>;

    const SHAPE: Shape = Shape::List(&T::SHAPE);

    /// None when one of the items is wrong; the others are still read.
    fn read(at: &At<'_>) -> Option<Self::Value> {
        each(at, T::read)
    }

    fn show(value: &Self::Value) -> Option<Value> {
        (!value.is_empty()).then(|| value.iter().filter_map(T::show).collect())
    }
}
