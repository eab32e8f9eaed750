//! Packages signed by rpm itself, with keys of GnuPG.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use kubexm_packages::rpm::file::Rpm;
use kubexm_packages::trust::{Keyring, Policy, Signer, TrustError, signed_rpm};
use tempfile::TempDir;

use crate::trust::gpg::Gpg;
use crate::trust::site::succeeds;

const SPEC: &str = "Name: socket\nVersion: 1\nRelease: 1\nSummary: x\nLicense: x\nBuildArch: noarch\n%description\nx\n\
    %install\nmkdir -p %{buildroot}/usr/share/socket\nseq 1 20000 > %{buildroot}/usr/share/socket/data\n\
    %files\n/usr/share/socket\n";

/// Builds a package; nobody has signed it.
fn build(folder: &TempDir) -> PathBuf {
    let spec = folder.path().join("socket.spec");
    std::fs::write(&spec, SPEC).unwrap();
    let top = format!("_topdir {}", folder.path().display());
    succeeds("rpmbuild", &["-bb", "--quiet", "--define", &top, spec.to_str().unwrap()]);
    folder.path().join("RPMS/noarch/socket-1-1.noarch.rpm")
}

fn sign(gpg: &Gpg, key: &str, package: &Path, more: &[&str]) {
    let (name, home) = (format!("_gpg_name {key}"), format!("_gpg_path {}", gpg.0.path().display()));
    let mut args = vec!["--define", &name, "--define", &home, "--define", "__gpg /usr/bin/gpg"];
    args.extend(["--define", "_gpg_sign_cmd_extra_args --batch --pinentry-mode loopback --passphrase ''"]);
    args.extend(more);
    args.extend(["--addsign", package.to_str().unwrap()]);
    succeeds("rpmsign", &args);
}

/// What we say of the bytes of a package. The key is older than the signature, which rpm makes now.
fn look(bytes: &[u8], keys: &Keyring) -> Result<Signer, TrustError> {
    let mut reader = Cursor::new(bytes);
    let rpm = Rpm::read(&mut reader).expect("it is an rpm");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    signed_rpm(&rpm, reader, keys, &Policy::at(now.cast_signed()).of_packages())
}

#[test]
fn a_package_is_trusted_by_its_own_signature_only() {
    let (folder, gpg) = (TempDir::new().unwrap(), Gpg::new());
    let (vendor, other) =
        (gpg.key("vendor", "rsa2048", "default", "never"), gpg.key("other", "rsa2048", "default", "never"));
    let package = build(&folder);
    let keys = gpg.public(&vendor);
    assert_eq!(look(&std::fs::read(&package).unwrap(), &keys), Err(TrustError::NotSigned));

    // Over the header; over header and payload as well, which is all that EL7's have.
    for more in [&[][..], &["--rpmv3"]] {
        sign(&gpg, &vendor, &package, more);
        let good = std::fs::read(&package).unwrap();
        assert_eq!(look(&good, &keys).unwrap().fingerprint, vendor, "{more:?}");
        let error = look(&good, &gpg.public(&other)).unwrap_err();
        assert!(matches!(error, TrustError::NoSignatureOfAKnownKey { .. }), "{error}");

        let mut payload = good.clone();
        *payload.last_mut().unwrap() ^= 1;
        assert_eq!(look(&payload, &keys), Err(TrustError::PayloadDiffers));
        assert_eq!(look(&good[..good.len() - 1], &keys), Err(TrustError::PayloadDiffers));

        // In the header: its digest is beside it and is found first, unless it is fixed with it.
        let mut header = good.clone();
        let place = good.windows(18).rposition(|bytes| bytes == b"/usr/share/socket/").unwrap();
        header[place] ^= 1;
        let mut reader = Cursor::new(&header[..]);
        assert!(Rpm::read(&mut reader).is_err(), "a changed header is read");
        let (before, after) =
            (kubexm_spec::Digest::of(&good[range(&good)]), kubexm_spec::Digest::of(&header[range(&good)]));
        let place = header.windows(64).position(|bytes| bytes == before.hex().as_bytes()).unwrap();
        header[place..place + 64].copy_from_slice(after.hex().as_bytes());
        let error = look(&header, &keys).unwrap_err();
        assert!(matches!(error, TrustError::BadSignature { .. }), "{error}");
    }
}

/// Where the main header is.
fn range(bytes: &[u8]) -> std::ops::Range<usize> {
    let rpm = Rpm::read(&mut Cursor::new(bytes)).unwrap();
    usize::try_from(rpm.range.0).unwrap()..usize::try_from(rpm.range.1).unwrap()
}

#[test]
fn a_package_signed_over_sha1_is_refused_unless_the_profile_knows_no_better() {
    let (folder, gpg) = (TempDir::new().unwrap(), Gpg::new());
    let vendor = gpg.key("vendor", "rsa2048", "default", "never");
    let package = build(&folder);
    sign(&gpg, &vendor, &package, &["--define", "_gpg_digest_algo sha1"]);
    let error = look(&std::fs::read(&package).unwrap(), &gpg.public(&vendor)).unwrap_err();
    assert!(matches!(error, TrustError::WeakDigest { .. }), "{error}");
}
