//! The script that starts Harbor, run as it is in the plan, with folders of the test in place of the host's.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use kubexm_recipes::sample;
use kubexm_spec::cluster::{Harbor, Registry, RegistryKind, SecretSource};

use crate::common::Site;

/// A host with Harbor's programs, each of which does nothing.
struct Host {
    folder: tempfile::TempDir,
    script: String,
}

impl Host {
    fn new() -> Self {
        let mut cluster = sample::fleet(1, 1);
        cluster.hosts.push(sample::host("store", 30));
        cluster.role_groups.registry = vec!["store".to_owned()];
        let source = SecretSource::File("database-password".into());
        let harbor = Harbor { database_password: Some(source), ..Harbor::default() };
        let data_dir = "/srv/registry".to_owned();
        cluster.registry = Registry { harbor: Some(harbor), data_dir, ..Registry::of(RegistryKind::Harbor) };
        let plan = Site::of(cluster).create().unwrap();
        let starts = |text: &&String| text.starts_with("#!/bin/sh\n# Loads the installer's images");
        let script = plan.texts.values().find(starts).unwrap().clone();
        let host = Self { folder: tempfile::tempdir().unwrap(), script };
        for (path, text) in [
            ("usr/local/lib/kubexm-harbor/bin/docker", "#!/bin/sh\n"),
            ("usr/local/lib/kubexm-harbor/compose/docker-compose", "#!/bin/sh\necho started\n"),
            ("usr/local/lib/kubexm-harbor/installer/prepare", ""),
        ] {
            host.put(path, text);
        }
        host
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }

    /// What it prints, and whether it ended well.
    fn starts_with(&self, password: &str) -> (bool, String) {
        let root = self.folder.path();
        let mut script = self.script.clone();
        self.put("etc/kubexm/harbor/database-password", password);
        self.put("etc/kubexm/harbor/harbor.yml", "hostname: x\n");
        self.put("etc/kubexm/harbor/database.yml", "  max_idle_conns: 1\n");
        for folder in ["/usr/local/lib/kubexm-harbor", "/var/lib/kubexm-harbor", "/etc/kubexm", "/srv/registry"] {
            script = script.replace(folder, &format!("{}{folder}", root.display()));
        }
        fs::create_dir_all(root.join("srv/registry")).unwrap();
        let ended = Command::new("/bin/sh").arg("-c").arg(script).output().unwrap();
        let said = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
        (ended.status.success(), said)
    }
}

#[test]
fn another_password_than_that_of_the_database_is_refused_before_anything_starts() {
    let host = Host::new();
    assert_eq!(host.starts_with("one"), (true, "started\n".to_owned()));
    // Nothing was made with it yet.
    assert_eq!(host.starts_with("two"), (true, "started\n".to_owned()));
    host.put("srv/registry/database/pg15/PG_VERSION", "15\n");
    assert_eq!(host.starts_with("two"), (true, "started\n".to_owned()));
    let (started, said) = host.starts_with("three");
    assert!(!started && said.contains("databasePasswordFrom") && said.contains("ALTER USER"), "{said}");
    assert!(!said.contains("three") && !said.contains("two"), "{said}");
    assert_eq!(host.starts_with("two"), (true, "started\n".to_owned()));
}

/// Of a database that an earlier program made nobody knows by which password: what is given now may be wrong.
#[test]
fn with_a_database_of_before_nothing_is_refused_or_noted() {
    let host = Host::new();
    host.put("srv/registry/kubexm/database-password", "Kx1-made\n");
    host.put("srv/registry/database/pg15/PG_VERSION", "15\n");
    for password in ["one", "two"] {
        assert!(host.starts_with(password).0);
    }
    assert!(!host.folder.path().join("srv/registry/kubexm/database-password.sha256").exists());
}
