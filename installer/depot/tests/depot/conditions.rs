//! What a client says it has already is compared with the digest.

use reqwest::Method;

use crate::site::start;

#[tokio::test]
async fn if_none_match_answers_304_or_the_whole_content() {
    let depot = start().await;
    let (tag, other) = (format!("\"{}\"", depot.layer), format!("\"{}\"", depot.index));
    for path in ["/files/kubeadm".to_owned(), format!("/blobs/sha256/{}", depot.layer.hex())] {
        let asked = async |method: Method, name: &str, value: &str| {
            let request = depot.client.request(method, format!("{}{path}", depot.base)).header(name, value);
            let answer = request.send().await.unwrap();
            assert_eq!(answer.headers()["etag"], tag.as_str(), "{path} {name}: {value}");
            (answer.status().as_u16(), answer.bytes().await.unwrap().len())
        };
        for same in [tag.clone(), format!("W/{tag}"), format!("{other}, {tag}"), "*".to_owned()] {
            assert_eq!(asked(Method::GET, "if-none-match", &same).await, (304, 0), "{path} {same}");
            assert_eq!(asked(Method::HEAD, "if-none-match", &same).await, (304, 0), "{path} {same}");
        }
        assert_eq!(asked(Method::GET, "if-none-match", &other).await, (200, 11), "{path}");
        assert_eq!(asked(Method::GET, "if-match", &tag).await, (200, 11), "{path}");
        assert_eq!(asked(Method::GET, "if-match", &other).await, (412, 0), "{path}");
        // Files of the store are older than this, and the time at which they came there says nothing.
        assert_eq!(asked(Method::GET, "if-modified-since", "Fri, 31 Dec 2100 00:00:00 GMT").await, (200, 11), "{path}");
    }
}

/// The end of one file must never be put behind the beginning of another.
#[tokio::test]
async fn if_range_serves_a_range_only_of_the_same_content() {
    let depot = start().await;
    let of = |digest| format!("\"{digest}\"");
    for (condition, status) in [
        (of(depot.layer), 206),
        (of(depot.index), 200),
        (format!("W/{}", of(depot.layer)), 200),
        ("Fri, 31 Dec 2100 00:00:00 GMT".to_owned(), 200),
    ] {
        let request = depot.client.get(format!("{}/files/kubeadm", depot.base)).header("range", "bytes=6-");
        let answer = request.header("if-range", &condition).send().await.unwrap();
        assert_eq!(answer.status(), status, "{condition}");
    }
}
