//! `kubexm-bundle packages key`, and reading what it wrote.

use std::fs;
use std::path::{Path, PathBuf};

use kubexm_files::{Access, Kind, TEXT_LIMIT};
use kubexm_packages::trust::SiteKey;
use kubexm_spec::ExitCode;
use kubexm_terminal::{Display, Failure, Mode};
use serde_json::json;
use zeroize::Zeroizing;

/// The variable that holds the password of a key.
const PASSWORD_ENV: &str = "KUBEXM_KEY_PASSWORD";

/// Make the OpenPGP key of a site, which signs repositories of packages
///
/// RSA, since old package managers know no other. Writes FILE (the secret key, ASCII-armored,
/// readable by its owner only) and FILE.pub (what clients trust). Nothing is overwritten. It has no
/// password; one made by gpg and exported with --export-secret-keys --armor may have one.
///
/// Examples:
///   kubexm-bundle packages key site.key
///   kubexm-bundle packages key --owner "Ops <ops@example.com>" site.key
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// File of the secret key
    file: PathBuf,
    /// Whose key it is, as package managers show it
    #[arg(long, value_name = "TEXT", default_value = "KubeXM site key")]
    owner: String,
    /// Length of the key
    #[arg(long, value_name = "BITS", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(2048..=8192))]
    bits: u32,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

/// How a verb is told which key signs.
#[derive(Clone, Debug, clap::Args)]
pub struct SignArgs {
    /// File with the OpenPGP secret key that signs: of `packages key`, or of gpg --export-secret-keys
    #[arg(long, value_name = "FILE", required_unless_present = "sign_key_env")]
    sign_key: Option<PathBuf>,
    /// Variable of the environment that holds the secret key
    #[arg(long, value_name = "VARIABLE", conflicts_with = "sign_key")]
    sign_key_env: Option<String>,
    /// File with the password of the key [default: KUBEXM_KEY_PASSWORD of the environment]
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

impl SignArgs {
    /// Opens the key: before any work, so that a wrong password is reported at once.
    pub fn open(&self) -> Result<SiteKey, Failure> {
        let (name, bytes) = match (&self.sign_key, &self.sign_key_env) {
            (Some(path), _) => (path.display().to_string(), read(path)?),
            (None, Some(variable)) => {
                let value = std::env::var_os(variable).ok_or_else(|| {
                    Failure::new(ExitCode::Config, format!("there is no variable {variable} in the environment"))
                })?;
                (format!("${variable}"), Zeroizing::new(value.into_encoded_bytes()))
            }
            (None, None) => return Err(Failure::new(ExitCode::Usage, "name the key that signs with --sign-key")),
        };
        let password = match &self.password_file {
            Some(path) => Some(read(path)?),
            None => std::env::var_os(PASSWORD_ENV).map(|value| Zeroizing::new(value.into_encoded_bytes())),
        };
        let password = password.map(|bytes| Zeroizing::new(String::from_utf8_lossy(&bytes).into_owned()));
        let password = password.as_ref().map(|text| text.strip_suffix('\n').unwrap_or(text));
        SiteKey::read(&bytes, password)
            .map_err(|error| Failure::new(error.exit_code(), format!("the key {name}: {error}")))
    }
}

fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, Failure> {
    Ok(Zeroizing::new(kubexm_files::read(path, TEXT_LIMIT)?))
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let public = {
        let mut name = args.file.clone().into_os_string();
        name.push(".pub");
        PathBuf::from(name)
    };
    for path in [&args.file, &public] {
        if path.symlink_metadata().is_ok() {
            let text = format!("{} is there, and keys are not replaced; name another file", path.display());
            return Err(Failure::new(ExitCode::Usage, text));
        }
    }
    let failed = |error: kubexm_packages::trust::SignError| Failure::new(error.exit_code(), error.to_string());
    let key = SiteKey::generate(&args.owner, args.bits).map_err(failed)?;
    write(&args.file, key.secret().map_err(failed)?.as_bytes(), Access::Private)?;
    write(&public, key.public().map_err(failed)?.as_bytes(), Access::Umask).inspect_err(|_| {
        // A pair or nothing. What the second failure says is enough.
        let _ = fs::remove_file(&args.file);
    })?;
    if display.mode() == Mode::Json {
        let document = json!({
            "schema": "kubexm.io/packages-key/v1",
            "fingerprint": key.fingerprint(),
            "secretKey": args.file,
            "publicKey": public,
        });
        display.answer(&document.to_string());
        return Ok(());
    }
    display.answer(&format!("secret key  {} (not encrypted: whoever reads it can sign)", args.file.display()));
    display.answer(&format!("public key  {}", public.display()));
    display.answer(&format!("fingerprint {}", key.fingerprint()));
    Ok(())
}

fn write(path: &Path, content: &[u8], access: Access) -> Result<(), Failure> {
    let kind = Kind { name: "a key", recognise: None, access };
    kubexm_files::write(path, &kind, false, content).map_err(|e| Failure::from_error(e.exit_code(), &e))
}
