//! An HTTPS server of ours: whether it answers, and if it demands a login, whether it refuses who has none.

use kubexm_plan::ProbeAnswer;
use zeroize::Zeroizing;

use super::answer::{no, yes};
use crate::system::HttpsServer;
use crate::{Machine, OpError};

/// The files by which a server is asked.
pub(super) struct Files {
    pub ca: Vec<u8>,
    /// Value of the `Authorization` header.
    pub login: Option<Zeroizing<String>>,
}

impl Files {
    /// Reads them; the answer of the probe if one is missing.
    pub fn read(machine: &Machine, ca: &str, login: Option<&str>) -> Result<Result<Self, ProbeAnswer>, OpError> {
        let Some(ca_bytes) = crate::fsio::read(&machine.path(ca))? else {
            return Ok(Err(no(format!("the CA file {ca} is not there"))));
        };
        let login = match login {
            None => None,
            Some(path) => match crate::fsio::read_text(&machine.path(path))? {
                Some(text) => Some(Zeroizing::new(text)),
                None => return Ok(Err(no(format!("the login file {path} is not there")))),
            },
        };
        Ok(Ok(Self { ca: ca_bytes, login }))
    }

    pub fn server<'a>(&'a self, url: &'a str) -> HttpsServer<'a> {
        HttpsServer { url, ca: &self.ca, login: self.login.as_ref().map(|login| login.as_str()) }
    }
}

/// An API server that refuses a request without a certificate has answered it: with `anonymous-auth` off it says no more.
pub(super) fn api_answers(machine: &Machine, url: &str, ca: &str) -> Result<ProbeAnswer, OpError> {
    let files = match Files::read(machine, ca, None)? {
        Ok(files) => files,
        Err(missing) => return Ok(missing),
    };
    let status = machine.system().https_get(&files.server(url))?;
    Ok(ProbeAnswer { holds: matches!(status, 200 | 401 | 403), seen: format!("{url} answers {status}") })
}

pub(super) fn answers(machine: &Machine, url: &str, ca: &str, login: Option<&str>) -> Result<ProbeAnswer, OpError> {
    let files = match Files::read(machine, ca, login)? {
        Ok(files) => files,
        Err(missing) => return Ok(missing),
    };
    let status = machine.system().https_get(&files.server(url))?;
    if status != 200 || login.is_none() {
        return Ok(ProbeAnswer { holds: status == 200, seen: format!("{url} answers {status}") });
    }
    let without = machine.system().https_get(&HttpsServer { login: None, ..files.server(url) })?;
    Ok(match without {
        401 => yes(format!("{url} answers 200 with the login and 401 without")),
        _ => no(format!("{url} answers {without} without the login that it should demand")),
    })
}
