//! bash of a rooted host. It has `touch`, `rm -f`, `echo`, `cp` of a material, `true` and `exit`, one command per line.

use crate::system::Output;
use crate::{OpError, fsio};

use super::RootedSystem;

/// `bash -c WRAPPER kubexm FOLDER FILE`.
pub(super) fn bash(system: &RootedSystem, args: &[&str]) -> Result<Output, OpError> {
    let [.., folder, file] = args else {
        return Err(OpError::other(format!("the fake bash does not know `bash {}`", args.join(" "))));
    };
    let Some(text) = system.read(&format!("{folder}/{file}")) else {
        return Ok(Output::failed(127, format!("bash: {folder}/{file}: No such file or directory")));
    };
    let mut said = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["true"] => {}
            ["exit", code] => {
                return Ok(Output { code: code.parse().unwrap_or(1), stdout: said.into_bytes(), stderr: Vec::new() });
            }
            ["echo", rest @ ..] => said.push_str(&format!("{}\n", rest.join(" "))),
            ["touch", path] => write(system, path, "")?,
            ["rm", "-f", path] => fsio::remove(&system.at(path))?,
            ["cp", material, path] => match system.read(&format!("{folder}/files/{material}")) {
                Some(text) => write(system, path, &text)?,
                None => {
                    return Ok(Output::failed(1, format!("cp: cannot stat '{material}': No such file or directory")));
                }
            },
            _ => return Err(OpError::other(format!("the fake bash does not know `{line}`"))),
        }
    }
    Ok(Output::text(said))
}

fn write(system: &RootedSystem, path: &str, text: &str) -> Result<(), OpError> {
    let path = system.at(path);
    fsio::make_parent(&path)?;
    std::fs::write(&path, text).map_err(OpError::path("write", &path))
}
