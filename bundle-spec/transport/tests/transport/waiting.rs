//! Origins that keep us waiting: how long that is had, who is reported about it, and when another place is asked instead.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kubexm_spec::event::{EventKind, Next};
use kubexm_spec::{ExitCode, Platform};
use kubexm_transport::{
    Credentials, HttpClient, HttpOptions, ImageCandidate, OciRegistry, Registry, TransportError, Watch,
};

use crate::server::{How, Reply, Server, file};
use crate::support::{LONG, bytes, client_of, options, plain, quiet, soon, store, want};

/// What was reported.
type Reported = Arc<Mutex<Vec<EventKind>>>;

/// A client with waits short enough for a test, and what it tells.
fn watched(options: HttpOptions) -> (HttpClient, Reported) {
    let reported = Reported::default();
    let seen = Arc::clone(&reported);
    let watch = Watch::new(move |kind| seen.lock().unwrap().push(kind));
    (client_of(HttpOptions { watch, ..options }), reported)
}

/// For an origin that never says a word.
fn short() -> HttpOptions {
    HttpOptions {
        answer_timeout: Duration::from_millis(300),
        notice_after: Duration::from_millis(50),
        backoff_max: Duration::from_millis(200),
        retries: 5,
        silent_tries: 3,
        ..options()
    }
}

/// For an origin that answers, however late; all that is waited for is reported.
fn patient() -> HttpOptions {
    HttpOptions { answer_timeout: LONG, notice_after: Duration::ZERO, ..short() }
}

/// An origin that takes every connection and never says a word.
struct Silent {
    address: SocketAddr,
    taken: Arc<Mutex<Vec<(TcpStream, SocketAddr)>>>,
}

impl Silent {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let taken = Arc::new(Mutex::new(Vec::new()));
        let held = Arc::clone(&taken);
        std::thread::spawn(move || {
            while let Ok(taken) = listener.accept() {
                held.lock().unwrap().push(taken);
            }
        });
        Self { address, taken }
    }

    /// Connections so far. Some may not be taken yet, but they are all before one of our own.
    fn connections(&self) -> usize {
        let own = TcpStream::connect(self.address).unwrap();
        let name = own.local_addr().unwrap();
        loop {
            if let Some(before) = self.taken.lock().unwrap().iter().position(|(_, peer)| *peer == name) {
                return before;
            }
            std::thread::yield_now();
        }
    }
}

/// Attempt, attempts, what the origin asked for, and what comes next.
type Wait = (Option<u64>, Option<u64>, Option<u64>, Next);

fn waits(reported: &Reported) -> Vec<Wait> {
    let one = |kind: &EventKind| match kind {
        EventKind::Waiting { attempt, attempts, retry_after_s, next, .. } => {
            Some((*attempt, *attempts, *retry_after_s, *next))
        }
        _ => None,
    };
    reported.lock().unwrap().iter().filter_map(one).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_origin_that_never_answers_is_given_up_after_three_tries_and_reported_while_it_is_waited_for() {
    let silent = Silent::start();
    let address = silent.address;
    let (client, reported) = watched(short());
    let (_dir, store) = store();
    let url = format!("http://{address}/tool");
    let begun = Instant::now();
    let candidate = plain(format!("http://user:sesame@{address}/tool?token=sesame"));
    let error = client.fetch(&[candidate], &want(b"x"), &store, &quiet).await.unwrap_err();
    assert!(begun.elapsed() >= Duration::from_millis(900), "{:?}", begun.elapsed());
    assert_eq!(silent.connections(), 3);
    assert_eq!(error.exit_code(), ExitCode::OriginDown);
    assert!(error.may_pass() && error.to_string().contains("no answer for 0.3 s"), "{error}");
    let waits = waits(&reported);
    assert_eq!(waits[0], (Some(1), Some(3), None, Next::GiveUp));
    assert!(waits.contains(&(Some(3), Some(3), None, Next::GiveUp)), "{waits:?}");
    let EventKind::Waiting { origin, reason, within_ms, .. } = reported.lock().unwrap()[0].clone() else { panic!() };
    assert_eq!((origin, reason.as_str(), within_ms), (url, "no answer for 0.1 s", 250), "0.05 s is reported as 0.1 s");
    assert!(!format!("{:?}", reported.lock().unwrap()).contains("sesame"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_not_found_gets_few_tries_as_long_as_nobody_has_answered_and_all_of_them_afterwards() {
    // However long a resolver takes, it is its answer that is waited for.
    let (client, reported) = watched(patient());
    let (_dir, store) = store();
    let lost = async |name: &str| {
        reported.lock().unwrap().clear();
        // No label is that long (RFC 1035, 2.3.4): a resolver refuses it without asking anybody.
        let candidate = plain(format!("http://{name}{}.invalid/f", "x".repeat(64)));
        let error = client.fetch(&[candidate], &want(b"x"), &store, &quiet).await.unwrap_err();
        assert!(error.to_string().contains("dns error"), "{error}");
        assert_eq!(error.exit_code(), ExitCode::OriginDown);
        // While a try lasts it is reported as well, and that says nothing of the ones that follow.
        let tries = waits(&reported).into_iter().filter(|(.., next)| *next == Next::Try);
        tries.map(|(attempt, attempts, ..)| (attempt.unwrap(), attempts.unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(lost("one").await, [(1, 3), (2, 3)]);
    let server = Server::start(|_| Reply::new(404, "")).await;
    client.fetch(&[plain(server.url("f"))], &want(b"x"), &store, &quiet).await.unwrap_err();
    assert_eq!(lost("two").await, [(1, 6), (2, 6), (3, 6), (4, 6), (5, 6)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_mirror_is_left_after_one_try_where_there_is_another_place() {
    let silent = Silent::start();
    let body = bytes(3, 10_000);
    let served = body.clone();
    let good = Server::start(move |request| file(request, &served, "\"t\"")).await;
    // The other place is to answer before its own tries are used up.
    let (client, reported) = watched(HttpOptions { answer_timeout: Duration::from_secs(3), ..short() });
    let (_dir, store) = store();
    for _ in 0..2 {
        let candidates = [plain(format!("http://{}/f", silent.address)), plain(good.url("f"))];
        let fetched = client.fetch(&candidates, &want(&body), &store, &quiet).await.unwrap();
        assert_eq!(fetched.url, Some(good.url("f")));
        std::fs::remove_file(store.path(&fetched.digest)).unwrap();
    }
    assert_eq!(silent.connections(), 1, "the second file goes where it is answered");
    let address = silent.address.to_string();
    reported
        .lock()
        .unwrap()
        .retain(|kind| matches!(kind, EventKind::Waiting { origin, .. } if origin.contains(&address)));
    assert_eq!(waits(&reported).last().map(|(.., next)| *next), Some(Next::Elsewhere));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_origin_with_a_retry_after_of_a_day_is_tried_once_more_after_the_longest_wait() {
    let server = Server::start(|_| Reply::new(503, "").header("retry-after", "86400")).await;
    let (client, reported) = watched(patient());
    let (_dir, store) = store();
    let begun = Instant::now();
    let candidate = [plain(server.url("f"))];
    let error = soon(client.fetch(&candidate, &want(b"x"), &store, &quiet)).await.unwrap_err();
    assert!(begun.elapsed() >= Duration::from_millis(200));
    assert_eq!(server.requests().len(), 2);
    for part in ["503", "a pause of 86400 s (Retry-After)", "no wait is longer than 0.2 s"] {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
    let asked = waits(&reported).into_iter().filter(|(_, _, asked, _)| asked.is_some()).collect::<Vec<_>>();
    assert_eq!(asked, [(Some(1), Some(2), Some(86_400), Next::Try)]);
    let error = client.fetch(&[plain(server.url("g"))], &want(b"x"), &store, &quiet).await.unwrap_err();
    let pause = error.to_string();
    let (_, pause) = pause.split_once("it requested a pause of ").unwrap_or_else(|| panic!("{error}"));
    let left: u64 = pause.split_once(" s more").unwrap().0.parse().unwrap();
    assert!((80_000..86_400).contains(&left), "{error}");
    assert_eq!(server.requests().len(), 2, "it was asked not to be asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_origin_with_a_long_retry_after_serves_if_it_recovers_within_the_longest_wait() {
    let body = bytes(4, 10_000);
    let served = body.clone();
    let server = Server::start(move |request| match request.number {
        0 => Reply::new(429, "").header("retry-after", "3600"),
        _ => file(request, &served, "\"t\""),
    })
    .await;
    let (client, _) = watched(patient());
    let (_dir, store) = store();
    soon(client.fetch(&[plain(server.url("f"))], &want(&body), &store, &quiet)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_after_of_a_day_is_not_waited_for_if_another_mirror_serves() {
    let busy = Server::start(|_| Reply::new(503, "").header("retry-after", "86400")).await;
    let good = Server::start(|request| {
        file(request, &bytes(request.path.trim_start_matches('/').parse().unwrap(), 10_000), "\"t\"")
    })
    .await;
    // A wait that would be noticed; that an answer takes its time is not reported.
    let long = HttpOptions { backoff_max: Duration::from_secs(3600), notice_after: LONG, ..patient() };
    let (client, reported) = watched(long);
    let (_dir, store) = store();
    let fetch = |seed: u64| {
        let (client, store, busy, good) = (&client, &store, &busy, &good);
        async move {
            let candidates = [plain(busy.url(&seed.to_string())), plain(good.url(&seed.to_string()))];
            client.fetch(&candidates, &want(&bytes(seed, 10_000)), store, &quiet).await.unwrap()
        }
    };
    // At once, where those that come late find the host resting already; and after.
    soon(futures::future::join_all((1..=24).map(fetch))).await;
    let asked = busy.requests().len();
    soon(fetch(25)).await;
    assert_eq!(busy.requests().len(), asked, "it is asked last from then on");
    let EventKind::Waiting { reason, next, retry_after_s, .. } = reported.lock().unwrap()[0].clone() else { panic!() };
    assert!(reason.contains("503") && reason.contains("no wait is longer than 3600 s"), "{reason}");
    assert_eq!((next, retry_after_s), (Next::Elsewhere, Some(86_400)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_stops_coming_is_reported_and_resumed() {
    let body = bytes(5, 100_000);
    let served = body.clone();
    let server = Server::start(move |request| match request.offset() {
        None => file(request, &served, "\"t\"").how(How::Stall(50_000)),
        Some(_) => file(request, &served, "\"t\""),
    })
    .await;
    let notice_after = Duration::from_millis(50);
    let (client, reported) = watched(HttpOptions { stall_timeout: Duration::from_secs(1), notice_after, ..patient() });
    let (_dir, store) = store();
    client.fetch(&[plain(server.url("f"))], &want(&body), &store, &quiet).await.unwrap();
    let reports = |kind: &EventKind| match kind {
        EventKind::Waiting { reason, next, .. } => reason.starts_with("no bytes for") && *next == Next::GiveUp,
        _ => false,
    };
    assert!(reported.lock().unwrap().iter().any(reports), "{reported:?}");
    assert!(server.requests().last().unwrap().offset().is_some_and(|offset| offset > 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_waiters_for_one_host_report_only_once_in_a_while() {
    let address = Silent::start().address;
    // One try, so that each of them is to wait equally long.
    let (answer_timeout, notice_after) = (Duration::from_millis(1200), Duration::from_secs(1));
    let (client, reported) = watched(HttpOptions { answer_timeout, notice_after, retries: 0, ..short() });
    let (_dir, store) = store();
    let all = (0..16).map(|number| {
        let (client, store, candidate) = (&client, &store, plain(format!("http://{address}/{number}")));
        // Of one file there is one transfer at a time.
        async move { client.fetch(&[candidate], &want(&[number]), store, &quiet).await.unwrap_err() }
    });
    let begun = Instant::now();
    futures::future::join_all(all).await;
    // However much later some of them come to it.
    let often = begun.elapsed().as_secs() + 1;
    let lines = reported.lock().unwrap().len();
    assert!(lines > 0 && lines as u64 <= often, "{lines} lines in {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_never_answers_is_named_and_given_up() {
    let silent = Silent::start();
    let address = silent.address.to_string();
    let (client, reported) = watched(short());
    let registry = OciRegistry::new(client, Credentials::anonymous());
    let candidate = ImageCandidate { plain_http: true, ..ImageCandidate::new(&address, "team/app") };
    let error = registry.resolve(&[candidate], "v1", None, Platform::LINUX_AMD64).await.unwrap_err();
    assert!(matches!(&error, TransportError::AllFailed { tried, .. } if tried[0].may_pass()), "{error}");
    assert_eq!(silent.connections(), 3);
    let EventKind::Waiting { origin, .. } = reported.lock().unwrap()[0].clone() else { panic!() };
    assert_eq!(origin, format!("http://{address}/v2/"));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_an_origin_that_was_given_up_while_they_queued_cost_little_more_time() {
    let silent = Silent::start();
    let (client, _) = watched(HttpOptions { parallel_per_host: 1, ..short() });
    let (_dir, store) = store();
    let all = (0..6).map(|number| {
        let (client, store, candidate) = (&client, &store, plain(format!("http://{}/{number}", silent.address)));
        async move { client.fetch(&[candidate], &want(&[number]), store, &quiet).await.unwrap_err().to_string() }
    });
    let errors = futures::future::join_all(all).await;
    // Three tries of 0.3 s for the first, a quarter of one for each of the others.
    assert_eq!(silent.connections(), 3 + 5);
    let waited = |time: &str| errors.iter().filter(|error| error.contains(&format!("no answer for {time} s"))).count();
    assert_eq!((waited("0.3"), waited("0.1")), (1, 5), "{errors:#?}");
}
