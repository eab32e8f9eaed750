//! Images that a Sigstore identity must have signed, by an authority and logs of our own; the real cosign reads the same.

use std::process::Command;

use kubexm_spec::lock::Descriptor;
use kubexm_spec::{Digest, ExitCode};
use serde_json::{Value, json};

use crate::fulcio::{Change, Fulcio, ISSUER, LOGGED, SUBJECT};
use crate::images::{Maker, two_platforms};
use crate::registry::{Registry, Setup, distribution_3};
use crate::site::{Site, assert_contains};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

struct Signed {
    site: Site,
    registry: Registry,
    fulcio: Fulcio,
    index: Descriptor,
}

impl Signed {
    fn new() -> Self {
        let (site, registry) = (Site::new(), Registry::start_program(&distribution_3(), Setup::default()));
        let (maker, index, _) = two_platforms(site.path("made"), "v1");
        registry.push(maker.path(), "mirror/team/app", "v1");
        site.zone("registry.test", &format!("{}/mirror", registry.address));
        let fulcio = Fulcio::new();
        site.write("trust/root.json", fulcio.root());
        let all = Self { site, registry, fulcio, index };
        all.demand(SUBJECT);
        all
    }

    fn demand(&self, subject: &str) {
        self.site.extras(&format!(
            "platforms: [linux/amd64]\nzone: zone.yaml\nextraImages: [{{name: \"registry.test/team/app:v1\"}}]\n\
             imageSignatures:\n- repositories: [registry.test]\n  identities: [{{issuer: \"{ISSUER}\", subject: \"{subject}\"}}]\n  \
             trustedRoot: trust/root.json"
        ));
    }

    /// Puts a signature where cosign does, under its tag.
    fn sign(&self, change: Change) -> Digest {
        let (payload, annotations) = self.fulcio.simple_signing(&self.index.digest, change);
        let maker = Maker::new(self.site.path(&format!("{change:?}")));
        let config = maker.blob("application/vnd.oci.image.config.v1+json", b"{}");
        let layer = maker.blob("application/vnd.dev.cosign.simplesigning.v1+json", &payload);
        let mut layer = serde_json::to_value(&layer).unwrap();
        layer["annotations"] = json!(annotations);
        let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]});
        let manifest = maker.json(MANIFEST, &manifest);
        maker.finish(&[("x", &manifest)]);
        self.registry.push(maker.path(), "mirror/team/app", &format!("sha256-{}.sig", self.index.digest.hex()));
        manifest.digest
    }

    /// Whether cosign takes the signature, by the same trusted root.
    fn cosign_verifies(&self, subject: &str) -> bool {
        let program = distribution_3().with_file_name("cosign");
        assert!(program.exists(), "{} is missing: scripts/lab build", program.display());
        let image = format!("{}/mirror/team/app@{}", self.registry.address, self.index.digest);
        let output = Command::new(program)
            .args(["verify", "--offline", "--trusted-root", "trust/root.json", "--allow-http-registry"])
            .args(["--certificate-oidc-issuer", ISSUER, "--certificate-identity", subject, &image])
            .current_dir(self.site.path(""))
            .env("HOME", self.site.path("home"))
            .output()
            .unwrap();
        output.status.success()
    }
}

#[test]
fn what_cosign_verifies_of_an_identity_is_locked_and_verified_from_the_bundle_alone() {
    let all = Signed::new();
    let manifest = all.sign(Change::None);
    assert!(all.cosign_verifies(SUBJECT));
    all.site.run(&["lock", "-f", "cluster.yaml"]).must(ExitCode::Ok);
    let lock: Value = serde_json::from_slice(&std::fs::read(all.site.path("cluster.lock.json")).unwrap()).unwrap();
    let image = lock["items"].as_array().unwrap().iter().find(|item| item["type"] == "image").unwrap();
    let signature = &image["signed"]["signature"];
    assert_eq!(
        signature["signer"],
        json!({"type": "identity", "issuer": ISSUER, "subject": SUBJECT, "logged": LOGGED})
    );
    assert_eq!(signature["manifest"], manifest.to_string());
    all.site.built(&["--locked"]);
    std::fs::remove_file(all.site.path("trust/root.json")).unwrap();
    drop(all.registry);
    let verified = all.site.run(&["verify", "--json", "out.tar.zst"]).must(ExitCode::Ok).document();
    assert_eq!(verified["imageSignatures"]["signed"], 1);
    let text = all.site.run(&["inspect", "out.tar.zst"]).must(ExitCode::Ok).out;
    assert_contains(&text, &[&format!("the lock claims: signed by {SUBJECT} ({ISSUER})")]);
}

#[test]
fn another_identity_is_refused_by_its_name_and_cosign_refuses_what_we_do() {
    let all = Signed::new();
    all.sign(Change::None);
    let lock = || all.site.run(&["lock", "-f", "cluster.yaml"]).must(ExitCode::ImageUnsigned).err;
    let other = SUBJECT.replace("tags/v1", "tags/v2");
    all.demand(&other);
    assert!(!all.cosign_verifies(&other));
    assert_contains(
        &lock(),
        &[&format!("must be signed by {other} ({ISSUER})"), &format!("it is by {SUBJECT} ({ISSUER})")],
    );
    all.demand(SUBJECT);
    for change in [
        Change::Promise,
        Change::LoggedLater,
        Change::ForeignEntry,
        Change::ForeignCertificateInEntry,
        Change::OtherLog,
        Change::SignedAfterwards,
        Change::OtherAuthority,
        Change::NoTimestamp,
        Change::ForeignTimestamp,
        Change::TimestampOfAnother,
        Change::NotForCode,
        Change::OtherKey,
    ] {
        all.sign(change);
        assert!(!all.cosign_verifies(SUBJECT), "{change:?}");
        assert_contains(&lock(), &["of its signatures none is"]);
    }
}
