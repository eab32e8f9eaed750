//! The login that a depot demands where its config names one: HTTP Basic (RFC 7617), compared with a line of htpasswd.
//!
//! bcrypt makes a guess expensive, and each blob of each node is a request: so the credentials that were right are
//! remembered, as their digest, until the program ends or another login is loaded.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::middleware::Next;
use axum::response::IntoResponse;
use base64::Engine;
use kubexm_spec::Digest;
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;

use crate::guesses::Client;

/// Comparisons with the hash at the same time: somebody who guesses gets one processor or two, and not all.
const GUESSES: usize = 2;
/// Logins that wait for a comparison, of all clients. After a start every node of a fleet comes at once, and the first that is right
/// answers for the others.
const WAITING: usize = 128;
/// Longer than any header that names a user and a password of 72 bytes.
const LONGEST: usize = 4096;

/// The only login that is accepted.
#[derive(Debug)]
pub struct Login {
    user: String,
    /// bcrypt, `$2b$…`.
    hash: String,
    /// Digest of the user and password that were right last.
    right: Mutex<Option<Digest>>,
    guesses: Semaphore,
    waiting: Semaphore,
}

impl Login {
    /// The first line of an htpasswd file.
    ///
    /// # Errors
    /// What is wrong with it, without showing any of it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (user, hash) =
            text.lines().next().and_then(|line| line.split_once(':')).ok_or("it has no user and hash")?;
        hash.parse::<bcrypt::HashParts>().map_err(|_| "its hash is not one of bcrypt")?;
        Ok(Self {
            user: user.to_owned(),
            hash: hash.to_owned(),
            right: Mutex::default(),
            guesses: Semaphore::new(GUESSES),
            waiting: Semaphore::new(WAITING),
        })
    }

    /// Whether an `Authorization` header is this login.
    async fn accepts(self: Arc<Self>, header: Vec<u8>, client: Option<&Client>) -> Answer {
        let Some((user, password)) = credentials(&header) else { return Answer::Wrong };
        // However the header is written: two clients that write it differently have one login.
        let digest = Digest::of([user.as_bytes(), b":".as_slice(), password.as_slice()].concat());
        if self.is_remembered(&digest) {
            return Answer::Right;
        }
        if client.is_some_and(|client| !client.may_guess()) {
            return Answer::Busy;
        }
        let Ok(_place) = self.waiting.try_acquire() else { return Answer::Busy };
        let Ok(_one) = self.guesses.acquire().await else { return Answer::Wrong };
        // Of many requests that came together, the first has computed it.
        if self.is_remembered(&digest) {
            return Answer::Right;
        }
        let this = Arc::clone(&self);
        let compared = tokio::task::spawn_blocking(move || {
            // A wrong name takes as long as a wrong password.
            let same_password = bcrypt::non_truncating_verify(&password, &this.hash).unwrap_or(false);
            same(user.as_bytes(), this.user.as_bytes()) & same_password
        });
        if !compared.await.unwrap_or(false) {
            if let Some(client) = client {
                client.was_wrong();
            }
            return Answer::Wrong;
        }
        *self.right.lock().unwrap_or_else(PoisonError::into_inner) = Some(digest);
        Answer::Right
    }

    fn is_remembered(&self, digest: &Digest) -> bool {
        let right = *self.right.lock().unwrap_or_else(PoisonError::into_inner);
        right.is_some_and(|right| same(right.as_bytes(), digest.as_bytes()))
    }
}

/// What a login comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Right,
    Wrong,
    /// So many wait for a comparison, or this client was wrong so often, that this one is not looked at.
    Busy,
}

fn same(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}

/// User and password of a header; the scheme is in any case (RFC 9110, 11.1).
fn credentials(header: &[u8]) -> Option<(String, Vec<u8>)> {
    let (scheme, encoded) = header.split_at_checked(6).filter(|_| header.len() <= LONGEST)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let decoded = base64::engine::general_purpose::STANDARD.decode(encoded.trim_ascii()).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let user = String::from_utf8(decoded[..colon].to_vec()).ok()?;
    Some((user, decoded[colon + 1..].to_vec()))
}

/// Lets a request through that has the login, and answers every other one with 401.
pub async fn demand(State(login): State<Arc<Login>>, request: Request, next: Next) -> Response<Body> {
    let shown = request.headers().get(header::AUTHORIZATION).map(|value| value.as_bytes().to_vec());
    match shown {
        Some(shown) => {
            let client = request.extensions().get::<Client>().cloned();
            match login.accepts(shown, client.as_ref()).await {
                Answer::Right => next.run(request).await,
                Answer::Wrong => {
                    // Without the name: whoever mistypes puts a password there.
                    tracing::warn!("a wrong login was refused");
                    ended(refusal("the user name or the password is wrong"))
                }
                Answer::Busy => {
                    tracing::warn!("a login was not looked at: this client was wrong too often, or too many wait");
                    ended(busy())
                }
            }
        }
        None => refusal("this depot demands a login"),
    }
}

/// With the end of the connection: a seat is for nodes, and not for who guesses.
fn ended(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// As registries write it (distribution-spec, "Error Codes"); `message` says what is wrong.
fn refusal(message: &str) -> Response<Body> {
    let message = format!("{message}: it is the one of spec.registry.auths in the cluster's cluster.yaml");
    let body = serde_json::json!({ "errors": [{ "code": "UNAUTHORIZED", "message": message }] });
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::WWW_AUTHENTICATE, "Basic realm=\"KubeXM depot\", charset=\"UTF-8\""),
    ];
    (StatusCode::UNAUTHORIZED, headers, body.to_string()).into_response()
}

/// As registries write it; a client that waits is looked at again.
fn busy() -> Response<Body> {
    let message = "the login was not looked at: from this address it was wrong too often, or too many clients log in; wait a second, and \
                   check the login of spec.registry.auths";
    let body = serde_json::json!({ "errors": [{ "code": "TOOMANYREQUESTS", "message": message }] });
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::RETRY_AFTER, "1")];
    (StatusCode::TOO_MANY_REQUESTS, headers, body.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each blob of each node is a request, and a comparison takes a processor for a while.
    #[tokio::test]
    async fn what_was_right_once_waits_for_no_comparison() {
        // By libxcrypt (crypt(5)), of `hunter2`.
        let hash = "user:$2b$08$abcdefghijklmnopqrstuubrRm36/PDk26QhAv8UvDI2bBcBcJSqe";
        let login = Arc::new(Login::parse(hash).unwrap());
        let ask = || Arc::clone(&login).accepts(b"Basic dXNlcjpodW50ZXIy".to_vec(), None);
        assert_eq!(ask().await, Answer::Right);
        let _guesses = login.guesses.acquire_many(u32::try_from(GUESSES).unwrap()).await.unwrap();
        tokio::select! {
            biased;
            answer = ask() => assert_eq!(answer, Answer::Right),
            () = std::future::ready(()) => panic!("it is computed again"),
        }
    }

    #[test]
    fn a_header_is_read_as_rfc_7617_writes_it() {
        let of = |text: &str| credentials(text.as_bytes());
        // The RFC's own example.
        let aladdin = Some(("Aladdin".to_owned(), b"open sesame".to_vec()));
        assert_eq!(of("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), aladdin);
        assert_eq!(of("basic  QWxhZGRpbjpvcGVuIHNlc2FtZQ== "), aladdin);
        // A password may have a colon, a name may not.
        assert_eq!(of("Basic YTpiOmM="), Some(("a".to_owned(), b"b:c".to_vec())));
        for bad in
            ["", "Basic", "Basic ", "Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "Basic ###", "Basic YWJj", "Basic /zph"]
        {
            assert_eq!(of(bad), None, "{bad:?}");
        }
        assert_eq!(of(&format!("Basic {}", "YTph".repeat(2000))), None);
    }

    #[test]
    fn a_file_that_is_no_htpasswd_by_bcrypt_is_refused_and_not_shown() {
        for bad in ["", "nobody", "a:hunter2", "a:{SHA}hunter2", "a:$apr1$hunter2"] {
            let error = Login::parse(bad).unwrap_err();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
