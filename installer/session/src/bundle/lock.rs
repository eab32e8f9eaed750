//! The lock in a bundle.

use kubexm_archive::{Bundle, DOCUMENT_LIMIT};
use kubexm_recipes::packages::CarriedPackages;
use kubexm_spec::manifest::Artifact;
use kubexm_spec::{ArtifactKey, Rendering};

use crate::error::SessionError;

/// What a plan takes from the lock of a bundle: the packages, and how charts were rendered. Only a bundle that has any is read.
pub fn read(bundle: &Bundle) -> Result<(CarriedPackages, Vec<Rendering>), SessionError> {
    let is_needed = |artifact: &Artifact| {
        matches!(artifact.key, ArtifactKey::Package { .. } | ArtifactKey::Chart(_) | ArtifactKey::Yaml(_))
    };
    if !bundle.manifest().artifacts.iter().any(is_needed) {
        return Ok((CarriedPackages::default(), Vec::new()));
    }
    let text = bundle.read("lock.yaml", DOCUMENT_LIMIT)?;
    let lock = kubexm_archive::read_lock(&text)
        .map_err(|reason| SessionError::Lock { bundle: bundle.path().to_owned(), reason })?;
    Ok((CarriedPackages::unread(&lock.packages), lock.renderings))
}

#[cfg(test)]
mod tests {
    use kubexm_archive::read_lock;
    use kubexm_spec::lock::SCHEMA;

    #[test]
    fn a_lock_of_any_cluster_is_read_and_one_of_bottomless_values_is_refused_and_nothing_else_happens() {
        let item = |number: usize| {
            format!(
                "- key: file/a{number}\n  version: ''\n  trust: user\n  sources:\n  - http://a/{number}\n  type: file\n  fileName: a{number}\n  \
                 digest: sha256:{}\n  size: 1\n",
                "0".repeat(64)
            )
        };
        let head = format!("schema: {SCHEMA}\nname: a\nzone: global\nitems:\n");
        let large = head.clone() + &(0..20_000).map(item).collect::<String>();
        assert_eq!(read_lock(large.as_bytes()).unwrap().items.len(), 20_000);
        let deep = format!("{head}- key: {}\n", "[".repeat(200_000));
        let error = read_lock(deep.as_bytes()).unwrap_err();
        assert!(error.len() < 400, "{error}");
        let values =
            format!("{head}renderings:\n- key: chart/a\n  values: {}{}\n", "{a: ".repeat(50_000), "}".repeat(50_000));
        assert!(read_lock(values.as_bytes()).is_err());
    }
}
