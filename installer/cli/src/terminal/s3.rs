//! Keys of S3: from the file that is named, else from where other programs look. Never a bundle's, and never of the command line.

use std::path::{Path, PathBuf};

use kubexm_files::read_text;
use kubexm_s3::S3Credentials;
use kubexm_spec::ExitCode;
use kubexm_terminal::Failure;
use zeroize::Zeroizing;

/// Longest file of credentials, in bytes.
const LONGEST: u64 = 1 << 20;

/// The first of some variables that has a text.
pub fn variable(names: &[&str]) -> Option<String> {
    names.iter().filter_map(|name| std::env::var(name).ok()).find(|text| !text.is_empty())
}

/// The keys: of `file`; else of the environment; else of the file that AWS_SHARED_CREDENTIALS_FILE names, or ~/.aws/credentials.
pub fn credentials(file: Option<&Path>, profile: Option<&str>) -> Result<S3Credentials, Failure> {
    let of_environment = variable(&["AWS_PROFILE"]).unwrap_or_else(|| "default".to_owned());
    let profile = profile.map_or(of_environment, str::to_owned);
    if let Some(file) = file {
        return of_file(file, &profile);
    }
    let (key, secret) = (variable(&["AWS_ACCESS_KEY_ID"]), variable(&["AWS_SECRET_ACCESS_KEY"]).map(Zeroizing::new));
    match (key, secret) {
        (Some(key), Some(secret)) => {
            let token = variable(&["AWS_SESSION_TOKEN"]).map(Zeroizing::new);
            return S3Credentials::new(key, secret, token)
                .map_err(|error| Failure::new(ExitCode::Config, format!("the environment (AWS_…): {error}")));
        }
        (None, None) => {}
        _ => {
            let text = "the environment has one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and not the other";
            return Err(Failure::new(ExitCode::Config, text));
        }
    }
    let usual = variable(&["HOME"]).map(|home| Path::new(&home).join(".aws/credentials"));
    let named = variable(&["AWS_SHARED_CREDENTIALS_FILE"]).map(PathBuf::from);
    match named.or_else(|| usual.filter(|path| path.is_file())) {
        Some(file) => of_file(&file, &profile),
        None => Err(Failure::new(
            ExitCode::Config,
            "there is no key for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a file with --s3-credentials, which has\n\
             [default]\naws_access_key_id = …\naws_secret_access_key = …",
        )),
    }
}

fn of_file(file: &Path, profile: &str) -> Result<S3Credentials, Failure> {
    let text = Zeroizing::new(read_text(file, LONGEST)?);
    S3Credentials::of_file(&text, profile)
        .map_err(|error| Failure::new(ExitCode::Config, format!("{}: {error}", file.display())))
}
