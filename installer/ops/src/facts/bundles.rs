//! Bundles whose content a host of the registry has.

use std::collections::BTreeSet;
use std::path::Path;

use kubexm_spec::depot::{BUNDLES, CONFIG, DepotConfig};

use crate::{Machine, OpError, fsio};

/// Those that have a record, and the one that the depot serves.
pub(super) fn look(machine: &Machine, ours: bool) -> Result<(BTreeSet<String>, Option<String>), OpError> {
    let folder = machine.path(Path::new(CONFIG).with_file_name(BUNDLES).to_string_lossy().as_ref());
    let entries = match std::fs::read_dir(&folder) {
        _ if !ours => return Ok(Default::default()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Default::default()),
        other => other.map_err(OpError::path("list", &folder))?,
    };
    let mut all = BTreeSet::new();
    for entry in entries {
        let name = entry.map_err(OpError::path("list", &folder))?.file_name();
        all.extend(name.to_str().and_then(|name| name.strip_suffix(".json")).map(str::to_owned));
    }
    // One that cannot be read is that of no record.
    let config = fsio::read(&machine.path(CONFIG))?.unwrap_or_default();
    let serving = serde_json::from_slice::<DepotConfig>(&config).ok().and_then(|config| config.bundle);
    Ok((all, serving))
}
