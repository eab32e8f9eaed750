//! Packages that the administrator of an rpm-based host has locked: `exclude=` in the configuration of dnf and yum
//! (dnf.conf(5), yum.conf(5)), and the lists of their versionlock plugins.

use kubexm_packages::rpm::held::Hold;
use serde::Deserialize;

use crate::{Machine, OpError, fsio};

/// On newer systems the second is a link to the first.
const CONFIGURATIONS: [&str; 2] = ["/etc/dnf/dnf.conf", "/etc/yum.conf"];
/// The plugin's configuration, and its default list.
const LOCKS: [(&str, &str); 2] = [
    ("/etc/dnf/plugins/versionlock.conf", "/etc/dnf/plugins/versionlock.list"),
    ("/etc/yum/pluginconf.d/versionlock.conf", "/etc/yum/pluginconf.d/versionlock.list"),
];
/// The list of dnf5, which needs no plugin.
const LOCKS_OF_DNF5: &str = "/etc/dnf/versionlock.toml";

/// All of it.
pub(super) fn look(machine: &Machine) -> Result<Vec<Hold>, OpError> {
    let mut holds = Vec::new();
    for path in CONFIGURATIONS {
        let text = fsio::read_text(&machine.path(path))?.unwrap_or_default();
        for (key, value) in main_section(&text) {
            if matches!(key.as_str(), "exclude" | "excludepkgs") {
                let words = value.split([' ', '\t', '\n', ',']).filter(|word| !word.is_empty());
                holds.extend(words.map(|word| Hold::Excluded(word.to_owned())));
            }
        }
    }
    for (configuration, list) in LOCKS {
        let settings = main_section(&fsio::read_text(&machine.path(configuration))?.unwrap_or_default());
        let set = |name: &str| settings.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        if set("enabled").is_some_and(|value| matches!(value.to_ascii_lowercase().as_str(), "0" | "no" | "false")) {
            continue;
        }
        let list = set("locklist").filter(|path| path.starts_with('/')).unwrap_or(list);
        let text = fsio::read_text(&machine.path(list))?.unwrap_or_default();
        holds.extend(text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).map(locked));
    }
    if let Some(text) = fsio::read_text(&machine.path(LOCKS_OF_DNF5))? {
        let read: Dnf5 = toml::from_str(&text)
            .map_err(|error| OpError::other(format!("{LOCKS_OF_DNF5} cannot be read: {}", error.message())))?;
        holds.extend(read.packages.into_iter().map(Dnf5Lock::hold));
    }
    Ok(holds)
}

/// Settings of `[main]`; a line that starts with a blank continues the previous one.
fn main_section(text: &str) -> Vec<(String, String)> {
    let mut settings: Vec<(String, String)> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        let plain = line.trim();
        if plain.is_empty() || plain.starts_with(['#', ';']) {
            continue;
        }
        if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = settings.last_mut().filter(|_| inside) {
                value.push(' ');
                value.push_str(plain);
            }
        } else if plain.starts_with('[') {
            inside = plain == "[main]";
        } else if let Some((key, value)) = plain.split_once('=').filter(|_| inside) {
            settings.push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    settings
}

/// A line of a list: `NAME-EPOCH:VERSION-RELEASE.ARCH` for dnf, `EPOCH:NAME-VERSION-RELEASE.ARCH` for yum, with a
/// leading exclamation mark for excluded packages.
fn locked(line: &str) -> Hold {
    if let Some(pattern) = line.strip_prefix('!') {
        return Hold::Excluded(pattern.to_owned());
    }
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (before, after) = line.split_once(':').unwrap_or(("", line));
    let name = match before.rsplit_once('-') {
        Some((name, epoch)) if digits(epoch) => name,
        // Version and release follow the name and contain no hyphens.
        _ => {
            let full = if digits(before) { after } else { line };
            full.rsplitn(3, '-').nth(2).unwrap_or(full)
        }
    };
    Hold::Locked { name: name.to_owned(), pattern: line.to_owned() }
}

#[derive(Deserialize)]
struct Dnf5 {
    #[serde(default)]
    packages: Vec<Dnf5Lock>,
}

#[derive(Deserialize)]
struct Dnf5Lock {
    name: String,
    #[serde(default)]
    conditions: Vec<Dnf5Condition>,
}

#[derive(Deserialize)]
struct Dnf5Condition {
    key: String,
    comparator: String,
    value: String,
}

impl Dnf5Lock {
    /// Conditions other than one version cannot be evaluated here, so no package of that name is installed.
    fn hold(self) -> Hold {
        match self.conditions.as_slice() {
            [one] if one.key == "evr" && one.comparator == "=" => {
                Hold::Locked { pattern: format!("{}-{}", self.name, one.value), name: self.name }
            }
            _ => Hold::Excluded(self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(files: &[(&str, &str)]) -> Vec<String> {
        let root = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = root.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            std::fs::write(path, text).expect("a file");
        }
        let holds = look(&Machine::rooted(root.path())).expect("holds");
        holds.iter().map(|hold| hold.to_string().replace('\t', " ")).collect()
    }

    #[test]
    fn excludes_of_main_are_reported_over_several_lines_and_those_of_repositories_are_not() {
        let conf = "# exclude=no\n[main]\ngpgcheck=1\nexclude = socat*, bash\n  kernel*\nexcludepkgs=php\n[other]\nexclude=x\n";
        assert_eq!(said(&[("/etc/dnf/dnf.conf", conf)]), ["X socat*", "X bash", "X kernel*", "X php"]);
        assert_eq!(said(&[("/etc/yum.conf", "[main]\nexclude=a\n")]), ["X a"]);
        assert_eq!(said(&[]), [""; 0]);
    }

    #[test]
    fn locks_are_reported_as_each_plugin_writes_them_unless_it_is_off() {
        let dnf = "\n# Added lock on Mon\nsocat-0:1.7.4.1-5.el9.*\n!bash-0:5.1-1.el9.*\nlibnl3-cli-0:3.9-1.el9.*\n";
        let list = "/etc/dnf/plugins/versionlock.list";
        let reported =
            ["L socat socat-0:1.7.4.1-5.el9.*", "X bash-0:5.1-1.el9.*", "L libnl3-cli libnl3-cli-0:3.9-1.el9.*"];
        assert_eq!(said(&[(list, dnf)]), reported);
        let off = (
            "/etc/dnf/plugins/versionlock.conf",
            "[main]\nenabled = 0\nlocklist = /etc/dnf/plugins/versionlock.list\n",
        );
        assert_eq!(said(&[(list, dnf), off]), [""; 0]);
        let elsewhere = ("/etc/dnf/plugins/versionlock.conf", "[main]\nenabled=1\nlocklist=/etc/locks\n");
        assert_eq!(said(&[(list, dnf), elsewhere, ("/etc/locks", "a-1-1\n")]), ["L a a-1-1"]);
        let yum = [("/etc/yum/pluginconf.d/versionlock.list", "0:socat-1.7.3.2-2.el7.*\n")];
        assert_eq!(said(&yum), ["L socat 0:socat-1.7.3.2-2.el7.*"]);
    }

    #[test]
    fn locks_of_dnf5_are_reported_and_what_it_cannot_have_written_is_an_error() {
        let text = "version = \"1.0\"\n[[packages]]\nname = \"bash\"\ncomment = \"x\"\n[[packages.conditions]]\nkey = \"evr\"\n\
                    comparator = \"=\"\nvalue = \"0:5.2.15-5.fc39\"\n[[packages]]\nname = \"vim\"\n[[packages.conditions]]\n\
                    key = \"evr\"\ncomparator = \"<\"\nvalue = \"9\"\n";
        assert_eq!(said(&[("/etc/dnf/versionlock.toml", text)]), ["L bash bash-0:5.2.15-5.fc39", "X vim"]);
        let root = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(root.path().join("etc/dnf")).expect("folders");
        std::fs::write(root.path().join("etc/dnf/versionlock.toml"), "<xml>").expect("a file");
        assert!(look(&Machine::rooted(root.path())).expect_err("an error").full().contains("versionlock.toml"));
    }
}
