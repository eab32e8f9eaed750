//! Files that an operator names with `-o`; `-` is standard output.

use std::io::{IsTerminal, Read, Write};
use std::path::Path;

use flate2::read::GzDecoder;
use kubexm_files::{Access, Kind, OutputError, Writer, head, is_stdout};
use kubexm_session::SessionError;
use kubexm_spec::ExitCode;
use kubexm_terminal::Failure;

/// A plan, as JSON or as text.
pub const PLAN: Kind = Kind { name: "a plan", recognise: Some(is_plan), access: Access::Private };

/// An inventory of blobs.
pub const INVENTORY: Kind = Kind { name: "an inventory", recognise: Some(is_inventory), access: Access::Private };

/// A support bundle.
pub const SUPPORT_BUNDLE: Kind =
    Kind { name: "a support bundle", recognise: Some(is_support_bundle), access: Access::Private };

/// Bytes at the start of a text in which it names its schema.
const HEAD: u64 = 4096;

fn is_plan(file: &mut dyn Read) -> bool {
    let head = head(file, HEAD);
    let text = String::from_utf8_lossy(&head);
    // Of a text: `create lab (bundle 0123456789ab)`.
    let is_text = |line: &str| line.ends_with(')') && line.contains(" (bundle ");
    text.contains("\"schema\": \"kubexm.io/plan/") || text.lines().next().is_some_and(is_text)
}

fn is_inventory(file: &mut dyn Read) -> bool {
    String::from_utf8_lossy(&head(file, HEAD)).contains("kubexm.io/inventory/")
}

/// The name in the first tar header.
fn is_support_bundle(file: &mut dyn Read) -> bool {
    head(&mut GzDecoder::new(file), 100).starts_with(b"kubexm-support-")
}

/// Writes bytes that are no text, piece by piece.
pub fn write_with<T>(
    path: &Path,
    kind: &Kind,
    force: bool,
    content: impl FnOnce(&mut dyn Write) -> std::io::Result<T>,
) -> Result<T, Failure> {
    let failed = |error: std::io::Error| Failure::from(SessionError::disk("write", path, &error));
    if !is_stdout(path) {
        let mut writer = Writer::create(path, kind, force).map_err(failure)?;
        let written = content(&mut writer).map_err(failed)?;
        return writer.commit().map(|()| written).map_err(failure);
    }
    let mut stdout = std::io::stdout().lock();
    if stdout.is_terminal() {
        let text =
            format!("{} is not written to a terminal; redirect standard output, or name a file with -o", kind.name);
        return Err(Failure::new(ExitCode::Usage, text));
    }
    let written = content(&mut stdout).map_err(failed)?;
    stdout.flush().map(|()| written).map_err(failed)
}

fn failure(error: OutputError) -> Failure {
    Failure::from_error(error.exit_code(), &error)
}

#[cfg(test)]
mod tests {
    use kubexm_recipes::sample;

    use super::*;
    use crate::render::summary;
    use kubexm_session::plan_file;

    #[test]
    fn plans_are_recognized_as_json_and_text_and_other_files_are_not() {
        let plan = sample::plan(&sample::cluster()).unwrap();
        assert!(is_plan(&mut plan_file::to_json(&plan).unwrap().as_slice()));
        assert!(is_plan(&mut summary::long(&plan).as_bytes()));
        for other in ["plan B\n", "{\"schema\": \"kubexm.io/lock/v1\"}", ""] {
            assert!(!is_plan(&mut other.as_bytes()), "{other}");
        }
    }
}
