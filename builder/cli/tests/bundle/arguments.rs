//! A command line that is not understood.

use kubexm_spec::ExitCode;

use crate::site::{Site, assert_contains};

#[test]
fn a_command_line_that_is_not_understood_is_an_event_with_json_and_a_text_without() {
    let site = Site::new();
    for (args, text) in [
        (&["verfy", "--json"][..], "'verify'"),
        (&["verify", "--json"], "<"),
        (&["build", "--json", "--kubernets", "v1.35.4"], "'--kubernetes'"),
        (&["cache", "gc", "--json", "--max-age", "soon"], "soon"),
    ] {
        let run = site.run(args).must(ExitCode::Usage);
        let result: serde_json::Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!((result["type"].as_str(), result["exitCode"].as_u64()), (Some("result"), Some(2)), "{result}");
        let summary = result["summary"].as_str().unwrap();
        assert!(summary.contains(text) && !summary.starts_with("error"), "{result}");
        assert_eq!(run.err, "");
    }
    assert_contains(&site.run(&["verfy"]).must(ExitCode::Usage).err, &["error: ", "'verify'"]);
}
