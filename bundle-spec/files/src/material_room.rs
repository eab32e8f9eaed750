//! Memory for the materials of one cluster.yaml.

use std::path::Path;

use kubexm_spec::cluster::{MATERIALS_LIMIT, MaterialOf};

use crate::MaterialError;

/// What is left of [`MATERIALS_LIMIT`]. Each name takes its own: a bundle can give one text a thousand names.
#[derive(Clone, Copy, Debug)]
pub struct MaterialRoom {
    limit: u64,
    left: u64,
}

impl Default for MaterialRoom {
    fn default() -> Self {
        Self::of(MATERIALS_LIMIT)
    }
}

impl MaterialRoom {
    /// Room for so many bytes.
    pub const fn of(limit: u64) -> Self {
        Self { limit, left: limit }
    }

    /// Takes a text that was read; `from` is for messages.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn take(&mut self, material: &MaterialOf<'_>, from: &Path, text: &str) -> Result<(), MaterialError> {
        let Some(left) = self.left.checked_sub(text.len() as u64) else {
            let (field, path) = (material.field.clone(), from.to_owned());
            return Err(MaterialError::TooMuch { field, path, limit: self.limit });
        };
        self.left = left;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use kubexm_spec::ExitCode;
    use kubexm_spec::cluster::{MaterialFile, MaterialUse};

    use super::*;

    #[test]
    fn texts_are_taken_while_there_is_room_for_all_of_them() {
        let file = MaterialFile { path: PathBuf::from("a.sh"), name: "a.sh".to_owned() };
        let field = "spec.system.preInstall[0].materials[2]".to_owned();
        let material = MaterialOf { field, usage: MaterialUse::Script, file: &file };
        let mut room = MaterialRoom::of(10);
        room.take(&material, &file.path, "12345").unwrap();
        room.take(&material, &file.path, "12345").unwrap();
        let error = room.take(&material, &file.path, "1").unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Config);
        let text = error.to_string();
        assert!(text.starts_with("spec.system.preInstall[0].materials[2]: with a.sh"), "{text}");
        assert!(text.contains("more than 10 bytes together"), "{text}");
    }
}
