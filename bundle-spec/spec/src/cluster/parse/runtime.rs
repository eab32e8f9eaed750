//! `spec.runtime`.

use super::take::{maybe, or, raw};
use super::values;
use crate::cluster::{Keyword, Runtime, RuntimeKind};
use crate::yaml::{At, Field, Object, Shape};

/// `spec.runtime`.
pub(super) const RUNTIME: Object = Object::new(
    "What runs containers",
    &[
        Field::new("type", Shape::Words(RuntimeKind::WORDS), "Which one; docker comes with cri-dockerd"),
        Field::new(
            "version",
            Shape::Form("^v?[0-9]+\\.[0-9]+\\.[0-9]+([-+].*)?$"),
            "Exact version; the newest that suits the Kubernetes version when left out",
        ),
        Field::new("dataDir", Shape::Text, "Folder of images and containers; the runtime's own when left out"),
        Field::new("extraConfig", Shape::Raw, "Fields of the runtime's own configuration, merged over the defaults"),
    ],
);

pub(super) fn runtime(at: &At<'_>) -> Option<Runtime> {
    let map = at.mapping(&RUNTIME)?;
    let kind = or(map.get("type"), RuntimeKind::default(), |at| at.word());
    let version = maybe(map.get("version"), |at| at.parsed(values::version));
    let data_dir = maybe(map.get("dataDir"), |at| at.parsed(values::folder));
    let extra_config = or(map.get("extraConfig"), serde_json::Map::new(), raw);
    Some(Runtime { kind: kind?, version: version?, data_dir: data_dir?, extra_config: extra_config? })
}
