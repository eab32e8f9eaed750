//! Images out of a host's content store, which has what a bundle had.

use std::sync::Arc;

use kubexm_seed::{BlobSource, Contents, SeedError, SeedOptions, SeedReport, State, StoredImage, seed_images};
use kubexm_spec::{Digest, ExitCode, ExitError, Platform};
use tokio_util::sync::CancellationToken;

use crate::bundles::{Maker, noise};
use crate::registry::{Registry, Setup, distribution_3};
use crate::site::options_for;

const ONE: [Platform; 1] = [Platform::LINUX_AMD64];

async fn seeded(
    store: &kubexm_seed::BlobFolder,
    images: &[StoredImage],
    options: &SeedOptions,
) -> Result<SeedReport, SeedError> {
    let contents = Contents::stored("demo", Platform::LINUX_AMD64, store, images.to_vec())?;
    let blobs: Arc<dyn BlobSource> = Arc::new(store.clone());
    seed_images(&contents, (&blobs, Digest::of("demo")), options, &CancellationToken::new(), &|_| {}).await
}

/// distribution 3 refuses an index with absent children, as Harbor does: the tag names the platform's manifest.
#[tokio::test(flavor = "multi_thread")]
async fn a_tag_names_the_manifest_of_the_stores_platform_and_a_second_push_sends_nothing() {
    let registry = Registry::start_program(&distribution_3(), Setup::default());
    let (folder, blobs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut maker = Maker::new(&ONE);
    let made = maker.image("quay.io/team/app:v1", &[noise(1, 5 << 20), noise(2, 1000)], 2);
    let manifest = made.manifests[&Platform::LINUX_AMD64].digest;
    let store = maker.store(blobs.path());
    let options = options_for(folder.path(), &registry, Setup::default());
    let images = [StoredImage { name: "quay.io/team/app:v1".to_owned(), manifest }];
    let first = seeded(&store, &images, &options).await.unwrap();
    assert_eq!((first.count(State::Pushed), first.audited), (1, 2), "{first:#?}");
    assert_eq!(Digest::of(registry.raw("mirror/quay.io/team/app:v1")), manifest);
    let second = seeded(&store, &images, &options).await.unwrap();
    assert_eq!((second.totals.blobs_sent, second.count(State::Present)), (0, 1), "{second:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_lacks_a_blob_or_has_another_one_is_named() {
    let registry = Registry::start_program(&distribution_3(), Setup::default());
    let (folder, blobs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut maker = Maker::new(&ONE);
    let layer = noise(1, 1000);
    let manifest = maker.image("quay.io/team/app:v1", std::slice::from_ref(&layer), 0).manifests[&ONE[0]].digest;
    let store = maker.store(blobs.path());
    let options = options_for(folder.path(), &registry, Setup::default());
    let images = [StoredImage { name: "quay.io/team/app:v1".to_owned(), manifest }];
    std::fs::remove_file(blobs.path().join(Digest::of(&layer).hex())).unwrap();
    let error = seeded(&store, &images, &options).await.unwrap_err();
    assert!(kubexm_spec::error_chain(&error).contains(&Digest::of(&layer).to_string()), "{error}");
    std::fs::write(blobs.path().join(manifest.hex()), "{}").unwrap();
    let error = seeded(&store, &images, &options).await.unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::BundleDamaged);
    assert!(error.to_string().contains("another content"), "{error}");
}
