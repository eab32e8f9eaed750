//! Keys and signatures against the programs that users have: `openssl` (a Debian package) and `cosign` (`scripts/lab build`).
//! cosign runs in a network namespace without an interface: it has to do without its services, as it does in an air gap.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kubexm_spec::ExitCode;

use crate::registry::distribution_3;
use crate::sign::built;
use crate::site::{Site, assert_contains, end};

/// Runs a program in the site's folder, with something on standard input.
fn run(site: &Site, program: impl AsRef<Path>, args: &[&str]) -> Output {
    let program = program.as_ref();
    let mut command = Command::new(program);
    command.args(args).current_dir(site.path("")).env("COSIGN_PASSWORD", "sesame").env("HOME", site.path("home"));
    command.output().unwrap_or_else(|e| panic!("{} is needed: {e}", program.display()))
}

#[track_caller]
fn openssl(site: &Site, line: &str) -> Vec<u8> {
    let output = run(site, "openssl", &line.split_whitespace().collect::<Vec<_>>());
    assert!(output.status.success(), "openssl {line}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Where the lab keeps it, beside the registry.
fn cosign_path() -> PathBuf {
    let path = distribution_3().with_file_name("cosign");
    assert!(path.exists(), "{} is missing: scripts/lab build", path.display());
    path
}

fn cosign(site: &Site, line: &str) -> Output {
    let line = format!("-n {} {line}", cosign_path().display());
    run(site, "unshare", &line.split_whitespace().collect::<Vec<_>>())
}

/// Writes what `inspect` gives of the bundle.
fn inspected(site: &Site, args: &[&str], file: &str) -> PathBuf {
    let output = site.program().arg("inspect").args(args).arg("out.tar.zst").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    site.write(file, output.stdout)
}

/// The bundle signed by a (ECDSA) and b (Ed25519), and what others check of it.
fn signed() -> Site {
    let site = built();
    for key in ["a.key", "b.key"] {
        site.run(&["sign", "--key", key, "out.tar.zst"]).must(ExitCode::Ok);
    }
    inspected(&site, &["--manifest"], "manifest.json");
    inspected(&site, &["--statement", "1"], "statement.json");
    for number in ["1", "2"] {
        inspected(&site, &["--signature", number], &format!("{number}.sig"));
        inspected(&site, &["--signature", number, "--form", "base64"], &format!("{number}.b64"));
    }
    site
}

#[test]
fn openssl_accepts_our_signatures_and_refuses_them_for_other_bytes() {
    let site = signed();
    let member = site.unpack(&site.path("out.tar.zst")).join("manifest.json");
    assert_eq!(std::fs::read(member).unwrap(), std::fs::read(site.path("manifest.json")).unwrap());
    let statement = std::fs::read_to_string(site.path("statement.json")).unwrap();
    let digest = crate::site::digest(&site.path("manifest.json")).to_string();
    assert_contains(&statement, &[&format!("\"manifest\":\"{digest}\""), "\"date\":1790000000"]);
    openssl(&site, "dgst -sha256 -verify a.pub -signature 1.sig statement.json");
    openssl(&site, "pkeyutl -verify -rawin -pubin -inkey b.pub -sigfile 2.sig -in statement.json");
    site.write("changed.json", [std::fs::read(site.path("statement.json")).unwrap(), b" ".to_vec()].concat());
    for line in [
        "dgst -sha256 -verify a.pub -signature 1.sig changed.json",
        "pkeyutl -verify -rawin -pubin -inkey b.pub -sigfile 2.sig -in changed.json",
    ] {
        assert!(!run(&site, "openssl", &line.split(' ').collect::<Vec<_>>()).status.success(), "{line}");
    }
}

#[test]
fn cosign_without_a_network_accepts_our_signatures_and_refuses_them_for_other_bytes() {
    let site = signed();
    site.write("changed.json", b"{}");
    for (key, signature) in [("a.pub", "1.b64"), ("b.pub", "2.b64")] {
        let verify = format!("verify-blob --key {key} --insecure-ignore-tlog --signature {signature}");
        let good = cosign(&site, &format!("{verify} statement.json"));
        assert_contains(&String::from_utf8_lossy(&good.stderr), &["Verified OK"]);
        assert!(good.status.success());
        assert!(!cosign(&site, &format!("{verify} changed.json")).status.success(), "{key}");
    }
}

#[test]
fn openssl_reads_our_keys_and_counts_the_same_key_id() {
    let site = built();
    end(site.program().env("KUBEXM_KEY_PASSWORD", "sesame").args(["keygen", "-o", "locked"])).must(ExitCode::Ok);
    for (key, public) in [("a.key", "a.pub"), ("b.key", "b.pub"), ("locked.key -passin pass:sesame", "locked.pub")] {
        let made = openssl(&site, &format!("pkey -pubout -in {key}"));
        assert_eq!(made, std::fs::read(site.path(public)).unwrap(), "{key}");
        let der = openssl(&site, &format!("pkey -pubin -outform DER -in {public}"));
        let id = kubexm_signing::files::public_key(&site.path(public)).unwrap().id();
        assert_eq!(id.as_str(), &kubexm_spec::Digest::of(der).hex()[..32]);
    }
}

/// Signs with the key, and lets openssl's public half of it be the judge.
#[track_caller]
fn signs(site: &Site, key: &str, password: &str) {
    let unsigned = std::fs::read(site.path("out.tar.zst")).unwrap();
    end(site.program().env("KUBEXM_KEY_PASSWORD", password).args(["sign", "--key", key, "out.tar.zst"]))
        .must(ExitCode::Ok);
    let public = openssl(site, &format!("pkey -pubout -passin pass:{password} -in {key}"));
    site.write("judge.pub", public);
    site.run(&["verify", "--key", "judge.pub", "out.tar.zst"]).must(ExitCode::Ok);
    site.write("out.tar.zst", unsigned);
}

#[test]
fn keys_that_openssl_made_sign_in_every_form_it_writes_them_in() {
    let site = built();
    openssl(&site, "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out pkcs8.pem");
    openssl(&site, "ecparam -name prime256v1 -genkey -out sec1-with-parameters.pem");
    openssl(&site, "ec -in pkcs8.pem -out sec1.pem");
    openssl(&site, "genpkey -algorithm ed25519 -out ed25519.pem");
    for key in ["pkcs8.pem", "sec1-with-parameters.pem", "sec1.pem", "ed25519.pem"] {
        signs(&site, key, "");
    }
    for from in ["pkcs8.pem", "ed25519.pem"] {
        for how in [
            "-v2 aes-256-cbc",
            "-v2 aes-128-cbc -v2prf hmacWithSHA256",
            "-v2 aes-256-cbc -v2prf hmacWithSHA512",
            "-scrypt",
        ] {
            openssl(&site, &format!("pkcs8 -topk8 {how} -in {from} -passout pass:sesame -out locked.pem"));
            signs(&site, "locked.pem", "sesame");
        }
    }
}

#[test]
fn unsupported_kinds_of_keys_are_named() {
    let site = built();
    openssl(&site, "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out rsa.pem");
    openssl(&site, "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out p384.pem");
    openssl(&site, "genpkey -algorithm x25519 -out x25519.pem");
    for (name, kind) in [("rsa", "an RSA key"), ("p384", "ECDSA key of another curve"), ("x25519", "another algorithm")]
    {
        openssl(&site, &format!("pkey -pubout -in {name}.pem -out {name}.pub"));
        let (private, public) = (format!("{name}.pem"), format!("{name}.pub"));
        for args in [["sign", "--key", &private, "out.tar.zst"], ["verify", "--key", &public, "out.tar.zst"]] {
            assert_contains(&site.run(&args).must(ExitCode::Config).err, &[name, kind, "ECDSA P-256 or Ed25519"]);
        }
    }
    openssl(&site, "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out p256.pem");
    openssl(&site, "ec -aes256 -passout pass:sesame -in p256.pem -out oldest.pem");
    let oldest = site.run(&["sign", "--key", "oldest.pem", "out.tar.zst"]).must(ExitCode::Config).err;
    assert_contains(&oldest, &["oldest.pem", "openssl pkcs8 -topk8"]);
}

#[test]
fn cosigns_keys_sign_and_cosigns_signatures_are_accepted() {
    let site = built();
    assert!(cosign(&site, "generate-key-pair").status.success());
    let with = |password: &str| {
        end(site.program().env("KUBEXM_KEY_PASSWORD", password).args(["sign", "--key", "cosign.key", "out.tar.zst"]))
    };
    assert_contains(&with("wrong").must(ExitCode::Config).err, &["cosign.key does not open with this password"]);
    with("sesame").must(ExitCode::Ok);
    site.run(&["verify", "--key", "cosign.pub", "out.tar.zst"]).must(ExitCode::Ok);
    inspected(&site, &["--statement", "1"], "statement.json");
    inspected(&site, &["--signature", "1", "--form", "base64"], "ours.b64");
    let verified =
        cosign(&site, "verify-blob --key cosign.pub --insecure-ignore-tlog --signature ours.b64 statement.json");
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));

    // The other way round: cosign itself is the program that signs.
    let mut sign = site.program();
    sign.env("COSIGN_PASSWORD", "sesame");
    sign.args(["sign", "--signer", "unshare", "--public-key", "cosign.pub", "--detached", "out.tar.zst", "--", "-n"]);
    sign.arg(cosign_path()).args(["sign-blob", "--key", "cosign.key", "--tlog-upload=false", "-y", "-"]);
    end(&mut sign).must(ExitCode::Ok);
    site.run(&["verify", "--key", "cosign.pub", "--signature", "out.sig", "out.tar.zst"]).must(ExitCode::Ok);
}
