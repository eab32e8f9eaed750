//! A registry that runs, and answers for none of some manifests.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::ProbeAnswer;
use kubexm_spec::Digest;

use super::answer::{no, yes};
use super::server::Files;
use crate::{Machine, OpError};

pub(super) fn look(
    machine: &Machine,
    (url, ca, login): (&str, &str, Option<&str>),
    manifests: &BTreeMap<String, BTreeSet<Digest>>,
) -> Result<ProbeAnswer, OpError> {
    let files = match Files::read(machine, ca, login)? {
        Ok(files) => files,
        Err(missing) => return Ok(missing),
    };
    let of_one = |(name, digests): (&String, &BTreeSet<Digest>)| {
        digests.iter().map(|digest| format!("/v2/{name}/manifests/{digest}")).collect::<Vec<_>>()
    };
    let paths: Vec<String> = manifests.iter().flat_map(of_one).collect();
    let answers = machine.system().https_heads(&files.server(url), &paths)?;
    let served = paths.iter().zip(&answers).find(|(_, answer)| answer.status != 404);
    Ok(match served {
        Some((path, answer)) => no(format!(
            "{url}{path} answers {}, and 404 is expected: its links are taken away (`journalctl -u kubexm-registry` has its log)",
            answer.status
        )),
        None if answers.len() < paths.len() => {
            no(format!("{url} answered {} of {} requests", answers.len(), paths.len()))
        }
        None => yes(format!("{url} serves the images of the removed bundles no more")),
    })
}
