//! Whether the user's registry has the images of a bundle, asked by the controller: each by its tag, and by its digest.

use std::collections::BTreeSet;

use futures::StreamExt;
use kubexm_spec::{Digest, ExitCode, error_chain};
use kubexm_transport::{Credentials, HttpClient, HttpOptions, ImageCandidate, OciRegistry, TransportError};
use zeroize::Zeroizing;

/// Questions at the same time.
const PARALLEL: usize = 8;

/// The user's registry, and how this machine asks it.
pub struct UserRegistry {
    /// `registry.example.com:8443`.
    pub address: String,
    /// PEM of the CA of its certificate, in addition to the usual roots.
    pub ca: Option<Vec<u8>>,
    /// User name and password.
    pub login: Option<(String, Zeroizing<String>)>,
    /// Whether it may be asked over plain http.
    pub plain_http: bool,
}

/// An image that must be there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WantedImage {
    /// `registry.k8s.io/pause:3.10.1`.
    pub name: String,
    /// `mirror/registry.k8s.io/pause`.
    pub repository: String,
    /// Its tag; none for one that is named by its digest alone.
    pub tag: Option<String>,
    /// What the tag may point at.
    pub targets: BTreeSet<Digest>,
    /// The manifests that hosts pull, of the bundle's platforms.
    pub manifests: BTreeSet<Digest>,
}

/// What is wrong with one image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A manifest is not there.
    Missing {
        /// `mirror/registry.k8s.io/pause@sha256:…`
        what: String,
    },
    /// Its tag is another image.
    Moved {
        /// `mirror/registry.k8s.io/pause:3.10.1`.
        what: String,
        /// What the tag points at.
        found: Digest,
    },
}

/// The registry's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    /// By image name; empty if all is well.
    Images(Vec<(String, Wrong)>),
    /// It refuses who asks.
    Denied(String),
    /// It does not answer, or in no way that can be used.
    Unusable(String),
}

/// Asks for every image. One question that is not answered ends all of them: the others would not be answered either.
///
/// # Errors
/// This machine cannot ask: the CA is no certificate, say.
pub async fn ask(registry: &UserRegistry, images: &[WantedImage]) -> Result<Answered, String> {
    let options = HttpOptions { ca_pem: registry.ca.iter().cloned().collect(), retries: 1, ..HttpOptions::default() };
    let http = HttpClient::new(options).map_err(|error| error_chain(&error))?;
    let credentials = match &registry.login {
        Some((user, password)) => Credentials::anonymous().with_password(&registry.address, user, password.clone()),
        None => Credentials::anonymous(),
    };
    let oci = OciRegistry::new(http, credentials);
    // Collected first: a closure in the stream would not be general enough for the future of a trait.
    let questions: Vec<_> = images.iter().map(|image| of_image(&oci, registry, image)).collect();
    let mut asked = futures::stream::iter(questions).buffer_unordered(PARALLEL);
    let mut wrong = Vec::new();
    while let Some(answer) = asked.next().await {
        match answer {
            Ok(found) => wrong.extend(found),
            Err(error @ TransportError::Denied { .. }) => return Ok(Answered::Denied(error_chain(&error))),
            Err(error) => return Ok(Answered::Unusable(error_chain(&error))),
        }
    }
    wrong.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(Answered::Images(wrong))
}

async fn of_image(
    oci: &OciRegistry,
    registry: &UserRegistry,
    image: &WantedImage,
) -> Result<Option<(String, Wrong)>, TransportError> {
    let candidate =
        ImageCandidate { plain_http: registry.plain_http, ..ImageCandidate::new(&registry.address, &image.repository) };
    let wrong = |wrong| Ok(Some((image.name.clone(), wrong)));
    for digest in &image.manifests {
        let what = format!("{}@{digest}", image.repository);
        match oci.digest_of(&candidate, &digest.to_string()).await {
            Ok(found) if found == *digest => {}
            Ok(_) => return wrong(Wrong::Missing { what }),
            Err(error) if is_missing(&error) => return wrong(Wrong::Missing { what }),
            Err(error) => return Err(error),
        }
    }
    let Some(tag) = &image.tag else { return Ok(None) };
    let what = format!("{}:{tag}", image.repository);
    match oci.digest_of(&candidate, tag).await {
        Ok(found) if image.targets.contains(&found) => Ok(None),
        Ok(found) => wrong(Wrong::Moved { what, found }),
        Err(error) if is_missing(&error) => wrong(Wrong::Missing { what }),
        Err(error) => Err(error),
    }
}

fn is_missing(error: &TransportError) -> bool {
    matches!(error, TransportError::Missing { .. }) || error.exit_code() == ExitCode::OriginMissing
}
