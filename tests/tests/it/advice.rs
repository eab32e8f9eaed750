//! What a step says when it fails is read in runs that are kept, rolled back, and of commands that are simply given again: only
//! the end of the run knows how it continues, so no text of an op advises it.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let of = |path: PathBuf| if path.is_dir() { sources(&path) } else { vec![path] };
    entries.flat_map(of).filter(|path| path.extension().is_some_and(|end| end == "rs")).collect()
}

#[test]
fn no_text_of_a_step_advises_to_resume_a_run_that_may_be_rolled_back() {
    let ops = Path::new(env!("CARGO_MANIFEST_DIR")).join("../installer/ops/src");
    let mut wrong = Vec::new();
    for path in sources(&ops) {
        for (number, line) in fs::read_to_string(&path).unwrap().lines().enumerate() {
            let (code, _) = line.split_once("//").unwrap_or((line, ""));
            if code.contains("resume") && !code.contains("resume_unwind") {
                wrong.push(format!("{}:{}: {}", path.display(), number + 1, line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
