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
/// The most tags of an image that are looked at.
const TAGS: usize = 1000;

impl Harbor<'_> {
    /// The tags of an image; none if there is no such image.
    pub(crate) fn tags(&self, repository: &str, manifest: &Digest) -> Result<Option<BTreeSet<String>>, OpError> {
        let path = format!("{}?with_tag=true&page_size={TAGS}", artifact(repository, &manifest.to_string()));
        let (status, body) = self.ask("GET", &path, None)?;
        match status {
            404 => Ok(None),
            200 => {
                let tags = body["tags"].as_array().into_iter().flatten();
                Ok(Some(tags.map(|tag| text(&tag["name"])).collect()))
            }
            _ => Err(self.refused(&format!("show {repository}@{manifest}"), status, &body).into()),
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
                         next one (Administration, Clean Up, shows its log)",
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
