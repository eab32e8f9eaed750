//! What is refused, each by its name, with what to do and its exit code, before anything was pushed.

use kubexm_spec::{Digest, Platform};

use crate::bundles::{Maker, noise};
use crate::proxy::{Fault, Proxy, Seen, error};
use crate::registry::{PASSWORD, Registry, Setup};
use crate::site::{fails, login, options, options_for, run, said};

const ONE: [Platform; 1] = [Platform::LINUX_AMD64];

fn bundle(folder: &std::path::Path) -> kubexm_archive::Bundle {
    let mut maker = Maker::new(&ONE);
    maker.image("quay.io/team/app:1", &[noise(1, 200_000)], 0);
    maker.bundle(folder)
}

/// Fails with this text and code, and nothing of a blob or manifest reached the registry.
async fn refused(choose: impl Fn(&Seen, usize) -> Fault + Send + Sync + 'static, code: u8, said: &[&str]) {
    let registry = Registry::start(Setup::default());
    let proxy = Proxy::before(&registry.address, choose).await;
    let folder = tempfile::tempdir().unwrap();
    let (text, found) = fails(&bundle(folder.path()), &options(folder.path(), &proxy.address)).await;
    assert_eq!(found, code, "{text}");
    for said in said {
        assert!(text.contains(said), "{said:?} is not in {text}");
    }
    assert_eq!(proxy.uploaded(), 0, "{text}");
    assert_eq!(proxy.count("PUT", ""), 0, "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_credentials() {
    let setup = Setup { password: true, tls: true, ..Setup::default() };
    let registry = Registry::start(setup);
    let folder = tempfile::tempdir().unwrap();
    let mut options = options_for(folder.path(), &registry, setup);
    options.connection.credentials = login(&registry.address, "sesame shut");
    let (text, code) = fails(&bundle(folder.path()), &options).await;
    assert_eq!(code, 43, "{text}");
    assert!(text.contains("docker login") && text.contains("--password-from"), "{text}");
    assert!(!text.contains("sesame"), "{text}");
    assert!(!registry.blobs().exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_right_to_push() {
    let choose = |seen: &Seen, _: usize| match seen.method.as_str() {
        "POST" => error(403, "DENIED", "requested access to the resource is denied"),
        _ => Fault::None,
    };
    refused(choose, 43, &["may not push", "requested access to the resource is denied", "\"mirror\""]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_that_is_missing_and_that_nobody_makes() {
    let choose = |seen: &Seen, _: usize| match seen.method.as_str() {
        "POST" => error(404, "NOT_FOUND", "project mirror not found"),
        _ => Fault::None,
    };
    refused(choose, 42, &["no project \"mirror\"", "project mirror not found"]).await;
}

/// Harbor 2.10.2: 401 to a login that is right, without words to HEAD.
#[tokio::test(flavor = "multi_thread")]
async fn a_project_that_harbor_does_not_have() {
    let choose = |seen: &Seen, _: usize| match seen.target.contains("/mirror/") {
        true => error(401, "UNAUTHORIZED", "project mirror not found: project mirror not found"),
        false => Fault::None,
    };
    refused(choose, 42, &["no project \"mirror\"", "project mirror not found"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_right_to_push_to_a_project_of_harbor() {
    let choose = |seen: &Seen, _: usize| match seen.method.as_str() {
        "POST" => {
            error(401, "UNAUTHORIZED", "unauthorized to access repository: mirror/quay.io/team/app, action: push")
        }
        _ => Fault::None,
    };
    refused(choose, 43, &["may not push", "action: push", "\"mirror\""]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_answers_html() {
    let page = |_: &Seen, _: usize| {
        Fault::Answer(
            200,
            vec![("content-type", "text/html; charset=utf-8".to_owned())],
            "<html>Sign in</html>".to_owned(),
        )
    };
    refused(page, 41, &["answers with pages"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_is_read_only() {
    let setup = Setup { read_only: true, ..Setup::default() };
    let registry = Registry::start(setup);
    let folder = tempfile::tempdir().unwrap();
    let (text, code) = fails(&bundle(folder.path()), &options(folder.path(), &registry.address)).await;
    assert_eq!(code, 40, "{text}");
    assert!(text.contains("read-only"), "{text}");
    let harbors_words = |seen: &Seen, _: usize| match seen.method.as_str() {
        "POST" => error(403, "DENIED", "The system is in read only mode. Any modification is prohibited."),
        _ => Fault::None,
    };
    refused(harbors_words, 40, &["takes no pushes now"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ca_that_is_not_trusted_and_http_that_was_not_allowed() {
    let setup = Setup { tls: true, ..Setup::default() };
    let registry = Registry::start(setup);
    let folder = tempfile::tempdir().unwrap();
    let bundle = bundle(folder.path());
    let mut options = options_for(folder.path(), &registry, setup);
    options.connection.ca_file = None;
    let (text, code) = fails(&bundle, &options).await;
    assert_eq!(code, 40, "{text}");
    assert!(text.contains("--ca-file"), "{text}");
    let plain = Registry::start(Setup::default());
    let mut options = options_for(folder.path(), &plain, setup);
    options.connection.ca_file = None;
    let (text, code) = fails(&bundle, &options).await;
    assert_eq!(code, 40, "{text}");
    assert!(text.contains("--plain-http"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_that_names_something_else_unless_it_is_to_be_moved() {
    let registry = Registry::start(Setup::default());
    let proxy = Proxy::before(&registry.address, |_, _| Fault::None).await;
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path(), &proxy.address);
    run(&bundle(folder.path()), &options).await.unwrap();
    let mut other = Maker::new(&ONE);
    other.image("quay.io/team/app:1", &[noise(2, 200_000)], 0);
    other.image("quay.io/team/new:1", &[noise(3, 200_000)], 0);
    let other = other.bundle(folder.path());
    proxy.forget();
    let (text, code) = fails(&other, &options).await;
    assert_eq!(code, 47, "{text}");
    assert!(text.contains("/mirror/quay.io/team/app:1 is sha256:") && text.contains("--overwrite-tags"), "{text}");
    assert_eq!((proxy.uploaded(), proxy.count("POST", "")), (0, 0), "found before the first upload");
    options.overwrite_tags = true;
    let seeded = run(&other, &options).await.unwrap();
    assert_eq!(seeded.count(kubexm_seed::State::Moved), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_that_is_immutable_is_named_with_what_was_pushed() {
    let registry = Registry::start(Setup::default());
    let choose = |seen: &Seen, _: usize| match seen.target.ends_with("/manifests/1") && seen.method == "PUT" {
        true => error(412, "PRECONDITION", "Failed to process request due to 'app:1' configured as immutable."),
        false => Fault::None,
    };
    let proxy = Proxy::before(&registry.address, choose).await;
    let folder = tempfile::tempdir().unwrap();
    let (text, code) = fails(&bundle(folder.path()), &options(folder.path(), &proxy.address)).await;
    assert_eq!(code, 47, "{text}");
    assert!(text.contains("immutable") && text.contains("not everything was pushed: 2 blobs"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_is_refused_for_its_absent_children() {
    let registry = Registry::start(Setup::default());
    let folder = tempfile::tempdir().unwrap();
    let mut maker = Maker::new(&ONE);
    maker.image("quay.io/team/app:1", &[noise(1, 5000)], 2);
    let bundle = maker.bundle(folder.path());
    let mut options = options(folder.path(), &registry.address);
    options.choice.sparse_indexes = true;
    let (text, code) = fails(&bundle, &options).await;
    assert_eq!(code, 40, "{text}");
    assert!(text.contains("leave --sparse-indexes out"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_or_a_disk_without_room() {
    let harbor = "adding 200.0 KiB of storage resource, which when updated to current usage of 9.9 GiB will exceed the configured upper limit of 10.0 GiB.";
    for (status, said) in
        [(403, harbor), (507, "Insufficient Storage"), (500, "write /var/lib/registry: no space left on device")]
    {
        let registry = Registry::start(Setup::default());
        let choose = move |seen: &Seen, _: usize| match seen.method.as_str() {
            "PUT" if seen.target.contains("/blobs/uploads/") => error(status, "DENIED", said),
            _ => Fault::None,
        };
        let proxy = Proxy::before(&registry.address, choose).await;
        let folder = tempfile::tempdir().unwrap();
        let (text, code) = fails(&bundle(folder.path()), &options(folder.path(), &proxy.address)).await;
        assert_eq!(code, 48, "{text}");
        assert!(text.contains(said) && text.contains("quota raised"), "{text}");
    }
}

/// A Harbor whose project has this much room, in front of a registry that knows no users; and what a seed of `bundle` to it ends with.
async fn with_quota(
    bundle: &kubexm_archive::Bundle,
    quota: &'static str,
) -> (Proxy, Result<kubexm_seed::SeedReport, (String, u8)>) {
    let registry = Registry::start(Setup::default());
    let choose = move |seen: &Seen, _: usize| {
        let json = |status, text: &str| {
            Fault::Answer(status, vec![("content-type", "application/json".to_owned())], text.to_owned())
        };
        match (seen.target.as_str(), seen.headers.get("authorization")) {
            ("/v2/", None) => {
                let host = seen.headers.get("host").cloned().unwrap_or_default();
                let challenge = format!("Bearer realm=\"http://{host}/service/token\",service=\"harbor-registry\"");
                Fault::Answer(401, vec![("www-authenticate", challenge)], String::new())
            }
            (target, Some(_)) if target.starts_with("/service/token") => json(200, r#"{"token": "t"}"#),
            ("/api/v2.0/projects/mirror/summary", Some(login)) if login.starts_with("Basic ") => match quota {
                "" => error(403, "FORBIDDEN", "forbidden"),
                quota => json(200, quota),
            },
            _ => Fault::None,
        }
    };
    let proxy = Proxy::before(&registry.address, choose).await;
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path(), &proxy.address);
    options.connection.credentials = login(&proxy.address, PASSWORD);
    let ended = run(bundle, &options).await;
    (proxy, ended.map_err(|error| said(&error)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_would_be_exceeded_before_the_first_upload() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = bundle(folder.path());
    let small = r#"{"quota": {"hard": {"storage": 1000000}, "used": {"storage": 900000}}}"#;
    let (proxy, ended) = with_quota(&bundle, small).await;
    let (text, code) = ended.unwrap_err();
    assert_eq!(code, 48, "{text}");
    assert!(text.contains("the project \"mirror\"") && text.contains("nothing was sent"), "{text}");
    assert_eq!((proxy.count("POST", ""), proxy.count("PUT", "")), (0, 0), "nothing is opened");
    for enough in [
        r#"{"quota": {"hard": {"storage": 1000000}, "used": {"storage": 700000}}}"#,
        r#"{"quota": {"hard": {"storage": -1}, "used": {"storage": 900000}}}"#,
        r#"{"repo_count": 3}"#,
        "", // these credentials may not see it
    ] {
        let (proxy, ended) = with_quota(&bundle, enough).await;
        ended.unwrap_or_else(|(text, _)| panic!("{enough}: {text}"));
        assert_eq!(proxy.count("GET", "/api/v2.0/"), 1, "{enough}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_collide_after_the_map() {
    let folder = tempfile::tempdir().unwrap();
    let mut maker = Maker::new(&ONE);
    maker.image("quay.io/team/app:1", &[noise(1, 100)], 0);
    maker.image("ghcr.io/team/app:1", &[noise(2, 100)], 0);
    let bundle = maker.bundle(folder.path());
    // Nobody listens there: it is refused before the registry is asked.
    let mut options = options(folder.path(), "127.0.0.1:1");
    options.naming.namespace_override = Some("all".to_owned());
    let (text, code) = fails(&bundle, &options).await;
    assert_eq!(code, 20, "{text}");
    assert!(text.contains("quay.io/team/app:1") && text.contains("ghcr.io/team/app:1"), "{text}");
    assert!(text.contains("--namespace-override"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_would_have_one_tag() {
    let folder = tempfile::tempdir().unwrap();
    let mut maker = Maker::new(&ONE);
    maker.file("Read Me.txt", b"one");
    maker.file("Read_Me.txt", b"another");
    let bundle = maker.bundle(folder.path());
    let (text, code) = fails(&bundle, &options(folder.path(), "127.0.0.1:1")).await;
    assert_eq!(code, 20, "{text}");
    assert!(text.contains("Read Me.txt") && text.contains("Read_Me.txt") && text.contains("another name"), "{text}");
    assert!(!text.contains("--namespace-override"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_without_the_right_to_push() {
    let registry = Registry::start(Setup::default());
    let choose = |seen: &Seen, _: usize| match seen.method.as_str() {
        "POST" => error(403, "DENIED", "requested access to the resource is denied"),
        _ => Fault::None,
    };
    let proxy = Proxy::before(&registry.address, choose).await;
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path(), &proxy.address);
    options.dry_run = true;
    let seeded = run(&bundle(folder.path()), &options).await.unwrap();
    assert_eq!(seeded.count(kubexm_seed::State::Missing), 1, "what is missing is said all the same");
    let refused = seeded.refused.unwrap();
    assert_eq!(refused.code.code(), 43);
    assert!(refused.text.contains("may not push"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_right_in_a_project_whose_name_says_something_else() {
    let choose = |seen: &Seen, _: usize| match seen.method.as_str() {
        "POST" => error(403, "DENIED", "unauthorized to access repository: immutable/quay.io/team/app, action: push"),
        _ => Fault::None,
    };
    refused(choose, 43, &["may not push"]).await;
}

/// The words of an address are not those of an answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_login_to_a_project_whose_name_says_something_else() {
    let setup = Setup { password: true, tls: true, ..Setup::default() };
    let registry = Registry::start(setup);
    for project in ["immutable", "read-only", "manifest_blob_unknown"] {
        let folder = tempfile::tempdir().unwrap();
        let mut options = options_for(folder.path(), &registry, setup);
        options.naming.target = format!("{}/{project}", registry.address).parse().unwrap();
        options.connection.credentials = login(&registry.address, "sesame shut");
        let (text, code) = fails(&bundle(folder.path()), &options).await;
        assert_eq!(code, 43, "{text}");
        assert!(text.contains("docker login"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_for_another_name() {
    let setup = Setup { tls: true, ..Setup::default() };
    let registry = Registry::start(setup);
    let folder = tempfile::tempdir().unwrap();
    let mut options = options_for(folder.path(), &registry, setup);
    let port = registry.address.rsplit(':').next().unwrap();
    options.naming.target = format!("localhost:{port}/mirror").parse().unwrap();
    let (text, _) = fails(&bundle(folder.path()), &options).await;
    assert!(text.contains("is for other names than localhost") && !text.contains("--ca-file"), "{text}");
}

/// Nobody judges what is attached: under another tag it would be an image, and outside of its repository anybody's.
#[tokio::test(flavor = "multi_thread")]
async fn a_tag_of_something_attached_that_is_not_cosigns() {
    let other = format!("sha256-{}.sig", Digest::of("another image").hex());
    for tag in ["2", "../../../other/app/manifests/2", &other] {
        let folder = tempfile::tempdir().unwrap();
        let mut maker = Maker::new(&ONE);
        let app = maker.image("quay.io/team/app:1", &[noise(1, 100)], 0);
        let attached = maker.attach("quay.io/team/app:1", &app.target, true);
        maker.tag_attached(tag);
        // Nobody listens there: it is refused before the registry is asked.
        let (text, code) = fails(&maker.bundle(folder.path()), &options(folder.path(), "127.0.0.1:1")).await;
        assert_eq!(code, 30, "{text}");
        for part in ["quay.io/team/app:1", &attached.to_string(), &app.target.digest.to_string()] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_platform_and_a_kind_that_the_bundle_does_not_have() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = bundle(folder.path());
    let mut options = options(folder.path(), "127.0.0.1:1");
    options.choice.platforms = vec![Platform::LINUX_ARM64];
    let (text, code) = fails(&bundle, &options).await;
    assert_eq!(code, 33, "{text}");
    assert!(text.contains("linux/arm64") && text.contains("linux/amd64"), "{text}");
    options.choice.platforms.clear();
    options.kinds = kubexm_seed::Kinds { images: false, charts: true, files: false };
    let (text, code) = fails(&bundle, &options).await;
    assert_eq!(code, 33, "{text}");
    assert!(text.contains("charts"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_error_shows_a_password() {
    let registry = Registry::start(Setup { password: true, ..Setup::default() });
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path(), &registry.address);
    options.connection.credentials = login("other.test", PASSWORD);
    let (text, code) = fails(&bundle(folder.path()), &options).await;
    assert_eq!(code, 43, "the login of another registry is not shown to this one: {text}");
    assert!(!format!("{text} {options:?}").contains(PASSWORD), "{text}");
}
