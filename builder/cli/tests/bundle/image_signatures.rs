//! Images that must be signed, and the real cosign that signs them at a real registry, in each of its forms.

use std::path::Path;
use std::process::Command;

use kubexm_archive::{Bundle, Input, Options, write};
use kubexm_spec::lock::{Content, Descriptor};
use kubexm_spec::manifest::{Artifact, Member};
use kubexm_spec::names::REF_NAME;
use kubexm_spec::{ArtifactKey, Digest, ExitCode, Lock};
use serde_json::Value;

use crate::images::two_platforms;
use crate::registry::{Registry, Setup, distribution_3};
use crate::site::{Ended, Site, assert_contains};

/// A registry with an image of two platforms, which a zone calls registry.test/team/app:v1; keys a and b.
pub(crate) struct Signed {
    pub site: Site,
    registry: Registry,
    pub index: Descriptor,
    manifests: [Descriptor; 2],
}

/// The form that cosign signs in, by its options.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    Tag,
    Referrer,
    Bundle,
}

impl Signed {
    pub fn new() -> Self {
        let (site, registry) = (Site::new(), Registry::start_program(&distribution_3(), Setup::default()));
        let (maker, index, manifests) = two_platforms(site.path("made"), "v1");
        registry.push(maker.path(), "mirror/team/app", "v1");
        site.zone("registry.test", &format!("{}/mirror", registry.address));
        let all = Self { site, registry, index, manifests };
        for key in ["a", "b"] {
            all.cosign(&format!("generate-key-pair --output-key-prefix {key}"), &[]);
        }
        all.demand("- {repositories: [registry.test/team], keys: [a.pub]}");
        all
    }

    /// Runs cosign in the site's folder; it needs no service but the registry.
    #[track_caller]
    fn cosign(&self, line: &str, more: &[&str]) {
        let program = distribution_3().with_file_name("cosign");
        assert!(program.exists(), "{} is missing: scripts/lab build", program.display());
        let mut command = Command::new(&program);
        command.args(line.split_whitespace()).args(more).current_dir(self.site.path(""));
        command.env("COSIGN_PASSWORD", "sesame").env("HOME", self.site.path("home")).env("COSIGN_EXPERIMENTAL", "1");
        let output = command.output().unwrap();
        assert!(output.status.success(), "cosign {line}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Signs a manifest or index as upstream would.
    #[track_caller]
    pub fn sign(&self, key: &str, form: Form, digest: &Digest) {
        self.sign_as(key, form, digest, "registry.test/team/app");
    }

    #[track_caller]
    fn sign_as(&self, key: &str, form: Form, digest: &Digest, name: &str) {
        let form: &[&str] = match form {
            Form::Tag => &["--sign-container-identity", name],
            Form::Referrer => &["--sign-container-identity", name, "--registry-referrers-mode", "oci-1-1"],
            Form::Bundle => &["--new-bundle-format"],
        };
        let image = format!("{}/mirror/team/app@{digest}", self.registry.address);
        let line = format!("sign --key {key}.key --tlog-upload=false --allow-http-registry -y {image}");
        self.cosign(&line, form);
    }

    /// A cluster.yaml with these rules.
    pub fn demand(&self, rules: &str) {
        self.site.extras(&format!(
            "platforms: [linux/amd64]\nzone: zone.yaml\nextraImages: [{{name: \"registry.test/team/app:v1\"}}]\nimageSignatures:\n{rules}"
        ));
    }

    pub fn lock(&self) -> Ended {
        self.site.run(&["lock", "-f", "cluster.yaml", "-o", "cluster.lock.json", "--force"])
    }

    #[track_caller]
    fn locked(&self) -> Value {
        self.lock().must(ExitCode::Ok);
        let lock: Value = serde_json::from_slice(&std::fs::read(self.site.path("cluster.lock.json")).unwrap()).unwrap();
        let items = lock["items"].as_array().unwrap();
        items.iter().find(|item| item["type"] == "image").unwrap()["signed"].clone()
    }

    #[track_caller]
    fn unsigned(&self, parts: &[&str]) {
        assert_contains(&self.lock().must(ExitCode::ImageUnsigned).err, parts);
        let _ = self.site.refused(ExitCode::ImageUnsigned, &[]);
    }
}

/// sha256 of a key's SubjectPublicKeyInfo.
fn id(path: &Path) -> String {
    let pem = std::fs::read_to_string(path).unwrap();
    kubexm_signing::image::ImageKey::from_pem(&pem).unwrap().id().to_string()
}

#[test]
fn each_form_that_cosign_signs_in_is_checked_when_locked_and_again_from_the_bundle_alone() {
    for form in [Form::Tag, Form::Referrer, Form::Bundle] {
        let all = Signed::new();
        all.unsigned(&["registry.test/team/app:v1", "key a.pub", "rule for registry.test/team", "it has no signature"]);
        all.sign("a", form, &all.index.digest);
        let signed = all.locked();
        assert_eq!(signed["rule"], "registry.test/team", "{form:?}");
        let signature = &signed["signature"];
        assert_eq!(signature["subject"], all.index.digest.to_string(), "{form:?}: the index, and so all in it");
        assert_eq!(signature["signer"]["type"], "key");
        assert_eq!(signature["signer"]["file"], "a.pub");
        assert_eq!(signature["signer"]["key"], id(&all.site.path("a.pub")));
        all.site.built(&["--locked"]);
        // Neither the key nor the registry is asked again.
        std::fs::remove_file(all.site.path("a.pub")).unwrap();
        drop(all.registry);
        let verified = all.site.run(&["verify", "--json", "out.tar.zst"]).must(ExitCode::Ok).document();
        let found = &verified["imageSignatures"];
        assert_eq!((&found["ok"], &found["checked"]), (&true.into(), &true.into()));
        assert_eq!((&found["signed"], &found["accepted"]), (&1.into(), &0.into()));
        assert_contains(&all.site.run(&["verify", "out.tar.zst"]).out, &["1 image signed as cluster.yaml demands"]);
        let bytes = std::fs::read(all.site.path("out.tar.zst")).unwrap();
        let streamed = crate::site::end(all.site.program().args(["verify", "--json", "-"]).write_stdin(bytes));
        assert_eq!(streamed.must(ExitCode::Ok).document()["imageSignatures"]["signed"], 1, "{form:?}");
        let inspected = all.site.run(&["inspect", "--json", "out.tar.zst"]).must(ExitCode::Ok).document();
        let artifacts = inspected["artifacts"].as_array().unwrap();
        let image = artifacts.iter().find(|artifact| artifact["name"] == "registry.test/team/app:v1").unwrap();
        assert_eq!(image["signed"], signed, "{form:?}");
        let text = all.site.run(&["inspect", "out.tar.zst"]).must(ExitCode::Ok).out;
        assert_contains(
            &text,
            &["image     registry.test/team/app:v1 linux/amd64: the lock claims: signed by key a.pub ("],
        );
        assert_contains(&text, &["`kubexm-bundle verify` checks what the lock claims"]);
        let quick = all.site.run(&["verify", "--quick", "out.tar.zst"]).must(ExitCode::Ok).out;
        assert_contains(&quick, &["content, completeness and signatures of images were not checked"]);
        let quick = all.site.run(&["verify", "--quick", "--json", "out.tar.zst"]).must(ExitCode::Ok).document();
        let found = &quick["imageSignatures"];
        assert_eq!((&found["ok"], &found["checked"]), (&Value::Null, &false.into()));
    }
}

#[test]
fn a_signature_by_another_key_or_of_another_image_is_none_and_both_are_named() {
    let all = Signed::new();
    for form in [Form::Tag, Form::Bundle] {
        all.sign("b", form, &all.index.digest);
    }
    all.unsigned(&["must be signed by key a.pub", "it is by another key, or it was changed"]);
    // What signs another image is put where the signature of this one would be.
    let other = all.manifests[1].digest;
    all.sign("a", Form::Tag, &other);
    let tag = |digest: &Digest| format!("{}/mirror/team/app:sha256-{}.sig", all.registry.address, digest.hex());
    let status = Command::new("skopeo")
        .args(["copy", "-q", "--insecure-policy", "--src-tls-verify=false", "--dest-tls-verify=false"])
        .arg(format!("docker://{}", tag(&other)))
        .arg(format!("docker://{}", tag(&all.index.digest)))
        .status()
        .unwrap();
    assert!(status.success());
    all.unsigned(&[&format!("it signs {other}, which is not this image")]);
}

#[test]
fn a_signature_of_one_platforms_manifest_is_not_enough_for_an_index() {
    let all = Signed::new();
    all.sign("a", Form::Tag, &all.manifests[0].digest);
    all.unsigned(&["it signs the manifest of one platform, and not the index that the tag points at"]);
    // The image that is named by the manifest's own digest has no index.
    let by_digest = format!("registry.test/team/app:v1@{}", all.manifests[0].digest);
    let text = std::fs::read_to_string(all.site.path("cluster.yaml")).unwrap();
    all.site.write("cluster.yaml", text.replace("registry.test/team/app:v1", &by_digest));
    assert_eq!(all.locked()["signature"]["subject"], all.manifests[0].digest.to_string());
}

#[test]
fn one_of_two_keys_is_enough_and_a_lock_by_a_key_that_went_is_another_lock() {
    let all = Signed::new();
    all.sign("b", Form::Tag, &all.index.digest);
    all.demand("- {repositories: [registry.test], keys: [a.pub, b.pub]}");
    assert_eq!(all.locked()["signature"]["signer"]["file"], "b.pub");
    all.site.built(&["--locked"]);
    std::fs::remove_file(all.site.path("out.tar.zst")).unwrap();
    // Rotated: the image is signed by both, then only by the new one.
    all.sign("a", Form::Tag, &all.index.digest);
    all.demand("- {repositories: [registry.test], keys: [a.pub]}");
    let lock = ["--locked"];
    all.site.build(&lock).must(ExitCode::LockDrift);
    assert_eq!(all.locked()["signature"]["signer"]["file"], "a.pub");
    all.site.built(&lock);
}

#[test]
fn an_image_is_judged_by_upstreams_name_and_a_signature_for_a_mirror_only_where_that_is_said() {
    let all = Signed::new();
    let mirror = format!("{}/mirror/team/app", all.registry.address);
    all.sign_as("a", Form::Tag, &all.index.digest, &mirror);
    all.unsigned(&[&format!("it is for {mirror}"), "signedAs: any"]);
    // A rule for the mirror's name is for nothing: no image has it.
    let rule = format!("- {{repositories: [\"{mirror}\"], accept: any}}");
    all.demand(&rule);
    all.unsigned(&["registry.test/team/app:v1", "is not named by spec.bundle.imageSignatures"]);
    all.demand("- {repositories: [registry.test], keys: [a.pub], signedAs: any}");
    assert_eq!(all.locked()["signature"]["signer"]["file"], "a.pub");
}

#[test]
fn what_is_accepted_without_a_check_is_said_in_rules_lock_and_answers() {
    let all = Signed::new();
    all.demand("- {repositories: [registry.test/other], keys: [a.pub]}\n- {repositories: [\"*\"], accept: any}");
    let signed = all.locked();
    assert_eq!((&signed["rule"], &signed["signature"]), (&"*".into(), &Value::Null));
    // A name that is mistyped would leave the image to that rule.
    let warned = all.lock().must(ExitCode::Ok).err;
    assert_contains(&warned, &["imageSignatures: no image of this cluster is of registry.test/other"]);
    all.site.built(&["--locked"]);
    let verified = all.site.run(&["verify", "--json", "out.tar.zst"]).must(ExitCode::Ok).document();
    assert_eq!(
        (&verified["imageSignatures"]["signed"], &verified["imageSignatures"]["accepted"]),
        (&0.into(), &1.into())
    );
    let text = all.site.run(&["inspect", "out.tar.zst"]).must(ExitCode::Ok).out;
    assert_contains(&text, &["signature not checked: the rule for * accepts any image"]);
}

#[test]
fn a_lock_that_claims_a_signature_does_not_make_one() {
    let all = Signed::new();
    all.sign("b", Form::Tag, &all.index.digest);
    all.demand("- {repositories: [registry.test], keys: [a.pub, b.pub]}");
    all.locked();
    let path = all.site.path("cluster.lock.json");
    let honest = std::fs::read_to_string(&path).unwrap();
    let ids = ["a.pub", "b.pub"].map(|key| id(&all.site.path(key)));
    let claimed = honest.replace(r#""file":"b.pub""#, r#""file":"a.pub""#).replace(&ids[1], &ids[0]);
    assert_ne!(claimed, honest);
    std::fs::write(&path, claimed).unwrap();
    let refused = all.site.refused(ExitCode::LockDrift, &["--locked"]);
    assert_contains(&refused, &["signature: the lock has signed by key a.pub", "give signed by key b.pub"]);
    // The signature itself is left out, and the line about it stays.
    let mut lock: Value = serde_json::from_str(&honest).unwrap();
    for item in lock["items"].as_array_mut().unwrap() {
        item.as_object_mut().unwrap().remove("referrers");
    }
    std::fs::write(&path, lock.to_string()).unwrap();
    let refused = all.site.refused(ExitCode::ImageUnsigned, &["--locked"]);
    assert_contains(&refused, &["registry.test/team/app:v1", "it has no signature"]);
    // Nor does one where nothing is demanded.
    std::fs::write(&path, honest).unwrap();
    all.demand(
        "- {repositories: [registry.test], keys: [a.pub, b.pub]}\n- {repositories: [registry.test/team], accept: any}",
    );
    let refused = all.site.refused(ExitCode::LockDrift, &["--locked"]);
    assert_contains(&refused, &["the rule for registry.test/team accepts any image"]);
}

/// The bundle again, with another text under one name.
fn repacked(site: &Site, name: &str, change: impl Fn(&str) -> String) {
    relisted(site, name, change, |_| {});
}

/// The same, and with another list of artifacts.
fn relisted(site: &Site, name: &str, change: impl Fn(&str) -> String, list: impl Fn(&mut Vec<Artifact>)) {
    let bundle = Bundle::open(&site.path("out.tar.zst")).unwrap();
    let mut manifest = bundle.manifest().clone();
    list(&mut manifest.artifacts);
    let content = |member: &Member| {
        let content = bundle.read(&member.name, 1 << 30).unwrap();
        match member.name == name {
            true => change(std::str::from_utf8(&content).unwrap()).into_bytes(),
            false => content,
        }
    };
    let contents: Vec<(String, Vec<u8>)> =
        manifest.members.iter().map(|member| (member.name.clone(), content(member))).collect();
    for (member, (_, content)) in manifest.members.iter_mut().zip(&contents) {
        (member.size, member.sha256) = (content.len() as u64, Digest::of(content));
    }
    let lock = contents.iter().find(|(name, _)| name == "lock.yaml").unwrap();
    manifest.lock = Digest::of(&lock.1);
    let inputs = contents.into_iter().map(|(name, content)| Input::bytes(name, content)).collect();
    write(&site.path("other.tar.zst"), &manifest, inputs, &Options::default(), &|_, _| {}).unwrap();
}

#[test]
fn verify_judges_a_bundle_by_its_own_rules_whatever_its_lock_says() {
    let all = Signed::new();
    all.sign("b", Form::Tag, &all.index.digest);
    all.demand("- {repositories: [other.test], keys: [a.pub]}\n- {repositories: [registry.test], keys: [b.pub]}");
    all.site.built(&[]);
    let refused = |parts: &[&str]| {
        let ended = all.site.run(&["verify", "other.tar.zst"]).must(ExitCode::ImageUnsigned);
        assert_contains(&ended.err, parts);
        let document = all.site.run(&["verify", "--json", "other.tar.zst"]).must(ExitCode::ImageUnsigned).document();
        assert_eq!((&document["imageSignatures"]["ok"], &document["exitCode"]), (&false.into(), &38.into()));
    };
    repacked(&all.site, "cluster.yaml", |text| {
        text.replace("[registry.test], keys: [b.pub]", "[registry.test], keys: [a.pub]")
    });
    refused(&["images are not signed as cluster.yaml demands", "must be signed by key a.pub"]);
    repacked(&all.site, "cluster.yaml", |text| {
        text.replace("[registry.test], keys: [b.pub]", "[registry.test], accept: any")
    });
    refused(&["the lock of the bundle says signed by key b.pub", "signature not checked"]);
    repacked(&all.site, "lock.yaml", |text| text.replace("registry.test/team/app:v1", "registry.test/team/app:v2"));
    refused(&["registry.test/team/app:v1: the lock of the bundle has another image, or none"]);
}

#[test]
fn an_image_that_the_manifest_does_not_call_one_or_that_only_the_lock_has_is_judged_too() {
    let all = Signed::new();
    all.sign("b", Form::Tag, &all.index.digest);
    all.demand("- {repositories: [registry.test], keys: [b.pub]}");
    all.site.built(&[]);
    let refused = |text: &str| {
        let ended = all.site.run(&["verify", "other.tar.zst"]).must(ExitCode::ImageUnsigned);
        assert_contains(&ended.err, &[text]);
    };
    // Nodes load what has the key of an image, whatever else is said of it.
    let unnamed = |artifacts: &mut Vec<Artifact>| artifacts.iter_mut().for_each(|artifact| artifact.manifest = None);
    relisted(&all.site, "lock.yaml", str::to_owned, unnamed);
    refused("registry.test/team/app:v1: the lock of the bundle has another image, or none");
    // A registry is seeded by the lock.
    let twice = |text: &str| {
        let mut lock: Lock = serde_saphyr::from_str(text).unwrap();
        let mut other = lock.items.iter().find(|item| matches!(item.content, Content::Image { .. })).unwrap().clone();
        other.key = ArtifactKey::ExtraImage("registry.test/team/app:v9".into());
        let Content::Image { reference, .. } = &mut other.content else { unreachable!() };
        *reference = "registry.test/team/app:v9".into();
        lock.items.push(other);
        serde_saphyr::to_string(&lock).unwrap()
    };
    repacked(&all.site, "lock.yaml", twice);
    let other = "registry.test/team/app:v9: the lock of the bundle has it, and its manifest does not";
    refused(other);
    // Under the key of a file, where nobody looks for an image.
    let in_place_of_a_file = |text: &str| {
        let mut lock: Lock = serde_saphyr::from_str(text).unwrap();
        let image = lock.items.iter().find(|item| matches!(item.content, Content::Image { .. })).unwrap().clone();
        let file = lock.items.iter_mut().find(|item| matches!(item.content, Content::File { .. })).unwrap();
        file.content = image.content;
        let Content::Image { reference, .. } = &mut file.content else { unreachable!() };
        *reference = "registry.test/team/app:v9".into();
        serde_saphyr::to_string(&lock).unwrap()
    };
    repacked(&all.site, "lock.yaml", in_place_of_a_file);
    refused(other);
    // Under the key of the image that is signed: one would be judged, and the other pushed.
    let under_one_key = |text: &str| {
        let mut lock: Lock = serde_saphyr::from_str(text).unwrap();
        let mut other = lock.items.iter().find(|item| matches!(item.content, Content::Image { .. })).unwrap().clone();
        let Content::Image { reference, .. } = &mut other.content else { unreachable!() };
        *reference = "registry.test/team/app:v9".into();
        lock.items.push(other);
        serde_saphyr::to_string(&lock).unwrap()
    };
    repacked(&all.site, "lock.yaml", under_one_key);
    let ended = all.site.run(&["verify", "other.tar.zst"]).must(ExitCode::BundleDamaged);
    assert_contains(&ended.err, &["lock.yaml", "registry.test/team/app:v1", "is in it twice"]);
}

/// skopeo copies images out of the unpacked layout by the names in its index.json.
#[test]
fn a_name_in_index_json_or_a_tag_of_something_attached_leads_to_no_image_that_nobody_judged() {
    let all = Signed::new();
    all.sign("b", Form::Tag, &all.index.digest);
    all.demand("- {repositories: [registry.test], keys: [b.pub]}");
    all.site.built(&[]);
    let verified = |code, text: &str| {
        assert_contains(&all.site.run(&["verify", "other.tar.zst"]).must(code).err, &[text]);
    };
    // Of the image, with what is signed and something else that the bundle has.
    let changed = |change: &dyn Fn(&mut Value, &Value) -> Option<Value>| {
        repacked(&all.site, "index.json", |text| {
            let mut index: Value = serde_json::from_str(text).unwrap();
            let entries = index["manifests"].as_array_mut().unwrap();
            let place = |end: &str| {
                let is_it = |entry: &Value| entry["annotations"][REF_NAME].as_str().is_some_and(|it| it.ends_with(end));
                entries.iter().position(is_it).unwrap()
            };
            let (image, other) = (place("registry.test/team/app:v1"), place(".sig"));
            let other = entries[other].clone();
            let added = change(&mut entries[image], &other);
            entries.extend(added);
            index.to_string()
        });
    };
    changed(&|image, other| {
        for field in ["mediaType", "digest", "size"] {
            image[field] = other[field].clone();
        }
        None
    });
    verified(ExitCode::ImageUnsigned, "registry.test/team/app:v1: index.json of the bundle has it as sha256:");
    // Beside it: which of the two is copied is the reader's choice.
    changed(&|image, other| {
        let mut twice = other.clone();
        twice["annotations"] = image["annotations"].clone();
        Some(twice)
    });
    verified(ExitCode::ImageUnsigned, "registry.test/team/app:v1: index.json of the bundle has it as sha256:");
    for key in [REF_NAME, "io.containerd.image.name"] {
        changed(&|image, _| {
            let mut another = image.clone();
            another["annotations"][key] = "registry.test/team/app:v9".into();
            Some(another)
        });
        verified(ExitCode::ImageUnsigned, "registry.test/team/app:v9: index.json of the bundle has it as sha256:");
    }
    // Programs in Go go by the last key, in any letters.
    changed(&|image, other| {
        image["digesT"] = other["digest"].clone();
        None
    });
    verified(ExitCode::BundleDamaged, "index.json of the bundle cannot be read: unknown field `digesT`");
    // A registry is seeded with what is attached, by its tag.
    repacked(&all.site, "lock.yaml", |text| {
        let mut lock: Lock = serde_saphyr::from_str(text).unwrap();
        for item in &mut lock.items {
            let Content::Image { referrers, .. } = &mut item.content else { continue };
            referrers.iter_mut().for_each(|one| one.tag = Some("v9".into()));
        }
        serde_saphyr::to_string(&lock).unwrap()
    });
    verified(ExitCode::ImageUnsigned, "under the tag v9, which is none of a signature");
    // As it was built.
    repacked(&all.site, "index.json", str::to_owned);
    all.site.run(&["verify", "other.tar.zst"]).must(ExitCode::Ok);
}

#[test]
fn a_delta_is_judged_with_what_its_base_has() {
    let all = Signed::new();
    all.sign("a", Form::Bundle, &all.index.digest);
    all.site.built(&[]);
    std::fs::rename(all.site.path("out.tar.zst"), all.site.path("base.tar.zst")).unwrap();
    all.site.built(&["--base", "base.tar.zst"]);
    let alone = all.site.run(&["verify", "--json", "out.tar.zst"]).must(ExitCode::BundleIncomplete).document();
    assert_eq!(alone["imageSignatures"], Value::Null, "what is not there cannot be judged");
    let both = all.site.run(&["verify", "--json", "--base", "base.tar.zst", "out.tar.zst"]).must(ExitCode::Ok);
    assert_eq!(both.document()["imageSignatures"]["signed"], 1);
}

#[test]
fn rules_and_keys_that_cannot_be_used_are_refused_before_anything_is_fetched() {
    let all = Signed::new();
    all.site.write("not.pub", "hello\n");
    all.site.write("p521.pub", P521);
    for (rules, code, parts) in [
        ("- {repositories: [registry.test]}", ExitCode::Config, vec!["keys or identities"]),
        ("- {repositories: [registry.test], keys: [a.pub], accept: any}", ExitCode::Config, vec!["names no signer"]),
        ("- {repositories: [team], keys: [a.pub]}", ExitCode::Config, vec!["with its host"]),
        ("- {repositories: [], keys: [a.pub]}", ExitCode::Config, vec!["holds for nothing"]),
        (
            "- {repositories: [a.test], keys: [a.pub]}\n- {repositories: [a.test], accept: any}",
            ExitCode::Config,
            vec!["named twice"],
        ),
        (
            "- {repositories: [a.test], identities: [{issuer: \"https://i\", subject: a@b}]}",
            ExitCode::Config,
            vec!["trustedRoot"],
        ),
        ("- {repositories: [a.test], keys: [none.pub]}", ExitCode::Config, vec!["keys[0]", "none.pub"]),
        ("- {repositories: [a.test], keys: [not.pub]}", ExitCode::Config, vec!["does not begin with a public key"]),
        ("- {repositories: [a.test], keys: [a.key]}", ExitCode::InlineSecret, vec!["a.key", "private key"]),
        ("- {repositories: [a.test], keys: [p521.pub]}", ExitCode::Config, vec!["P-256 and P-384"]),
    ] {
        all.demand(rules);
        assert_contains(&all.lock().must(code).err, &parts);
    }
    all.demand("- {repositories: [registry.test], keys: [a.pub]}");
    all.sign("a", Form::Tag, &all.index.digest);
    let refused = all.site.run(&["lock", "-f", "cluster.yaml", "-o", "x.lock.json", "--no-referrers"]);
    assert_contains(&refused.must(ExitCode::ImageUnsigned).err, &["--no-referrers leaves out signatures"]);
}

/// A key that ring does not verify.
const P521: &str = "-----BEGIN PUBLIC KEY-----
MIGbMBAGByqGSM49AgEGBSuBBAAjA4GGAAQAfZZ9qZkCXXUyclErUgKBNhbbtwr0
6XHx8YAT5unLOz9DQLTprAS+LCDBYa0UcNqzKqMESZ5qA7Q1LiE7KH8o0NMANXWE
aTy1Iho5zzIB8+zplf8aLCVwcH6pAsa78qyh633Aer0qI46YczRwxPBI5LblQnkQ
A9haSpmH0GDL0oTAEow=
-----END PUBLIC KEY-----
";
