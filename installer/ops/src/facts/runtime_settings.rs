//! Drop-ins of others in the configuration of a runtime that takes some: those that are read after kubexm's, whose values win.

use std::path::Path;

use kubexm_plan::facts::RuntimeSetting;
use kubexm_plan::runtime;
use toml::{Table, Value};

use crate::{Machine, OpError, fsio};

/// The most settings that are reported of a host, and the most bytes of a key or a value.
const MOST: usize = 64;
const LONGEST: usize = 200;

pub(super) fn look(machine: &Machine) -> Result<Vec<RuntimeSetting>, OpError> {
    let mut found = Vec::new();
    for runtime in runtime::INSTALLED {
        let Some((folder, own)) = runtime.drop_ins else { continue };
        for path in read_after(machine, folder, own)? {
            found.extend(settings(machine, &path, of_configuration)?);
        }
        for path in read_after(machine, runtime.registries, own)? {
            found.extend(settings(machine, &path, of_registries)?);
        }
    }
    found.truncate(MOST);
    Ok(found)
}

/// Files with a later name than kubexm's, in the order in which they are read.
fn read_after(machine: &Machine, folder: &str, own: &str) -> Result<Vec<String>, OpError> {
    let real = machine.path(folder);
    let entries = match std::fs::read_dir(&real) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(OpError::path("list", &real)(error)),
    };
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name.as_str() > own && is_read(folder, name));
    names.sort_unstable();
    Ok(names.into_iter().map(|name| format!("{folder}/{name}")).collect())
}

/// Of registries only files that end with `.conf` are read.
fn is_read(folder: &str, name: &str) -> bool {
    !name.starts_with('.') && (!folder.contains("registries") || name.ends_with(".conf"))
}

fn settings(
    machine: &Machine,
    path: &str,
    of: fn(&Table) -> Vec<(String, String)>,
) -> Result<Vec<RuntimeSetting>, OpError> {
    if !Path::new(&machine.path(path)).is_file() {
        return Ok(Vec::new());
    }
    let text = fsio::read_text(&machine.path(path))?.unwrap_or_default();
    let all = match toml::from_str::<Table>(&text) {
        Ok(table) => of(&table),
        Err(error) => vec![(String::new(), error.message().to_owned())],
    };
    let short = |text: String| text.chars().take(LONGEST).collect();
    Ok(all.into_iter().map(|(key, value)| RuntimeSetting { file: path.to_owned(), key, value: short(value) }).collect())
}

/// Each key with its sections before it, and its value.
fn of_configuration(table: &Table) -> Vec<(String, String)> {
    let mut all = Vec::new();
    flatten(table, "", &mut all);
    all
}

fn flatten(table: &Table, above: &str, all: &mut Vec<(String, String)>) {
    for (key, value) in table {
        let path = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        match value {
            Value::Table(table) => flatten(table, &path, all),
            value => all.push((path, value.to_string())),
        }
    }
}

/// The upstream hosts for which a file names other registries: `registry docker.io`.
fn of_registries(table: &Table) -> Vec<(String, String)> {
    let registries = table.get("registry").and_then(Value::as_array).into_iter().flatten();
    let text = |registry: &Value, key: &str| registry.get(key).and_then(Value::as_str).map(str::to_owned);
    let named = registries.filter_map(|registry| {
        let location = text(registry, "location");
        let prefix = text(registry, "prefix").or_else(|| location.clone())?;
        Some((format!("registry {prefix}"), location.unwrap_or_default()))
    });
    named.collect()
}
