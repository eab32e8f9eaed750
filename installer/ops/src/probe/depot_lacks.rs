//! A depot that runs, and answers for none of some blobs: it has read again what it serves.

use std::collections::BTreeSet;

use kubexm_plan::ProbeAnswer;
use kubexm_spec::Digest;

use super::answer::{no, yes};
use super::server::Files;
use crate::{Machine, OpError};

pub(super) fn look(
    machine: &Machine,
    (url, ca, login): (&str, &str, Option<&str>),
    blobs: &BTreeSet<Digest>,
) -> Result<ProbeAnswer, OpError> {
    let files = match Files::read(machine, ca, login)? {
        Ok(files) => files,
        Err(missing) => return Ok(missing),
    };
    let paths: Vec<String> = blobs.iter().map(|digest| format!("/blobs/sha256/{}", digest.hex())).collect();
    let answers = machine.system().https_heads(&files.server(url), &paths)?;
    let served = paths.iter().zip(&answers).find(|(_, answer)| answer.status != 404);
    Ok(match served {
        Some((path, answer)) => no(format!(
            "{url}{path} answers {}, and 404 is expected: the depot has not read again which bundles it serves (`journalctl -u \
             kubexm-depot` says why)",
            answer.status
        )),
        None if answers.len() < paths.len() => {
            no(format!("{url} answered {} of {} requests", answers.len(), paths.len()))
        }
        None => yes(format!("{url} serves the removed bundles no more")),
    })
}
