//! `catalogue refresh` where origins fail: limits of requests, pages in place of lists, refusals in the middle.

use super::*;

#[test]
fn a_rate_limit_is_waited_for_if_it_says_how_long_and_reported_otherwise() {
    let asked = AtomicUsize::new(0);
    let patient = Server::start(move |request| {
        if request.path.starts_with("api.github.com/") && asked.fetch_add(1, Ordering::Relaxed) == 0 {
            return Reply::new(429, "slow down").header("retry-after", "1");
        }
        containerd(request).unwrap_or_else(|| Reply::new(404, ""))
    });
    let args = ["catalogue", "refresh", "--zone", "zone.yaml", "--component", "containerd", "-o", "newer.yaml"];
    site(&patient).run(&args).must(ExitCode::Ok);
    let asked = AtomicUsize::new(0);
    let soon = Server::start(move |request| {
        if request.path.starts_with("api.github.com/") && asked.fetch_add(1, Ordering::Relaxed) == 0 {
            return over_the_limit(1);
        }
        containerd(request).unwrap_or_else(|| Reply::new(404, ""))
    });
    site(&soon).run(&args).must(ExitCode::Ok);
    let limited = Server::start(|_| over_the_limit(1800));
    let site = site(&limited);
    let ended = site.run(&args).must(ExitCode::OriginDown);
    assert_contains(
        &ended.err,
        &[
            "accepts no more requests for now: its limit of requests is reached (403",
            " GMT on, in 3",
            "Not asked about: containerd",
            "set GITHUB_TOKEN, or give --github-token-file",
        ],
    );
    assert!(!ended.err.contains("log in") && !ended.out.contains("nothing newer"), "{}{}", ended.out, ended.err);
    assert!(!site.path("newer.yaml").exists());
    assert_eq!(limited.requests().len(), 1);
}

/// As GitHub's REST API says it: no `Retry-After`, and 403.
fn over_the_limit(seconds: u64) -> Reply {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    Reply::new(403, "{\"message\": \"API rate limit exceeded\"}")
        .header("x-ratelimit-remaining", "0")
        .header("x-ratelimit-reset", (now + seconds).to_string())
        .header("content-type", "application/json")
}

#[test]
fn an_html_page_instead_of_a_list_or_a_version_is_not_a_newer_release() {
    let portal = "<!DOCTYPE html><html><body>Please sign in</body></html>";
    let server = Server::start(move |_| Reply::new(200, portal).header("content-type", "text/html"));
    let site = site(&server);
    for component in ["containerd", "kubelet", "cilium"] {
        let args = ["catalogue", "refresh", "--zone", "zone.yaml", "--component", component, "-o", "newer.yaml"];
        let ended = site.run(&args).must(ExitCode::OriginMismatch);
        assert_contains(&ended.err, &["answers with", "is a proxy or a login page in between?"]);
    }
    assert!(!site.path("newer.yaml").exists());
}

#[test]
fn an_origin_that_refuses_or_answers_with_a_page_ends_the_refresh() {
    let args = ["catalogue", "refresh", "--zone", "zone.yaml", "--component", "containerd", "-o", "newer.yaml"];
    let run = |sums: fn() -> Reply| {
        let server = Server::start(move |request| match request.path.ends_with(".sha256sum") {
            true => sums(),
            false => containerd(request).unwrap_or_else(|| Reply::new(404, "")),
        });
        let site = site(&server);
        let ended = site.run(&args);
        assert!(!site.path("newer.yaml").exists(), "{}", ended.out);
        ended
    };
    let denied = run(|| Reply::new(403, "no")).must(ExitCode::OriginDenied);
    assert_contains(&denied.err, &["refuses access"]);
    let portal = run(|| Reply::new(200, "<!DOCTYPE html><html><body>Please sign in</body></html>"));
    assert_contains(
        &portal.must(ExitCode::OriginMissing).err,
        &["holds no sha256 of containerd-static-2.2.8-linux-amd64.tar.gz"],
    );
    // what every origin says that it has not is withdrawn, and no failure
    assert_eq!(run(|| Reply::new(404, "Not Found")).code, 0);
}

#[test]
fn a_chart_repository_that_answers_with_a_page_is_passed_over_for_the_next() {
    let index = "apiVersion: v1\nentries:\n  cilium:\n  - {version: 1.20.1}\n";
    let server = Server::start(move |request| match request.path.as_str() {
        "good/index.yaml" => Reply::new(200, index),
        _ => Reply::new(200, "<!DOCTYPE html><html><body>Please sign in</body></html>"),
    });
    let site = Site::new();
    let at = server.address();
    let rule = format!("{{match: helm.cilium.io, to: [\"http://{at}/portal\", \"http://{at}/good\"], only: true}}");
    site.write("zone.yaml", format!("name: lab\nrules:\n- {rule}\n"));
    let ended = site.run(&["catalogue", "refresh", "--zone", "zone.yaml", "--component", "cilium"]).must(ExitCode::Ok);
    assert_contains(&ended.out, &["newer chart: cilium 1.20.1 ("]);
}

/// Of containerd one list of sums does not name the file and one is refused; so is Kubernetes.
fn partly(request: &Request) -> Reply {
    let path = request.path.split('?').next().unwrap_or_default();
    if path.starts_with("dl.k8s.io/") {
        return Reply::new(403, "no");
    }
    match path {
        "api.github.com/repos/containerd/containerd/releases" => {
            let tags = ["v2.3.7", "v2.3.6", "v2.2.8"];
            page(request, &tags.map(|tag| release(tag, false)))
        }
        _ if path.contains("/v2.3.7/") => Reply::new(200, format!("{SUM}  something-else.tar.gz\n")),
        _ if path.contains("/v2.3.6/") => {
            let name = path.rsplit('/').next().unwrap_or_default().trim_end_matches(".sha256sum");
            Reply::new(200, format!("{SUM}  {name}\n"))
        }
        _ if path.contains("/v2.2.8/") => Reply::new(403, "no"),
        _ => Reply::new(404, ""),
    }
}

#[test]
fn what_was_found_before_a_failure_is_written_and_the_failure_is_still_reported() {
    let server = Server::start(partly);
    let site = site(&server);
    let args = ["catalogue", "refresh", "--zone", "zone.yaml", "-o", "newer.yaml"];
    let args = [&args[..], &["--component", "kubelet", "--component", "containerd"]].concat();
    let ended = site.run(&args).must(ExitCode::OriginDenied);
    assert_contains(
        &ended.out,
        &[
            "newer: containerd 2.3.6",
            "containerd 2.3.7: it is listed, and http",
            "holds no sha256 of containerd-static-2.3.7-linux-amd64.tar.gz: this version is left out",
            "newer.yaml: written",
        ],
    );
    assert_contains(
        &ended.err,
        &["not everything was looked up", "dl.k8s.io/release/stable", "/v2.2.8/", "refuses access"],
    );
    let overlay = std::fs::read_to_string(site.path("newer.yaml")).unwrap();
    assert!(overlay.contains("\"2.3.6\":") && !overlay.contains("2.3.7") && !overlay.contains("2.2.8"), "{overlay}");
    let ended = site.run(&[&args[..], &["--json", "--force"]].concat()).must(ExitCode::OriginDenied);
    let document = ended.document();
    assert!(document["failures"].as_array().unwrap().len() >= 2, "{document}");
    assert!(document["components"]["containerd"]["2.3.6"].is_object(), "{document}");
}

#[test]
fn after_a_limit_of_requests_nothing_more_is_asked_there_and_one_message_names_what_is_missing() {
    let server = Server::start(|request| match request.path.starts_with("api.github.com/") {
        true => over_the_limit(1800),
        false => kubernetes(request),
    });
    let site = site(&server);
    let args = ["catalogue", "refresh", "--zone", "zone.yaml", "-o", "newer.yaml"];
    let names = ["containerd", "crictl", "runc", "etcd", "nerdctl", "cni-plugins", "cri-dockerd", "kubelet"];
    let names: Vec<&str> = names.iter().flat_map(|name| ["--component", name]).collect();
    let ended = site.run(&[&args[..], &names].concat()).must(ExitCode::OriginDown);
    assert_eq!(ended.err.matches("its limit of requests is reached").count(), 1, "{}", ended.err);
    assert_contains(&ended.err, &["Not asked about: cni-plugins, containerd, crictl, etcd, nerdctl, runc"]);
    assert_contains(&ended.out, &["newer: kubelet 1.34.99", "newer.yaml: written"]);
    let asked = server.requests().iter().filter(|request| request.path.starts_with("api.github.com/")).count();
    assert!(asked <= 4, "{asked}");
}

#[test]
fn a_token_is_sent_to_no_mirror_and_is_in_no_output() {
    let server = Server::start(|request| containerd(request).unwrap_or_else(|| Reply::new(404, "")));
    let site = site(&server);
    let args = ["catalogue", "refresh", "--zone", "zone.yaml", "--component", "containerd"];
    let ended = end(site.program().args(args).env("GITHUB_TOKEN", "ghp_secret")).must(ExitCode::Ok);
    assert!(!format!("{}{}", ended.out, ended.err).contains("ghp_secret"));
    site.write("token", "ghp_secret\n");
    let with_file = [&args[..], &["--github-token-file", "token"]].concat();
    site.run(&with_file).must(ExitCode::Ok);
    assert!(server.requests().len() > 1);
    for request in server.requests() {
        assert_eq!(request.header("authorization"), None, "{}", request.path);
    }
    let asked = server.requests().len();
    site.write("token", "two words\n");
    let ended = site.run(&with_file).must(ExitCode::Usage);
    assert_contains(&ended.err, &["token holds no token: it must be one word"]);
    assert!(!ended.err.contains("two words"), "{}", ended.err);
    site.run(&[&args[..], &["--github-token-file", "missing"]].concat()).must(ExitCode::Config);
    assert_eq!(server.requests().len(), asked);
}
