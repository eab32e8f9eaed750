//! A server, or the way to it, that fails; and one that means harm.

use std::time::Duration;

use kubexm_s3::fake::{Fault, S3Server, What};
use kubexm_s3::{Moved, PART, S3Client, S3Error, Unwatched, Watch};

use crate::common::{Heard, address, bytes, client, downloaded, file, options};

#[tokio::test]
async fn a_server_that_is_busy_is_asked_again_and_one_that_stays_so_is_given_up() {
    let server = S3Server::start();
    let client = client(&server);
    let busy = |times| Fault::of("PUT", "/x", What::Refused(503, "SlowDown", "Please reduce".to_owned())).times(times);
    server.fail(busy(2));
    let heard = Heard::default();
    client.put("x", "a".into(), &heard).await.unwrap();
    assert_eq!(server.asked("PUT"), 3);
    assert!(heard.waited.lock().unwrap()[0].contains("SlowDown"));
    server.fail(busy(u32::MAX));
    let error = client.put("x", "a".into(), &Unwatched).await.unwrap_err();
    assert!(matches!(error, S3Error::Down { .. }) && error.to_string().contains("SlowDown (503"), "{error}");
    assert_eq!(server.asked("PUT"), 7);
}

#[tokio::test]
async fn a_part_that_breaks_off_is_sent_again() {
    let server = S3Server::start();
    let client = client(&server);
    let content = bytes(usize::try_from(PART).unwrap() + 1);
    server.fail(Fault::of("PUT", "partNumber=1", What::Silent).times(1));
    server.fail(Fault::of("PUT", "partNumber=2", What::Refused(500, "InternalError", String::new())).times(1));
    client.upload("x", (file(&content).path(), content.len() as u64), &Unwatched).await.unwrap();
    assert!(server.state().objects["x"] == content);
}

#[tokio::test]
async fn an_upload_that_fails_or_is_ended_leaves_no_parts_and_no_object() {
    let server = S3Server::start();
    let client = client(&server);
    let content = bytes(usize::try_from(2 * PART).unwrap() + 1);
    let content = file(&content);
    let size = 2 * PART + 1;
    server.fail(Fault::of("PUT", "partNumber=2", What::Refused(403, "AccessDenied", String::new())).times(1));
    let error = client.upload("x", (content.path(), size), &Unwatched).await.unwrap_err();
    assert!(error.to_string().contains("s3:PutObject"), "{error}");
    let stopped = Heard { stop_after: Some(PART), ..Heard::default() };
    let error = client.upload("x", (content.path(), size), &stopped).await.unwrap_err();
    assert!(matches!(error, S3Error::Stopped), "{error}");
    let error = client.upload("x", (content.path(), size + 1), &Unwatched).await.unwrap_err();
    assert!(matches!(error, S3Error::Disk { .. }), "{error}");
    assert!(server.state().uploads.is_empty() && server.state().objects.is_empty());
    server.fail(Fault::of("PUT", "partNumber=2", What::Refused(507, "XMinioStorageFull", String::new())));
    server.fail(Fault::of("DELETE", "uploadId", What::Refused(403, "AccessDenied", String::new())));
    let error = client.upload("x", (content.path(), size), &Unwatched).await.unwrap_err().to_string();
    assert!(error.contains("no room left") && error.contains("parts of s3://backups/x stay"), "{error}");
    assert!(error.contains("s3:AbortMultipartUpload"), "{error}");
}

#[tokio::test]
async fn what_completes_with_an_error_in_a_good_answer_has_failed() {
    let server = S3Server::start();
    let client = client(&server);
    let content = bytes(usize::try_from(PART).unwrap() + 1);
    let text = "<?xml version=\"1.0\"?>\n<Error><Code>InternalError</Code><Message>later</Message></Error>".to_owned();
    server.fail(Fault::of("POST", "uploadId=", What::Text(text)));
    let error = client.upload("x", (file(&content).path(), content.len() as u64), &Unwatched).await.unwrap_err();
    assert!(error.to_string().contains("InternalError"), "{error}");
    assert!(server.state().uploads.is_empty() && server.state().objects.is_empty());
}

#[tokio::test]
async fn nothing_that_a_server_sends_is_read_without_an_end() {
    let server = S3Server::start();
    let client = client(&server);
    server.fail(Fault::of("GET", "list-type", What::Huge(100 << 20)).times(1));
    let error = client.list("", &Unwatched).await.unwrap_err();
    assert!(error.to_string().contains("more than 8388608 bytes"), "{error}");
    server.state().objects.insert("x".to_owned(), vec![0; 1000]);
    let error = downloaded(&client, "x", 999, &Unwatched).await.unwrap_err();
    assert!(error.to_string().contains("more than 999 bytes"), "{error}");
    for text in ["hello", "<a>", "<html></html>", ""] {
        server.fail(Fault::of("GET", "list-type", What::Text(text.to_owned())).times(1));
        let error = client.list("", &Unwatched).await.unwrap_err();
        assert!(matches!(error, S3Error::Answer { .. }), "{error}");
    }
    // One that goes in a circle.
    let text = "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>a</NextContinuationToken></ListBucketResult>";
    server.fail(Fault::of("GET", "list-type", What::Text(text.to_owned())));
    let error = client.list("", &Unwatched).await.unwrap_err();
    assert!(error.to_string().contains("does not go on"), "{error}");
}

#[tokio::test]
async fn a_name_that_is_longer_than_an_object_has_one_is_not_kept() {
    let server = S3Server::start();
    let named = |record: &str, length: usize| {
        let key = format!("sites/{}", "x".repeat(length - "sites/".len()));
        format!("<{record}><Key>{key}</Key><Size>1</Size><UploadId>1</UploadId></{record}>")
    };
    let both = |record: &str| [1024, 1025].map(|length| named(record, length)).concat();
    let listing = format!("<ListBucketResult>{}</ListBucketResult>", both("Contents"));
    let uploads = format!("<ListMultipartUploadsResult>{}</ListMultipartUploadsResult>", both("Upload"));
    server.fail(Fault::of("GET", "list-type", What::Text(listing)));
    server.fail(Fault::of("GET", "uploads", What::Text(uploads)));
    let listed = client(&server).list("sites/", &Unwatched).await.unwrap();
    assert_eq!(listed.iter().map(|one| one.key.len()).collect::<Vec<_>>(), [1024]);
    let open = client(&server).open_uploads("sites/", &Unwatched).await.unwrap();
    assert_eq!(open.iter().map(|one| one.key.len()).collect::<Vec<_>>(), [1024]);
}

/// Who wants to end.
struct Stopped;

impl Watch for Stopped {
    fn moved(&self, _: Moved, _: u64, _: u64) {}

    fn waiting(&self, _: &str, _: &str, _: (u32, u32), _: Duration) {}

    fn is_stopped(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn a_listing_that_goes_on_for_ever_has_an_end_and_so_has_one_that_nobody_waits_for() {
    let server = S3Server::start();
    let page = |number: usize| {
        let next = format!("<NextContinuationToken>{number}</NextContinuationToken>");
        What::Text(format!("<ListBucketResult><IsTruncated>true</IsTruncated>{next}</ListBucketResult>"))
    };
    let fail = |number| server.fail(Fault::of("GET", "list-type", page(number)).times(1));
    (0..1100).for_each(fail);
    let error = client(&server).list("", &Unwatched).await.unwrap_err();
    assert!(error.to_string().contains("more than 1000 pages"), "{error}");
    assert_eq!(server.asked("list-type"), 1000);
    let error = client(&server).list("", &Stopped).await.unwrap_err();
    assert!(matches!(error, S3Error::Stopped), "{error}");
    assert_eq!(server.asked("list-type"), 1001);
}

#[tokio::test]
async fn a_server_that_is_silent_is_given_up() {
    let server = S3Server::start();
    let mut options = options(&server);
    options.patience.silence = Duration::from_millis(100);
    options.patience.request = Duration::from_millis(100);
    options.patience.tries = 2;
    let client = S3Client::new(options, &address()).unwrap();
    server.fail(Fault::of("GET", "", What::Late(3_600_000)));
    let error = client.list("", &Unwatched).await.unwrap_err().to_string();
    assert!(error.contains("nothing came in time"), "{error}");
    server.state().objects.insert("x".to_owned(), vec![0; 10]);
    let error = downloaded(&client, "x", 10, &Unwatched).await.unwrap_err().to_string();
    assert!(error.contains("nothing came in time"), "{error}");
}

#[tokio::test]
async fn an_object_that_changes_meanwhile_is_not_put_together_from_two() {
    let server = S3Server::start();
    let client = client(&server);
    server.state().objects.insert("x".to_owned(), bytes(300_000));
    server.fail(Fault::of("GET", "/x", What::Cut(100_000)).times(1));
    let mut changed = false;
    let error = client
        .download(
            "x",
            1 << 20,
            &mut |_| {
                if !std::mem::replace(&mut changed, true) {
                    server.state().objects.insert("x".to_owned(), vec![7; 300_000]);
                }
                Ok(())
            },
            &Unwatched,
        )
        .await
        .unwrap_err();
    assert!(matches!(error, S3Error::Changed { .. }), "{error}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (server, other) = (S3Server::start(), S3Server::start());
    let client = client(&server);
    for status in [301, 302, 307, 308] {
        server.fail(
            Fault::of("PUT", "/x", What::Redirect(status, format!("{}/backups/x?a=hunter2", other.endpoint())))
                .times(1),
        );
        let error = client.put("x", "a".into(), &Unwatched).await.unwrap_err().to_string();
        assert!(error.contains("leads on to another address (127.0.0.1)") && !error.contains("hunter2"), "{error}");
    }
    assert!(other.state().asked.is_empty());
}
