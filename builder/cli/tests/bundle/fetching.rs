//! How things are fetched, as users tell it: through proxies, offline, with credentials and mirrors of other tools, two builds
//! at once; and the cache that builds share.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubexm_spec::{Digest, ExitCode};
use serde_json::json;

use crate::images::two_platforms;
use crate::registry::{PASSWORD, Registry, Setup, USER};
use crate::server::{How, Reply, Server, file, nobody};
use crate::site::{Site, assert_contains, end, noise, wanted};

/// Files at a server, and a cluster.yaml that wants them.
fn files(count: u64, size: usize, how: How) -> (Site, Server, Vec<Vec<u8>>) {
    let bodies: Vec<Vec<u8>> = (0..count).map(|seed| noise(seed + 50, size)).collect();
    let served = bodies.clone();
    let server = Server::start(move |request| {
        let index: Option<usize> = request.path.strip_prefix("file-").and_then(|index| index.parse().ok());
        match index.and_then(|index| served.get(index)) {
            Some(body) => file(request, body).how(how),
            None => Reply::new(404, ""),
        }
    });
    let site = Site::new();
    let lines: Vec<String> =
        bodies.iter().enumerate().map(|(index, body)| wanted(&server.url(&format!("file-{index}")), body)).collect();
    site.extras(&format!("extraFiles:\n{}", lines.join("\n")));
    (site, server, bodies)
}

#[test]
fn an_offline_build_uses_only_the_cache_and_names_everything_that_is_missing() {
    let (site, server, bodies) = files(3, 5000, How::Whole);
    let refused = site.refused(ExitCode::NotCached, &["--offline"]);
    let digests: Vec<String> = bodies.iter().map(|body| Digest::of(body).to_string()).collect();
    assert_contains(&refused, &["file-0", "file-1", "file-2", "not in the cache", "--offline"]);
    assert!(server.requests().is_empty());
    let online = std::fs::read(site.built(&[])).unwrap();
    let asked = server.requests().len();
    assert_eq!(std::fs::read(site.built(&["--offline"])).unwrap(), online);
    assert_eq!(server.requests().len(), asked);
    std::fs::remove_file(site.path("out.tar.zst")).unwrap();
    std::fs::remove_file(site.path("kubexm/cache/blobs/sha256").join(Digest::of(&bodies[1]).hex())).unwrap();
    let refused = site.refused(ExitCode::NotCached, &["--offline"]);
    assert_contains(&refused, &["file-1", &digests[1]]);
    assert!(!refused.contains("file-0"), "{refused}");
}

#[test]
fn an_image_is_built_offline_from_what_its_tag_was_and_a_missing_layer_is_named() {
    let (site, registry) = (Site::new(), Registry::start(Setup::default()));
    let (maker, _, manifests) = two_platforms(site.path("made"), "v1");
    registry.push(maker.path(), "mirror/team/app", "v1");
    site.zone("registry.test", &format!("{}/mirror", registry.address));
    site.extras("platforms: [linux/amd64]\nzone: zone.yaml\nextraImages: [{name: \"registry.test/team/app:v1\"}]");
    assert_contains(
        &site.refused(ExitCode::NotCached, &["--offline"]),
        &["registry.test/team/app", "not in the cache"],
    );
    let online = std::fs::read(site.built(&[])).unwrap();
    drop(registry);
    assert_eq!(std::fs::read(site.built(&["--offline"])).unwrap(), online);
    let cache =
        site.build(&["--offline", "--json"]).must(ExitCode::Ok).events().pop().unwrap()["data"]["cache"].clone();
    assert!(
        cache["blobs"].as_u64() > Some(0) && cache["hitBlobs"] == cache["blobs"] && cache["localBlobs"] == 0,
        "{cache}"
    );
    std::fs::remove_file(site.path("out.tar.zst")).unwrap();
    let manifest = site.path("kubexm/cache/blobs/sha256").join(manifests[0].digest.hex());
    let manifest: serde_json::Value = serde_json::from_slice(&std::fs::read(manifest).unwrap()).unwrap();
    let layer = manifest["layers"][0]["digest"].as_str().unwrap().to_owned();
    std::fs::remove_file(site.path("kubexm/cache/blobs/sha256").join(layer.replace("sha256:", ""))).unwrap();
    assert_contains(&site.refused(ExitCode::NotCached, &["--offline"]), &[&layer, "registry.test/team/app:v1"]);
}

#[test]
fn two_builds_at_once_fetch_each_file_once() {
    let (site, server, _) = files(6, 400_000, How::Slowly(20_000, Duration::from_millis(20)));
    let start = |name: &str| {
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("kubexm-bundle"));
        command
            .current_dir(site.path(""))
            .env("KUBEXM_HOME", site.path("kubexm"))
            .env("HOME", site.path("home"))
            .env("NO_PROXY", "*")
            .args(["build", "-f", "cluster.yaml", "-o", name])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped());
        command.spawn().unwrap()
    };
    let both = [start("one.tar.zst"), start("two.tar.zst")];
    for run in both {
        let output = run.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    for index in 0..6 {
        assert_eq!(server.count(&format!("file-{index}")), 1, "file-{index}");
    }
    let read = |name: &str| std::fs::read(site.path(name)).unwrap();
    assert!(read("one.tar.zst") == read("two.tar.zst"));
}

#[test]
fn a_rate_limit_is_kept_and_an_invalid_one_is_refused() {
    let (site, _server, _) = files(4, 500_000, How::Whole);
    let begun = std::time::Instant::now();
    site.built(&["--limit-rate", "1M"]);
    assert!(begun.elapsed() > Duration::from_millis(1600), "{:?}", begun.elapsed());
    site.build(&["--limit-rate", "fast"]).must(ExitCode::Usage);
}

/// What a proxy was asked for.
type Asked = Arc<Mutex<Vec<String>>>;

/// A proxy for http (which it answers itself with `body`) and, by CONNECT, for https.
fn proxy(body: Vec<u8>) -> (String, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, asked) = (listener.local_addr().unwrap().to_string(), Asked::default());
    let seen = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (body, seen) = (body.clone(), Arc::clone(&seen));
            std::thread::spawn(move || relay(stream, &body, &seen).ok());
        }
    });
    (address, asked)
}

fn relay(mut stream: TcpStream, body: &[u8], seen: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let mut words = first.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default().to_owned());
    seen.lock().unwrap().push(format!("{method} {target}"));
    if method != "CONNECT" {
        write!(stream, "HTTP/1.1 200 x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len())?;
        return stream.write_all(body);
    }
    let mut there = TcpStream::connect(&target)?;
    stream.write_all(b"HTTP/1.1 200 x\r\n\r\n")?;
    let (mut from, mut to) = (there.try_clone()?, stream.try_clone()?);
    let back = std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        to.shutdown(Shutdown::Both)
    });
    let mut buffer = [0; 8192];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(read) => there.write_all(&buffer[..read])?,
        }
    }
    there.shutdown(Shutdown::Write)?;
    let _ = back.join();
    Ok(())
}

#[test]
fn a_proxy_of_the_environment_is_used_and_no_proxy_keeps_hosts_from_it() {
    let body = noise(3, 50_000);
    let (address, asked) = proxy(body.clone());
    let site = Site::new();
    let build = |url: &str, no_proxy: &str| {
        site.extras(&format!("extraFiles:\n{}", wanted(url, &body)));
        let mut program = site.program();
        program.args(["build", "-f", "cluster.yaml", "-o", "out.tar.zst"]).env_remove("NO_PROXY");
        end(program.env("http_proxy", format!("http://{address}")).env("no_proxy", no_proxy))
    };
    build("http://upstream.invalid/tool", "").must(ExitCode::Ok);
    assert_eq!(*asked.lock().unwrap(), ["GET http://upstream.invalid/tool"]);
    let direct = Server::files(vec![("other", body.clone())]);
    std::fs::remove_dir_all(site.path("kubexm/cache")).unwrap();
    build(&direct.url("other"), "upstream.invalid,127.0.0.1").must(ExitCode::Ok);
    assert_eq!((asked.lock().unwrap().len(), direct.count("other")), (1, 1));
}

#[test]
fn images_come_over_tls_with_a_password_through_a_proxy() {
    let (site, registry) = (Site::new(), Registry::start(Setup { tls: true, password: true }));
    let (maker, ..) = two_platforms(site.path("made"), "v1");
    registry.push(maker.path(), "team/app", "v1");
    let ca = registry.ca();
    let zone = format!(
        "name: lab\nrules:\n- {{match: registry.test, to: [\"{}\"], caFile: {}, only: true}}\n",
        registry.address,
        ca.display()
    );
    site.write("zone.yaml", zone);
    site.extras("platforms: [linux/amd64]\nzone: zone.yaml\nextraImages: [{name: \"registry.test/team/app:v1\"}]");
    let auths = json!({"auths": {&registry.address: {"username": USER, "password": PASSWORD}}});
    let auth_file = site.write("secrets/auth.json", auths.to_string());
    let (address, asked) = proxy(Vec::new());
    let build = |variable: &str, value: &std::path::Path| {
        let mut program = site.program();
        program.args(["build", "-f", "cluster.yaml", "-o", "out.tar.zst"]).env_remove("NO_PROXY");
        end(program.env("HTTPS_PROXY", format!("http://{address}")).env(variable, value))
    };
    build("REGISTRY_AUTH_FILE", &auth_file).must(ExitCode::Ok);
    let asked = asked.lock().unwrap().clone();
    assert!(
        !asked.is_empty() && asked.iter().all(|line| *line == format!("CONNECT {}", registry.address)),
        "{asked:?}"
    );
    // podman login and skopeo login put it there.
    std::fs::remove_dir_all(site.path("kubexm/cache")).unwrap();
    build("XDG_RUNTIME_DIR", &site.path("run")).must(ExitCode::OriginDenied);
    site.write("run/containers/auth.json", auths.to_string());
    build("XDG_RUNTIME_DIR", &site.path("run")).must(ExitCode::Ok);
}

#[test]
fn mirrors_of_registries_conf_are_used_as_skopeo_uses_them_and_the_lock_names_upstream() {
    let (site, registry) = (Site::new(), Registry::start(Setup::default()));
    let (maker, ..) = two_platforms(site.path("made"), "v1");
    registry.push(maker.path(), "hub/team/app", "v1");
    let conf = format!(
        "[[registry]]\nprefix = \"upstream.invalid\"\n[[registry.mirror]]\nlocation = \"{}\"\ninsecure = true\n\
         [[registry.mirror]]\nlocation = \"{}/hub\"\ninsecure = true\n",
        nobody(),
        registry.address
    );
    site.extras("platforms: [linux/amd64]\nextraImages: [{name: \"upstream.invalid/team/app:v1\"}]");
    site.write("own.conf", &conf);
    site.built(&["--registries-conf", "own.conf"]);
    let lock = site.run(&["cat", "out.tar.zst", "lock.yaml"]).must(ExitCode::Ok).out;
    assert_contains(&lock, &["upstream.invalid/team/app"]);
    assert!(!lock.contains(&registry.address), "{lock}");
    std::fs::remove_dir_all(site.path("kubexm/cache")).unwrap();
    site.write("home/.config/containers/registries.conf", &conf);
    site.built(&[]);
    site.write("bad.conf", "[[registry]]\nlocation = 3\n");
    assert_contains(&site.build(&["--registries-conf", "bad.conf"]).must(ExitCode::Config).err, &["bad.conf"]);
}

#[test]
fn the_cache_is_cleared_of_what_no_build_uses() {
    let (site, _server, bodies) = files(3, 10_000, How::Whole);
    site.built(&[]);
    let gc = |more: &[&str]| {
        let args = [&["cache", "gc", "--json"], more].concat();
        site.run(&args).must(ExitCode::Ok).document()
    };
    let reported = gc(&[]);
    assert_eq!((&reported["schema"], &reported["removed"]), (&"kubexm.io/cache-gc/v1".into(), &json!([])));
    assert_eq!(gc(&["--max-size", "0", "--dry-run"])["removedBytes"].as_u64().unwrap() / 10_000, 3);
    assert_eq!(site.cache("blobs/sha256").len(), 3, "a dry run removes nothing");
    let done = gc(&["--max-size", "10000"]);
    assert_eq!(done["kept"]["bytes"], 10_000, "{done}");
    let left = site.cache("blobs/sha256");
    assert!(bodies.iter().any(|body| left.contains(&Digest::of(body).hex())), "{left:?}");
    site.run(&["cache", "gc", "--max-age", "soon"]).must(ExitCode::Usage);
}

#[test]
fn what_a_running_build_uses_stays_while_the_cache_is_cleared() {
    static HELD: AtomicBool = AtomicBool::new(true);
    let (site, server, bodies) = files(2, 300_000, How::Held(100_000, &HELD));
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("kubexm-bundle"));
    command.current_dir(site.path("")).env("KUBEXM_HOME", site.path("kubexm")).env("HOME", site.path("home"));
    command.env("NO_PROXY", "*").args(["build", "-f", "cluster.yaml", "-o", "out.tar.zst"]);
    let mut build = command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    // Unused for long before, and found by the build.
    while server.requests().is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let reported =
        site.run(&["cache", "gc", "--max-size", "0", "--max-age", "0m", "--json"]).must(ExitCode::Ok).document();
    assert_eq!((&reported["removed"], &reported["unfinished"]["count"]), (&json!([]), &0.into()), "{reported}");
    HELD.store(false, Ordering::Relaxed);
    assert!(build.wait().unwrap().success());
    for index in 0..bodies.len() {
        assert_eq!(server.count(&format!("file-{index}")), 1);
    }
    let reported = site.run(&["cache", "gc", "--max-size", "0", "--json"]).must(ExitCode::Ok).document();
    assert_eq!((&reported["kept"]["count"], &reported["inUse"]["count"]), (&0.into(), &0.into()), "{reported}");
}

#[test]
fn a_damaged_blob_of_the_cache_is_found_removed_and_fetched_anew() {
    let (site, server, bodies) = files(2, 10_000, How::Whole);
    site.built(&[]);
    let whole = site.run(&["cache", "verify", "--json"]).must(ExitCode::Ok).document();
    assert_eq!((&whole["schema"], &whole["ok"]), (&"kubexm.io/cache-verify/v1".into(), &true.into()));
    let digest = Digest::of(&bodies[0]);
    let path = site.path("kubexm/cache/blobs/sha256").join(digest.hex());
    let mut spoiled = bodies[0].clone();
    spoiled[5000] ^= 1;
    std::fs::write(&path, spoiled).unwrap();
    let found = site.run(&["cache", "verify", "--json"]).must(ExitCode::Disk).document();
    assert_eq!((&found["ok"], &found["damaged"]), (&false.into(), &json!([digest])));
    assert!(!path.exists());
    site.run(&["cache", "verify"]).must(ExitCode::Ok);
    site.built(&[]);
    assert_eq!((server.count("file-0"), server.count("file-1")), (2, 1));
}

/// A signature as cosign pushes it: an image of its own under a tag made of the digest that it signs.
fn sign(site: &Site, registry: &Registry, subject: &Digest, subject_of_list: bool) -> Digest {
    let name = if subject_of_list { "sbom" } else { "signature" };
    let maker = crate::images::Maker::new(site.path(name));
    let config = maker.blob("application/vnd.oci.image.config.v1+json", b"{}");
    let layer = maker.blob("application/vnd.dev.cosign.simplesigning.v1+json", format!("{name} {subject}").as_bytes());
    let media_type = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({"schemaVersion": 2, "mediaType": media_type, "config": config, "layers": [layer]});
    let manifest = maker.json(media_type, &manifest);
    let tag = format!("sha256-{}{}", subject.hex(), if subject_of_list { "" } else { ".sig" });
    if subject_of_list {
        // A registry without lists of referrers: the list is an index under a tag.
        let index = "application/vnd.oci.image.index.v1+json";
        let list = maker.json(index, &json!({"schemaVersion": 2, "mediaType": index, "manifests": [manifest]}));
        maker.finish(&[("x", &list)]);
    } else {
        maker.finish(&[("x", &manifest)]);
    }
    registry.push(maker.path(), "mirror/team/app", &tag);
    manifest.digest
}

#[test]
fn signatures_of_an_image_travel_with_it_and_are_found_in_the_unpacked_layout() {
    let (site, registry) = (Site::new(), Registry::start(Setup::default()));
    let (maker, index, manifests) = two_platforms(site.path("made"), "v1");
    registry.push(maker.path(), "mirror/team/app", "v1");
    site.zone("registry.test", &format!("{}/mirror", registry.address));
    site.extras("platforms: [linux/amd64]\nzone: zone.yaml\nextraImages: [{name: \"registry.test/team/app:v1\"}]");
    let plain = std::fs::read(site.built(&[])).unwrap();
    let signature = sign(&site, &registry, &index.digest, false);
    let sbom = sign(&site, &registry, &manifests[0].digest, true);
    assert!(
        std::fs::read(site.built(&["--no-referrers"])).unwrap() == plain,
        "without them it is the bundle of before"
    );
    let bundle = site.built(&[]);
    site.run(&["verify", "out.tar.zst"]).must(ExitCode::Ok);
    let unpacked = site.unpack(&bundle);
    let layout: serde_json::Value =
        serde_json::from_slice(&std::fs::read(unpacked.join("index.json")).unwrap()).unwrap();
    let entry = |digest: &Digest| {
        let entries = layout["manifests"].as_array().unwrap();
        entries
            .iter()
            .find(|entry| entry["digest"] == digest.to_string())
            .cloned()
            .unwrap_or_else(|| panic!("{layout}"))
    };
    let name = format!("registry.test/team/app:sha256-{}.sig", index.digest.hex());
    assert_eq!(entry(&signature)["annotations"]["org.opencontainers.image.ref.name"], name.as_str());
    assert_eq!(entry(&sbom)["annotations"], serde_json::Value::Null);
    for digest in [signature, sbom] {
        let manifest = std::fs::read(unpacked.join("blobs/sha256").join(digest.hex())).unwrap();
        let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
        let layer = manifest["layers"][0]["digest"].as_str().unwrap().replace("sha256:", "");
        assert!(unpacked.join("blobs/sha256").join(layer).exists());
    }
    // A stock tool takes the signature out by its tag, and the image as before.
    for (from, to) in [(name.as_str(), "sig-out"), ("registry.test/team/app:v1", "image-out")] {
        let status = std::process::Command::new("skopeo")
            .args(["copy", "-q", "--insecure-policy", "--override-arch", "amd64", "--override-os", "linux"])
            .arg(format!("oci:{}:{from}", unpacked.display()))
            .arg(format!("dir:{}", site.path(to).display()))
            .status()
            .unwrap();
        assert!(status.success(), "{from}");
    }
    drop(registry);
    let online = std::fs::read(&bundle).unwrap();
    assert!(std::fs::read(site.built(&["--offline"])).unwrap() == online);
}
