//! Completions and man pages, read by the programs that they are for. Needs Debian's man-db.

use std::process::Command;

use kubexm_spec::ExitCode;

use crate::site::{Site, assert_contains, names};

#[test]
fn bash_completes_verbs_and_options() {
    let site = Site::new();
    let script = site.run(&["completions", "bash"]).must(ExitCode::Ok).out;
    site.write("completion.bash", script);
    let completed = |words: &str, count: usize| {
        // As bash calls it: the function that is registered for the program, the word, and the one before it.
        let line = format!(
            "source completion.bash; words=({words}); COMP_WORDS=(\"${{words[@]}}\"); COMP_CWORD={count}; \
             function=$(complete -p kubexm-bundle | sed 's/.*-F \\([^ ]*\\).*/\\1/'); \
             \"$function\" kubexm-bundle \"${{words[{count}]}}\" \"${{words[{count}-1]}}\" || true; echo \"${{COMPREPLY[@]}}\""
        );
        let output = Command::new("bash").args(["-euc", &line]).current_dir(site.path("")).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(completed("kubexm-bundle insp", 1), "inspect\n");
    assert_eq!(completed("kubexm-bundle inspect --ht", 2), "--html\n");
    assert_eq!(completed("kubexm-bundle zone c", 2), "check\n");
    assert_eq!(completed("kubexm-bundle m", 1), "merge\n", "a verb that the help does not list is not completed");
    assert_eq!(completed("kubexm-bundle help m", 2), "merge\n");
    assert_eq!(completed("kubexm-bundle verify --plain", 2), "--plain-http\n");
    for verb in ["lock", "sign", "import"] {
        assert_eq!(completed(&format!("kubexm-bundle {verb} --plain"), 2), "\n", "{verb}");
        assert_eq!(completed(&format!("kubexm-bundle {verb} --ca-f"), 2), "\n", "{verb}");
    }
    for shell in ["zsh", "fish"] {
        assert_contains(&site.run(&["completions", shell]).must(ExitCode::Ok).out, &["hand-over"]);
    }
    site.run(&["completions", "tcsh"]).must(ExitCode::Usage);
}

#[test]
fn every_man_page_is_shown_without_a_warning_and_replaces_only_man_pages() {
    let site = Site::new();
    std::fs::create_dir(site.path("man")).unwrap();
    site.run(&["man-pages", "man"]).must(ExitCode::Ok);
    let pages = names(&site.path("man"));
    for page in ["kubexm-bundle.1", "kubexm-bundle-build.1", "kubexm-bundle-packages-repo.1"] {
        assert!(pages.iter().any(|name| name == page), "{page} is not in {pages:?}");
    }
    for page in &pages {
        let output = Command::new("man")
            .args(["--warnings", "-l"])
            .arg(site.path("man").join(page))
            .env("MANPAGER", "cat")
            .env("MANWIDTH", "80")
            .env("LC_ALL", "C.UTF-8")
            .output()
            .expect("man is needed: apt-get install man-db");
        assert!(output.status.success() && output.stderr.is_empty(), "{page}: {output:?}");
        assert!(output.stdout.len() > 200, "{page}: {output:?}");
    }
    site.run(&["man-pages", "man"]).must(ExitCode::Ok);
    site.write("man/kubexm-bundle.1", "mine\n");
    site.run(&["man-pages", "man"]).must(ExitCode::Usage);
}

#[test]
fn a_build_on_a_terminal_of_50_columns_ends_with_a_table_that_fits() {
    let site = Site::new();
    site.write("a-file-with-a-name-that-is-longer-than-its-column.bin", vec![7; 3 << 20]);
    site.extras("extraFiles: [{path: a-file-with-a-name-that-is-longer-than-its-column.bin}]");
    let program = assert_cmd::cargo::cargo_bin("kubexm-bundle");
    let line = format!("stty cols 50 rows 30; exec {} build -f cluster.yaml -o out.tar.zst", program.display());
    let output = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .current_dir(site.path(""))
        .env("KUBEXM_HOME", site.path("kubexm"))
        .env("HOME", site.path("home"))
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    assert!(output.status.success(), "{shown}");
    let table = shown.split_once("Size by kind").expect("a table").1;
    assert_contains(
        table,
        &[
            "file (1)",
            "3.00 MiB",
            "Largest",
            "longer-than-its-column.bin",
            "pack",
            "From this machine, not cached: 1 (3.00 MiB)",
        ],
    );
    assert_contains(table, &["Next: kubexm-bundle sign --key release.key out.tar.zst"]);
    let wide: Vec<&str> = table.lines().filter(|line| !line.starts_with("Next") && line.chars().count() > 50).collect();
    assert!(wide.is_empty(), "{wide:#?}");
    // Elsewhere nothing of it is shown, and machines get the figures.
    assert!(!site.build(&[]).must(ExitCode::Ok).err.contains("Size by kind"));
    let data = site.build(&["--json"]).must(ExitCode::Ok).events().pop().unwrap()["data"].clone();
    assert_eq!(data["kinds"][0]["kind"], "file");
    assert_eq!(data["largest"][0]["bytes"], 3 << 20);
    // What lies here is packed from there: no cache is asked for it, a second time neither.
    assert_eq!((&data["cache"]["localBlobs"], &data["cache"]["blobs"]), (&1.into(), &0.into()));
    assert_eq!(data["phases"].as_array().unwrap().len(), 3);
    assert_eq!(data["next"], "kubexm-bundle sign --key release.key out.tar.zst");
}
