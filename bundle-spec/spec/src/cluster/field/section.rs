//! The declaration of a section of cluster.yaml.

/// Declares a mapping of cluster.yaml as a struct. Struct, `Default`, the table of the JSON Schema, the reader and what `config` shows
/// are made of it:
///
/// ```text
/// section! {
///     /// Backups on the members
///     pub struct Backup {
///         /// Folder on the members
///         #[yaml("dir" as Folder, default = "/var/backups/etcd".to_owned())]
///         pub dir: String,
///     }
/// }
/// ```
///
/// The first line of a comment is the description in the schema. `#[yaml]` has
/// - the key,
/// - `as` and its [`FieldType`](super::FieldType), where that is not the Rust type itself,
/// - `default = …`, where that is not the Rust type's default, or `required`. A section without a required key has a `Default`.
///
/// `#[serde]` before it is passed on. `#[others(more_things: Vec<T>)]` after it declares a second field of the struct: one key fills
/// both, with a `FieldType` of a pair.
///
/// Keys are shown and described in the order of the fields. Of the struct itself can be said, in this order:
/// - `#[elsewhere("roles" as Shape::…, "…")]`: a key that no field holds, because something else reads it,
/// - `#[refused("password" => "passwordFrom", …)]`: keys where a secret would stand, and what is there instead,
/// - `#[check(function(field, …))]`: a rule across fields. It gets the mapping and `Option<&T>` of each field, none where it is wrong,
///   and returns none where the section cannot be used,
/// - `#[hides(function(field))]`: which keys mean nothing with that field's value, and are not shown.
macro_rules! section {
    (
        #[doc = $about:literal]
        $(#[doc = $more:literal])*
        $(#[elsewhere($other:literal as $other_shape:expr, $other_about:literal)])?
        $(#[refused($($secret:literal => $source:literal),+)])?
        $(#[check($check:ident($($checked:ident),+))])?
        $(#[hides($hides:ident($kind:ident))])?
        pub struct $name:ident {
            $(
                #[doc = $field_about:literal]
                $(#[doc = $field_more:literal])*
                $(#[serde $serde:tt])?
                #[yaml($key:literal $(as $file_type:ty)? $(, $($how:tt)+)?)]
                $(#[others($others:ident: $others_type:ty)])?
                pub $field:ident: $type:ty,
            )+
        }
    ) => {
        #[doc = $about]
        $(#[doc = $more])*
        #[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            $(
                #[doc = $field_about]
                $(#[doc = $field_more])*
                $(#[serde $serde])?
                pub $field: $type,
                $(
                    #[doc = concat!("What is after the first in the list of `", $key, "`.")]
                    #[serde(skip_serializing_if = "Vec::is_empty")]
                    pub $others: $others_type,
                )?
            )+
        }

        impl $name {
            /// The table of its keys.
            pub(in crate::cluster) const OBJECT: $crate::yaml::Object = $crate::yaml::Object::new(
                $about.trim_ascii(),
                &[
                    $($crate::yaml::Field {
                        name: $key,
                        about: $field_about.trim_ascii(),
                        shape: <$crate::cluster::field::section_field!(@type $type $(, $file_type)?)
                            as $crate::cluster::field::FieldType>::SHAPE,
                        needed: $crate::cluster::field::section_field!(@required $($($how)+)?),
                    },)+
                    $($crate::yaml::Field::new($other, $other_shape, $other_about),)?
                    $($($crate::yaml::Field::new(
                        $secret,
                        $crate::yaml::Shape::Refused,
                        concat!("Refused: use ", $source),
                    ),)+)?
                ],
            );
        }

        impl $crate::cluster::field::FieldType for $name {
            type Value = Self;

            const SHAPE: $crate::yaml::Shape = $crate::yaml::Shape::Mapping(&Self::OBJECT);

            fn read(at: &$crate::yaml::At<'_>) -> Option<Self> {
                let map = at.mapping(&Self::OBJECT)?;
                $crate::cluster::field::inline(&map, &Self::OBJECT);
                // what is wrong with one field keeps no other from being read
                $(let $field = $crate::cluster::field::section_field!(
                    @read map, $key, $crate::cluster::field::section_field!(@type $type $(, $file_type)?); $($($how)+)?
                );)+
                $($(let ($field, $others) = $field.unzip();)?)+
                $($check(&map, $($checked.as_ref()),+)?;)?
                Some(Self { $($field: $field?, $($others: $others?,)?)+ })
            }

            fn show(value: &Self) -> Option<serde_json::Value> {
                let mut document = serde_json::Map::new();
                $($crate::cluster::field::put::<$crate::cluster::field::section_field!(@type $type $(, $file_type)?)>(
                    &mut document,
                    $key,
                    $crate::cluster::field::section_field!(@value value.$field $(, $others)?),
                );)+
                $($hides(value.$kind).iter().for_each(|key| drop(document.remove(*key)));)?
                (!document.is_empty()).then_some(document.into())
            }
        }

        $crate::cluster::field::section_field!(@defaults $name {} $({ $field $([$others])? $($($how)+)? })+);
    };
}

/// What [`section!`] makes of one field.
macro_rules! section_field {
    (@type $type:ty) => { $type };
    (@type $type:ty, $file_type:ty) => { $file_type };

    (@required required) => { true };
    (@required $($default:tt)*) => { false };

    (@read $map:ident, $key:literal, $type:ty; required) => {
        $crate::cluster::field::required::<$type>(&$map, &Self::OBJECT, $key)
    };
    (@read $map:ident, $key:literal, $type:ty;) => {
        $crate::cluster::field::optional::<$type>(&$map, $key, Default::default)
    };
    (@read $map:ident, $key:literal, $type:ty; default = $default:expr) => {
        $crate::cluster::field::optional::<$type>(&$map, $key, || $default)
    };

    (@value $section:ident.$field:ident) => { &$section.$field };
    (@value $section:ident.$field:ident, $others:ident) => { &($section.$field.clone(), $section.$others.clone()) };

    (@defaults $name:ident { $($known:tt)* }) => {
        impl Default for $name {
            fn default() -> Self {
                Self { $($known)* }
            }
        }
    };
    (@defaults $name:ident { $($known:tt)* } { $field:ident $([$others:ident])? required } $($rest:tt)*) => {};
    (@defaults $name:ident { $($known:tt)* } { $field:ident } $($rest:tt)*) => {
        $crate::cluster::field::section_field!(@defaults $name { $($known)* $field: Default::default(), } $($rest)*);
    };
    (@defaults $name:ident { $($known:tt)* } { $field:ident [$others:ident] default = $default:expr } $($rest:tt)*) => {
        $crate::cluster::field::section_field!(
            @defaults $name { $($known)* $field: $default.0, $others: $default.1, } $($rest)*
        );
    };
    (@defaults $name:ident { $($known:tt)* } { $field:ident default = $default:expr } $($rest:tt)*) => {
        $crate::cluster::field::section_field!(@defaults $name { $($known)* $field: $default, } $($rest)*);
    };
}

pub(in crate::cluster) use {section, section_field};
