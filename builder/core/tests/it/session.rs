//! The builder as a library: without a terminal, without an environment, and more than one at a time.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test: what fails, fails it")]

use kubexm_archive::{Bundle, verify};
use kubexm_builder::session::{Fetching, Selection, SessionError};
use kubexm_spec::{Digest, ExitCode};

use crate::operator::Operator;
use crate::packages::server::Server;

fn whole(bundle: &std::path::Path) -> Bundle {
    let bundle = Bundle::open(bundle).unwrap();
    verify(&bundle, 2, &|_, _| {}).unwrap();
    bundle
}

#[test]
fn two_sessions_lock_and_build_at_the_same_time_without_affecting_each_other() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (first, second) = runtime.block_on(async { (Server::start().await, Server::start().await) });
    let one = Operator::new("one", &first, &[1; 70_000]);
    let two = Operator::new("two", &second, &[2; 90_000]);
    let handle = runtime.handle();
    let (built_one, built_two) = std::thread::scope(|scope| {
        let other = scope.spawn(|| two.lock_and_build("two.tar.zst", handle));
        (one.lock_and_build("one.tar.zst", handle), other.join().unwrap())
    });
    for (name, (lock, path), content) in [("one", &built_one, vec![1; 70_000]), ("two", &built_two, vec![2; 90_000])] {
        let bundle = whole(path);
        assert_eq!((lock.name.as_str(), lock.zone.as_deref()), (name, Some(name)));
        assert!(bundle.has_blob(&Digest::of(&content)), "{name}");
        assert!(bundle.has_blob(&Digest::of(format!("notes of {name}\n"))), "{name}");
    }
    let asked = |server: &Server| server.answers().into_iter().map(|(_, path)| path).collect::<Vec<_>>();
    assert!(asked(&first).iter().all(|path| path == "one.bin"));
    assert!(asked(&second).iter().all(|path| path == "two.bin"));
    assert!(one.messages().contains("\"lock\"") && two.messages().contains("\"fetch\""), "{}", one.messages());
    assert!(!one.messages().contains("two.bin") && !two.messages().contains("one.bin"));
}

#[test]
fn a_session_builds_the_same_bytes_again_from_its_own_cache() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(Server::start());
    let operator = Operator::new("again", &server, &[3; 50_000]);
    let (_, first) = operator.lock_and_build("first.tar.zst", runtime.handle());
    server.remove(|_| true);
    let (_, second) = operator.lock_and_build("second.tar.zst", runtime.handle());
    assert_eq!(std::fs::read(first).unwrap(), std::fs::read(second).unwrap());
}

#[test]
fn an_error_has_the_exit_code_of_a_program_and_ends_nothing() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(Server::start());
    let operator = Operator::new("site", &server, b"x");
    let error = |selection: &Selection| operator.session.needed(selection).map(drop).unwrap_err();
    let file = Some(operator.path("cluster.yaml"));
    let absent = error(&Selection { file: Some(operator.path("absent.yaml")), ..Selection::default() });
    assert!(matches!(absent, SessionError::Input(_)), "{absent}");
    assert_eq!(absent.exit_code(), ExitCode::Config);
    let zone = error(&Selection { file: file.clone(), zone: Some("mars".to_owned()), ..Selection::default() });
    assert!(zone.to_string().contains("mars"), "{zone}");
    // The origin has no such file any more.
    server.remove(|_| true);
    let needed = operator.session.needed(&Selection { file, ..Selection::default() }).unwrap();
    let origins = operator.session.origins(&Fetching::default()).unwrap();
    let missing = runtime.block_on(operator.session.lock(&needed, &origins, 2)).unwrap_err();
    assert!(matches!(missing.exit_code(), ExitCode::OriginMissing | ExitCode::NoSource), "{missing}");
}
