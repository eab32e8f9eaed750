//! What is between this machine and its origins is reported as what it is: a proxy that refuses, a file of credentials that
//! cannot be read.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use base64::Engine;
use kubexm_spec::ExitCode;

use crate::server::nobody;
use crate::site::{Ended, Site, assert_contains, end, wanted};

/// A proxy that answers whatever it is asked with this line and these headers.
fn refusing(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            // A client that goes away has its answer.
            let _ = write!(stream, "HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    address
}

/// A check of one address, with proxies as the environment names them.
fn check(url: &str, environment: &[(&str, String)], more: &[&str]) -> Ended {
    let site = Site::new();
    site.extras(&format!("extraFiles:\n{}", wanted(url, b"x")));
    let mut program = site.program();
    program.args(["zone", "check", "-f", "cluster.yaml"]).args(more).env_remove("NO_PROXY");
    end(program.envs(environment.iter().map(|(name, value)| (name, value))))
}

#[test]
fn an_unreachable_proxy_is_named_with_its_variable_and_without_its_password() {
    let proxy = nobody();
    let with_login = format!("http://user:sesame@{proxy}");
    for (url, variable) in [
        ("https://files.test/tool", "HTTPS_PROXY"),
        ("https://files.test/tool", "all_proxy"),
        ("http://files.test/tool", "http_proxy"),
    ] {
        let ended = check(url, &[(variable, with_login.clone())], &[]).must(ExitCode::OriginDown);
        assert_contains(&ended.out, &[url, "the proxy", &format!("http://{proxy}"), variable, "Connection refused"]);
        assert!(!format!("{}{}", ended.out, ended.err).contains("sesame"), "{}", ended.out);
    }
}

#[test]
fn a_proxy_that_refuses_or_requires_a_login_is_named_as_the_cause() {
    let environment = |proxy: &str| [("HTTPS_PROXY", format!("http://user:sesame@{proxy}"))];
    let proxy = refusing("407 Proxy Authentication Required");
    let ended = check("https://files.test/tool", &environment(&proxy), &["--json"]).must(ExitCode::NoSource);
    let place = ended.document()["items"][0]["places"][0].clone();
    assert_contains(
        place["reason"].as_str().unwrap(),
        &["the proxy", &proxy, "HTTPS_PROXY", "another login", "NO_PROXY"],
    );
    assert_eq!(place["exitCode"], ExitCode::OriginDenied.code());
    assert!(!ended.out.contains("sesame"), "{}", ended.out);

    let proxy = refusing("403 Forbidden");
    let ended = check("https://files.test/tool", &environment(&proxy), &["--json"]).must(ExitCode::NoSource);
    let place = ended.document()["items"][0]["places"][0].clone();
    assert_contains(
        place["reason"].as_str().unwrap(),
        &["the proxy", &proxy, "HTTPS_PROXY", "files.test:443", "403 Forbidden"],
    );
    assert_eq!(place["exitCode"], ExitCode::OriginDenied.code());

    // Of plain http, what a proxy answers itself is distinguished from what the origin does by this status only.
    let environment = [("HTTP_PROXY", format!("http://{}", refusing("407 Proxy Authentication Required")))];
    let ended = check("http://files.test/tool", &environment, &[]).must(ExitCode::NoSource);
    assert_contains(&ended.out, &["the proxy", "HTTP_PROXY", "another login"]);
}

#[test]
fn a_broken_file_of_credentials_is_named_with_what_is_wrong_and_how_to_mend_it() {
    let encoded = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let entry = |auth: &str| format!("{{\"auths\": {{\"registry.test\": {{\"auth\": \"{auth}\"}}}}}}");
    let table: &[(&str, String, &[&str])] = &[
        (
            "bad JSON",
            "{\"auths\": {\"registry.test\": {\"auth\": \"c2VzYW1l\"".to_owned(),
            &["JSON", "line 1", "fix it"],
        ),
        ("another shape", "{\"auths\": \"c2VzYW1l\"}".to_owned(), &["auths", "line 1", "fix it"]),
        ("no base64", entry("sesame, not encoded"), &["registry.test", "base64", "docker login registry.test"]),
        ("no colon", entry(&encoded("sesame")), &["registry.test", "name:password", "docker login registry.test"]),
        (
            "no helper",
            "{\"credHelpers\": {\"registry.test\": \"nowhere\"}}".to_owned(),
            &["registry.test", "docker-credential-nowhere", "PATH", "credHelpers"],
        ),
        (
            "no store",
            "{\"credsStore\": \"nowhere\"}".to_owned(),
            &["registry.test", "docker-credential-nowhere", "PATH", "credsStore"],
        ),
    ];
    for (name, content, parts) in table {
        let site = Site::new();
        site.extras("extraImages: [{name: \"registry.test/team/app:v1\"}]");
        let file = site.write("home/.docker/config.json", content);
        let text = site.refused(ExitCode::Config, &[]);
        assert_contains(&text, &[file.to_str().unwrap()]);
        assert_contains(&text, parts);
        for secret in ["sesame", "c2VzYW1l"] {
            assert!(!text.contains(secret), "{name}: {text}");
        }
        assert!(!text.contains("any origin"), "{name}: no origin is at fault: {text}");
    }
}

#[test]
fn a_credentials_file_that_is_a_folder_or_a_dangling_link_is_reported() {
    let site = Site::new();
    site.extras("extraImages: [{name: \"registry.test/team/app:v1\"}]");
    let file = site.path("home/.docker/config.json");
    std::fs::create_dir_all(&file).unwrap();
    assert_contains(&site.refused(ExitCode::Config, &[]), &[file.to_str().unwrap(), "is a folder"]);
    std::fs::remove_dir(&file).unwrap();
    std::os::unix::fs::symlink("config.json", &file).unwrap();
    assert_contains(
        &site.refused(ExitCode::Config, &[]),
        &[file.to_str().unwrap(), "cannot be read", "symbolic links"],
    );
    let mut program = site.program();
    program.args(["build", "-f", "cluster.yaml", "-o", "out.tar.zst"]).env("REGISTRY_AUTH_FILE", "mine/auth.json");
    let ended = end(&mut program).must(ExitCode::Config);
    assert_contains(&ended.err, &["mine/auth.json", "is not there", "REGISTRY_AUTH_FILE"]);
}
