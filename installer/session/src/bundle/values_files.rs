//! Values files of charts that the operator's own cluster.yaml names, from its folder. Those of the bundle's cluster.yaml are in
//! the bundle's lock, merged with all other values.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use kubexm_charts::documents;
use kubexm_files::InputError;
use kubexm_spec::Cluster;
use kubexm_spec::rendering::VALUES_LIMIT;
use serde_json::{Map, Value};

use crate::error::SessionError;

/// Reads them. One that is not there is the bundle's.
pub fn read(cluster: &Cluster, file: Option<&Path>) -> Result<BTreeMap<PathBuf, Map<String, Value>>, SessionError> {
    let mut all = BTreeMap::new();
    let Some(folder) = file.map(|file| file.parent().unwrap_or(Path::new(""))) else { return Ok(all) };
    for name in cluster.addons.iter().filter_map(|addon| addon.values_file.as_ref()) {
        let path = folder.join(name);
        let bytes = match kubexm_files::read(&path, VALUES_LIMIT) {
            Ok(bytes) => bytes,
            Err(InputError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        let text = kubexm_files::text_of(&path, bytes)?;
        let values = documents::values(&text).map_err(|problem| SessionError::ValuesFile { path, problem })?;
        all.insert(name.clone(), values);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use kubexm_spec::ExitCode;
    use kubexm_spec::ExitError as _;
    use kubexm_spec::cluster;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_values_file_lies_beside_the_operators_own_cluster_yaml_and_else_in_the_bundle() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cluster.yaml");
        let text = "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: x}\nspec:\n  addons:\n  \
                    - {name: a, type: helm, source: {path: a}, valuesFile: values/a.yaml}\n";
        let cluster = cluster::parse(text).unwrap();
        assert!(read(&cluster, Some(&file)).unwrap().is_empty());
        std::fs::create_dir(folder.path().join("values")).unwrap();
        std::fs::write(folder.path().join("values/a.yaml"), "replicas: 2\n").unwrap();
        assert!(read(&cluster, None).unwrap().is_empty(), "the folder of a bundle means nothing");
        let all = read(&cluster, Some(&file)).unwrap();
        assert_eq!(json!(all[Path::new("values/a.yaml")]), json!({"replicas": 2}));
        std::fs::write(folder.path().join("values/a.yaml"), "- a list\n").unwrap();
        let error = read(&cluster, Some(&file)).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Config);
        assert!(error.to_string().contains("values/a.yaml"), "{error}");
    }
}
