//! Modules: streams, what they hide, what they need.

use crate::dnf_referee::repos::{Made, made};

/// Repository `stream` with modules, `ursine` without, `hot` whose packages modules do not hide.
pub fn packages() -> Vec<Made> {
    let of = |repo, name, evr, lines| Made { repo, ..made(name, evr, lines) };
    vec![
        of("stream", "db", "10.1-1.module", &["Requires: db-libs = 10.1-1.module"]),
        of("stream", "db-libs", "10.1-1.module", &[]),
        of("stream", "db", "12.2-1.module", &["Requires: db-libs = 12.2-1.module"]),
        of("stream", "db-libs", "12.2-1.module", &[]),
        of("stream", "lang", "1.0-1.module", &[]),
        of("stream", "lang", "2.0-1.module", &[]),
        of("stream", "app", "1-1.module", &["Requires: lang"]),
        of("stream", "app", "2-1.module", &["Requires: lang"]),
        of("stream", "alone", "5-1.module", &[]),
        of("stream", "moved", "1-1.module", &[]),
        of("ursine", "db", "99-1", &[]),
        of("ursine", "other-db", "99-1", &["Provides: db = 99"]),
        of("ursine", "lang", "0.5-1", &[]),
        of("ursine", "uses-db", "1-1", &["Requires: db"]),
        of("ursine", "uses-new-db", "1-1", &["Requires: db >= 12"]),
        of("ursine", "alone", "4-1", &[]),
        of("ursine", "plain", "1-1", &[]),
        of("ursine", "srcname", "1-1", &[]),
        of("ursine", "moved", "2-1", &[]),
        of("hot", "db-libs", "10.1-2.fix", &[]),
        of("hot", "plain", "2-1", &[]),
    ]
}

/// The streams of repository `stream`.
pub fn document() -> String {
    let build = |module: &str, stream: &str, requires: &str, rpms: &[&str], more: &str| {
        let rpms: String = rpms.iter().map(|rpm| format!("    - {rpm}\n")).collect();
        format!(
            "---\ndocument: modulemd\nversion: 2\ndata:\n  name: {module}\n  stream: \"{stream}\"\n  version: 820\n  context: aaaa\n  \
             arch: x86_64\n  summary: s\n  description: >-\n    d\n  license:\n    module: [MIT]\n  dependencies:\n  - requires:\n      \
             platform: [el8]\n{requires}{more}  artifacts:\n    rpms:\n{rpms}...\n"
        )
    };
    let default = |module: &str, stream: &str| {
        format!(
            "---\ndocument: modulemd-defaults\nversion: 1\ndata:\n  module: {module}\n  stream: \"{stream}\"\n...\n"
        )
    };
    [
        build(
            "db",
            "10",
            "",
            &["db-0:10.1-1.module.x86_64", "db-libs-0:10.1-1.module.x86_64", "srcname-0:1-9.src"],
            "",
        ),
        build("db", "12", "", &["db-0:12.2-1.module.x86_64", "db-libs-0:12.2-1.module.x86_64"], ""),
        build("lang", "1", "", &["lang-0:1.0-1.module.x86_64"], ""),
        build("lang", "2", "", &["lang-0:2.0-1.module.x86_64"], ""),
        build("app", "1", "      lang: [\"1\"]\n", &["app-0:1-1.module.x86_64"], ""),
        build("app", "2", "      lang: [\"2\"]\n", &["app-0:2-1.module.x86_64"], ""),
        build("alone", "5", "", &["alone-0:5-1.module.x86_64"], ""),
        build("moved", "1", "", &["moved-0:1-1.module.x86_64"], "  demodularized:\n    rpms: [moved]\n"),
        default("db", "10"),
        default("lang", "1"),
        default("moved", "1"),
    ]
    .concat()
}

/// What is asked for, whatever is enabled.
pub const SETS: &[&[&str]] = &[
    &["db"],
    &["uses-db"],
    &["uses-new-db"],
    &["db-libs"],
    &["lang"],
    &["app"],
    &["alone"],
    &["plain"],
    &["srcname"],
    &["moved"],
    &["other-db"],
    &["uses-db", "app", "lang"],
];

/// Streams that are enabled, a comparison for each.
pub const ENABLED: &[&[(&str, &str)]] = &[
    &[],
    &[("db", "12")],
    &[("app", "1")],
    &[("app", "2")],
    &[("alone", "5")],
    &[("db", "12"), ("app", "2"), ("alone", "5")],
];
