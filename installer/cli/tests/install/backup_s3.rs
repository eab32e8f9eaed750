//! Backups in S3 as they are typed: which settings are taken, and what is said of a server. No host is there.

use assert_cmd::Command;
use kubexm_s3::fake::{ACCESS_KEY, Fault, REGION, S3Server, SECRET_KEY, What};
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;

use crate::site::{Site, closed_port, cluster_yaml};

const VARIABLES: [&str; 11] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL",
    "AWS_CA_BUNDLE",
    "HTTPS_PROXY",
];

/// Without anything of AWS in the environment.
fn install(site: &Site, args: &[&str]) -> Command {
    let mut command = site.install(args);
    for name in VARIABLES {
        command.env_remove(name);
    }
    command.env("no_proxy", "*");
    command
}

fn verify(site: &Site, server: &S3Server, more: &[&str]) -> Command {
    let endpoint = server.endpoint();
    let args = ["backup", "verify", "s3://backups/lab/x", "--s3-endpoint", &endpoint, "--s3-plain-http"];
    let mut command = install(site, &[&args[..], more].concat());
    command.env("AWS_REGION", REGION);
    command
}

#[test]
fn keys_come_from_the_environment_a_file_or_the_usual_file_and_never_show() {
    let (site, server) = (Site::new(), S3Server::start());
    verify(&site, &server, &[])
        .assert()
        .code(20)
        .stderr(contains("AWS_ACCESS_KEY_ID").and(contains("--s3-credentials")));
    let none = || contains("s3://backups/lab/x is no backup").and(contains(SECRET_KEY).not());
    let environment = |secret: &str| {
        let mut command = verify(&site, &server, &[]);
        command.env("AWS_ACCESS_KEY_ID", ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", secret);
        command
    };
    environment(SECRET_KEY).assert().code(57).stderr(none());
    environment("hunter2").assert().code(43).stderr(contains("another signature").and(contains("hunter2").not()));
    environment("").assert().code(20).stderr(contains("one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"));
    let text = format!("[site]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n");
    let file = site.path("keys");
    std::fs::write(&file, &text).unwrap();
    let file = file.to_str().unwrap();
    verify(&site, &server, &["--s3-credentials", file]).assert().code(20).stderr(contains("no profile [default]"));
    let named = ["--s3-credentials", file, "--s3-profile", "site"];
    verify(&site, &server, &named).assert().code(57).stderr(none());
    std::fs::create_dir(site.path(".aws")).unwrap();
    std::fs::write(site.path(".aws/credentials"), &text).unwrap();
    verify(&site, &server, &[]).env("AWS_PROFILE", "site").assert().code(57).stderr(none());
    assert!(server.state().asked.iter().all(|line| line.starts_with("GET /backups/lab/x/backup.json")));
    // Nothing stays of what was fetched.
    let staged = std::fs::read_dir(site.path("home/staging")).unwrap();
    assert_eq!(staged.filter(|entry| entry.as_ref().unwrap().file_name() != ".lock").count(), 0);
}

#[test]
fn a_place_that_is_none_is_refused_without_what_stands_in_it() {
    let site = Site::new();
    for (place, says) in [
        ("gs://backups/x", "name a folder, or s3://BUCKET/PREFIX"),
        ("s3://key:hunter2@backups/x", "no place in the address"),
        ("s3://backups/x", "--s3-endpoint"),
    ] {
        let refused = install(&site, &["backup", "verify", place]).assert().code(2);
        refused.stderr(contains(says).and(contains("hunter2").not()));
    }
    let plain = ["backup", "verify", "s3://backups/x", "--s3-endpoint", "http://127.0.0.1:1"];
    install(&site, &plain).assert().code(20).stderr(contains("--s3-plain-http"));
    let secret = ["backup", "verify", "s3://backups/x", "--s3-endpoint", "https://key:hunter2@127.0.0.1"];
    install(&site, &secret).assert().code(20).stderr(contains("more than a host").and(contains("hunter2").not()));
}

#[test]
fn a_server_that_refuses_is_found_out_before_a_host_is_asked() {
    let (site, server) = (Site::new(), S3Server::start());
    let yaml = site.path("cluster.yaml");
    std::fs::write(&yaml, cluster_yaml(&[("node1", closed_port())])).unwrap();
    let endpoint = server.endpoint();
    let to = |place: &str, region: &str| {
        let args =
            ["backup", "--to", place, "-f", yaml.to_str().unwrap(), "--s3-endpoint", &endpoint, "--s3-plain-http"];
        let mut command = install(&site, &args);
        command.env("AWS_ACCESS_KEY_ID", ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", SECRET_KEY).env("AWS_REGION", region);
        command
    };
    to("s3://other/x", REGION).assert().code(42).stderr(contains("has no bucket other"));
    to("s3://backups/x", "eu-west-1").assert().code(20).stderr(contains(format!("--s3-region {REGION}")));
    server.state().ahead = 86_400;
    let clock = "refuses requests of another time: the clock of this machine is 1440 minutes behind it; set the clock";
    to("s3://backups/x", REGION).assert().code(43).stderr(contains(clock));
    server.state().ahead = 0;
    // With one that is right, the host is the next thing that is wrong.
    let output = to("s3://backups/x", REGION).output().unwrap();
    assert!([50, 51, 53].contains(&output.status.code().unwrap()), "{output:?}");
    assert!(server.state().objects.is_empty());
}

#[test]
fn an_answer_of_403_names_the_permission_that_is_missing_before_a_host_is_asked() {
    let (site, server) = (Site::new(), S3Server::start());
    for method in ["GET", "PUT", "POST", "HEAD"] {
        server.fail(Fault::of(method, "", What::Refused(403, "AccessDenied", "no".to_owned())));
    }
    let yaml = site.path("cluster.yaml");
    std::fs::write(&yaml, cluster_yaml(&[("node1", closed_port())])).unwrap();
    let (endpoint, yaml) = (server.endpoint(), yaml.to_str().unwrap());
    for (command, permission) in [
        (vec!["backup", "--to", "s3://backups/x", "-f", yaml], "s3:ListBucket"),
        (vec!["restore", "s3://backups/x", "-f", yaml, "-y"], "s3:GetObject"),
        (vec!["backup", "verify", "s3://backups/x"], "s3:GetObject"),
    ] {
        let mut command = install(&site, &[&command[..], &["--s3-endpoint", &endpoint, "--s3-plain-http"]].concat());
        command.env("AWS_ACCESS_KEY_ID", ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", SECRET_KEY).env("AWS_REGION", REGION);
        let said = format!("refused (AccessDenied); the access key needs the permission {permission} for ");
        command.assert().code(43).stderr(contains(said).and(contains(SECRET_KEY).not()));
    }
}
