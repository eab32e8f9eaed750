//! `SOURCE_DATE_EPOCH` (reproducible-builds.org): the time that outputs depend on.

use kubexm_spec::ExitCode;
use kubexm_terminal::Failure;

/// `SOURCE_DATE_EPOCH`, or `now`; seconds of Unix time.
pub fn seconds(now: i64) -> Result<i64, Failure> {
    let Some(text) = std::env::var_os("SOURCE_DATE_EPOCH") else { return Ok(now) };
    source_date().ok_or_else(|| {
        Failure::new(ExitCode::Usage, format!("SOURCE_DATE_EPOCH is {text:?}, and should be seconds of Unix time"))
    })
}

/// `SOURCE_DATE_EPOCH`, where it is a time.
pub fn source_date() -> Option<i64> {
    std::env::var("SOURCE_DATE_EPOCH").ok()?.parse::<u32>().ok().map(i64::from)
}
