//! Repositories of Red Hat's family, as vendors and attackers serve them.

use std::collections::BTreeSet;

use kubexm_builder::origins::packages::rpm::{self, Repository, Streams, load};
use kubexm_builder::origins::packages::{File, Loaded, Options, PackagesError, Vendor, check};
use kubexm_manifests::os::{MirrorList, Profiles};
use kubexm_packages::rpm::file::Rpm;
use kubexm_packages::rpm::publish::{Item, metadata};
use kubexm_packages::trust::{Keyring, Policy, TrustError};
use kubexm_spec::{Arch, Digest, Family};
use kubexm_transport::FileCandidate;

use crate::packages::repository::{Builder, DAY, keys, now};
use crate::packages::server::Server;

/// A package built by rpm 4.18, unsigned.
const ALPHA: &[u8] = include_bytes!("../../../../../bundle-spec/packages/tests/data/alpha-2.0-3.el9.noarch.rpm");

/// What a repository with one package serves, made at a time.
fn files(made: i64) -> Vec<(String, Vec<u8>)> {
    let rpm = Rpm::read(&mut &ALPHA[..]).unwrap();
    let item = Item { rpm: &rpm, location: "alpha.rpm", size: ALPHA.len() as u64, digest: Digest::of(ALPHA) };
    let written = metadata(&[item], u64::try_from(made).unwrap()).unwrap();
    let files = written.into_iter().map(|file| (format!("el9/{}", file.path), file.bytes));
    files.chain([("el9/alpha.rpm".to_owned(), ALPHA.to_vec())]).collect()
}

fn repomd(files: &[(String, Vec<u8>)]) -> &[u8] {
    &files.iter().find(|(path, _)| path.ends_with("repomd.xml")).unwrap().1
}

fn signature(files: &[(String, Vec<u8>)], somebody_else: bool) -> (String, Vec<u8>) {
    let key = if somebody_else { &keys().1 } else { &keys().0 };
    ("el9/repodata/repomd.xml.asc".to_owned(), key.detached(repomd(files), now()).unwrap().into_bytes())
}

async fn served() -> Server {
    let server = Server::start().await;
    server.put(files(now() - 2 * DAY));
    server
}

fn wanted(server: &Server) -> Repository {
    Repository {
        name: "el9".to_owned(),
        origin: "https://origin.test/el9".to_owned(),
        bases: vec![FileCandidate::new(format!("{}/el9", server.url()))],
        mirrors: None,
        metadata: None,
        trust_unsigned: [format!("{}/el9", server.url())].into(),
        entitlement: false,
        hotfixes: false,
        priority: 0,
    }
}

fn signed(server: &Server) -> Repository {
    Repository { metadata: Some(Keyring::read(keys().0.public().unwrap().as_bytes()).unwrap()), ..wanted(server) }
}

async fn loaded(builder: &Builder, repository: &Repository, paths: &[&str]) -> Result<Loaded, PackagesError> {
    let paths: BTreeSet<Box<str>> = paths.iter().map(|path| (*path).into()).collect();
    let options = Options { now: now(), plain_http: true };
    let one = std::slice::from_ref(repository);
    load(one, Arch::Amd64, &Streams::default(), &paths, &builder.http, &builder.store, &options).await
}

fn asked(server: &Server) -> Vec<(u16, String)> {
    let short = |path: String| path.split('/').next_back().unwrap().rsplit('-').next().unwrap().to_owned();
    server.answers().into_iter().map(|(status, path)| (status, short(path))).collect()
}

#[tokio::test]
async fn a_repository_is_asked_only_whether_it_changed_and_lists_of_files_only_when_they_are_needed() {
    let (server, builder) = (served().await, Builder::new());
    let repository = wanted(&server);
    let first = loaded(&builder, &repository, &[]).await.unwrap();
    let [package] = first.pool.packages().collect::<Vec<_>>()[..] else { panic!("{first:?}") };
    assert_eq!(package.to_string(), "alpha 1:2.0-3.el9 noarch");
    assert_eq!(first.pool.url(package), format!("{}/el9/alpha.rpm", server.url()));
    assert_eq!((first.snapshots[0].date, first.snapshots[0].signed), (Some(now() - 2 * DAY), false));
    assert_eq!(package.files.len(), 1);
    assert_eq!(asked(&server), [(200, "repomd.xml".to_owned()), (200, "primary.xml.gz".to_owned())]);

    let second = loaded(&builder, &repository, &["/usr/share/alpha/f"]).await.unwrap();
    assert!(second.pool.packages().next().unwrap().files.contains(&"/usr/share/alpha/f".into()));
    assert_eq!(asked(&server), [(304, "repomd.xml".to_owned()), (200, "filelists.xml.gz".to_owned())]);

    let builder = builder.offline();
    assert_eq!(loaded(&builder, &repository, &[]).await.unwrap().snapshots, first.snapshots);
    assert_eq!(asked(&server), []);
}

#[tokio::test]
async fn metadata_that_nobody_or_somebody_else_signed_is_refused() {
    let (server, builder) = (served().await, Builder::new());
    let repository = signed(&server);
    let error = loaded(&builder, &repository, &[]).await.unwrap_err();
    assert!(matches!(error, PackagesError::Unsigned { .. }), "{error}");
    let all = files(now() - 2 * DAY);
    server.put([signature(&all, true)]);
    let error = loaded(&builder, &repository, &[]).await.unwrap_err();
    let unknown = |error: &PackagesError| {
        matches!(error, PackagesError::Untrusted { source: TrustError::NoSignatureOfAKnownKey { .. }, .. })
    };
    assert!(unknown(&error), "{error}");
    server.put([signature(&all, false)]);
    assert!(loaded(&builder, &repository, &[]).await.unwrap().snapshots[0].signed);
    // From the cache it is checked again.
    let other =
        Repository { metadata: Some(Keyring::read(keys().1.public().unwrap().as_bytes()).unwrap()), ..repository };
    let error = loaded(&builder, &other, &[]).await.unwrap_err();
    assert!(unknown(&error), "{error}");
}

#[tokio::test]
async fn an_older_state_a_future_one_and_another_index_are_refused() {
    let (server, builder) = (served().await, Builder::new());
    let repository = wanted(&server);
    loaded(&builder, &repository, &[]).await.unwrap();
    server.put(files(now() - 3 * DAY));
    let error = loaded(&builder, &repository, &[]).await.unwrap_err();
    assert!(matches!(error, PackagesError::Replayed { .. }), "{error}");
    server.put(files(now() + DAY));
    let error = loaded(&builder, &repository, &[]).await.unwrap_err();
    assert!(matches!(error, PackagesError::NotYet { .. }), "{error}");

    let mut changed = files(now() - DAY);
    for (path, bytes) in &mut changed {
        if path.ends_with("primary.xml.gz") {
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
        }
    }
    server.put(changed);
    let error = loaded(&builder, &repository, &[]).await.unwrap_err();
    assert!(matches!(error, PackagesError::Fetch { .. }), "{error}");
    // What was refused is not remembered: the state of before is still good.
    server.put(files(now() - 2 * DAY));
    loaded(&builder, &repository, &[]).await.unwrap();
}

#[tokio::test]
async fn an_index_that_is_said_to_be_larger_than_any_is_not_fetched() {
    let (server, builder) = (Server::start().await, Builder::new());
    let mut all = files(now() - 2 * DAY);
    for (path, bytes) in &mut all {
        if path.ends_with("repomd.xml") {
            let text = String::from_utf8(bytes.clone()).unwrap();
            let (before, behind) = text.split_once("<size>").unwrap();
            let (_, behind) = behind.split_once("</size>").unwrap();
            *bytes = format!("{before}<size>99999999999</size>{behind}").into_bytes();
        }
    }
    server.put(all);
    let error = loaded(&builder, &wanted(&server), &[]).await.unwrap_err().to_string();
    assert!(error.contains("repository el9: ") && error.contains("more than 1073741824 bytes"), "{error}");
    assert_eq!(asked(&server), [(200, "repomd.xml".to_owned())]);
}

#[tokio::test]
async fn modules_without_end_are_reported_with_their_repositories() {
    let text = |number: usize| {
        let needs = number + 1;
        (0..20)
            .map(|stream| {
                format!(
                    "---\n{{document: modulemd, version: 2, data: {{name: l{number}, stream: s{stream}, version: 1, context: a, \
                     arch: x86_64, dependencies: [{{requires: {{l{needs}: []}}}}]}}}}\n"
                )
            })
            .collect::<String>()
    };
    let modules: String = (0..6).map(text).collect();
    let modules =
        format!("{modules}---\n{{document: modulemd-defaults, version: 1, data: {{module: l0, stream: s0}}}}\n");
    let (server, builder) = (Server::start().await, Builder::new());
    let mut all = files(now() - 2 * DAY);
    let data = format!(
        "<data type=\"modules\"><checksum type=\"sha256\">{}</checksum><location href=\"repodata/modules.yaml\"/></data></repomd>",
        Digest::of(&modules).hex()
    );
    for (path, bytes) in &mut all {
        if path.ends_with("repomd.xml") {
            *bytes = String::from_utf8(bytes.clone()).unwrap().replace("</repomd>", &data).into_bytes();
        }
    }
    all.push(("el9/repodata/modules.yaml".to_owned(), modules.into_bytes()));
    server.put(all);
    let error = loaded(&builder, &wanted(&server), &[]).await.unwrap_err().to_string();
    assert!(error.starts_with("repository el9: ") && error.contains("stopped at l0:s0"), "{error}");
}

#[tokio::test]
async fn a_metalink_leads_to_a_mirror_that_has_what_it_lists() {
    let (server, builder) = (served().await, Builder::new());
    let stale = Server::start().await;
    stale.put(files(now() - 9 * DAY));
    let link = |digest: Digest| {
        let url = |base: &Server, preference: u8| {
            format!("<url protocol=\"http\" preference=\"{preference}\">{}/el9/repodata/repomd.xml</url>", base.url())
        };
        format!(
            "<metalink><files><file name=\"repomd.xml\"><verification><hash type=\"sha256\">{}</hash></verification>\
             <resources>{}{}</resources></file></files></metalink>",
            digest.hex(),
            url(&server, 1),
            url(&stale, 9)
        )
    };
    let right = Digest::of(repomd(&files(now() - 2 * DAY)));
    server.put([("metalink".to_owned(), link(right).into_bytes())]);
    let list = Some((MirrorList::Metalink, format!("{}/metalink", server.url())));
    let repository = Repository { bases: Vec::new(), mirrors: list, ..signed(&server) };
    for (at, made) in [(&server, 2), (&stale, 9)] {
        at.put([signature(&files(now() - made * DAY), false)]);
    }
    let found = loaded(&builder, &repository, &[]).await.unwrap();
    assert_eq!(found.snapshots[0].digest, right);
    assert_eq!(found.pool.repos()[0].base, format!("{}/el9", server.url()));
    assert_eq!(stale.answers().len(), 2, "the better mirror was not asked first");

    server.put([("metalink".to_owned(), link(Digest::of("something else")).into_bytes())]);
    let error = loaded(&builder, &repository, &[]).await.unwrap_err();
    assert!(error.to_string().contains("which the metalink does not list"), "{error}");

    // Without a signature its digests say nothing: whoever is on the network can replace both.
    server.answers();
    let unsigned = Repository { metadata: None, ..repository };
    let error = loaded(&Builder::new(), &unsigned, &[]).await.unwrap_err();
    assert!(matches!(&error, PackagesError::PlainHttp { url, .. } if url.ends_with("/metalink")), "{error}");
    assert_eq!(server.answers(), []);
}

#[tokio::test]
async fn unsigned_metadata_over_plain_http_needs_the_users_trust() {
    let (server, builder) = (served().await, Builder::new());
    let trusted = wanted(&server);
    let wanted = Repository { trust_unsigned: BTreeSet::new(), ..trusted.clone() };
    let error = loaded(&builder, &wanted, &[]).await.unwrap_err();
    assert!(matches!(error, PackagesError::PlainHttp { .. }), "{error}");
    assert_eq!(server.answers(), []);
    assert!(loaded(&builder, &trusted, &[]).await.unwrap().snapshots[0].trust_unsigned);

    server.put([signature(&files(now() - 2 * DAY), false)]);
    let found =
        loaded(&builder, &Repository { trust_unsigned: BTreeSet::new(), ..signed(&server) }, &[]).await.unwrap();
    assert!(found.snapshots[0].signed && !found.snapshots[0].trust_unsigned);

    // Nor is it taken from the cache without that trust, or if nothing says how it came there.
    let builder = Builder::new();
    loaded(&builder, &trusted, &[]).await.unwrap();
    let key = format!("rpm repomd {}", trusted.bases[0].url);
    let remembered = builder.store.recorded(&key).unwrap().unwrap();
    let builder = builder.offline();
    assert!(loaded(&builder, &trusted, &[]).await.unwrap().snapshots[0].trust_unsigned);
    assert!(loaded(&builder, &wanted, &[]).await.is_err());
    builder.store.note(&key, &remembered.replace("\"trusted\"", "null")).unwrap();
    assert!(loaded(&builder, &trusted, &[]).await.is_err());
}

#[tokio::test]
async fn a_package_given_out_as_another_or_without_a_signature_is_refused() {
    let (server, builder) = (served().await, Builder::new());
    let found = loaded(&builder, &wanted(&server), &[]).await.unwrap();
    builder.store.insert(ALPHA, None).unwrap();
    let package = found.pool.packages().next().unwrap();
    let file = File {
        family: Family::Rpm,
        name: package.name.to_string(),
        version: package.version.to_string(),
        archs: vec!["x86_64".to_owned(), "noarch".to_owned()],
        digest: package.digest,
        size: package.size,
        address: "https://origin.test/alpha.rpm".to_owned(),
    };
    check(&file, None, &builder.store).await.unwrap();
    let vendor = Vendor {
        keys: Keyring::read(keys().0.public().unwrap().as_bytes()).unwrap(),
        policy: Policy::at(now()).of_packages(),
    };
    let error = check(&file, Some(&vendor), &builder.store).await.unwrap_err();
    assert!(matches!(error, PackagesError::Untrusted { source: TrustError::NotSigned, .. }), "{error}");
    for file in [
        File { name: "kernel".to_owned(), ..file.clone() },
        File { version: "2.0-4.el9".to_owned(), ..file.clone() },
        File { archs: vec!["x86_64".to_owned()], ..file.clone() },
        File { family: Family::Deb, ..file.clone() },
    ] {
        let error = check(&file, None, &builder.store).await.unwrap_err();
        assert!(matches!(error, PackagesError::Package { .. }), "{error}");
    }
}

#[test]
fn every_profile_of_the_family_has_repositories_and_keys_that_can_be_read() {
    let profiles = Profiles::embedded();
    let mut seen = 0;
    for name in ["centos-7", "centos-8", "rhel-8", "rocky-8", "rocky-9", "openeuler-22.03-sp3", "kylin-v10-sp3"] {
        let profile = profiles.get(name).unwrap();
        for arch in [Arch::Amd64, Arch::Arm64] {
            let own = rpm::repositories(profile, profiles, arch, &|_| Vec::new()).unwrap();
            assert!(own.iter().all(|one| one.bases.len() == 1 || one.mirrors.is_some()), "{name}");
            seen += own.len();
            let mirrored =
                rpm::repositories(profile, profiles, arch, &|_| vec![FileCandidate::new("http://m/x/")]).unwrap();
            assert!(
                mirrored.iter().all(|one| one.bases == [FileCandidate::new("http://m/x")] && one.mirrors.is_none()),
                "{name}"
            );
        }
        for repository in &profile.repositories {
            let keys = rpm::keyring(profiles, &repository.trust.packages).unwrap();
            assert_eq!(keys.is_none(), repository.trust.pinned_only(), "{name}");
        }
    }
    assert!(seen >= 20, "{seen}");
    assert_eq!(Streams::of(profiles.get("rocky-8").unwrap()).platform.as_deref(), Some("el8"));
}
