//! What a format looks like, as data: the reader's check for unknown keys and the JSON Schema are two readings of it.

/// A mapping with fixed keys, in the order in which they are shown.
#[derive(Debug)]
pub struct Object {
    /// Its description, for editors.
    pub about: &'static str,
    /// Its keys.
    pub fields: &'static [Field],
    /// Keys of which exactly one must be present; empty where this does not apply.
    pub one_of: &'static [&'static str],
}

/// One key of a mapping.
#[derive(Debug)]
pub struct Field {
    /// The key.
    pub name: &'static str,
    /// Its description, for editors.
    pub about: &'static str,
    /// Its allowed values.
    pub shape: Shape,
    /// Whether it must be there.
    pub needed: bool,
}

/// The allowed values of a key or item.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// A text that is not empty; numbers are taken as they are written.
    Text,
    /// A text of a form: a regular expression (ECMA-262, anchored by itself) that it has to match. The reader may be stricter.
    Form(&'static str),
    /// One of these words.
    Words(&'static [&'static str]),
    /// Exactly this text.
    Constant(&'static str),
    /// A whole number within bounds, both included.
    Number(u32, u32),
    /// `true` or `false`.
    Bool,
    /// Any number of them.
    List(&'static Shape),
    /// At least one of them.
    Some(&'static Shape),
    /// One of them, or a list of one or two: an address or network of each family.
    OneOrTwo(&'static Shape),
    /// One or the other.
    Either(&'static Shape, &'static Shape),
    /// A mapping with fixed keys.
    Mapping(&'static Object),
    /// A mapping from names of the user's.
    Named(&'static Shape),
    /// A mapping of somebody else's format.
    Raw,
    /// Where a secret would stand; always refused, with a reason of its own.
    Refused,
}

impl Field {
    /// A key that may be left out.
    pub const fn new(name: &'static str, shape: Shape, about: &'static str) -> Self {
        Self { name, about, shape, needed: false }
    }

    /// A key that must be there.
    pub const fn needed(name: &'static str, shape: Shape, about: &'static str) -> Self {
        Self { name, about, shape, needed: true }
    }
}

impl Object {
    /// A mapping with these keys.
    pub const fn new(about: &'static str, fields: &'static [Field]) -> Self {
        Self { about, fields, one_of: &[] }
    }

    /// The same, where just one of these keys must be there.
    #[must_use]
    pub const fn one_of(self, keys: &'static [&'static str]) -> Self {
        Self { one_of: keys, ..self }
    }

    /// The keys that the reader knows.
    pub fn keys(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().map(|field| field.name)
    }

    /// Its keys where a secret would stand.
    pub fn refused(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().filter(|field| matches!(field.shape, Shape::Refused)).map(|field| field.name)
    }

    /// The documentation of a key.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl Shape {
    /// The mapping with fixed keys that is here, or in a list here.
    pub fn object(&self) -> Option<&'static Object> {
        match self {
            Self::Mapping(object) => Some(object),
            Self::List(item) | Self::Some(item) | Self::OneOrTwo(item) | Self::Named(item) => item.object(),
            Self::Either(one, other) => one.object().or_else(|| other.object()),
            Self::Text
            | Self::Form(_)
            | Self::Words(_)
            | Self::Constant(_)
            | Self::Number(..)
            | Self::Bool
            | Self::Raw
            | Self::Refused => None,
        }
    }
}
