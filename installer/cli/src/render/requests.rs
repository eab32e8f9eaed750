//! Requests for certificates, as a table.

use kubexm_engine::clock::rfc3339;
use kubexm_session::{RequestState, RequestsMade};
use kubexm_spec::counted;

use super::table::table;

/// For people.
pub fn text(made: &RequestsMade) -> String {
    let head = ["request", "subject", "use", "state"].map(str::to_owned);
    let rows = made.requests.iter().map(|one| {
        let state = match one.state {
            RequestState::New => "new: to be signed".to_owned(),
            RequestState::Waiting => "to be signed".to_owned(),
            RequestState::Signed(ends) => format!("signed, ends {}", rfc3339(ends)),
        };
        [format!("{}.csr", one.request.name), one.request.subject(), one.request.usage().to_owned(), state]
    });
    let mut lines = vec![format!(
        "cluster {}: {} in {}",
        made.cluster,
        counted(made.requests.len() as u64, "request"),
        made.folder.display()
    )];
    lines.extend(table(std::iter::once(head).chain(rows)));
    let unsigned = made.unsigned();
    lines.push(match unsigned {
        0 => "all of them are signed".to_owned(),
        _ => format!(
            "{} to be signed by your CA, for {}: requests.txt there says how; lay each certificate as NAME.crt into {}",
            counted(unsigned as u64, "request"),
            made.validity,
            made.certificates.display()
        ),
    });
    lines.join("\n")
}
