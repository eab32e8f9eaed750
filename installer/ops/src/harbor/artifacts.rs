//! Images in Harbor: their tags, and their deletion (goharbor/harbor, api/v2.0/swagger.yaml, `artifact` and `gc`).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use kubexm_spec::Digest;
use serde_json::json;

use super::{Harbor, text};
use crate::OpError;

/// How long Harbor may take to collect its garbage. It goes on by itself afterwards.
const COLLECTING: Duration = Duration::from_secs(900);
/// Time between two questions about it.
const PAUSE: Duration = Duration::from_millis(500);

/// An image as Harbor has it.
pub(crate) struct Image {
    pub(crate) tags: BTreeSet<String>,
    /// Whether signatures or the like are attached to it, which go with it.
    pub(crate) accessories: bool,
}

impl Harbor<'_> {
    /// An image; none if there is no such image.
    pub(crate) fn image(&self, repository: &str, manifest: &Digest) -> Result<Option<Image>, OpError> {
        let reference = manifest.to_string();
        let path = format!("{}?with_tag=true&with_accessory=true", artifact(repository, &reference));
        let (status, body) = self.ask("GET", &path, None)?;
        match status {
            404 => Ok(None),
            200 if body["digest"] == reference.as_str() => {
                let tags = body["tags"].as_array().into_iter().flatten();
                let accessories = body["accessories"].as_array().is_some_and(|all| !all.is_empty());
                Ok(Some(Image { tags: tags.map(|tag| text(&tag["name"])).collect(), accessories }))
            }
            200 => Err(self.odd(&format!("something else where {repository}@{reference} was asked for"))),
            _ => Err(self.refused(&format!("show {repository}@{manifest}"), status, &body).into()),
        }
    }

    /// Whether a tag names anything.
    pub(crate) fn has_tag(&self, repository: &str, tag: &str) -> Result<bool, OpError> {
        match self.ask("GET", &artifact(repository, tag), None)? {
            (200, _) => Ok(true),
            (404, _) => Ok(false),
            (status, body) => Err(self.refused(&format!("show {repository}:{tag}"), status, &body).into()),
        }
    }

    /// Gives an image a tag that nothing has.
    pub(crate) fn add_tag(&self, repository: &str, manifest: &Digest, tag: &str) -> Result<(), OpError> {
        let path = format!("{}/tags", artifact(repository, &manifest.to_string()));
        match self.ask("POST", &path, Some(&json!({"name": tag})))? {
            // 409: somebody has given it to another image meanwhile.
            (201 | 409, _) => Ok(()),
            (status, body) => Err(self.refused(&format!("make the tag {tag} of {repository}"), status, &body).into()),
        }
    }

    /// Deletes an image with all of its tags, if it is there.
    pub(crate) fn delete_image(&self, repository: &str, manifest: &Digest) -> Result<(), OpError> {
        let reference = manifest.to_string();
        self.delete(&artifact(repository, &reference), &format!("delete {repository}@{reference}"))
    }

    /// Takes a tag off an image, if it is there.
    pub(crate) fn delete_tag(&self, repository: &str, manifest: &Digest, tag: &str) -> Result<(), OpError> {
        let path = format!("{}/tags/{tag}", artifact(repository, &manifest.to_string()));
        self.delete(&path, &format!("delete the tag {tag} of {repository}"))
    }

    fn delete(&self, path: &str, doing: &str) -> Result<(), OpError> {
        match self.ask("DELETE", path, None)? {
            (200 | 404, _) => Ok(()),
            (status, body) => Err(self.refused(doing, status, &body).into()),
        }
    }

    /// Has Harbor delete the blobs that no image has any more, and waits for it. It takes pushes meanwhile, and leaves what is younger than
    /// two hours.
    pub(crate) fn collect_garbage(&self) -> Result<(), OpError> {
        let wanted = json!({"schedule": {"type": "Manual"}, "parameters": {"delete_untagged": false}});
        match self.ask("POST", "/system/gc/schedule", Some(&wanted))? {
            // 409: it does so already.
            (200 | 201 | 409, _) => {}
            (status, body) => return Err(self.refused("collect its garbage", status, &body).into()),
        }
        let until = Instant::now() + COLLECTING;
        loop {
            let (status, body) = self.ask("GET", "/system/gc?page_size=1&sort=-id", None)?;
            if status != 200 {
                return Err(self.refused("show its collections of garbage", status, &body).into());
            }
            match body[0]["job_status"].as_str().unwrap_or_default().to_ascii_lowercase().as_str() {
                "success" | "finished" => return Ok(()),
                state @ ("error" | "stopped") => {
                    return Err(OpError::other(format!(
                        "Harbor at {} ended its collection of garbage with {state}: the images are deleted, and their blobs go with the \
                         next one (Administration, Clean Up, has its log and GC Now)",
                        self.url
                    )));
                }
                state if Instant::now() > until => {
                    return Err(OpError::other(format!(
                        "Harbor at {} still collects its garbage after {} s ({state}): the images are deleted, and it goes on by itself",
                        self.url,
                        COLLECTING.as_secs()
                    )));
                }
                _ => std::thread::sleep(PAUSE),
            }
        }
    }
}

/// The path of an image. A slash in a repository's name is encoded twice, says its API.
fn artifact(repository: &str, reference: &str) -> String {
    let (project, name) = repository.split_once('/').unwrap_or((repository, ""));
    format!("/projects/{project}/repositories/{}/artifacts/{reference}", name.replace('/', "%252F"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_in_the_name_of_a_repository_is_encoded_twice() {
        assert_eq!(
            artifact("docker.io/library/busybox", "1"),
            "/projects/docker.io/repositories/library%252Fbusybox/artifacts/1"
        );
    }
}
