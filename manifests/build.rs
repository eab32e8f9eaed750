//! Reads `data/` once, when the program is built: hundreds of kilobytes of YAML become JSON that is read in a few milliseconds.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=data");
    let data = Path::new("data");
    let mut catalogue = Map::new();
    for name in ["defaults", "images", "os"] {
        catalogue.insert(name.to_owned(), read(&data.join(format!("{name}.yaml")))?);
    }
    for name in ["components", "features", "releases"] {
        let files: Vec<Value> = files(&data.join(name))?.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
        catalogue.insert(name.to_owned(), files.into());
    }
    let verified = read(&data.join("verified.yaml"))?;
    for row in verified.as_array().ok_or("data/verified.yaml is no list")? {
        verify(&mut catalogue, row)?;
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    fs::write(out.join("catalogue.json"), serde_json::to_vec(&catalogue)?)?;
    fs::write(out.join("feature-gates.json"), serde_json::to_vec(&read(&data.join("feature-gates.yaml"))?)?)?;
    fs::write(out.join("os.json"), serde_json::to_vec(&operating_systems(&data.join("os"))?)?)?;
    Ok(())
}

/// Adds one row of `verified.yaml` to what it is about: the images of a version of a feature, a component, a range of a release's
/// patches; or the range of a feature, what its chart renders, the recommended versions of containerd, the end of a line. A row about nothing is refused: its
/// version was taken out, and what is left would be read as checked.
fn verify(catalogue: &mut Map<String, Value>, row: &Value) -> Result<(), Box<dyn Error>> {
    let lost = || format!("data/verified.yaml: nothing in data/ is {row}");
    let named = |list: &'static str, field: &'static str, name: &Value, catalogue: &'_ mut Map<String, Value>| {
        let all = catalogue.get_mut(list).and_then(Value::as_array_mut)?;
        all.iter().position(|one| one[field] == *name)
    };
    if let Some(name) = row.get("end") {
        let line = row["line"].as_str().ok_or_else(lost)?;
        if name == "Kubernetes" {
            let index = named("releases", "minor", &row["line"], catalogue).ok_or_else(lost)?;
            catalogue["releases"][index]["endOfLifeCompared"] = compared(row).ok_or_else(lost)?;
            return Ok(());
        }
        let has = |list: &'static str, catalogue: &'_ mut Map<String, Value>| {
            let index = named(list, "name", name, catalogue)?;
            catalogue[list][index].pointer("/endOfLife")?.get(line)?;
            Some((list, index))
        };
        let (list, index) = has("features", catalogue).or_else(|| has("components", catalogue)).ok_or_else(lost)?;
        catalogue[list][index]["endOfLifeCompared"][line] = compared(row).ok_or_else(lost)?;
        return Ok(());
    }
    if let Some(minor) = row.get("recommends") {
        let index = named("releases", "minor", minor, catalogue).ok_or_else(lost)?;
        let support = catalogue["releases"][index].get_mut("support").ok_or_else(lost)?;
        support["recommendedContainerdCompared"] = compared(row).ok_or_else(lost)?;
        return Ok(());
    }
    for (kind, field) in [("supports", "supportsCompared"), ("render", "renderingCompared")] {
        let Some(feature) = row.get(kind) else { continue };
        let index = named("features", "name", feature, catalogue).ok_or_else(lost)?;
        let version = row["version"].as_str().ok_or_else(lost)?;
        let versions = catalogue["features"][index].get_mut("versions").ok_or_else(lost)?;
        versions.get_mut(version).ok_or_else(lost)?[field] = compared(row).ok_or_else(lost)?;
        return Ok(());
    }
    let place = if let Some(feature) = row.get("feature") {
        let index = named("features", "name", feature, catalogue).ok_or_else(lost)?;
        let version = row["version"].as_str().ok_or_else(lost)?;
        catalogue["features"][index].pointer_mut("/versions").and_then(|all| all.get_mut(version))
    } else if let Some(component) = row.get("component") {
        let index = named("components", "name", component, catalogue).ok_or_else(lost)?;
        catalogue["components"].get_mut(index)
    } else {
        let index = named("releases", "minor", &row["kubernetes"], catalogue).ok_or_else(lost)?;
        let patches = catalogue["releases"][index].get_mut("patches").and_then(Value::as_array_mut);
        patches.and_then(|all| all.iter_mut().find(|range| range["from"] == row["from"]))
    };
    let place = place.and_then(Value::as_object_mut).ok_or_else(lost)?;
    for field in ["verified", "unverified"] {
        if let Some(value) = row.get(field) {
            place.insert(field.to_owned(), value.clone());
        }
    }
    Ok(())
}

/// What a row says of its subject: `{verified: …}` or `{unverified: reason}`.
fn compared(row: &Value) -> Option<Value> {
    let known = ["verified", "unverified"].into_iter().find_map(|field| Some((field, row.get(field)?)));
    known.map(|(field, value)| serde_json::json!({ field: value }))
}

/// Profiles, what nodes need, and the vendors' keys with their text.
fn operating_systems(folder: &Path) -> Result<Value, Box<dyn Error>> {
    let profiles: Vec<Value> =
        files(&folder.join("profiles"))?.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
    let mut keys = read(&folder.join("keys.yaml"))?;
    for key in keys.as_array_mut().ok_or("data/os/keys.yaml is no list")? {
        let file = key["file"].as_str().ok_or("a key of data/os/keys.yaml has no file")?;
        let path = folder.join("keys").join(file);
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        key["armored"] = text.into();
    }
    Ok(serde_json::json!({ "profiles": profiles, "roots": read(&folder.join("roots.yaml"))?, "keys": keys }))
}

/// The YAML files of a folder, sorted.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            all.push(path);
        }
    }
    all.sort();
    Ok(all)
}

/// A file as it is: what its fields mean is read from the JSON, and a test holds that it can be.
fn read(path: &Path) -> Result<Value, Box<dyn Error>> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_saphyr::from_str(&text).map_err(|error| format!("{}: {error}", path.display()).into())
}
