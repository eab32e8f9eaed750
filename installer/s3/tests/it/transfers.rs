//! What goes well.

use kubexm_s3::fake::{BUCKET, Fault, S3Server, Upload, What};
use kubexm_s3::{Moved, PART, S3Client, Unwatched};

use crate::common::{Heard, address, bytes, client, downloaded, file, options};

const TEN_GIB: u64 = 10 << 30;

#[tokio::test]
async fn a_small_object_is_written_read_listed_and_deleted() {
    let server = S3Server::start();
    let client = client(&server);
    let key = address().key("a b+ü/x.json");
    client.put(&key, "hello".into(), &Unwatched).await.unwrap();
    assert_eq!(downloaded(&client, &key, 5, &Unwatched).await.unwrap(), b"hello");
    let listed = client.list(&address().key(""), &Unwatched).await.unwrap();
    assert_eq!(listed.iter().map(|one| (one.key.as_str(), one.size)).collect::<Vec<_>>(), [(key.as_str(), 5)]);
    client.delete(&key, &Unwatched).await.unwrap();
    client.delete(&key, &Unwatched).await.unwrap();
    assert!(server.state().objects.is_empty());
}

#[tokio::test]
async fn a_large_file_goes_in_parts_and_comes_back_as_it_was() {
    let server = S3Server::start();
    let client = client(&server);
    let content = bytes(usize::try_from(2 * PART).unwrap() + 7);
    let heard = Heard::default();
    client.upload("x", (file(&content).path(), content.len() as u64), &heard).await.unwrap();
    assert_eq!((server.asked("partNumber="), server.state().uploads.len()), (3, 0));
    assert!(downloaded(&client, "x", TEN_GIB, &heard).await.unwrap() == content);
    let moved = heard.moved.lock().unwrap();
    let size = content.len() as u64;
    assert_eq!(moved[..3], [(Moved::Up, PART, size), (Moved::Up, 2 * PART, size), (Moved::Up, size, size)]);
    assert_eq!(moved.last(), Some(&(Moved::Down, size, size)));
}

#[tokio::test]
async fn a_listing_of_many_pages_is_read_to_its_end() {
    let server = S3Server::start();
    let client = client(&server);
    for number in 0..25 {
        server.state().objects.insert(format!("sites/a/<{number:02}>&"), vec![0; number]);
    }
    server.state().objects.insert("sites/b".to_owned(), vec![]);
    server.state().page = 10;
    let listed = client.list("sites/a/", &Unwatched).await.unwrap();
    assert_eq!((listed.len(), server.asked("list-type=2")), (25, 3));
    assert_eq!(listed[24].key, "sites/a/<24>&");
}

#[tokio::test]
async fn uploads_that_were_not_completed_are_found_and_removed() {
    let server = S3Server::start();
    let client = client(&server);
    let upload = Upload { key: "sites/a/x".to_owned(), began: 1_700_000_000, parts: Default::default() };
    server.state().uploads.insert("one".to_owned(), upload.clone());
    server.state().uploads.insert("two".to_owned(), Upload { key: "sites/b/x".to_owned(), ..upload });
    let found = client.open_uploads("sites/a/", &Unwatched).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].id.as_str(), found[0].began), ("one", Some(1_700_000_000)));
    client.abort(&found[0].key, &found[0].id, &Unwatched).await.unwrap();
    client.abort(&found[0].key, &found[0].id, &Unwatched).await.unwrap();
    assert_eq!(server.state().uploads.keys().map(String::as_str).collect::<Vec<_>>(), ["two"]);
}

#[tokio::test]
async fn a_download_that_breaks_off_is_continued_from_there() {
    let server = S3Server::start();
    let client = client(&server);
    let content = bytes(300_000);
    server.state().objects.insert("x".to_owned(), content.clone());
    server.fail(Fault::of("GET", "/backups/x", What::Cut(100_000)).times(2));
    let heard = Heard::default();
    assert!(downloaded(&client, "x", TEN_GIB, &heard).await.unwrap() == content);
    assert_eq!((server.asked("GET /backups/x"), heard.waited.lock().unwrap().len()), (3, 2));
}

#[tokio::test]
async fn an_answer_that_was_lost_does_not_lose_the_upload() {
    let server = S3Server::start();
    let client = client(&server);
    let content = bytes(usize::try_from(PART).unwrap() + 1);
    // The parts are put together, and no event says so.
    server.fail(Fault::of("POST", "uploadId=", What::Silent).times(1));
    client.upload("x", (file(&content).path(), content.len() as u64), &Unwatched).await.unwrap();
    assert!(server.state().objects["x"] == content);
}

#[tokio::test]
async fn a_session_token_is_sent_and_signed() {
    let server = S3Server::start();
    server.state().token = Some("token".to_owned());
    let mut options = options(&server);
    let client = S3Client::new(options.clone(), &address()).unwrap();
    let error = client.list("", &Unwatched).await.unwrap_err().to_string();
    assert!(error.contains("session token"), "{error}");
    options.credentials.session_token = Some("token".to_owned().into());
    S3Client::new(options, &address()).unwrap().list("", &Unwatched).await.unwrap();
    assert!(server.state().asked.iter().all(|line| line.starts_with(&format!("GET /{BUCKET}/?"))));
}
