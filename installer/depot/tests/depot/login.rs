//! A depot that demands a login.

use kubexm_spec::depot::DepotConfig;

use crate::site::{DEB, Fixture, start, start_of};

/// Hashes by libxcrypt (crypt(5)): of `hunter2`, and of `another`.
const FIRST: &str = "user:$2b$08$abcdefghijklmnopqrstuubrRm36/PDk26QhAv8UvDI2bBcBcJSqe\n";
const SECOND: &str = "user:$2b$08$ABCDEFGHIJKLMNOPQRSTUuOEveqazBcSygvp3Sz.p8qj9tB1wmAfm\n";

async fn demanding() -> Fixture {
    limited(u32::MAX).await
}

/// One that looks at so many wrong logins of one address in a minute.
async fn limited(most: u32) -> Fixture {
    start_of(
        |config, folder| {
            let path = folder.join("htpasswd");
            std::fs::write(&path, FIRST).unwrap();
            config.login = Some(path.display().to_string());
        },
        move |running| running.wrong_logins(most),
    )
    .await
}

#[tokio::test]
async fn who_is_wrong_too_often_is_not_looked_at_and_who_was_right_is_served() {
    let depot = limited(3).await;
    assert_eq!(status(&depot, "/v2/", Some(("user", "hunter2"))).await, 200);
    for guess in ["a", "b", "c"] {
        assert_eq!(status(&depot, "/v2/", Some(("user", guess))).await, 401);
    }
    assert_eq!(status(&depot, "/v2/", Some(("user", "d"))).await, 429);
    // Of this address, too: a node behind the same router as somebody who guesses.
    assert_eq!(status(&depot, "/v2/", Some(("user", "hunter2"))).await, 200);
    assert_eq!(status(&depot, "/v2/", None).await, 401, "what is said to everybody");
    // A right one that nobody has used yet has to wait as well: otherwise it could be guessed.
    let depot = limited(1).await;
    assert_eq!(status(&depot, "/v2/", Some(("user", "a"))).await, 401);
    assert_eq!(status(&depot, "/v2/", Some(("user", "hunter2"))).await, 429);
    let body: serde_json::Value = serde_json::from_str(&refusal(&depot).await).unwrap();
    assert_eq!(body["errors"][0]["code"], "TOOMANYREQUESTS");
    assert!(body["errors"][0]["message"].as_str().unwrap().contains("spec.registry.auths"), "{body}");
}

/// Everything that a depot answers, and something that it has not.
fn paths(depot: &Fixture) -> Vec<String> {
    let hex = depot.layer.hex();
    let paths = [
        "/v2/",
        "/v2/registry.k8s.io/pause/manifests/3.10.1",
        "/v2/registry.k8s.io/pause/tags/list",
        &format!("/v2/registry.k8s.io/pause/blobs/sha256:{hex}"),
        &format!("/blobs/sha256/{hex}"),
        "/files/kubeadm",
        "/packages/",
        "/packages/debian-12-amd64/InRelease",
        &format!("/packages/debian-12-amd64/{}", DEB.replace('%', "%25")),
    ];
    paths.map(str::to_owned).to_vec()
}

async fn status(depot: &Fixture, path: &str, login: Option<(&str, &str)>) -> u16 {
    // An open connection has the login with which it began.
    let request = depot.client.get(format!("{}{path}", depot.base)).header("connection", "close");
    let request = match login {
        Some((user, password)) => request.basic_auth(user, Some(password)),
        None => request,
    };
    request.send().await.unwrap().status().as_u16()
}

/// The answer to a login that is not looked at.
async fn refusal(depot: &Fixture) -> String {
    let request = depot.client.get(format!("{}/v2/", depot.base)).header("connection", "close");
    request.basic_auth("user", Some("a guess")).send().await.unwrap().text().await.unwrap()
}

#[tokio::test]
async fn nothing_is_answered_without_the_login_and_everything_with_it() {
    let depot = demanding().await;
    for path in paths(&depot) {
        assert_eq!(status(&depot, &path, Some(("user", "hunter2"))).await, 200, "{path}");
        let wrong = [("user", "hunter3"), ("user", ""), ("other", "hunter2"), ("", "hunter2"), ("user", "hunter2 ")];
        for login in wrong.map(Some).into_iter().chain([None]) {
            assert_eq!(status(&depot, &path, login).await, 401, "{path} {login:?}");
        }
    }
    // Who may not ask does not learn what is there.
    for path in ["/v2/absent/manifests/1", "/files/absent", "/absent"] {
        assert_eq!(status(&depot, path, None).await, 401, "{path}");
        assert_eq!(status(&depot, path, Some(("user", "hunter2"))).await, 404, "{path}");
    }
    // A method that is refused is one more thing that it says to nobody.
    let delete = depot.client.delete(format!("{}/v2/registry.k8s.io/pause/manifests/3.10.1", depot.base));
    assert_eq!(delete.send().await.unwrap().status(), 401);
}

#[tokio::test]
async fn a_refusal_says_what_to_do_as_registries_say_it() {
    let depot = demanding().await;
    let answer = depot.client.get(format!("{}/v2/", depot.base)).send().await.unwrap();
    assert_eq!(answer.headers()["www-authenticate"], "Basic realm=\"KubeXM depot\", charset=\"UTF-8\"");
    let text = answer.text().await.unwrap();
    let body: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(body["errors"][0]["code"], "UNAUTHORIZED");
    assert!(text.contains("spec.registry.auths") && !text.contains("hunter"), "{text}");
    let header =
        |value: &str| depot.client.get(format!("{}/v2/", depot.base)).header("authorization", value.to_owned());
    for odd in
        ["Basic", "Basic ###", "Bearer dXNlcjpodW50ZXIy", "Basic dXNlcg==", &format!("Basic {}", "A".repeat(8000))]
    {
        assert_eq!(header(odd).send().await.unwrap().status(), 401, "{odd}");
    }
    assert_eq!(header("basic dXNlcjpodW50ZXIy").send().await.unwrap().status(), 200);
}

/// Twenty nodes pull at once, while somebody guesses.
#[tokio::test(flavor = "multi_thread")]
async fn guesses_do_not_keep_out_who_has_the_login() {
    let depot = demanding().await;
    assert_eq!(status(&depot, "/v2/", Some(("user", "hunter2"))).await, 200);
    let url = format!("{}/v2/", depot.base);
    let guesses = (0..16).map(|guess| {
        let (client, url) = (depot.client.clone(), url.clone());
        let send = async move { client.get(url).basic_auth("user", Some(guess.to_string())).send().await };
        tokio::spawn(async move { send.await.unwrap().status().as_u16() })
    });
    let guesses: Vec<_> = guesses.collect();
    for _ in 0..200 {
        assert_eq!(status(&depot, "/v2/", Some(("user", "hunter2"))).await, 200);
    }
    for guess in guesses {
        assert_eq!(guess.await.unwrap(), 401);
    }
}

async fn reload(depot: &Fixture) {
    depot.reload.send(()).await.unwrap();
    // The second is taken from the queue when the first is done.
    depot.reload.send(()).await.unwrap();
    depot.reload.send(()).await.unwrap();
}

#[tokio::test]
async fn another_password_is_demanded_after_a_reload_and_a_broken_file_changes_nothing() {
    let depot = demanding().await;
    let file = depot.folder.path().join("htpasswd");
    assert_eq!(status(&depot, "/v2/", Some(("user", "hunter2"))).await, 200);
    std::fs::write(&file, SECOND).unwrap();
    reload(&depot).await;
    assert_eq!(status(&depot, "/v2/", Some(("user", "hunter2"))).await, 401);
    assert_eq!(status(&depot, "/v2/", Some(("user", "another"))).await, 200);
    std::fs::write(&file, "user:another\n").unwrap();
    reload(&depot).await;
    assert_eq!(status(&depot, "/v2/", None).await, 401, "it does not become a depot for everybody");
    assert_eq!(status(&depot, "/v2/", Some(("user", "another"))).await, 200);
}

#[tokio::test]
async fn a_depot_whose_login_cannot_be_read_serves_nobody() {
    let depot = start().await;
    let path = depot.folder.path().join("config.json");
    let mut config: DepotConfig = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let login = depot.folder.path().join("htpasswd");
    config.login = Some(login.display().to_string());
    std::fs::write(&path, serde_json::to_vec(&config).unwrap()).unwrap();
    let refused = || async { kubexm_depot::check(&path, None).await.unwrap_err().to_string() };
    assert!(refused().await.contains("htpasswd"), "{}", refused().await);
    std::fs::write(&login, "user:hunter2\n").unwrap();
    let error = refused().await;
    assert!(error.contains("bcrypt") && error.contains("htpasswd") && !error.contains("hunter2"), "{error}");
    // Of a folder of systemd's the name is fixed.
    let credentials = depot.folder.path().join("credentials");
    std::fs::create_dir(&credentials).unwrap();
    for (from, to) in [("crt", "tls.crt"), ("key", "tls.key")] {
        std::fs::copy(depot.folder.path().join(from), credentials.join(to)).unwrap();
    }
    assert!(kubexm_depot::check(&path, Some(&credentials)).await.is_err());
    std::fs::write(credentials.join("htpasswd"), FIRST).unwrap();
    kubexm_depot::check(&path, Some(&credentials)).await.unwrap();
    // A reload checks the config without them.
    kubexm_depot::check_config(&path).await.unwrap();
}
