//! How long the texts of a manifest may be, and that it lists each artifact once. It may come from anybody, and a message about each of
//! its blobs names the artifact: one long key would be repeated a hundred thousand times.

use std::collections::HashSet;

use super::{Artifact, FORMAT_WITH_PLACES, Manifest};

/// Of a key or a name, in bytes. An image's full reference has some 700 at most: a host of 253, a repository of 255 (what registries
/// take), a tag of 128 and a digest; names of files have 255.
const NAME: usize = 1024;
/// Of a version, a tag (at most 128), the name of a cluster (63), of a program or a zone.
const WORD: usize = 255;
/// Of an address: what servers take (RFC 9110, 4.1, recommends 8000 octets).
const ADDRESS: usize = 8 << 10;
/// Of a text that is too long, in the error.
const SHOWN: usize = 60;

impl Manifest {
    /// Whether its fields are those of its format: zone and addresses are in format 1, and in no later one. And whether they are of a
    /// length that such a text has, since messages about a bundle repeat them.
    ///
    /// # Errors
    /// What is there and must not be, or is missing.
    pub fn check_fields(&self) -> Result<(), String> {
        let named = self.format == FORMAT_WITH_PLACES;
        let wrong = |what: &str| {
            let problem = if named { "lacks" } else { "has" };
            Err(format!("is of format {} and {problem} {what}", self.format))
        };
        if self.zone.is_some() != named {
            return wrong("a zone");
        }
        if self.artifacts.iter().any(|artifact| artifact.sources.is_some() != named) {
            return wrong("addresses of artifacts");
        }
        check(self)
    }
}

fn check(manifest: &Manifest) -> Result<(), String> {
    let Manifest { name, cluster, zone, tool, artifacts, .. } = manifest;
    let summary = cluster.iter().flat_map(|of| {
        [("the version of Kubernetes", &of.kubernetes), ("the runtime", &of.runtime), ("the network", &of.network)]
    });
    let zone = zone.iter().map(|zone| ("the zone", zone));
    for (what, text) in [("the cluster's name", name), ("the tool", tool)].into_iter().chain(summary).chain(zone) {
        short(what, text, WORD)?;
    }
    let mut seen = HashSet::with_capacity(artifacts.len());
    for artifact in artifacts {
        of_artifact(artifact)?;
        if !seen.insert((&artifact.key, artifact.platform)) {
            let platform = artifact.platform.map(|platform| format!(" for {platform}")).unwrap_or_default();
            return Err(format!("lists {}{platform} twice", artifact.key));
        }
    }
    Ok(())
}

fn of_artifact(artifact: &Artifact) -> Result<(), String> {
    short("the key of an artifact", &artifact.key.to_string(), NAME)?;
    short("the name of an artifact", &artifact.name, NAME)?;
    short("the version of an artifact", &artifact.version, WORD)?;
    let mut sources = artifact.sources.iter().flatten();
    sources.try_for_each(|address| short("an address of an artifact", address, ADDRESS))
}

fn short(what: &str, text: &str, most: usize) -> Result<(), String> {
    if text.len() <= most {
        return Ok(());
    }
    let begin = &text[..text.floor_char_boundary(SHOWN)];
    Err(format!("has {} bytes as {what}, and at most {most} are read: {begin:?}…", text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{ClusterSummary, FORMAT, FORMAT_WITH_PLACES};
    use crate::{ArtifactKey, Digest, Platform, Trust};

    fn manifest() -> Manifest {
        Manifest {
            format: FORMAT,
            name: "prod".to_owned(),
            cluster: None,
            platforms: vec![Platform::LINUX_AMD64],
            zone: None,
            tool: "kubexm-bundle 1".to_owned(),
            lock: Digest::of("lock"),
            artifacts: vec![artifact("a")],
            members: Vec::new(),
        }
    }

    fn artifact(name: &str) -> Artifact {
        Artifact {
            key: ArtifactKey::ExtraFile(name.to_owned()),
            version: String::new(),
            platform: None,
            name: name.to_owned(),
            digest: Digest::of("a"),
            manifest: None,
            blobs: Vec::new(),
            trust: Trust::User,
            sources: None,
        }
    }

    fn refused(change: impl FnOnce(&mut Manifest)) -> String {
        let mut manifest = manifest();
        change(&mut manifest);
        manifest.check_fields().expect_err("it is taken")
    }

    #[test]
    fn a_text_that_no_bundle_has_is_refused_in_a_short_message() {
        assert_eq!(manifest().check_fields(), Ok(()));
        let long = || "x".repeat(1025);
        let summary = |network| ClusterSummary { kubernetes: "v1".to_owned(), runtime: "c".to_owned(), network };
        for (error, said) in [
            (refused(|it| it.artifacts = vec![artifact(&long())]), "1030 bytes as the key of an artifact"),
            (refused(|it| it.artifacts[0].name = long()), "the name of an artifact, and at most 1024"),
            (refused(|it| it.artifacts[0].version = "1".repeat(256)), "the version of an artifact, and at most 255"),
            (refused(|it| it.name = long()), "the cluster's name"),
            (refused(|it| it.tool = long()), "the tool"),
            (refused(|it| it.cluster = Some(summary(long()))), "the network"),
        ] {
            assert!(error.contains(said) && error.len() < 200, "{error}");
        }
        let address = refused(|it| {
            (it.format, it.zone) = (FORMAT_WITH_PLACES, Some("office".to_owned()));
            it.artifacts[0].sources = Some(vec!["h".repeat(9000)]);
        });
        assert!(address.contains("an address of an artifact"), "{address}");
    }

    #[test]
    fn an_artifact_is_listed_once_for_a_platform() {
        let error = refused(|it| it.artifacts.push(artifact("a")));
        assert_eq!(error, "lists file/a twice");
        let mut two = manifest();
        two.artifacts.push(Artifact { platform: Some(Platform::LINUX_AMD64), ..artifact("a") });
        assert_eq!(two.check_fields(), Ok(()));
    }
}
