//! Pushes images to a registry with the library that `kubexm-install seed` uses. It is asynchronous, and ops are not: it gets a
//! thread and a runtime of its own.

use std::sync::Arc;

use kubexm_seed::{
    BlobFolder, BlobSource, Choice, Connection, Contents, Credentials, Kinds, Naming, RecordFolder, SeedError,
    SeedOptions, StoredImage, Target,
};
use kubexm_spec::{Arch, Digest, Platform};
use zeroize::Zeroizing;

use crate::OpError;
use crate::system::PushRequest;

/// Blobs that are sent at once.
const PARALLEL: usize = 4;

pub(crate) fn push(request: &PushRequest<'_>) -> Result<String, OpError> {
    let fails = |error: &dyn std::error::Error| {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(inner) = source {
            text.push_str(&format!(": {inner}"));
            source = inner.source();
        }
        OpError::other(text)
    };
    let target: Target = request.registry.parse().map_err(|error: kubexm_seed::ParseTargetError| fails(&error))?;
    let store = BlobFolder::at(request.blobs);
    let images = request.images.iter();
    let images = images.map(|(name, image)| StoredImage { name: name.clone(), manifest: image.manifest });
    // Which one it is called does not matter: each image is its manifest.
    let platform = Platform { arch: Arch::Amd64 };
    let contents = Contents::stored("cluster", platform, &store, images).map_err(|error| fails(&error))?;
    let password = Zeroizing::new(request.password.to_owned());
    let options = SeedOptions {
        naming: Naming { target: target.clone(), namespace_override: None },
        kinds: Kinds { images: true, charts: false, files: false },
        choice: Choice::default(),
        // It is the cluster's own registry: its tags name what the bundle has.
        overwrite_tags: true,
        rest_in_registry: false,
        dry_run: false,
        connection: Connection {
            credentials: Credentials::anonymous().with_password(&target.registry, request.username, password),
            ca_file: Some(request.ca_file.to_owned()),
            proxies: false,
            parallel: PARALLEL,
            ..Connection::default()
        },
        record: RecordFolder::below(request.record, &target),
    };
    // A record for each set of images, as for each bundle.
    let set = Digest::of(serde_json::to_vec(request.images).map_err(|error| fails(&error))?);
    let blobs: Arc<dyn BlobSource> = Arc::new(store);
    let run = move || -> Result<kubexm_seed::SeedReport, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
        let stop = tokio_util::sync::CancellationToken::new();
        let seeded = runtime.block_on(kubexm_seed::seed_images(&contents, (&blobs, set), &options, &stop, &|_| {}));
        seeded.map_err(|error: SeedError| fails(&error).full())
    };
    let thread = std::thread::Builder::new().name("push".to_owned());
    let thread = thread.spawn(run).map_err(|error| fails(&error))?;
    let ended = thread.join().map_err(|_| OpError::other("the push ended with a fault of the program".to_owned()))?;
    let report = ended.map_err(OpError::other)?;
    Ok(format!(
        "{} blobs sent, {} were there; {} references resolve to their digests",
        report.totals.blobs_sent, report.totals.blobs_present, report.audited
    ))
}
