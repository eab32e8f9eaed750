//! The site's own CA: whether it can sign is known before a host is changed, and its key is kept nowhere here.

use kubexm_spec::{ExitCode, ExitError as _};

use crate::bundle::{cluster_yaml, write_bundle_with};
use crate::secrets::holding;
use crate::sessions::{NoSecrets, Site};

/// Made for this test, valid for a century, and its key.
const CA: &str = include_str!("data/site-ca.crt");
const KEY: &str = include_str!("data/site-ca.key");
const OTHER_KEY: &str = include_str!("data/other.key");

fn site(key: Option<&str>) -> Site {
    let ca = "v1.34.4, ca: {certFile: ca.crt, keyFrom: {env: CA_KEY}}";
    let yaml = cluster_yaml("red", &["red1", "red2"]).replace("v1.34.4", ca);
    let write = |folder: &std::path::Path, yaml: &str| write_bundle_with(folder, yaml, Some(CA));
    Site { secrets: NoSecrets(key.map(str::to_owned)), ..Site::of("red", &["red1", "red2"], &yaml, write) }
}

/// A line of the key itself.
fn secret() -> &'static str {
    KEY.lines().nth(1).unwrap()
}

#[tokio::test]
async fn its_key_reaches_a_control_plane_and_stays_out_of_everything_that_is_kept_or_shown() {
    let mut site = site(Some(KEY));
    let ended = site.create().await.unwrap();
    assert!(ended.is_success(), "{:#?}", ended.run);
    let asked = site.answers.asked.lock().unwrap().join("\n");
    let said = "key of your CA for the cluster from the environment variable CA_KEY: kept on red1";
    assert!(asked.contains(said), "an unsigned bundle that wants a secret says so: {asked}");
    let mut found = Vec::new();
    holding(site.folder.path(), secret(), &mut found);
    assert_eq!(found, Vec::<String>::new());
    assert!(!site.events().contains(secret()) && !asked.contains(secret()));
    assert!(format!("{:?}", site.hosts.fleet.snapshot()).contains("/etc/kubernetes/pki/ca.key"));
    // Once the cluster runs nobody needs the key.
    site.secrets = NoSecrets(None);
    let again = site.create().await.unwrap();
    assert!(again.is_success(), "{:#?}", again.run);
}

#[tokio::test]
async fn a_key_that_is_missing_or_anothers_is_refused_before_a_host_is_changed() {
    for (key, words) in
        [(None, "there is none"), (Some(OTHER_KEY), "does not belong to its certificate"), (Some(CA), "no private key")]
    {
        let site = site(key);
        let before = site.hosts.fleet.snapshot();
        let error = site.create().await.err().unwrap();
        assert_eq!(error.exit_code(), ExitCode::Preflight, "{error}");
        let text = error.to_string();
        assert!(text.contains("spec.kubernetes.ca") && text.contains(words), "{text}");
        assert!(!text.contains(OTHER_KEY.lines().nth(1).unwrap()), "{text}");
        assert_eq!(site.hosts.fleet.snapshot(), before);
        assert!(site.home.cluster("red").run_ids().unwrap().is_empty());
    }
}
