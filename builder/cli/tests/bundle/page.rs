//! `inspect --html`: the page of a bundle in a real browser. Needs Debian's chromium.

use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubexm_spec::{Digest, ExitCode};

use crate::contents::{rebuild, sample};
use crate::packages_locked::Site as Packages;
use crate::server::{Reply, Server};
use crate::site::{Site, assert_contains, noise};

/// A name that leaves an attribute and an element, would fetch something, and is written backwards.
const HOSTILE: &str = "evil\"'><img src=x onerror=alert(1)><script>x()<\u{202e}.txt";

fn page(site: &Site, more: &[&str]) -> String {
    site.run(&[&["inspect", "--html", "page.html", "out.tar.zst"], more].concat()).must(ExitCode::Ok);
    std::fs::read_to_string(site.path("page.html")).unwrap().replace("&#x2f;", "/")
}

/// The document as the browser has it after it has read the page, and what its console reports. It asks the server for
/// nothing but the page.
fn dom(site: &Site, html: &str) -> (String, String) {
    let html = html.to_owned();
    let server = Server::start(move |request| match request.path.as_str() {
        "page.html" => Reply::new(200, html.clone()).header("content-type", "text/html; charset=utf-8"),
        _ => Reply::new(404, ""),
    });
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"])
        .arg(format!("--user-data-dir={}", site.path("chromium").display()))
        .arg(server.url("page.html"))
        .env("HOME", site.path("home"))
        .output()
        .expect("chromium is needed: apt-get install chromium");
    assert!(output.status.success(), "{output:?}");
    // A connection that the browser opens ahead has no request.
    let requests = server.requests();
    let others = requests.iter().filter(|request| !request.method.is_empty() && request.path != "page.html");
    assert_eq!(others.count(), 0, "{requests:?}");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_browser_shows_the_page_and_nothing_of_a_hostile_bundle_is_executed_or_fetched() {
    let site = sample();
    site.write(HOSTILE, "x");
    rebuild(
        &site,
        &format!("extraFiles: [{{path: a.txt}}, {{path: big.bin}}, {{path: {}}}]", serde_json::json!(HOSTILE)),
    );
    let html = page(&site, &[]);
    assert_contains(&html, &["default-src 'none'"]);
    assert!(!html.contains("unsafe") && !html.contains('\u{202e}'), "{html}");
    // The browser applies the style only if it is the one that the policy allows.
    let style = html.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
    assert_contains(&html, &[&format!("style-src 'sha256-{}'", STANDARD.encode(Digest::of(style).as_bytes()))]);
    let (dom, console) = dom(&site, &html);
    for part in
        ["Contents by size", "class=\"tile\"", ">big.bin</text>", "9.00 MiB", "file/evil", "local.test/team/one:2"]
    {
        assert!(dom.contains(part), "{part} is not in {dom}");
    }
    // What a parser makes of the page has no element of the bundle's.
    for element in ["<img", "<script", "<link", "<iframe", "onerror=\"", "http://", "https://"] {
        assert!(!dom.contains(element), "{element} is in {dom}");
    }
    assert!(!console.contains("Content Security Policy") && !console.contains("CONSOLE"), "{console}");
}

#[test]
fn the_page_has_the_differences_to_a_base_and_replaces_only_a_page() {
    let site = sample();
    std::fs::rename(site.path("out.tar.zst"), site.path("old.tar.zst")).unwrap();
    site.write("new.bin", noise(7, 3 << 20));
    rebuild(&site, "extraFiles: [{path: big.bin}, {path: new.bin}]");
    let html = page(&site, &["--base", "old.tar.zst"]);
    assert_contains(
        &html,
        &["Differences to old.tar.zst", ">added</span>", "file/new.bin", ">removed</span>", "file/a.txt"],
    );
    assert!(!page(&site, &[]).contains("Differences to"), "an earlier page is replaced");
    let ended = site.run(&["inspect", "--html", "big.bin", "out.tar.zst"]).must(ExitCode::Usage);
    assert_contains(&ended.err, &["big.bin", "--force"]);
    let ended = site.run(&["inspect", "--html", "out.tar.zst", "out.tar.zst", "--force"]);
    assert_eq!(ended.code, 2, "the bundle itself is never replaced: {}", ended.err);
    site.run(&["inspect", "--base", "old.tar.zst", "out.tar.zst"]).must(ExitCode::Usage);
}

#[test]
fn the_page_of_a_delta_says_what_it_leaves_out_and_counts_it_for_nothing() {
    let site = sample();
    std::fs::rename(site.path("out.tar.zst"), site.path("old.tar.zst")).unwrap();
    site.write("new.bin", noise(7, 3 << 20));
    site.extras("extraFiles: [{path: big.bin}, {path: new.bin}]");
    site.built(&["--base", "old.tar.zst"]);
    let html = page(&site, &[]);
    assert_contains(&html, &["<h2>A delta</h2>", "blobs (9.00 MiB) are left out", "<b>3.00 MiB</b><span>of content"]);
}

#[test]
fn the_page_of_a_signed_bundle_with_packages_names_keys_and_versions_and_no_folder_of_its_builder() {
    let here = Packages::new("  system: {debs: [ipset]}\n");
    here.lock();
    here.build(&["--locked"]).must(ExitCode::Ok);
    let site = &here.lab.site;
    site.run(&["keygen", "-o", "release"]).must(ExitCode::Ok);
    let signed = site.run(&["sign", "--key", "release.key", "--json", "out.tar.zst"]).must(ExitCode::Ok).document();
    let bundle = site.path("out.tar.zst");
    std::fs::copy(&bundle, site.path("old.tar.zst")).unwrap();
    let old = site.path("old.tar.zst");
    site.run(&["inspect", "--html", "page.html", bundle.to_str().unwrap(), "--base", old.to_str().unwrap()])
        .must(ExitCode::Ok);
    let html = std::fs::read_to_string(site.path("page.html")).unwrap().replace("&#x2f;", "/");
    let folder = site.path("").display().to_string();
    assert!(!html.contains(&folder), "{folder} is in the page");
    assert_contains(&html, &["<dt>file</dt><dd>out.tar.zst</dd>", "Differences to old.tar.zst"]);
    let (dom, console) = dom(site, &html);
    assert!(!console.contains("Content Security Policy") && !console.contains("CONSOLE"), "{console}");
    let key = signed["keyId"].as_str().unwrap();
    let text = dom.replace("<wbr>", "");
    for part in [key, "not checked here", "package/debian-12/ipset", "k-package", ">gpg<"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let row = text.split("<tr id=\"a").find(|row| row.contains("installer/kubexm-install")).unwrap();
    assert_contains(row, &["<td>0.9.9</td>"]);
    // A digest continues in the next line between groups of digits only.
    let shown = site.run(&["inspect", "--json", "out.tar.zst"]).must(ExitCode::Ok).document();
    let digest = shown["manifest"].as_str().unwrap().trim_start_matches("sha256:");
    assert_contains(&dom, &[&format!("sha256:<wbr>{}<wbr>{}", &digest[..16], &digest[16..32])]);
}
