//! A command line that is not understood.

use kubexm_spec::ExitCode;

use crate::site::{Site, assert_contains, noise};

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

/// A site with a bundle of one file of its own, `site.tar.zst`, and a folder.
fn site() -> Site {
    let site = Site::new();
    for (name, seed) in [("file.bin", 5), ("more.bin", 6)] {
        site.write(name, noise(seed, 30_000));
    }
    site.write("notes.txt", "mine\n");
    site.write("folder/inside.txt", "mine\n");
    site.extras("extraFiles: [{path: file.bin}, {path: more.bin}]");
    site.run(&["build", "-f", "cluster.yaml", "-o", "site.tar.zst"]).must(ExitCode::Ok);
    site
}

#[test]
fn a_folder_in_place_of_a_key_or_of_signatures_is_wrong_input_and_no_fault_of_the_disk() {
    let site = site();
    for args in [
        &["sign", "--key", "folder", "site.tar.zst"][..],
        &["verify", "--key", "folder", "site.tar.zst"],
        &["verify", "--signature", "folder", "site.tar.zst"],
    ] {
        let text = site.run(args).must(ExitCode::Config).err;
        assert_contains(&text, &["folder", "it is a folder; name the file in it"]);
    }
}

#[test]
fn a_file_in_place_of_a_folder_is_a_wrong_command_line_that_names_the_option() {
    let site = site();
    for args in [
        &["cache", "gc", "--cache", "notes.txt"][..],
        &["cache", "verify", "--cache", "notes.txt"],
        &["lock", "-f", "cluster.yaml", "--cache", "notes.txt"],
        &["zone", "check", "-f", "cluster.yaml", "--cache", "notes.txt"],
        &["build", "-f", "cluster.yaml", "--cache", "notes.txt", "-o", "other.tar.zst"],
    ] {
        let text = site.run(args).must(ExitCode::Usage).err;
        assert_contains(&text, &["notes.txt is not a folder", "--cache"]);
    }
    for verb in ["gc", "verify"] {
        let text = site.run(&["cache", verb, "--cache", "none"]).must(ExitCode::Usage).err;
        assert_contains(&text, &["there is no folder none", "--cache"]);
        assert!(!site.path("none").exists(), "a cache that was only looked at was made");
    }
    let text = site.run(&["extract", "site.tar.zst", "--all", "-C", "notes.txt"]).must(ExitCode::Usage).err;
    assert_contains(&text, &["notes.txt is not a folder", "-C"]);
    assert_eq!(std::fs::read(site.path("notes.txt")).unwrap(), b"mine\n");
}

#[test]
fn no_message_names_an_option_that_the_verb_lacks() {
    let site = site();
    let text = |args: &[&str]| site.run(args).must(ExitCode::Usage).err;
    for target in ["folder", "notes.txt"] {
        let said = text(&["extract", "site.tar.zst", "file/file.bin", "--oci-archive", target]);
        assert!(said.contains("name another file") && !said.contains("-o"), "{said}");
    }
    let said = text(&["inspect", "--html", "none/page.html", "site.tar.zst"]);
    assert!(said.contains("name another file with --html"), "{said}");
    let said = text(&["packages", "key", "none/key"]);
    assert!(said.contains("name another file") && !said.contains("-o"), "{said}");
    let named = text(&["hand-over", "site.tar.zst", "out", "--name", "a:b"]);
    assert_contains(&named, &["a:b", "hand-over: --name"]);
}

#[test]
fn a_bundle_in_the_other_form_is_named_before_it_goes() {
    let site = site();
    let build = |more: &[&str]| {
        site.run(&[&["build", "-f", "cluster.yaml", "-o", "site.tar.zst"], more].concat()).must(ExitCode::Ok)
    };
    let again = build(&[]);
    assert!(!again.err.contains("earlier bundle"), "{}", again.err);
    let split = build(&["--split", "64K"]);
    assert_contains(
        &split.err,
        &["site.tar.zst, an earlier bundle in one file, is removed when its volumes are complete"],
    );
    assert!(!site.path("site.tar.zst").exists() && site.path("site.tar.zst.001").exists());
    let one = build(&[]);
    assert_contains(
        &one.err,
        &["site.tar.zst.001 and ", "more volumes of an earlier bundle are removed when site.tar.zst is complete"],
    );
    assert!(site.path("site.tar.zst").exists() && !site.path("site.tar.zst.001").exists());
}

#[test]
fn an_unfinished_file_of_somebody_else_is_replaced_with_force_only() {
    let site = site();
    for (partial, more) in [(".own.tar.zst.partial", &[][..]), (".own.tar.zst.001.partial", &["--split", "64K"])] {
        site.write(partial, "mine\n");
        let build = [&["build", "-f", "cluster.yaml", "-o", "own.tar.zst"], more].concat();
        let text = site.run(&build).must(ExitCode::Usage).err;
        assert_contains(&text, &[partial, "is not an unfinished bundle", "--force"]);
        assert_eq!(std::fs::read(site.path(partial)).unwrap(), b"mine\n");
        // What a killed build has left, or a power cut made of it.
        let whole = std::fs::read(site.path("site.tar.zst")).unwrap();
        for ours in [whole[..1000].to_vec(), vec![0; 1000], Vec::new()] {
            site.write(partial, ours);
            site.run(&build).must(ExitCode::Ok);
        }
        site.write(partial, "mine\n");
        site.run(&[&build[..], &["--force"]].concat()).must(ExitCode::Ok);
    }
}
