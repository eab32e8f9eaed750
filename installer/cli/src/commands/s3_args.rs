//! How a server of S3 is asked: for every verb that reads or writes backups.

use std::path::{Path, PathBuf};

use kubexm_s3::{Addressing, Endpoint, S3Address, S3Options, SCHEME};
use kubexm_session::BackupPlace;
use kubexm_spec::ExitCode;
use kubexm_terminal::Failure;

use super::resume_command::{path_words, shell_word};
use crate::terminal::{s3, start};

/// Longest file of CA certificates, in bytes: one with all that are known has a fourth of it.
const LONGEST: u64 = 1 << 20;
/// What servers of one's own take, unless they are set otherwise.
const USUAL_REGION: &str = "us-east-1";

/// For `s3://BUCKET/PREFIX`. A key is no argument: everybody on this machine can read those.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct S3Args {
    /// Address of the server, https://HOST[:PORT] [default: $AWS_ENDPOINT_URL_S3, $AWS_ENDPOINT_URL, else Amazon's of the region]
    #[arg(long, value_name = "URL", help_heading = "Backups in S3")]
    s3_endpoint: Option<String>,
    /// Region of the bucket [default: $AWS_REGION, $AWS_DEFAULT_REGION, else us-east-1 where an endpoint is given]
    #[arg(long, value_name = "REGION", help_heading = "Backups in S3")]
    s3_region: Option<String>,
    /// File with the keys, in the form of ~/.aws/credentials [default: $AWS_ACCESS_KEY_ID, $AWS_SECRET_ACCESS_KEY and
    /// $AWS_SESSION_TOKEN, else $AWS_SHARED_CREDENTIALS_FILE, else ~/.aws/credentials]
    #[arg(long, value_name = "FILE", help_heading = "Backups in S3")]
    s3_credentials: Option<PathBuf>,
    /// Section of that file [default: $AWS_PROFILE, else default]
    #[arg(long, value_name = "NAME", help_heading = "Backups in S3")]
    s3_profile: Option<String>,
    /// CA certificates (PEM) that sign the server's, instead of the usual ones [default: $AWS_CA_BUNDLE]
    #[arg(long, value_name = "FILE", help_heading = "Backups in S3")]
    s3_ca_file: Option<PathBuf>,
    /// Where the bucket's name stands in addresses of the endpoint that is given
    #[arg(long, value_enum, value_name = "WHERE", default_value_t, help_heading = "Backups in S3")]
    s3_addressing: Where,
    /// Allow an endpoint with http://
    #[arg(long, help_heading = "Backups in S3")]
    s3_plain_http: bool,
}

/// Where a bucket's name stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Where {
    /// HOST/BUCKET
    #[default]
    Path,
    /// BUCKET.HOST
    Host,
}

/// Whether a path is meant as the address of a bucket.
fn is_address(path: &Path) -> bool {
    path.to_str().is_some_and(S3Address::is_meant)
}

impl S3Args {
    /// The place that a path or an address names.
    pub fn place(&self, path: &Path) -> Result<BackupPlace, Failure> {
        let Some(text) = path.to_str().filter(|_| is_address(path)) else {
            return match path.to_str().is_some_and(|text| text.contains("://")) {
                true => {
                    let text = "backups are kept in folders and in S3: name a folder, or s3://BUCKET/PREFIX";
                    Err(Failure::new(ExitCode::Usage, text))
                }
                false => Ok(BackupPlace::Folder(path.to_owned())),
            };
        };
        let address =
            S3Address::parse(text).map_err(|error| Failure::new(ExitCode::Usage, format!("{SCHEME}…: {error}")))?;
        let endpoint = self.s3_endpoint.clone().or_else(|| s3::variable(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]));
        let region = self.s3_region.clone().or_else(|| s3::variable(&["AWS_REGION", "AWS_DEFAULT_REGION"]));
        let addressing = match self.s3_addressing {
            Where::Path => Addressing::Path,
            Where::Host => Addressing::VirtualHost,
        };
        let (endpoint, region) = match (endpoint, region) {
            (Some(endpoint), region) => {
                let region = region.unwrap_or_else(|| USUAL_REGION.to_owned());
                (Endpoint::parse(&endpoint, addressing, self.s3_plain_http)?, region)
            }
            (None, Some(region)) => (Endpoint::amazon(&region, address.bucket())?, region),
            (None, None) => {
                let text = "name the server with --s3-endpoint https://HOST[:PORT] (or AWS_ENDPOINT_URL_S3); for Amazon's, the region \
                            with --s3-region (or AWS_REGION)";
                return Err(Failure::new(ExitCode::Usage, text));
            }
        };
        let credentials = s3::credentials(self.s3_credentials.as_deref(), self.s3_profile.as_deref())?;
        let mut options = S3Options::new(endpoint, &region, credentials)?;
        options.user_agent = start::TOOL.replace(' ', "/");
        if let Some(file) = self.s3_ca_file.clone().or_else(|| s3::variable(&["AWS_CA_BUNDLE"]).map(PathBuf::from)) {
            let pem = kubexm_files::read(&file, LONGEST)?;
            options = options.with_authorities(&file.display().to_string(), &pem)?;
        }
        Ok(BackupPlace::S3 { address, options: Box::new(options) })
    }

    /// A path in a printed command, which holds in any folder; an address as it is.
    pub fn word(path: &Path) -> String {
        match is_address(path) {
            true => shell_word(&path.to_string_lossy()),
            false => path_words("", path)[1].clone(),
        }
    }

    /// These options in a printed command. What the environment has is left to it.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let texts = [
            ("--s3-endpoint", &self.s3_endpoint),
            ("--s3-region", &self.s3_region),
            ("--s3-profile", &self.s3_profile),
        ];
        for (name, text) in texts {
            words.extend(text.iter().flat_map(|text| [name.to_owned(), shell_word(text)]));
        }
        for (name, path) in [("--s3-credentials", &self.s3_credentials), ("--s3-ca-file", &self.s3_ca_file)] {
            words.extend(path.iter().flat_map(|path| path_words(name, path)));
        }
        if self.s3_addressing == Where::Host {
            words.extend(["--s3-addressing", "host"].map(str::to_owned));
        }
        words.extend(self.s3_plain_http.then(|| "--s3-plain-http".to_owned()));
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_command_asks_the_same_server() {
        let args = S3Args {
            s3_endpoint: Some("http://minio:9000".to_owned()),
            s3_credentials: Some("/etc/my keys".into()),
            s3_addressing: Where::Host,
            s3_plain_http: true,
            ..S3Args::default()
        };
        let wanted =
            "--s3-endpoint http://minio:9000 --s3-credentials '/etc/my keys' --s3-addressing host --s3-plain-http";
        assert_eq!(args.words().join(" "), wanted);
        assert_eq!(S3Args::word(Path::new("s3://b/p")), "s3://b/p");
        assert_eq!(S3Args::word(Path::new("/srv/b")), "/srv/b");
        assert!(S3Args::default().words().is_empty());
    }
}
