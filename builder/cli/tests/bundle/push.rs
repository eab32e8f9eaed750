//! `push` into real registries, and what `skopeo` reads there.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use kubexm_archive::{Bundle, Contents, Delta, Documents, Input, Options};
use kubexm_spec::{Digest, ExitCode};
use serde_json::Value;

use crate::registry::{PASSWORD, Registry, Setup, USER, distribution_3};
use crate::site::{Ended, Site, assert_contains, digest, noise};

/// A site with a built bundle of so many files of so many bytes, which no compressor makes smaller.
pub fn site(files: u64, size: usize) -> Site {
    site_of(files, |n| noise(n + 1, size))
}

/// The same where only what is sent has to be large: quickly made, each file another.
fn large_site(files: u64, size: usize) -> Site {
    let block = noise(1, 64 << 10);
    site_of(files, |n| {
        let mut bytes = block.repeat(size.div_ceil(block.len()));
        for (at, place) in bytes.chunks_mut(block.len()).enumerate() {
            place[..8].copy_from_slice(&(n << 32 | at as u64).to_le_bytes());
        }
        bytes
    })
}

fn site_of(files: u64, content: impl Fn(u64) -> Vec<u8>) -> Site {
    let site = Site::new();
    let names: Vec<String> = (0..files).map(|n| format!("{{path: f{n}.bin}}")).collect();
    for n in 0..files {
        site.write(&format!("f{n}.bin"), content(n));
    }
    site.extras(&format!("extraFiles: [{}]", names.join(", ")));
    site.built(&[]);
    site
}

/// Docker's login file.
pub fn log_in(site: &Site, registry: &Registry, password: &str) {
    let config = serde_json::json!({"auths": {registry.address.as_str(): {"username": USER, "password": password}}});
    site.write("home/.docker/config.json", config.to_string());
}

/// How the registry is spoken to.
pub fn way(registry: &Registry, setup: Setup) -> Vec<String> {
    match setup.tls {
        true => vec!["--ca-file".to_owned(), registry.ca().to_str().unwrap().to_owned()],
        false => vec!["--plain-http".to_owned()],
    }
}

pub fn run(site: &Site, args: &[&str], way: &[String]) -> Ended {
    let args: Vec<&str> = args.iter().copied().chain(way.iter().map(String::as_str)).collect();
    site.run(&args)
}

/// The data of the last event.
pub fn data(ended: &Ended) -> Value {
    ended.events().pop().unwrap()["data"].clone()
}

fn push(site: &Site, to: &str, more: &[&str]) -> Value {
    let args: Vec<&str> = ["push", "--json", "--plain-http", "out.tar.zst", to].iter().chain(more).copied().collect();
    data(&site.run(&args).must(ExitCode::Ok))
}

/// Pushes a signed bundle and pulls it on another machine.
fn there_and_back(program: &Path, setup: Setup) {
    let registry = Registry::start_program(program, setup);
    let site = large_site(2, 20 << 20);
    site.write("empty.bin", "");
    site.extras("extraFiles: [{path: f0.bin}, {path: f1.bin}, {path: empty.bin}]");
    site.built(&[]);
    site.run(&["keygen", "-o", "release"]).must(ExitCode::Ok);
    site.run(&["sign", "--key", "release.key", "out.tar.zst"]).must(ExitCode::Ok);
    if setup.password {
        log_in(&site, &registry, PASSWORD);
    }
    let (way, address) = (way(&registry, setup), registry.oci("team/site:v1"));
    let pushed = data(&run(&site, &["push", "--json", "out.tar.zst", &address], &way).must(ExitCode::Ok));
    let raw = registry.raw("team/site:v1");
    assert_eq!(pushed["digest"], Digest::of(&raw).to_string());
    let manifest: Value = serde_json::from_slice(&raw).unwrap();
    assert_eq!(manifest["artifactType"], "application/vnd.kubexm.bundle.v1");
    assert_eq!(manifest["layers"][0]["annotations"]["org.opencontainers.image.title"], "manifest.json");
    let list: Value = serde_json::from_slice(
        &registry.raw(&format!("team/site:{}", pushed["digest"].as_str().unwrap().replace(':', "-"))),
    )
    .unwrap();
    let kinds: Vec<&str> =
        list["manifests"].as_array().unwrap().iter().map(|m| m["artifactType"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["application/vnd.kubexm.signature.v1", "application/vnd.cyclonedx+json"]);

    let by_digest = format!("{}@{}", registry.oci("team/site"), pushed["digest"].as_str().unwrap());
    for from in [&address, &by_digest] {
        let pull = ["pull", from, "-o", "back.tar.zst", "--cache", "other-cache"];
        let ended = run(&site, &pull, &way).must(ExitCode::Ok);
        assert_contains(&ended.err, &["1 signature, not checked"]);
        assert_eq!(digest(&site.path("back.tar.zst")), digest(&site.path("out.tar.zst")), "{from}");
    }
    site.run(&["verify", "--key", "release.pub", "back.tar.zst"]).must(ExitCode::Ok);
}

#[test]
fn a_signed_bundle_comes_back_byte_for_byte_from_debians_registry_over_tls_with_a_password() {
    there_and_back(Path::new("/usr/bin/docker-registry"), Setup { tls: true, password: true });
}

#[test]
fn a_signed_bundle_comes_back_byte_for_byte_from_distribution_3_over_tls_with_a_password() {
    there_and_back(&distribution_3(), Setup { tls: true, password: true });
}

#[test]
fn a_signed_bundle_comes_back_byte_for_byte_over_plain_http() {
    there_and_back(&distribution_3(), Setup::default());
}

#[test]
fn the_same_file_has_the_same_digest_everywhere_and_is_not_sent_twice_nor_where_it_can_be_mounted() {
    let (one, two) = (Registry::start(Setup::default()), Registry::start(Setup::default()));
    let site = site(3, 100_000);
    let first = push(&site, &one.oci("a:v1"), &[]);
    assert!(first["sent"]["bytes"].as_u64().unwrap() > 300_000 && first["present"] == 0);
    let again = push(&site, &one.oci("a:v2"), &[]);
    assert_eq!((&again["digest"], &again["sent"]["blobs"]), (&first["digest"], &0.into()));
    let elsewhere = push(&site, &two.oci("b/c"), &["--no-sbom"]);
    assert_eq!((&elsewhere["digest"], &elsewhere["referrers"]), (&first["digest"], &Value::Array(vec![])));
    let mounted = push(&site, &one.oci("mounted"), &["--mount-from", "nothing/here", "--mount-from", "a"]);
    assert_eq!((&mounted["sent"]["blobs"], &mounted["present"]), (&0.into(), &0.into()), "{mounted}");
    assert_eq!(mounted["mounted"], first["sent"]["blobs"]);
    assert_eq!(one.raw("a:v1"), one.raw("mounted:latest"));
}

#[test]
fn a_later_signature_is_pushed_alone_and_the_digest_stays() {
    let registry = Registry::start(Setup::default());
    let site = site(1, 100_000);
    let unsigned = push(&site, &registry.oci("a:v1"), &[]);
    for name in ["one", "two"] {
        site.run(&["keygen", "-o", name]).must(ExitCode::Ok);
        site.run(&["sign", "--key", &format!("{name}.key"), "out.tar.zst"]).must(ExitCode::Ok);
        let signed = push(&site, &registry.oci("a:v1"), &[]);
        assert_eq!((&signed["digest"], &signed["sent"]["blobs"]), (&unsigned["digest"], &1.into()));
        let address = registry.oci("a:v1");
        site.run(&["pull", &address, "-o", "back.tar.zst", "--plain-http"]).must(ExitCode::Ok);
        assert_eq!(digest(&site.path("back.tar.zst")), digest(&site.path("out.tar.zst")));
    }
}

/// The built bundle written again: split, or without its largest blobs.
fn written_again(site: &Site, target: &str, split: Option<u64>, left_out: bool) {
    let bundle = Bundle::open(&site.path("out.tar.zst")).unwrap();
    let (manifest, layout) = (bundle.manifest(), bundle.layout());
    let is_left_out = |size: u64| left_out && size > 1 << 20;
    let mut inputs = Vec::new();
    let mut delta = Delta { base: left_out.then(|| Digest::of("the base")), left_out: Vec::new() };
    for (member, stored) in manifest.members.iter().zip(&layout.members) {
        if is_left_out(member.size) {
            delta.left_out.push(stored.clone());
            continue;
        }
        let content = bundle.read(&member.name, 1 << 30).unwrap();
        inputs.push(Input { encoding: stored.encoding, ..Input::bytes(member.name.clone(), content) });
    }
    let sources = Input::sources(bundle.sources_json().unwrap().unwrap());
    let contents = Contents { manifest, inputs, delta, signatures: &[], groups: Vec::new(), sources: Some(sources) };
    let options = Options { level: layout.level, split, ..Options::default() };
    kubexm_archive::write_contents(&site.path(target), contents, &options, &|_, _| {}).unwrap();
}

#[test]
fn a_split_bundle_and_a_delta_come_back_as_one_file_each() {
    let registry = Registry::start(Setup::default());
    let site = site(3, 9 << 20);
    written_again(&site, "split.tar.zst", Some(9 << 20), false);
    assert!(site.path("split.tar.zst.002").exists());
    for (name, bundle) in [("split", "split.tar.zst.001"), ("whole", "out.tar.zst")] {
        let address = registry.oci(name);
        site.run(&["push", bundle, &address, "--plain-http"]).must(ExitCode::Ok);
        site.run(&["pull", &address, "-o", "back.tar.zst", "--plain-http", "--cache", name]).must(ExitCode::Ok);
        assert_eq!(digest(&site.path("back.tar.zst")), digest(&site.path("out.tar.zst")), "{name}");
    }
    assert_eq!(registry.raw("split:latest"), registry.raw("whole:latest"));

    written_again(&site, "delta.tar.zst", None, true);
    let address = registry.oci("delta");
    site.run(&["push", "delta.tar.zst", &address, "--plain-http"]).must(ExitCode::Ok);
    let pull = ["pull", "--json", &address, "-o", "back.tar.zst", "--plain-http", "--cache", "c"];
    assert_eq!(data(&site.run(&pull).must(ExitCode::Ok))["delta"], true);
    assert_eq!(digest(&site.path("back.tar.zst")), digest(&site.path("delta.tar.zst")));
    assert!(site.path("delta.tar.zst").metadata().unwrap().len() < 1 << 20);
}

/// A push under way in a process of its own, one blob at a time.
fn start(site: &Site, registry: &Registry) -> Child {
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("kubexm-bundle"));
    command.args(["push", "--json", "--plain-http", "-j", "1", "out.tar.zst", &registry.oci("site:v1")]);
    command.current_dir(site.path("")).env("HOME", site.path("home")).env("NO_PROXY", "*");
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until the registry has some blobs, and not all.
fn some_are_there(registry: &Registry, child: &mut Child) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let count = || std::fs::read_dir(registry.blobs()).map_or(0, |all| all.count());
    while count() < 4 {
        assert!(child.try_wait().unwrap().is_none() && Instant::now() < deadline, "the push ended too early");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn ended(child: Child) -> Ended {
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Ended { code: output.status.code().unwrap_or(-1), out: text(&output.stdout), err: text(&output.stderr) }
}

#[test]
fn a_push_outlives_a_registry_that_is_killed_and_comes_back() {
    let mut registry = Registry::start(Setup::default());
    let site = large_site(30, 4 << 20);
    let mut child = start(&site, &registry);
    some_are_there(&registry, &mut child);
    registry.kill();
    registry.revive();
    let pushed = data(&ended(child).must(ExitCode::Ok));
    assert_eq!(pushed["digest"], Digest::of(registry.raw("site:v1")).to_string());
    site.run(&["pull", &registry.oci("site:v1"), "-o", "b.tar.zst", "--plain-http", "--cache", "c"]).must(ExitCode::Ok);
    assert_eq!(digest(&site.path("b.tar.zst")), digest(&site.path("out.tar.zst")));
}

#[test]
fn a_push_that_was_killed_sends_only_what_is_missing_when_it_is_run_again() {
    let registry = Registry::start(Setup::default());
    let site = large_site(30, 4 << 20);
    let mut child = start(&site, &registry);
    some_are_there(&registry, &mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    let again = push(&site, &registry.oci("site:v1"), &[]);
    let (sent, present) = (again["sent"]["blobs"].as_u64().unwrap(), again["present"].as_u64().unwrap());
    assert!(sent > 0 && present >= 3, "{again}");
    assert!(again["sent"]["bytes"].as_u64().unwrap() < again["size"].as_u64().unwrap());
    assert_eq!(push(&site, &registry.oci("site:v1"), &[])["sent"]["blobs"], 0);
}

#[test]
fn a_registry_that_denies_access_is_named_without_the_password() {
    let setup = Setup { tls: true, password: true };
    let registry = Registry::start(setup);
    let site = site(1, 1000);
    let (way, address) = (way(&registry, setup), registry.oci("a:v1"));
    let denied = run(&site, &["push", "out.tar.zst", &address], &way).must(ExitCode::OriginDenied);
    assert_contains(&denied.err, &[&registry.address, "log in"]);
    log_in(&site, &registry, "not sesame");
    let denied = run(&site, &["push", "out.tar.zst", &address], &way).must(ExitCode::OriginDenied);
    assert!(!denied.err.contains("sesame") && !denied.out.contains("sesame"), "{}", denied.err);
    log_in(&site, &registry, PASSWORD);
    let stranger = site.run(&["push", "out.tar.zst", &address]).must(ExitCode::OriginDown);
    assert_contains(&stranger.err, &["certificate"]);
    // Over plain http, only when it is said so.
    let plain = Registry::start(Setup::default());
    let ended = site.run(&["push", "out.tar.zst", &plain.oci("a:v1")]).must(ExitCode::OriginDown);
    assert_contains(&ended.err, &["does not speak https", "--plain-http"]);
    let ended = site.run(&["pull", &plain.oci("a:v1"), "-o", "back.tar.zst"]).must(ExitCode::OriginDown);
    assert_contains(&ended.err, &["does not speak https", "--plain-http"]);
    assert!(!plain.blobs().exists(), "something was sent");
}

#[test]
fn a_damaged_member_is_named_and_does_not_get_a_tag() {
    let registry = Registry::start(Setup::default());
    let site = site(1, 300_000);
    let mut bytes = std::fs::read(site.path("out.tar.zst")).unwrap();
    let at = bytes.len() - 100_000;
    bytes[at] ^= 1;
    site.write("bad.tar.zst", bytes);
    let ended = site.run(&["push", "bad.tar.zst", &registry.oci("a:v1"), "--plain-http"]);
    let ended = ended.must(ExitCode::BundleDamaged);
    assert_contains(&ended.err, &["bad.tar.zst", "blobs/sha256/"]);
    let missing = site.run(&["pull", &registry.oci("a:v1"), "-o", "b", "--plain-http"]).must(ExitCode::OriginMissing);
    assert_contains(&missing.err, &["a v1", "no such tag"]);
}

#[test]
fn an_address_that_no_registry_can_have_is_refused_before_the_bundle_is_read() {
    let site = Site::new();
    for bad in ["registry.example/a:b", "oci://r.example", "oci://r.example/UPPER", "oci://me:sesame@r.example/a"] {
        let ended = site.run(&["push", "none.tar.zst", bad]).must(ExitCode::Usage);
        assert!(ended.err.contains("oci://HOST/REPO") && !ended.err.contains("sesame"), "{}", ended.err);
    }
}

/// A program of the lab.
fn oras(site: &Site, registry: &Registry, args: &[&str]) -> String {
    let program = distribution_3().with_file_name("oras");
    assert!(program.exists(), "{} is needed: scripts/lab build makes it", program.display());
    let mut command = assert_cmd::Command::new(program);
    command.args(args).arg("--plain-http").arg(format!("{}/site:v1", registry.address));
    command.current_dir(site.path("")).env("HOME", site.path("home")).env("NO_PROXY", "*");
    let ended = crate::site::end(&mut command).must(ExitCode::Ok);
    ended.out
}

#[test]
fn oras_sees_the_referrers_and_pulls_what_tar_unpacks() {
    for program in [Path::new("/usr/bin/docker-registry"), &distribution_3()] {
        let registry = Registry::start_program(program, Setup::default());
        let site = site(2, 100_000);
        site.run(&["keygen", "-o", "release"]).must(ExitCode::Ok);
        site.run(&["sign", "--key", "release.key", "out.tar.zst"]).must(ExitCode::Ok);
        let pushed = push(&site, &registry.oci("site:v1"), &[]);
        let tree = oras(&site, &registry, &["discover", "--format", "tree"]);
        let kinds = ["application/vnd.kubexm.signature.v1", "application/vnd.cyclonedx+json"];
        assert_contains(&tree, &[pushed["digest"].as_str().unwrap(), kinds[0], kinds[1]]);
        oras(&site, &registry, &["pull", "-o", "by-oras"]);
        let unpacked = site.unpack(&site.path("out.tar.zst"));
        // The signature is a referrer there, and a member here.
        std::fs::remove_file(unpacked.join("manifest.json.sig")).unwrap();
        let same =
            std::process::Command::new("diff").arg("-r").args([unpacked, site.path("by-oras")]).output().unwrap();
        assert!(same.status.success(), "{}", String::from_utf8_lossy(&same.stdout));
    }
}
