//! A catalogue of a bundle may come from anybody: what its texts stand for is counted before it is built.

use kubexm_manifests::{Catalogue, CatalogueError};
use kubexm_spec::ExitCode;
use serde_json::{Value, json};

fn catalogue() -> Value {
    serde_json::from_slice(&Catalogue::embedded().to_json().unwrap()).unwrap()
}

fn refused(change: impl FnOnce(&mut Value)) -> String {
    let mut value = catalogue();
    change(&mut value);
    let error = Catalogue::from_json(&serde_json::to_vec(&value).unwrap()).unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::BundleDamaged);
    match error {
        CatalogueError::Json { source } => source.to_string(),
        other => panic!("{other}"),
    }
}

#[test]
fn templates_are_short_and_have_few_variables() {
    let long = refused(|it| it["components"]["kubeadm"]["url"] = json!("a".repeat(2049)));
    assert!(long.contains("components.kubeadm.url") && long.contains("2049 bytes, and 2048"), "{long}");
    let address = refused(|it| it["components"]["kubeadm"]["digestSource"] = json!("{url}".repeat(17)));
    assert!(address.contains("kubeadm.digestSource") && address.contains("17 variables, and 16"), "{address}");
    let open = refused(|it| it["components"]["kubeadm"]["url"] = json!("{".repeat(2000)));
    assert!(open.contains("2000 variables"), "{open}");
    let tag = refused(|it| it["features"]["multus"]["tag"] = json!("{version}".repeat(200)));
    assert!(tag.contains("features.multus.tag") && tag.contains("200 variables"), "{tag}");
    let key = refused(|it| it["components"]["a".repeat(3000)] = json!({}));
    assert!(key.contains("3000 bytes") && key.len() < 300, "{key}");
}

#[test]
fn a_version_of_a_feature_or_a_program_is_one() {
    for group in ["features", "components"] {
        let name = if group == "features" { "multus" } else { "kubeadm" };
        for version in ["1".repeat(100), "../x".to_owned()] {
            let error = refused(|it| it[group][name]["versions"][version.as_str()] = json!({}));
            assert!(error.contains(&format!("{group}.{name}.versions")) && error.len() < 300, "{error}");
        }
    }
}

#[test]
fn features_have_as_many_images_as_anybody_runs() {
    let image = json!({"name": "a", "repository": "b.test/c", "role": "all"});
    let error = refused(|it| it["features"]["multus"]["images"] = json!(vec![image; 10_001]));
    assert!(error.contains("images, and 10000 are read at most"), "{error}");
}

/// They would take some 700 MiB as values.
#[test]
fn a_document_of_more_values_than_any_catalogue_is_refused_before_they_are_in_memory() {
    let error = Catalogue::from_json(format!("[{}{{}}]", "{},".repeat(1_000_000)).as_bytes()).unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::BundleDamaged);
    let CatalogueError::Json { source } = error else { panic!("{error}") };
    assert!(source.to_string().contains("more values than any catalogue"), "{source}");
}

#[test]
fn an_overlay_that_no_bundle_could_carry_is_refused_where_it_is_read() {
    let overlay = |url: &str| {
        let text = format!(
            "schema: kubexm.io/catalogue/v2\nname: mine\ncomponents: {{kubeadm: {{url: \"https://m.test/{url}\"}}}}\n"
        );
        Catalogue::embedded().overlaid(&text)
    };
    let long = overlay(&"a".repeat(2048)).unwrap_err();
    assert_eq!(long.exit_code(), ExitCode::Config);
    assert!(long.to_string().contains("components.kubeadm.url"), "{long}");
    let carried = overlay(&"a".repeat(1000)).unwrap().to_json().unwrap();
    Catalogue::from_json(&carried).unwrap();
}
