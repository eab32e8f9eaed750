//! Help text that both programs share.

use kubexm_spec::ExitCode;

/// The table of exit codes, for `--help`.
pub fn exit_code_table() -> String {
    let mut text = String::from("Exit codes:\n");
    for code in ExitCode::ALL {
        text.push_str(&format!("  {:>2}  {}\n", code.code(), code.meaning()));
    }
    text
}
