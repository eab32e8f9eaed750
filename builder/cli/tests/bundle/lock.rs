//! Locks: `lock`, `build --locked`, `update`, `diff`. What is locked is what is built, byte for byte, or a refusal that names
//! every difference.

use std::path::PathBuf;

use kubexm_spec::{ExitCode, Lock};

use crate::images::Maker;
use crate::registry::{Registry, Setup};
use crate::server::{Server, file};
use crate::site::{Site, assert_contains, noise, wanted};

const TOOL: &str = "tools/tool.bin";

/// A cluster.yaml of extras of every kind: two images of a registry, a file of a server, a file of this machine.
struct Stock {
    site: Site,
    server: Server,
    registry: Registry,
}

impl Stock {
    fn new() -> Self {
        let (site, registry) = (Site::new(), Registry::start(Setup::default()));
        let server = Server::files(vec![(TOOL, noise(3, 30_000)), ("tools/other.bin", noise(4, 3_000))]);
        let stock = Self { site, server, registry };
        stock.push("app", 1);
        stock.push("base", 2);
        stock.site.write("notes.txt", "read me\n");
        stock.site.zone("registry.test", &format!("{}/mirror", stock.registry.address));
        stock.cluster("");
        stock
    }

    /// An image under the tag v1, another one for each seed.
    fn push(&self, repository: &str, seed: u64) {
        let maker = Maker::new(self.site.path(&format!("made-{repository}-{seed}")));
        let manifest = maker.manifest("amd64", 100 + seed);
        let index = maker.index(&[("amd64", &manifest)]);
        maker.finish(&[("v1", &index)]);
        self.registry.push(maker.path(), &format!("mirror/team/{repository}"), "v1");
    }

    fn cluster(&self, more: &str) {
        let tool = wanted(&self.server.url(TOOL), &noise(3, 30_000));
        self.site.extras(&format!(
            "extraImages: [{{name: registry.test/team/app:v1}}, {{name: registry.test/team/base:v1}}]\n\
             extraFiles:\n{tool}\n- {{path: notes.txt}}\n{more}"
        ));
    }

    fn lock(&self) -> String {
        let ended = self.site.run(&["lock", "-f", "cluster.yaml", "--zone", "zone.yaml"]).must(ExitCode::Ok);
        assert_contains(&ended.out, &["extra-image/registry.test/team/app:v1", "file/notes.txt"]);
        self.text()
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.site.path("cluster.lock.json")).unwrap()
    }

    fn locked(&self) -> Lock {
        Lock::parse(self.text().as_bytes()).unwrap()
    }

    /// With a cache that has nothing.
    fn cold(&self, name: &str, more: &[&str]) -> Vec<String> {
        let mut all: Vec<String> = ["--zone", "zone.yaml", "--locked", "--cache", name].map(str::to_owned).to_vec();
        all.extend(more.iter().map(|word| (*word).to_owned()));
        all
    }

    fn built(&self, more: &[String]) -> Vec<u8> {
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        let path: PathBuf = self.site.built(&more);
        std::fs::read(path).unwrap()
    }

    fn digest(&self, key: &str) -> String {
        let lock = self.locked();
        let item = lock.items.iter().find(|item| item.key.to_string() == key).unwrap_or_else(|| panic!("{key}"));
        item.digest().to_string()
    }
}

#[test]
fn the_same_lock_is_the_same_bundle_from_any_cache_and_the_same_text_whenever_it_is_made() {
    let stock = Stock::new();
    let text = stock.lock();
    assert_eq!(stock.lock(), text, "a second lock of the same things is another text");
    let plain = stock.built(&["--zone".to_owned(), "zone.yaml".to_owned()]);
    assert_eq!(stock.built(&stock.cold("cold", &[])), plain, "a locked build from an empty cache");
    stock.site.run(&["verify", "out.tar.zst"]).must(ExitCode::Ok);
}

#[test]
fn a_lock_asks_for_sizes_and_fetches_no_file_whose_digest_is_known() {
    let stock = Stock::new();
    stock.lock();
    let asked: Vec<String> = stock.server.requests().iter().map(|r| format!("{} {}", r.method, r.path)).collect();
    assert_eq!(asked, [format!("HEAD {TOOL}")]);
    assert!(stock.text().contains("\"size\": 30000"), "{}", stock.text());
}

#[test]
fn a_lock_says_for_each_item_why_its_digest_is_trusted() {
    let stock = Stock::new();
    let ended = stock.site.run(&["lock", "-f", "cluster.yaml", "--zone", "zone.yaml"]).must(ExitCode::Ok);
    let trust = |key: &str| {
        let line =
            ended.out.lines().find(|line| line.starts_with(key)).unwrap_or_else(|| panic!("{key}: {}", ended.out));
        line.split_whitespace().rev().nth(1).unwrap().to_owned()
    };
    // The tag was answered by a mirror of the zone alone.
    assert_eq!(trust("extra-image/registry.test/team/app:v1"), "mirror");
    assert_eq!(trust("file/tool.bin"), "user");
    let events =
        stock.site.run(&["lock", "-f", "cluster.yaml", "--zone", "zone.yaml", "--json"]).must(ExitCode::Ok).events();
    let data = &events.last().unwrap()["data"];
    assert_eq!((&data["artifacts"], &data["trust"]["mirror"]), (&4.into(), &2.into()), "{data}");
}

#[test]
fn a_locked_build_names_every_difference_and_fetches_nothing() {
    let stock = Stock::new();
    stock.lock();
    let other = wanted(&stock.server.url("tools/other.bin"), &noise(4, 3_000));
    let tool = wanted(&stock.server.url(TOOL), b"another digest");
    stock.site.extras(&format!(
        "extraImages: [{{name: registry.test/team/app:v1}}]\nextraFiles:\n{tool}\n{other}\n- {{path: notes.txt}}"
    ));
    let before = stock.server.requests().len();
    let text = stock.site.refused(ExitCode::LockDrift, &["--zone", "zone.yaml", "--locked"]);
    assert_contains(
        &text,
        &[
            "3 differences",
            "file/other.bin: needed, and not in the lock",
            "file/tool.bin: digest: the lock has sha256:",
            "extra-image/registry.test/team/base:v1 linux/amd64: v1 is in the lock, and nothing needs it",
            "kubexm-bundle update",
        ],
    );
    assert_eq!(stock.server.requests().len(), before);
    let events = stock.site.build(&["--zone", "zone.yaml", "--locked", "--json"]).must(ExitCode::LockDrift).events();
    let differences = events.last().unwrap()["data"]["differences"].as_array().unwrap().clone();
    assert_eq!(differences.len(), 3, "{differences:?}");
    assert_eq!(differences[0]["difference"], "notLocked", "{differences:?}");
}

#[test]
fn a_source_with_other_bytes_than_locked_is_refused() {
    let site = Site::new();
    let changed = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let server = Server::start({
        let changed = std::sync::Arc::clone(&changed);
        move |request| {
            let seed = if changed.load(std::sync::atomic::Ordering::SeqCst) { 9 } else { 8 };
            file(request, &noise(seed, 20_000))
        }
    });
    site.extras(&format!("extraFiles:\n{}", wanted(&server.url("tool"), &noise(8, 20_000))));
    site.run(&["lock", "-f", "cluster.yaml"]).must(ExitCode::Ok);
    changed.store(true, std::sync::atomic::Ordering::SeqCst);
    let text = site.refused(ExitCode::OriginMismatch, &["--locked"]);
    assert_contains(&text, &["file/tool"]);

    let local = Site::new();
    local.write("notes.txt", "one\n");
    local.extras("extraFiles: [{path: notes.txt}]");
    local.run(&["lock", "-f", "cluster.yaml"]).must(ExitCode::Ok);
    local.write("notes.txt", "other\n");
    let text = local.refused(ExitCode::LockDrift, &["--locked"]);
    assert_contains(
        &text,
        &["file/notes.txt: digest: the lock has sha256:", "this machine has sha256:", "file/notes.txt: size"],
    );
}

#[test]
fn a_tag_that_moved_is_reported_and_the_locked_image_is_built() {
    let stock = Stock::new();
    stock.lock();
    let first = stock.built(&stock.cold("one", &[]));
    let locked = stock.digest("extra-image/registry.test/team/app:v1");
    stock.push("app", 7);
    let ended = stock.site.build(&["--zone", "zone.yaml", "--locked", "--cache", "two"]).must(ExitCode::Ok);
    let warnings: Vec<&str> = ended.err.lines().filter(|line| line.contains("warning")).collect();
    assert_eq!(warnings.len(), 1, "{}", ended.err);
    assert_contains(warnings[0], &["registry.test/team/app:v1 is sha256:", &locked]);
    assert_eq!(std::fs::read(stock.site.path("out.tar.zst")).unwrap(), first);
}

#[test]
fn update_of_one_item_leaves_the_others_as_they_are_byte_for_byte() {
    let stock = Stock::new();
    let old = stock.lock();
    stock.push("app", 7);
    stock.push("base", 8);
    let update = |more: &[&str]| {
        let mut all = vec!["update", "-f", "cluster.yaml", "--zone", "zone.yaml"];
        all.extend(more);
        stock.site.run(&all)
    };
    let shown = update(&["--dry-run", "registry.test/team/base"]).must(ExitCode::Ok);
    assert_contains(&shown.out, &["~ extra-image/registry.test/team/base:v1", " -> "]);
    assert_eq!(stock.text(), old, "a dry run has written");

    let ended = update(&["registry.test/team/base"]).must(ExitCode::Ok);
    assert_contains(&ended.out, &["~ extra-image/registry.test/team/base:v1"]);
    assert!(!ended.out.contains("team/app"), "{}", ended.out);
    let item = |text: &str, key: &str| {
        let at = text.find(&format!("\"key\": \"{key}\"")).unwrap();
        text[at..].split("\n    }").next().unwrap().to_owned()
    };
    let new = stock.text();
    for key in ["extra-image/registry.test/team/app:v1", "file/tool.bin", "file/notes.txt"] {
        assert_eq!(item(&new, key), item(&old, key));
    }
    let changed: Vec<_> = new.lines().filter(|line| !old.contains(*line)).collect();
    assert!(!changed.is_empty() && changed.iter().all(|line| line.contains("sha256:")), "{changed:?}");

    update(&[]).must(ExitCode::Ok);
    assert_ne!(
        item(&stock.text(), "extra-image/registry.test/team/app:v1"),
        item(&old, "extra-image/registry.test/team/app:v1")
    );
    let text = update(&["notes.tx"]).must(ExitCode::UnknownVersion).err;
    assert_contains(&text, &["\"notes.tx\"", "notes.txt"]);
}

#[test]
fn update_adds_new_items_removes_old_ones_and_reports_what_still_differs() {
    let stock = Stock::new();
    stock.lock();
    let other = wanted(&stock.server.url("tools/other.bin"), &noise(4, 3_000));
    stock.site.extras(&format!(
        "extraImages: [{{name: registry.test/team/app:v1}}]\nextraFiles:\n{other}\n- {{path: notes.txt}}"
    ));
    let run = |more: &[&str]| {
        let mut all = vec!["update", "-f", "cluster.yaml", "--zone", "zone.yaml"];
        all.extend(more);
        stock.site.run(&all).must(ExitCode::Ok)
    };
    let part = run(&["other.bin"]);
    assert_contains(&part.out, &["+ file/other.bin"]);
    assert_contains(
        &part.err,
        &["2 things are still not as needed", "file/tool.bin: in the lock, and nothing needs it"],
    );
    let whole = run(&[]);
    assert_contains(&whole.out, &["- file/tool.bin", "- extra-image/registry.test/team/base:v1"]);
    assert!(!whole.err.contains("still differ"), "{}", whole.err);
    stock.built(&stock.cold("cold", &[]));
}

#[test]
fn a_lock_of_another_schema_or_without_a_file_says_what_to_do() {
    let site = Site::new();
    site.write("notes", "x");
    site.extras("extraFiles: [{path: notes}]");
    assert_contains(&site.refused(ExitCode::Config, &["--locked"]), &["cluster.lock.json", "kubexm-bundle lock"]);
    site.write("cluster.lock.json", "{\"schema\": \"kubexm.io/lock/v9\"}");
    assert_contains(&site.refused(ExitCode::Config, &["--locked"]), &["kubexm.io/lock/v9"]);
}

#[test]
fn images_of_a_list_are_built_and_locked_like_those_of_cluster_yaml() {
    let stock = Stock::new();
    stock.site.extras("extraFiles: [{path: notes.txt}]");
    stock.site.write("list.txt", "## ours\nregistry.test/team/app:v1\n\nregistry.test/team/app:v1 # again\n");
    let lock = ["lock", "-f", "cluster.yaml", "--zone", "zone.yaml", "--images-from", "list.txt"];
    stock.site.run(&lock).must(ExitCode::Ok);
    let keys: Vec<String> = stock.locked().items.iter().map(|item| item.key.to_string()).collect();
    assert_eq!(keys, ["file/notes.txt", "extra-image/registry.test/team/app:v1"]);
    stock.built(&stock.cold("cold", &["--images-from", "list.txt"]));
    let text = stock.site.build(&["--zone", "zone.yaml", "--locked"]).must(ExitCode::LockDrift).err;
    assert_contains(&text, &["nothing needs it"]);
    stock.site.write("bad.txt", "registry.test/team/app:v1\nregistry.test/team/app\n");
    let text = stock.site.build(&["--images-from", "bad.txt"]).must(ExitCode::Config).err;
    assert_contains(&text, &["bad.txt", "line 2: \"registry.test/team/app\""]);
}

#[test]
fn a_lock_is_compared_with_another_lock_and_with_the_bundle_that_was_built_of_it() {
    let stock = Stock::new();
    let old = stock.lock();
    stock.site.write("old.lock.json", &old);
    stock.built(&stock.cold("cold", &[]));
    let diff = |old: &str, new: &str| stock.site.run(&["diff", "--exit-code", old, new]);
    assert_contains(&diff("cluster.lock.json", "out.tar.zst").must(ExitCode::Ok).out, &["no difference"]);
    stock.push("app", 7);
    stock.site.run(&["update", "-f", "cluster.yaml", "--zone", "zone.yaml"]).must(ExitCode::Ok);
    for (old, new) in [("old.lock.json", "cluster.lock.json"), ("out.tar.zst", "cluster.lock.json")] {
        let text = diff(old, new).must(ExitCode::Differs).out;
        assert_contains(
            &text,
            &["~ extra-image/registry.test/team/app:v1", "0 artifacts added, 0 removed, 1 changed, 3 the same"],
        );
        // Of the two layers one is in every image; config, manifest and index are new beside the other.
        assert!(text.contains("a delta carries 4 members"), "{text}");
    }
    let document = stock.site.run(&["diff", "old.lock.json", "out.tar.zst", "--json"]).must(ExitCode::Ok).document();
    assert_eq!((&document["differs"], &document["old"]["manifest"]), (&false.into(), &serde_json::Value::Null));
}

/// What a merge made of the lock.
fn merged(stock: &Stock, fix: impl FnOnce(&mut serde_json::Value)) {
    let mut lock: serde_json::Value = serde_json::from_str(&stock.text()).unwrap();
    fix(&mut lock);
    stock.site.write("cluster.lock.json", &(serde_json::to_string_pretty(&lock).unwrap() + "\n"));
}

fn image<'a>(lock: &'a mut serde_json::Value, key: &str) -> &'a mut serde_json::Value {
    let items = lock["items"].as_array_mut().unwrap();
    items.iter_mut().find(|item| item["key"] == key).unwrap_or_else(|| panic!("{key}"))
}

#[test]
fn a_lock_with_a_deleted_line_of_an_image_is_refused_with_a_cold_and_a_warm_cache() {
    let stock = Stock::new();
    let whole = stock.lock();
    stock.built(&stock.cold("warm", &[]));
    std::fs::remove_file(stock.site.path("out.tar.zst")).unwrap();
    let app = "extra-image/registry.test/team/app:v1";
    let refused = |fix: &dyn Fn(&mut serde_json::Value), words: &[&str]| {
        for more in [&["--cache", "cold"][..], &["--cache", "warm"], &["--cache", "warm", "--offline"]] {
            stock.site.write("cluster.lock.json", &whole);
            merged(&stock, fix);
            _ = std::fs::remove_dir_all(stock.site.path("cold"));
            let all: Vec<&str> = ["--zone", "zone.yaml", "--locked"].iter().chain(more).copied().collect();
            assert_contains(&stock.site.refused(ExitCode::LockDrift, &all), words);
        }
    };
    refused(
        &|lock| {
            image(lock, app)["blobs"].as_array_mut().unwrap().pop().unwrap();
        },
        &["1 difference", app, "blobs: the lock has sha256:", "the image itself has sha256:"],
    );
    refused(
        &|lock| {
            let base = image(lock, "extra-image/registry.test/team/base:v1").clone();
            image(lock, app)["manifest"] = base["manifest"].clone();
            image(lock, app)["blobs"] = base["blobs"].clone();
        },
        &["2 differences", "manifest: the lock has sha256:", "blobs: the lock has sha256:"],
    );
    refused(
        &|lock| {
            let size = image(lock, app)["blobs"][1]["size"].as_u64().unwrap();
            image(lock, app)["blobs"][1]["size"] = (size + 1).into();
        },
        &["1 difference", "sizes: the lock has "],
    );
    refused(
        &|lock| image(lock, app)["blobs"][1]["mediaType"] = "application/vnd.oci.image.layer.v1.tar+zstd".into(),
        &["1 difference", "media types: the lock has "],
    );
    stock.site.write("cluster.lock.json", &whole);
    stock.built(&stock.cold("warm", &["--offline"]));
}

#[test]
fn a_trust_that_was_written_into_a_lock_by_hand_is_drift_and_named() {
    let stock = Stock::new();
    let whole = stock.lock();
    let app = "extra-image/registry.test/team/app:v1";
    let refused = |fix: &dyn Fn(&mut serde_json::Value), words: &[&str]| {
        stock.site.write("cluster.lock.json", &whole);
        merged(&stock, fix);
        let before = stock.server.requests().len();
        assert_contains(&stock.site.refused(ExitCode::LockDrift, &["--zone", "zone.yaml", "--locked"]), words);
        assert_contains(
            &stock.site.build(&["--zone", "zone.yaml", "--locked", "--dry-run"]).must(ExitCode::LockDrift).err,
            words,
        );
        assert_eq!(stock.server.requests().len(), before);
    };
    refused(
        &|lock| image(lock, app)["trust"] = "pinned".into(),
        &["1 difference\n", app, "trust: the lock has pinned, cluster.yaml and catalogue give oci-digest"],
    );
    refused(
        &|lock| image(lock, "file/tool.bin")["trust"] = "pinned".into(),
        &["file/tool.bin", "trust: the lock has pinned", "give user"],
    );
}

#[test]
fn a_lock_behind_a_link_is_not_written_and_the_files_name_is_given() {
    let site = Site::new();
    site.write("notes.txt", "read me\n");
    site.extras("extraFiles: [{path: notes.txt}]");
    site.write("elsewhere/real.json", "");
    std::os::unix::fs::symlink("elsewhere/real.json", site.path("cluster.lock.json")).unwrap();
    for args in [&["lock", "-f", "cluster.yaml"][..], &["lock", "-f", "cluster.yaml", "--force"]] {
        let text = site.run(args).must(ExitCode::Usage).err;
        assert_contains(
            &text,
            &["cluster.lock.json is a symbolic link to elsewhere/real.json", "name the file itself"],
        );
    }
    site.run(&["lock", "-f", "cluster.yaml", "-o", "elsewhere/real.json"]).must(ExitCode::Ok);
    let locked = std::fs::read(site.path("elsewhere/real.json")).unwrap();
    Lock::parse(&locked).unwrap();
    // It is read behind the link, and update would write it.
    site.write("notes.txt", "read me again\n");
    let text = site.run(&["update", "-f", "cluster.yaml"]).must(ExitCode::Usage).err;
    assert_contains(&text, &["cluster.lock.json is a symbolic link"]);
    site.run(&["update", "-f", "cluster.yaml", "--dry-run"]).must(ExitCode::Ok);
    assert_eq!(std::fs::read(site.path("elsewhere/real.json")).unwrap(), locked);
    site.run(&["update", "-f", "cluster.yaml", "--lock", "elsewhere/real.json"]).must(ExitCode::Ok);
    assert_ne!(std::fs::read(site.path("elsewhere/real.json")).unwrap(), locked);
    assert!(std::fs::symlink_metadata(site.path("cluster.lock.json")).unwrap().is_symlink());
    site.built(&["--locked"]);
}

#[test]
fn a_lock_does_not_replace_its_inputs_or_anything_but_regular_files() {
    let stock = Stock::new();
    let pipe = stock.site.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let zone = std::fs::read(stock.site.path("zone.yaml")).unwrap();
    let lock = ["lock", "-f", "cluster.yaml", "--zone", "zone.yaml", "-o"];
    for (output, problem) in [("pipe", "is a named pipe"), ("zone.yaml", "one of the files that are read")] {
        let text = stock.site.run(&[&lock[..], &[output]].concat()).must(ExitCode::Usage).err;
        assert_contains(&text, &[output, problem, "with -o"]);
    }
    let build = ["build", "-f", "cluster.yaml", "--zone", "zone.yaml", "-o", "pipe"];
    assert_contains(&stock.site.run(&build).must(ExitCode::Usage).err, &["is a named pipe"]);
    assert!(!pipe.is_file(), "a file is where the pipe was");
    assert_eq!(std::fs::read(stock.site.path("zone.yaml")).unwrap(), zone);
}
