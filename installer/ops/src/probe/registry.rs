//! Audits a registry: every reference resolves to the right digest, and every blob exists.

use std::collections::BTreeMap;

use kubexm_plan::ProbeAnswer;
use kubexm_spec::Digest;
use kubexm_spec::depot::Repository;

use super::answer::{no, yes};
use super::server::Files;
use crate::system::HttpsServer;
use crate::{Machine, OpError};

pub(super) fn look(
    machine: &Machine,
    (url, ca, login): (&str, &str, Option<&str>),
    repositories: &BTreeMap<String, Repository>,
) -> Result<ProbeAnswer, OpError> {
    let files = match Files::read(machine, ca, login)? {
        Ok(files) => files,
        Err(missing) => return Ok(missing),
    };
    let server = files.server(url);
    let (paths, wanted): (Vec<String>, Vec<Digest>) = questions(repositories).into_iter().unzip();
    let answers = machine.system().https_heads(&server, &paths)?;
    let wrong: Vec<_> = paths
        .iter()
        .zip(&wanted)
        .zip(&answers)
        .filter(|((_, wanted), answer)| {
            answer.status != 200 || answer.digest.as_deref() != Some(wanted.to_string().as_str())
        })
        .collect();
    let any = paths.first().filter(|_| login.is_some());
    if let Some(any) = any.filter(|_| wrong.is_empty()) {
        let without = HttpsServer { login: None, ..server };
        let without = machine.system().https_heads(&without, std::slice::from_ref(any))?;
        if without.iter().any(|answer| answer.status != 401) {
            return Ok(no(format!("{url}{any} is served without the login that it should demand")));
        }
    }
    Ok(match wrong.as_slice() {
        [] if answers.len() == paths.len() => yes(format!("{url} serves all {} references and blobs", paths.len())),
        [] => no(format!("{url} answered {} of {} requests", answers.len(), paths.len())),
        [((path, wanted), answer), ..] => no(format!(
            "the registry does not serve {} of {} references and blobs: {url}{path} answers {} with {}, and {wanted} is \
             expected; what is missing in its folder is written again by the next run",
            wrong.len(),
            paths.len(),
            answer.status,
            answer.digest.as_deref().unwrap_or("no digest")
        )),
    })
}

/// Every path of the registry's API, with the digest that it must return.
fn questions(repositories: &BTreeMap<String, Repository>) -> Vec<(String, Digest)> {
    let mut questions = Vec::new();
    for (name, repository) in repositories {
        questions.extend(repository.tags.iter().map(|(tag, digest)| (format!("/v2/{name}/manifests/{tag}"), *digest)));
        questions.extend(repository.manifests.iter().map(|digest| (format!("/v2/{name}/manifests/{digest}"), *digest)));
        questions.extend(repository.blobs.iter().map(|digest| (format!("/v2/{name}/blobs/{digest}"), *digest)));
    }
    questions
}
