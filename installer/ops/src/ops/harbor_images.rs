//! The bundle's images in Harbor, pushed by its registry API out of the node's content store.

use std::collections::BTreeSet;

use kubexm_plan::op::{HarborImages, MissingImages};

use crate::harbor::{ADMIN, basic, not_started, password};
use crate::system::{HttpsServer, PushRequest};
use crate::{Converge, Machine, OpError, Wave, fsio, paths};

impl Converge for HarborImages {
    /// Registries take no manifest whose blobs are missing, so a manifest vouches for them.
    fn observe(&self, machine: &Machine) -> Result<MissingImages, OpError> {
        let (Some(ca), Some(password)) =
            (fsio::read(&machine.path(&self.harbor.ca))?, password(machine, &self.harbor.admin_password)?)
        else {
            return Ok(MissingImages::Unknown);
        };
        let (url, login) = (self.harbor.url(), basic(ADMIN, &password));
        let server = HttpsServer { url: &url, ca: &ca, login: Some(&login) };
        let asked = self.images.values().map(|image| {
            let digest = image.manifest.to_string();
            format!("/v2/{}/manifests/{}", image.repository, image.tag.as_ref().unwrap_or(&digest))
        });
        let asked: Vec<String> = asked.collect();
        let Ok(answers) = machine.system().https_heads(&server, &asked) else { return Ok(MissingImages::Unknown) };
        let (mut missing, mut other) = (BTreeSet::new(), BTreeSet::new());
        for ((reference, image), answer) in self.images.iter().zip(&answers) {
            match answer.status {
                200 if answer.digest.as_deref() == Some(image.manifest.to_string().as_str()) => {}
                200 => drop(other.insert(reference.clone())),
                500.. => return Ok(MissingImages::Unknown),
                // Without a project it answers 401 or 403.
                _ => drop(missing.insert(reference.clone())),
            }
        }
        Ok(MissingImages::Known { missing, other })
    }

    fn satisfied(&self, found: &MissingImages, _: &Machine) -> bool {
        matches!(found, MissingImages::Known { missing, other } if missing.is_empty() && other.is_empty())
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let password = password(machine, &self.harbor.admin_password)?.ok_or_else(|| not_started(&self.harbor))?;
        let request = PushRequest {
            registry: &self.harbor.registry,
            ca_file: &machine.path(&self.harbor.ca),
            username: ADMIN,
            password: &password,
            images: &self.images,
            blobs: &machine.path(format!("{}/blobs/sha256", paths::STORE)),
            record: &machine.path(paths::SEEDED),
        };
        machine.system().push_images(&request).map(drop)
    }

    /// What was pushed stays with Harbor's data.
    fn restore(&self, _: &Machine, _: &MissingImages, _: Wave) -> Result<(), OpError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};
    use crate::dispatch;
    use crate::fake::harbor_host::{access, harbor, projects};
    use kubexm_plan::op::HarborImage;

    impl Cases for HarborImages {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[("images of the store in Harbor", |h| {
            harbor(h);
            let made = projects(h, &["registry.k8s.io"], false);
            dispatch::converge(&made.into(), &h.machine).expect("a project");
            let blobs = ["a manifest", "a layer"].map(|bytes| h.blob(bytes));
            let image = HarborImage {
                repository: "registry.k8s.io/pause".into(),
                tag: Some("3.10.1".into()),
                manifest: blobs[0],
                blobs: blobs.into(),
            };
            HarborImages { harbor: access(), images: [("registry.k8s.io/pause:3.10.1".to_owned(), image)].into() }
        })]);
    }
}
