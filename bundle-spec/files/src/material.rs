//! Materials: text files that cluster.yaml names, read from beside it.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use kubexm_spec::cluster::{BadMaterial, MATERIAL_LIMIT, MaterialOf};
use kubexm_spec::{ExitCode, ExitError, error_chain};

use crate::InputError;
use crate::input::text_of;

/// Why a text that cluster.yaml names cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MaterialError {
    /// It cannot be read as a text.
    #[error("{field}: {}", error_chain(source))]
    Input {
        /// The field that names it.
        field: String,
        source: InputError,
    },
    /// It is a folder, a device, or something else that is no file.
    #[error("{field}: {} is {what}; name a regular file", path.display())]
    NotAFile {
        /// The field that names it.
        field: String,
        /// The file.
        path: PathBuf,
        /// `a folder` …
        what: &'static str,
    },
    /// It, or a folder on the path to it, is a link: what it leads to may lie anywhere.
    #[error("{field}: {} is a symbolic link; put the file itself beside cluster.yaml", path.display())]
    Link {
        /// The field that names it.
        field: String,
        /// The link.
        path: PathBuf,
    },
    /// It holds a credential.
    #[error(
        "{field}: {} holds {what}, which everyone with the bundle or the plan could read; --allow-secret does not apply to texts \
         that cluster.yaml names. Remove it: keys, kubeconfigs and tokens are given by fields that end in From, such as \
         passwordFrom: {{env: NAME}} or kubeconfigFrom: {{file: PATH}}; a script can read one from a file of the node",
        path.display()
    )]
    Credential {
        /// The field that names it.
        field: String,
        /// The file.
        path: PathBuf,
        /// `a private key` …
        what: &'static str,
    },
    /// The texts before it leave no room for it.
    #[error(
        "{field}: with {} the files that cluster.yaml names have more than {limit} bytes together; carry large ones with \
         spec.bundle.extraFiles",
        path.display()
    )]
    TooMuch {
        /// The field that names it.
        field: String,
        /// The file.
        path: PathBuf,
        /// Of all together, in bytes.
        limit: u64,
    },
    /// It is not what its field wants.
    #[error("{field}: {}: {problem}", path.display())]
    Content {
        /// The field that names it.
        field: String,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

impl MaterialError {
    /// How a program ends on several: a secret is the most severe.
    pub fn exit_code_of(errors: &[Self]) -> ExitCode {
        errors.iter().map(Self::exit_code).max().unwrap_or(ExitCode::Config)
    }

    /// All of them, a line each.
    pub fn all(errors: &[Self]) -> String {
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    /// How a program ends on it.
    pub const fn exit_code(&self) -> ExitCode {
        match self {
            Self::Credential { .. } => ExitCode::InlineSecret,
            Self::Input { .. }
            | Self::NotAFile { .. }
            | Self::Link { .. }
            | Self::TooMuch { .. }
            | Self::Content { .. } => ExitCode::Config,
        }
    }
}

impl ExitError for MaterialError {
    fn exit_code(&self) -> ExitCode {
        self.exit_code()
    }
}

/// The text of a material, which is what its field wants. Its path is the folder of cluster.yaml and its name.
///
/// # Errors
/// It is not there, is no regular file, has too many bytes, is no UTF-8, or cannot be used for its field.
pub fn read_material(material: &MaterialOf<'_>) -> Result<String, MaterialError> {
    let (field, path) = (&material.field, &material.file.path);
    let input = |source| MaterialError::Input { field: field.clone(), source };
    check_path(material)?;
    let bytes = read(path).map_err(input)?;
    check_material(material, path, bytes)
}

/// The same of bytes that were read elsewhere; `from` is for messages.
///
/// # Errors
/// They are no UTF-8, or cannot be used for the field.
pub fn check_material(material: &MaterialOf<'_>, from: &Path, bytes: Vec<u8>) -> Result<String, MaterialError> {
    let field = || material.field.clone();
    let text = text_of(from, bytes).map_err(|source| MaterialError::Input { field: field(), source })?;
    let path = from.to_owned();
    match material.usage.check(&text) {
        Ok(()) => Ok(text),
        Err(BadMaterial::Credential(what)) => Err(MaterialError::Credential { field: field(), path, what }),
        Err(BadMaterial::Content(problem)) => Err(MaterialError::Content { field: field(), path, problem }),
    }
}

/// No link leads out of the folder of cluster.yaml: each part below it is looked at.
fn check_path(material: &MaterialOf<'_>) -> Result<(), MaterialError> {
    let field = || material.field.clone();
    let depth = material.file.name.split('/').count();
    let parts: Vec<&Path> = material.file.path.ancestors().take(depth).collect();
    for part in parts.into_iter().rev() {
        let found = fs::symlink_metadata(part).map_err(|source| {
            let source = InputError::Io { path: material.file.path.clone(), source };
            MaterialError::Input { field: field(), source }
        })?;
        if found.is_symlink() {
            return Err(MaterialError::Link { field: field(), path: part.to_owned() });
        }
        if part == material.file.path && !found.is_file() {
            let what = if found.is_dir() { "a folder" } else { "a device, a pipe or a socket" };
            return Err(MaterialError::NotAFile { field: field(), path: part.to_owned(), what });
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, InputError> {
    let failed = |source| InputError::Io { path: path.to_owned(), source };
    // Another program may have put a pipe or a link there since.
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(failed(io::Error::other("it is no longer a regular file")));
    }
    let mut bytes = Vec::new();
    file.take(MATERIAL_LIMIT + 1).read_to_end(&mut bytes).map_err(failed)?;
    match bytes.len() as u64 > MATERIAL_LIMIT {
        true => Err(InputError::TooLarge { path: path.to_owned(), limit: MATERIAL_LIMIT }),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use kubexm_spec::cluster::{MaterialFile, MaterialUse};

    use super::*;

    const POLICY: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n";

    fn read_in(folder: &Path, name: &str) -> Result<String, MaterialError> {
        let file = MaterialFile { path: folder.join(name), name: name.to_owned() };
        let field = "spec.kubernetes.audit.policyFile".to_owned();
        read_material(&MaterialOf { field, usage: MaterialUse::AuditPolicy, file: &file })
    }

    #[test]
    fn a_material_is_a_text_file_below_the_folder_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("sub")).unwrap();
        fs::write(at("sub/policy.yaml"), POLICY).unwrap();
        assert_eq!(read_in(folder.path(), "sub/policy.yaml").unwrap(), POLICY);
        symlink("sub/policy.yaml", at("link.yaml")).unwrap();
        symlink("sub", at("linked")).unwrap();
        fs::write(at("large.yaml"), " ".repeat(1 + (1 << 20))).unwrap();
        fs::write(at("latin.yaml"), b"# caf\xe9\n").unwrap();
        fs::write(at("pod.yaml"), "kind: Pod\n").unwrap();
        fs::write(at("key.yaml"), "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg\n")
            .unwrap();
        for (name, said, code) in [
            ("none.yaml", "none.yaml: No such file", ExitCode::Config),
            ("sub", "sub is a folder", ExitCode::Config),
            ("link.yaml", "link.yaml is a symbolic link", ExitCode::Config),
            ("linked/policy.yaml", "linked is a symbolic link", ExitCode::Config),
            ("large.yaml", "more than 1048576 bytes", ExitCode::Config),
            ("latin.yaml", "is not UTF-8 in line 1", ExitCode::Config),
            ("pod.yaml", "audit.k8s.io/v1 and kind Policy", ExitCode::Config),
            ("key.yaml", "key.yaml holds a private key", ExitCode::InlineSecret),
        ] {
            let error = read_in(folder.path(), name).unwrap_err();
            let text = error.to_string();
            assert!(text.starts_with("spec.kubernetes.audit.policyFile: ") && text.contains(said), "{text}");
            assert_eq!(error.exit_code(), code, "{text}");
        }
    }
}
