//! Every file of `templates/` is named by a recipe.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::path::Path;

fn sources(folder: &Path, code: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { sources(&path, code) } else { code.push_str(&std::fs::read_to_string(path).unwrap()) }
    }
}

#[test]
fn every_template_is_used() {
    let (folder, mut code) = (Path::new(env!("CARGO_MANIFEST_DIR")), String::new());
    sources(&folder.join("src"), &mut code);
    for entry in std::fs::read_dir(folder.join("templates")).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let name = file.strip_suffix(".j2").unwrap();
        assert!(code.contains(&format!("template!(\"{name}\")")), "{file}");
    }
}
