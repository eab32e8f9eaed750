//! What every test needs: a folder, options for a registry, and a seed.

use std::path::Path;
use std::sync::Mutex;

use kubexm_archive::Bundle;
use kubexm_seed::{
    Choice, Connection, Credentials, Kinds, Naming, RecordFolder, SeedError, SeedOptions, SeedReport, Target, seed,
};
use kubexm_spec::event::EventKind;
use kubexm_spec::{ExitError, error_chain};
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use crate::registry::{PASSWORD, Registry, Setup, USER};

/// Options for a registry, below the folder `mirror` of it.
pub fn options(folder: &Path, address: &str) -> SeedOptions {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let target: Target = format!("{address}/mirror").parse().unwrap();
    SeedOptions {
        record: RecordFolder::below(folder, &target),
        naming: Naming { target, namespace_override: None },
        kinds: Kinds::default(),
        choice: Choice::default(),
        overwrite_tags: false,
        rest_in_registry: false,
        dry_run: false,
        connection: Connection { plain_http: true, proxies: false, ..Connection::default() },
    }
}

/// The same with what a registry of this setup needs.
pub fn options_for(folder: &Path, registry: &Registry, setup: Setup) -> SeedOptions {
    let mut options = options(folder, &registry.address);
    options.connection.plain_http = !setup.tls;
    options.connection.ca_file = setup.tls.then(|| registry.ca());
    if setup.password {
        options.connection.credentials = login(&registry.address, PASSWORD);
    }
    options
}

pub fn login(address: &str, password: &str) -> Credentials {
    Credentials::anonymous().with_password(address, USER, Zeroizing::new(password.to_owned()))
}

pub async fn run(bundle: &Bundle, options: &SeedOptions) -> Result<SeedReport, SeedError> {
    seed(bundle, options, &CancellationToken::new(), &|_| {}).await
}

/// The text and the exit code of a seed that must fail.
pub async fn fails(bundle: &Bundle, options: &SeedOptions) -> (String, u8) {
    said(&run(bundle, options).await.expect_err("it must fail"))
}

pub fn said(error: &SeedError) -> (String, u8) {
    (error_chain(error), error.exit_code().code())
}

/// Notes of a seed.
pub async fn notes(bundle: &Bundle, options: &SeedOptions) -> (SeedReport, Vec<String>) {
    let notes = Mutex::new(Vec::new());
    let report = |kind: EventKind| {
        if let EventKind::Note { text } = kind {
            notes.lock().unwrap().push(text);
        }
    };
    let seeded = seed(bundle, options, &CancellationToken::new(), &report).await.unwrap();
    (seeded, notes.into_inner().unwrap())
}
