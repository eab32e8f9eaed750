//! `SOURCE_DATE_EPOCH` (reproducible-builds.org): the time that outputs depend on.

use kubexm_spec::ExitCode;
use kubexm_terminal::Failure;

/// `SOURCE_DATE_EPOCH`, or `now`; seconds of Unix time.
pub fn seconds(now: i64) -> Result<i64, Failure> {
    Ok(source_date()?.unwrap_or(now))
}

/// `SOURCE_DATE_EPOCH`, where it is set.
pub fn source_date() -> Result<Option<i64>, Failure> {
    let Some(text) = std::env::var_os("SOURCE_DATE_EPOCH") else { return Ok(None) };
    let seconds = text.to_str().and_then(|text| text.parse::<u32>().ok());
    seconds.map(|seconds| Some(i64::from(seconds))).ok_or_else(|| {
        Failure::new(ExitCode::Usage, format!("SOURCE_DATE_EPOCH is {text:?}, and should be seconds of Unix time"))
    })
}
