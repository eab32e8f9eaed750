//! A real sshd on a free port of 127.0.0.1, with keys, users' way in and environment of its own.

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kubexm_engine::link::ssh::{
    AgentBinary, AgentSource, Hop, KeySource, Login, NoTerminal, Password, SshLink, SshOptions, SshTarget,
};
use kubexm_engine::link::{LinkError, known_hosts};
use kubexm_spec::Arch;

/// What differs from a plain server.
#[derive(Default)]
pub struct Setup {
    /// Log in as a user of its own instead of the one who runs the tests.
    pub plain_user: bool,
    /// Shell text that stands for `sudo`.
    pub sudo: Option<&'static str>,
    /// Printed before every command, as a noisy `.bashrc` does.
    pub noise: Option<&'static str>,
    /// Password of the user of its own, for sshd (with and without PAM) and for sudo.
    pub password: Option<&'static str>,
    /// The rule that the real sudo has for the user of its own: `ALL`, `NOPASSWD: ALL`.
    pub sudoers: Option<&'static str>,
    /// Lines of sshd_config that come before the others; the first of a kind counts.
    pub config: &'static str,
}

/// The server; ends with the value.
pub struct Server {
    pub folder: tempfile::TempDir,
    pub port: u16,
    child: Child,
    user: User,
}

impl Server {
    pub fn start(setup: &Setup) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        // The user must reach its key and root.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let user = if setup.plain_user { User::add(folder.path(), setup) } else { User::current() };
        for name in ["host_key", "client_key", "other_key"] {
            keygen(&at(name));
        }
        std::fs::copy(at("client_key.pub"), at("authorized_keys")).unwrap();
        for name in ["root", "bin"] {
            std::fs::create_dir(at(name)).unwrap();
            run(Command::new("chown").arg(&user.name).arg(at(name)));
        }
        std::fs::create_dir_all(at("path")).unwrap();
        let mut tests = std::env::current_exe().unwrap();
        if setup.plain_user {
            // The folder that this program was built in may be closed to others.
            std::fs::copy(&tests, at("tests")).unwrap();
            tests = at("tests");
        }
        write_agent_program(&at("agent"), &tests);
        if let Some(text) = setup.sudo {
            std::fs::write(at("path/sudo"), format!("#!/bin/sh\n{text}\n")).unwrap();
            std::fs::set_permissions(at("path/sudo"), PermissionsExt::from_mode(0o755)).unwrap();
        }
        let force = setup.noise.map_or_else(String::new, |noise| {
            format!("ForceCommand printf '{noise}'; eval \"$SSH_ORIGINAL_COMMAND\"\n")
        });
        let shown = folder.path().display();
        // Another process may take a port between our looking and sshd's binding: then another port.
        for _ in 0..5 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            // On the second level bash reads no .bashrc: that of whoever runs the tests may take longer than all else.
            let config = format!(
                "{}\nListenAddress 127.0.0.1:{port}\nHostKey {shown}/host_key\nAuthorizedKeysFile {shown}/authorized_keys\n\
                 StrictModes no\nUsePAM no\nPidFile none\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
                 PermitRootLogin prohibit-password\nPrintMotd no\nSetEnv KUBEXM_TEST_ROOT={shown}/root SHLVL=1 \
                 PATH={shown}/path:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n{force}",
                setup.config
            );
            std::fs::write(at("sshd_config"), config).unwrap();
            // Where sshd keeps its privilege separation; a machine whose own sshd never ran has none.
            let _ = std::fs::create_dir("/run/sshd");
            let log = std::fs::File::create(at("log")).unwrap();
            let mut child = Command::new("/usr/sbin/sshd")
                .args(["-D", "-e", "-f"])
                .arg(at("sshd_config"))
                .stdin(Stdio::null())
                .stderr(log)
                .spawn()
                .unwrap();
            if answers(port, &mut child) {
                return Self { folder, port, child, user };
            }
        }
        panic!("sshd does not start: {}", std::fs::read_to_string(at("log")).unwrap_or_default());
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where the agent's program continues this "host".
    pub fn agent_path(&self) -> PathBuf {
        self.path("bin/kubexm-install")
    }

    pub fn target(&self) -> SshTarget {
        SshTarget {
            name: "node1".into(),
            address: "127.0.0.1".into(),
            port: self.port,
            login: self.login(),
            sudo_password: None,
            via: Vec::new(),
            folders: kubexm_plan::facts::DataFolders::default(),
        }
    }

    /// With the key that the server knows.
    pub fn login(&self) -> Login {
        let keys = vec![KeySource::File(self.path("client_key"))];
        Login { user: self.user.name.clone(), keys, password: None }
    }

    /// This server as a bastion.
    pub fn hop(&self) -> Hop {
        Hop { address: "127.0.0.1".into(), port: self.port, login: self.login() }
    }

    /// Options under which the server's key is known.
    pub fn options(&self, holder: &str) -> SshOptions {
        let known = self.path("known_hosts");
        if !known.exists() {
            self.make_known(&known);
        }
        SshOptions {
            known_hosts: vec![known],
            accept_new: false,
            // Other work of the machine is no fault of the link.
            connect_timeout: Duration::from_secs(60),
            keepalive: Duration::from_secs(5),
            holder: holder.into(),
            prompt: Arc::new(NoTerminal),
            shared: Arc::default(),
        }
    }

    /// Records the server's key in a file.
    pub fn make_known(&self, file: &Path) {
        let key = std::fs::read_to_string(self.path("host_key.pub")).unwrap().parse().unwrap();
        known_hosts::learn(file, "127.0.0.1", self.port, &key).unwrap();
    }

    pub fn agent(&self) -> AgentBinary {
        let arch = Arch::from_any(std::env::consts::ARCH).unwrap();
        AgentBinary {
            sources: [(arch, AgentSource::File(self.path("agent")))].into(),
            path: self.agent_path().display().to_string(),
        }
    }

    pub async fn connect(&self) -> Result<SshLink, LinkError> {
        SshLink::connect(self.target(), self.options("run 1"), self.agent()).await
    }

    /// Ends every session, as a cut line does; the server continues listening, and agents see their channel close.
    pub fn kill_sessions(&self) {
        kill_below(self.child.id());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill_sessions();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The user who logs in; one that was made for the test goes with it.
struct User {
    name: String,
    made: bool,
    sudoers: Option<PathBuf>,
}

impl User {
    fn current() -> Self {
        let name = Command::new("id").arg("-un").output().unwrap();
        Self { name: String::from_utf8(name.stdout).unwrap().trim().to_owned(), made: false, sudoers: None }
    }

    fn add(folder: &Path, setup: &Setup) -> Self {
        let current = Self::current();
        if current.name != "root" {
            return current;
        }
        let unique = folder.file_name().unwrap().to_string_lossy().to_lowercase();
        let name = format!("kubexm{}", unique.replace(|c: char| !c.is_ascii_alphanumeric(), ""));
        run(Command::new("useradd").args(["-M", "-d", "/nonexistent", "-s", "/bin/sh", "-p", "*", &name]));
        let mut user = Self { name, made: true, sudoers: None };
        if let Some(password) = setup.password {
            let line = folder.join("line");
            std::fs::write(&line, format!("{}:{password}\n", user.name)).unwrap();
            run(Command::new("chpasswd").stdin(std::fs::File::open(&line).unwrap()));
            std::fs::remove_file(line).unwrap();
        }
        if let Some(rule) = setup.sudoers {
            let path = PathBuf::from(format!("/etc/sudoers.d/{}", user.name));
            let text = format!("Defaults:{0} env_keep += \"KUBEXM_TEST_ROOT\"\n{0} ALL=(ALL) {rule}\n", user.name);
            user.sudoers = Some(path.clone());
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o440)).unwrap();
        }
        user
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if let Some(path) = &self.sudoers {
            let _ = std::fs::remove_file(path);
        }
        // userdel refuses while the last process of the user is still ending.
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.made && Instant::now() < deadline {
            let done = Command::new("userdel").arg(&self.name).stderr(Stdio::null()).status();
            self.made = !done.is_ok_and(|status| status.success());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The agent's program of these tests: a script that runs this very test program as [`super::serves_as_agent`]. What the
/// test harness prints first is noise before the magic line. Long enough to need more than one window of the channel.
fn write_agent_program(path: &Path, tests: &Path) {
    let mut script = format!(
        "#!/bin/sh\nKUBEXM_TEST_MODE=\"$*\" exec {} --exact serves_as_agent --nocapture --test-threads 1\n",
        tests.display()
    );
    script.extend(std::iter::repeat_n("# padding\n", 400_000));
    std::fs::write(path, script).unwrap();
}

pub fn keygen(path: &Path) {
    run(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path));
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn answers(port: u16, child: &mut Child) -> bool {
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline && child.try_wait().unwrap().is_none() {
        let mut banner = [0; 4];
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port))
            && stream.read_exact(&mut banner).is_ok()
        {
            return banner == *b"SSH-";
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
    false
}

/// Kills the sshd processes below one, deepest first; with another user there are two for a session.
fn kill_below(parent: u32) {
    let ps = Command::new("ps").args(["-o", "pid=,comm=", "--ppid", &parent.to_string()]).output().unwrap();
    for line in String::from_utf8_lossy(&ps.stdout).lines() {
        if let Some((pid, "sshd" | "sshd-session")) = line.trim().split_once(' ')
            && let Ok(number) = pid.parse()
        {
            kill_below(number);
            let _ = Command::new("kill").args(["-9", pid]).stderr(Stdio::null()).status();
        }
    }
}

/// A password that these tests use.
pub fn password(text: &str) -> Option<Password> {
    Some(Password::new(text).unwrap())
}
