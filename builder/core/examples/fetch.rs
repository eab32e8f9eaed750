//! What `scripts/bench fetch` measures: locking and fetching alone, without packing. `fetch lock|fetch CLUSTER ZONE CACHE`.
#![expect(clippy::print_stderr, reason = "a tool of the bench")]

use std::error::Error;
use std::sync::Arc;

use kubexm_builder::arrivals::Arrivals;
use kubexm_builder::origins::Origins;
use kubexm_builder::origins::in_place::InPlace;
use kubexm_builder::origins::installer::Installers;
use kubexm_builder::session::SystemClock;
use kubexm_builder::{fetch, lock, resolve};
use kubexm_manifests::{Catalogue, Zone, require};
use kubexm_transport::{Credentials, HttpClient, HttpOptions, OciRegistry, Store};

fn main() -> Result<(), Box<dyn Error>> {
    // The one TLS backend; an error means that it is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, cluster, zone, cache] = &arguments[..] else {
        return Err("wanted: lock|fetch CLUSTER ZONE CACHE".into());
    };
    let cluster = kubexm_spec::cluster::parse(&std::fs::read_to_string(cluster)?).map_err(|e| e.to_string())?;
    let zone = Zone::parse(&std::fs::read_to_string(zone)?).map_err(|e| e.to_string())?;
    let requirements = require(&cluster, &Catalogue::embedded())?;
    let resolution = resolve::resolve(&requirements, &zone);
    let http = HttpClient::new(HttpOptions::default())?;
    let store = Store::open(cache)?;
    let registry = OciRegistry::new(http.clone(), Credentials::anonymous()).with_store(store.clone());
    let lease = Some(store.lease()?);
    let origins = Origins {
        http,
        registry,
        store,
        lease,
        referrers: true,
        installers: Installers::default(),
        helm: None,
        in_place: InPlace::default(),
        clock: Arc::new(SystemClock),
    };
    let jobs = HttpOptions::default().parallel;
    tokio::runtime::Runtime::new()?.block_on(async {
        let lock = lock::lock(&resolution, &origins, lock::Sizes::Fetched, jobs, &|_| {}).await?;
        if what == "fetch" {
            fetch::fetch(&lock, &resolution, None, &origins, jobs, &Arrivals::default(), &|_| {}).await?;
        }
        eprintln!("{} artifacts", lock.items.len());
        Ok(())
    })
}
