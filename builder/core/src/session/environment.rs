//! What the caller passes to the library about the machine that it runs on. The library looks nothing up by itself.

use std::path::{Path, PathBuf};

use super::SessionError;

/// Folders, files and names that a program knows from its environment. The default knows nothing.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// What `~` stands for in files of the user.
    pub user_home: Option<PathBuf>,
    /// Where caches are kept unless they are named (`$KUBEXM_HOME`).
    pub home: Option<PathBuf>,
    /// Zones that variables name, by the variable; the first one counts, after a zone that is asked for by name.
    pub zones: Vec<(&'static str, String)>,
    /// The folder in which `kubexm-install` is looked for, beside the program.
    pub programs: Option<PathBuf>,
    /// registries.conf and what is beside it, in order (containers-registries.conf(5)), where none is named.
    pub registries: Vec<PathBuf>,
    /// Whether the proxies that variables of the process name are used (`HTTPS_PROXY` and its kin).
    pub proxies: bool,
}

impl Environment {
    /// The folder of the cache: the one that is named, or the usual one.
    ///
    /// # Errors
    /// None is named, and no home is known.
    pub fn cache(&self, named: Option<&Path>) -> Result<PathBuf, SessionError> {
        match (named, &self.home) {
            (Some(folder), _) => Ok(folder.to_owned()),
            (None, Some(home)) => Ok(home.join("cache")),
            (None, None) => Err(SessionError::NoHome),
        }
    }

    /// A path in a file of the user: `~` is the user's home, and what is relative is relative to that file's folder, so that the
    /// same file means the same from every working directory.
    ///
    /// # Errors
    /// It begins with `~`, and no home of the user is known.
    pub fn resolve(&self, path: &Path, folder: &Path) -> Result<PathBuf, SessionError> {
        let Ok(rest) = path.strip_prefix("~") else { return Ok(folder.join(path)) };
        match &self.user_home {
            Some(home) => Ok(home.join(rest)),
            None => Err(SessionError::NoUserHome { path: path.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_a_file_are_relative_to_its_folder_or_to_the_users_home() {
        let known = Environment { user_home: Some("/home/op".into()), ..Environment::default() };
        let of = |path: &str| known.resolve(Path::new(path), Path::new("/site")).unwrap();
        assert_eq!(of("values.yaml"), Path::new("/site/values.yaml"));
        assert_eq!(of("/etc/values.yaml"), Path::new("/etc/values.yaml"));
        assert_eq!(of("~/values.yaml"), Path::new("/home/op/values.yaml"));
        let unknown = Environment::default().resolve(Path::new("~/values.yaml"), Path::new("/site"));
        assert!(matches!(unknown, Err(SessionError::NoUserHome { .. })));
    }

    #[test]
    fn a_cache_is_the_one_that_is_named_or_in_the_home_of_this_program() {
        let known = Environment { home: Some("/home/op/.kubexm".into()), ..Environment::default() };
        assert_eq!(known.cache(None).unwrap(), Path::new("/home/op/.kubexm/cache"));
        assert_eq!(known.cache(Some(Path::new("/cache"))).unwrap(), Path::new("/cache"));
        assert!(matches!(Environment::default().cache(None), Err(SessionError::NoHome)));
    }
}
