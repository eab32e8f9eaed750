//! What people see of the signatures of images before they are checked: in a dry run, and on the page of a bundle.

use kubexm_spec::ExitCode;

use crate::image_signatures::{Form, Signed};
use crate::site::assert_contains;

#[test]
fn a_dry_run_says_for_each_rule_which_repositories_must_be_signed_by_whom() {
    let all = Signed::new();
    all.demand(
        "- {repositories: [registry.test/team, registry.test/more], keys: [a.pub, b.pub]}\n\
         - {repositories: [registry.test/one], keys: [b.pub]}\n- {repositories: [\"*\"], accept: any}",
    );
    let run = ["build", "-f", "cluster.yaml", "-o", "out.tar.zst", "--dry-run"];
    let lines = [
        "images of registry.test/team, registry.test/more must be signed by one of: key a.pub, key b.pub",
        "images of registry.test/one must be signed by key b.pub",
        "images of every other repository are carried whether they are signed or not",
    ];
    assert_contains(&all.site.run(&run).must(ExitCode::Ok).out, &lines);
    let document = all.site.run(&[&run[..], &["--json"]].concat()).must(ExitCode::Ok).document();
    let rules = serde_json::json!([
        {"repositories": ["registry.test/team", "registry.test/more"], "by": ["key a.pub", "key b.pub"]},
        {"repositories": ["registry.test/one"], "by": ["key b.pub"]},
        {"repositories": ["*"], "by": []},
    ]);
    assert_eq!(document["imageSignatures"], rules);
}

#[test]
fn the_page_of_a_bundle_says_what_its_lock_claims_of_the_signatures_of_images() {
    let all = Signed::new();
    all.sign("a", Form::Tag, &all.index.digest);
    let page = || {
        all.lock().must(ExitCode::Ok);
        all.site.built(&["--locked"]);
        all.site.run(&["inspect", "--html", "page.html", "out.tar.zst"]).must(ExitCode::Ok);
        std::fs::read_to_string(all.site.path("page.html")).unwrap().replace("&#x2f;", "/")
    };
    let row = "<td>registry.test/team/app:v1</td><td>linux/amd64</td><td>";
    let of_key = format!("{row}signed by key a.pub (");
    assert_contains(
        &page(),
        &[
            "<h3>Signatures of images</h3>",
            &of_key,
            &format!(", over {}", all.index.digest.short()),
            "checks what the lock claims",
        ],
    );
    all.demand("- {repositories: [\"*\"], accept: any}");
    assert_contains(&page(), &[&format!("{row}signature not checked: the rule for * accepts any image</td>")]);
    all.site.extras("platforms: [linux/amd64]\nzone: zone.yaml\nextraImages: [{name: \"registry.test/team/app:v1\"}]");
    assert!(!page().contains("Signatures of images"));
}
