//! Small files that are asked for only when they changed.

use kubexm_transport::{Answer, TransportError, Validators};

use crate::server::{How, Reply, Server};
use crate::support::{client, plain};

/// A server that knows both conditions; the file's tag is `"two"`.
async fn server() -> Server {
    Server::start(|request| {
        let same = request.header("if-none-match") == Some("\"two\"")
            || request.header("if-modified-since") == Some("Sat, 11 Jul 2026 10:16:37 GMT");
        let reply = if same { Reply::new(304, "") } else { Reply::new(200, "the index") };
        reply.header("etag", "\"two\"").header("last-modified", "Sat, 11 Jul 2026 10:16:37 GMT")
    })
    .await
}

#[tokio::test]
async fn what_did_not_change_is_not_sent_again() {
    let (server, client) = (server().await, client());
    let at = plain(server.url("InRelease"));
    let first = client.get_if_changed(&at, 100, &Validators::default()).await.unwrap();
    let Answer::Fresh { body, validators } = first else { panic!("nothing was known before") };
    assert_eq!(body, b"the index");
    assert_eq!(client.get_if_changed(&at, 100, &validators).await.unwrap(), Answer::Same);
    let by_date = Validators { etag: None, ..validators.clone() };
    assert_eq!(client.get_if_changed(&at, 100, &by_date).await.unwrap(), Answer::Same);
    let older = Validators { etag: Some("\"one\"".into()), last_modified: None };
    assert!(matches!(client.get_if_changed(&at, 100, &older).await.unwrap(), Answer::Fresh { .. }));
    // What could not stand in a header is not sent, and nothing is trusted for it.
    let broken = Validators { etag: Some("a\nb".into()), last_modified: None };
    assert!(matches!(client.get_if_changed(&at, 100, &broken).await.unwrap(), Answer::Fresh { .. }));
}

#[tokio::test]
async fn limits_and_broken_connections_are_as_with_any_small_file() {
    let (server, client) = (server().await, client());
    let at = plain(server.url("InRelease"));
    let error = client.get_if_changed(&at, 5, &Validators::default()).await.unwrap_err();
    assert!(matches!(error, TransportError::NotTheFile { .. }), "{error}");
    let flaky = Server::start(|request| match request.number {
        0 => Reply::new(503, ""),
        1 => Reply::new(200, "the index").how(How::Cut(3)),
        _ => Reply::new(200, "the index"),
    })
    .await;
    let fresh = client.get_if_changed(&plain(flaky.url("x")), 100, &Validators::default()).await.unwrap();
    assert_eq!(fresh, Answer::Fresh { body: b"the index".to_vec(), validators: Validators::default() });
    let gone = Server::start(|_| Reply::new(404, "")).await;
    let error = client.get_if_changed(&plain(gone.url("x")), 100, &Validators::default()).await.unwrap_err();
    assert!(matches!(error, TransportError::Missing { .. }), "{error}");
}
