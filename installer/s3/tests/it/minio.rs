//! A real server: MinIO, as `scripts/lab minio` builds it. By hand, since a build of it takes long:
//! `cargo test -p kubexm-s3 --test it -- --ignored`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kubexm_s3::{Addressing, Endpoint, PART, S3Address, S3Client, S3Credentials, S3Error, S3Options, Unwatched};

use crate::common::{Heard, bytes, downloaded, file};

const KEY: &str = "lab-access-key";
const SECRET: &str = "lab/secret+key=";

/// Killed at the end.
struct Minio {
    child: Child,
    folder: tempfile::TempDir,
    port: u16,
}

impl Minio {
    async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let program = program();
        assert!(program.exists(), "{} is needed: scripts/lab minio", program.display());
        let folder = tempfile::tempdir().unwrap();
        let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let certs = folder.path().join("certs");
        std::fs::create_dir_all(folder.path().join("data")).unwrap();
        std::fs::create_dir(&certs).unwrap();
        std::fs::write(certs.join("public.crt"), certified.cert.pem()).unwrap();
        std::fs::write(certs.join("private.key"), certified.signing_key.serialize_pem()).unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(program)
            .args(["server", "--quiet", "--address", &format!("127.0.0.1:{port}"), "--certs-dir"])
            .args([&certs, &folder.path().join("data")])
            .env("MINIO_ROOT_USER", KEY)
            .env("MINIO_ROOT_PASSWORD", SECRET)
            .env("MINIO_BROWSER", "off")
            .env("MINIO_UPDATE", "off")
            .env("MINIO_SITE_REGION", "us-east-1")
            .env("HOME", folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let minio = Self { child, folder, port };
        let end = Instant::now() + Duration::from_secs(60);
        while minio.curl(&["-X", "PUT", &minio.url("/backups")]).is_err() {
            assert!(Instant::now() < end, "it does not start");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        minio
    }

    fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.port)
    }

    fn ca(&self) -> PathBuf {
        self.folder.path().join("certs/public.crt")
    }

    /// Another client's signature.
    fn curl(&self, args: &[&str]) -> Result<String, ()> {
        let output = Command::new("curl")
            .args(["-fsS", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", &format!("{KEY}:{SECRET}"), "--cacert"])
            .arg(self.ca())
            .args(args)
            .output()
            .unwrap();
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned()).ok_or(())
    }

    fn options(&self) -> S3Options {
        let endpoint = Endpoint::parse(&self.url(""), Addressing::Path, false).unwrap();
        let credentials = S3Credentials::new(KEY.to_owned(), SECRET.to_owned().into(), None).unwrap();
        let options = S3Options::new(endpoint, "us-east-1", credentials).unwrap();
        options.with_authorities("ca", &std::fs::read(self.ca()).unwrap()).unwrap()
    }

    fn client(&self, options: S3Options) -> S3Client {
        S3Client::new(options, &address()).unwrap()
    }
}

impl Drop for Minio {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn address() -> S3Address {
    S3Address::parse("s3://backups/sites/a").unwrap()
}

fn program() -> PathBuf {
    let lab = std::env::var_os("KUBEXM_LAB").map(PathBuf::from).or_else(|| {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        Some(cache.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache")))?.join("kubexm-lab"))
    });
    lab.unwrap().join("bin/minio")
}

#[tokio::test]
async fn a_real_server_takes_what_is_signed_and_gives_it_back() {
    let minio = Minio::start().await;
    let client = minio.client(minio.options());
    let key = address().key("a b+ü~(1)/x.json");
    client.put(&key, "hello".into(), &Unwatched).await.unwrap();
    assert_eq!(downloaded(&client, &key, 5, &Unwatched).await.unwrap(), b"hello");
    let content = bytes(usize::try_from(2 * PART).unwrap() + 7);
    let large = address().key("large");
    client.upload(&large, (file(&content).path(), content.len() as u64), &Unwatched).await.unwrap();
    assert!(downloaded(&client, &large, u64::MAX, &Unwatched).await.unwrap() == content);
    let listed = client.list(&address().key(""), &Unwatched).await.unwrap();
    let found: Vec<_> = listed.iter().map(|one| (one.key.as_str(), one.size)).collect();
    assert_eq!(found, [(key.as_str(), 5), (large.as_str(), 2 * PART + 7)]);
    client.delete(&key, &Unwatched).await.unwrap();
    client.delete(&key, &Unwatched).await.unwrap();
    assert_eq!(client.list(&address().key(""), &Unwatched).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_upload_that_is_ended_leaves_no_parts_on_a_real_server() {
    let minio = Minio::start().await;
    let client = minio.client(minio.options());
    let content = file(&bytes(usize::try_from(2 * PART).unwrap()));
    let stopped = Heard { stop_after: Some(PART), ..Heard::default() };
    let error = client.upload("x", (content.path(), 2 * PART), &stopped).await.unwrap_err();
    assert!(matches!(error, S3Error::Stopped), "{error}");
    assert!(client.open_uploads("x", &Unwatched).await.unwrap().is_empty());
    assert!(client.list("", &Unwatched).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_a_real_server_refuses_is_told_apart() {
    let minio = Minio::start().await;
    let list = |options: S3Options| async { minio.client(options).list("", &Unwatched).await.unwrap_err() };
    let mut wrong = minio.options();
    wrong.credentials.access_key = "other".to_owned();
    let error = list(wrong).await;
    assert!(matches!(error, S3Error::UnknownKey { .. }), "{error}");
    let mut wrong = minio.options();
    wrong.credentials.secret_key = "other".to_owned().into();
    let error = list(wrong).await;
    assert!(matches!(error, S3Error::Signature { .. }), "{error}");
    let error = list(S3Options { region: "eu-west-9".to_owned(), ..minio.options() }).await;
    assert!(matches!(error, S3Error::Region { .. }) && error.to_string().contains("us-east-1"), "{error}");
    let error = list(S3Options { authorities: None, ..minio.options() }).await;
    assert!(matches!(error, S3Error::Certificate { .. }), "{error}");
    let other = S3Address::parse("s3://other-bucket/x").unwrap();
    let error = S3Client::new(minio.options(), &other).unwrap().list("", &Unwatched).await.unwrap_err();
    assert!(matches!(error, S3Error::NoBucket { .. }), "{error}");
    let error = downloaded(&minio.client(minio.options()), "x", 1, &Unwatched).await.unwrap_err();
    assert!(matches!(error, S3Error::NoObject { .. }), "{error}");
    // A bucket whose objects nobody may delete: what removes a version is refused, and what only hides it is not.
    let lock = ["-X", "PUT", "-H", "x-amz-bucket-object-lock-enabled: true", &minio.url("/locked-bucket")];
    minio.curl(&lock).unwrap();
    let locked = S3Address::parse("s3://locked-bucket").unwrap();
    let client = S3Client::new(minio.options(), &locked).unwrap();
    let content = bytes(usize::try_from(PART).unwrap() + 1);
    client.upload("x", (file(&content).path(), content.len() as u64), &Unwatched).await.unwrap();
    client.put("y", "small".into(), &Unwatched).await.unwrap();
    client.delete("x", &Unwatched).await.unwrap();
    assert_eq!(client.list("", &Unwatched).await.unwrap().len(), 1);
}

/// The most memory that this process has had, in MiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().split(' ').next().unwrap().parse::<u64>().unwrap() / 1024
}

/// Alone: the other tests need memory too.
#[tokio::test]
async fn a_gibibyte_goes_up_and_comes_down_within_64_mib() {
    let minio = Minio::start().await;
    let client = minio.client(minio.options());
    let size = 1 << 30;
    let large = tempfile::NamedTempFile::new_in(minio.folder.path()).unwrap();
    large.as_file().set_len(size).unwrap();
    client.upload("large", (large.path(), size), &Unwatched).await.unwrap();
    let mut found = 0;
    let mut take = |piece: &[u8]| {
        found += piece.len() as u64;
        Ok(())
    };
    client.download("large", size, &mut take, &Unwatched).await.unwrap();
    assert_eq!(found, size);
    println!("peak: {} MiB", peak());
    assert!(peak() <= 64, "{} MiB", peak());
}
