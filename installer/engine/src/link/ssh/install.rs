//! Prepares a node for the agent: its architecture, root rights, and the agent's program on its disk.
//!
//! These are the only shell scripts of the program. They need a POSIX `sh`, `id`, `uname`, `mktemp`, `sha256sum` and
//! `install`. Each marks the start of its output, since a login shell's rc file may print something first.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kubexm_ops::paths::STAMP;
use kubexm_spec::{Arch, Digest};
use russh::Channel;
use russh::client::Msg;
use tokio::io::AsyncRead;

use super::SshTarget;
use super::connection::{Connection, SCRIPT, SENDING};
use super::endpoint::{denied, unreachable};
use super::session::{MARK, Output, said};
use super::shared::Shared;
use crate::link::agent::{LOCK_PATH, PRESENT_PATH};
use crate::link::{BlobSource, LinkError};

/// Path of the agent's program on a node.
pub const AGENT_PATH: &str = "/usr/local/bin/kubexm-install";

/// Cached digest of the agent's program; removed by a reboot.
const NOTE: &str = "/run/kubexm/agent";

/// The agent's program, one for each architecture of the hosts.
#[derive(Clone)]
pub struct AgentBinary {
    /// The source of each.
    pub sources: BTreeMap<Arch, AgentSource>,
    /// Absolute path on the node, usually [`AGENT_PATH`].
    pub path: String,
}

/// Source of an agent's program.
#[derive(Clone)]
pub enum AgentSource {
    /// A file of the controller: the running program itself, if the node has its architecture.
    File(PathBuf),
    /// A blob of the bundle.
    Blob {
        digest: Digest,
        /// The source of the blob.
        source: Arc<dyn BlobSource>,
    },
}

impl std::fmt::Debug for AgentSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Blob { digest, .. } => f.debug_tuple("Blob").field(digest).finish(),
        }
    }
}

impl AgentSource {
    async fn digest(&self, target: &SshTarget, shared: &Shared) -> Result<Digest, LinkError> {
        match self {
            Self::Blob { digest, .. } => Ok(*digest),
            Self::File(path) => shared.program(path).await.map_err(|error| LinkError::Op {
                host: target.name.clone(),
                text: format!("cannot read the agent's program {}: {error}", path.display()),
            }),
        }
    }

    async fn open(&self) -> std::io::Result<Pin<Box<dyn AsyncRead + Send>>> {
        Ok(match self {
            Self::File(path) => Box::pin(tokio::fs::File::open(path).await?),
            Self::Blob { digest, source } => Box::pin(source.open(*digest, 0).await?),
        })
    }
}

/// What was done to the agent's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installed {
    /// The right one existed.
    Present,
    /// There was none, and it was installed.
    New,
    /// Another one was replaced; a copy is kept next to it.
    Replaced,
}

/// Detects the node's architecture, checks for root rights, and installs the agent if it is missing.
pub async fn prepare(
    connection: &Connection,
    target: &SshTarget,
    agent: &AgentBinary,
    shared: &Shared,
) -> Result<Installed, LinkError> {
    let seen = look(connection, target, agent).await?;
    let source = agent.sources.get(&seen.arch).ok_or_else(|| LinkError::Op {
        host: target.name.clone(),
        text: format!(
            "its architecture is {}, and no kubexm-install for that is available; add the architecture to cluster.yaml \
             and build the bundle again",
            seen.arch
        ),
    })?;
    let wanted = source.digest(target, shared).await?;
    if seen.agent == Some(wanted) {
        return Ok(Installed::Present);
    }
    let program = source.open().await.map_err(|error| match source {
        AgentSource::Blob { digest, .. } => LinkError::Source { digest: *digest, reason: error.to_string() },
        AgentSource::File(path) => {
            LinkError::Op { host: target.name.clone(), text: format!("cannot read {}: {error}", path.display()) }
        }
    })?;
    let path = quote(&agent.path);
    // The file is verified before it becomes a program, and renamed within its folder so that a running agent keeps its
    // own. Its name is unique, since two installations may run at the same time. /tmp may be noexec, so nothing is
    // executed there.
    let script = format!(
        "umask 077; n={path}.new.$$; t=$(mktemp) || exit 1; trap 'rm -f \"$t\" \"$n\" \"$n.before\"' EXIT; trap 'exit 1' HUP INT TERM; echo; echo {MARK}; \
         cat > \"$t\" || exit 1; d=$(sha256sum < \"$t\") || exit 1; \
         [ \"${{d%% *}}\" = {hex} ] || {{ echo \"arrived as $d\" >&2; exit 9; }}; \
         exec < /dev/null; \
         mkdir -p -m 755 {folder} && install -m 755 \"$t\" \"$n\" && \
         {{ [ ! -e {path} ] || {{ cp -p {path} \"$n.before\" && mv -f \"$n.before\" {path}.before; }}; }} && \
         {{ sync \"$n\" 2> /dev/null || sync; }} && mv -f \"$n\" {path}",
        hex = wanted.hex(),
        folder = quote(agent.path.rsplit_once('/').map_or("/", |(folder, _)| folder)),
    );
    let output = as_root(connection, target, &script, (program, SENDING)).await?;
    if output.status != Some(0) {
        return Err(failed(target, "the agent's program cannot be installed", &output));
    }
    Ok(if seen.agent.is_some() { Installed::Replaced } else { Installed::New })
}

/// Reverts [`prepare`]: restores the earlier program. A program that is used by now is kept: another controller may
/// have created a cluster with it, or may be doing so.
pub async fn remove(
    connection: &Connection,
    target: &SshTarget,
    agent: &AgentBinary,
    installed: Installed,
) -> Result<(), LinkError> {
    let path = quote(&agent.path);
    let script = match installed {
        Installed::Present => return Ok(()),
        Installed::New => removal(&format!("rm -f {path}"), STAMP, [PRESENT_PATH, LOCK_PATH]),
        Installed::Replaced => restore_previous(&path, [PRESENT_PATH, LOCK_PATH]),
    };
    run(connection, target, &script, "the agent's program cannot be removed").await
}

/// Removes the program, unless this is a cluster's node or another controller's agent is running there. kubexm's own
/// agent was asked to exit, which may take a moment. Without util-linux's `flock` only the stamp is checked.
fn removal(remove: &str, stamp: &str, locks: [&str; 2]) -> String {
    format!("{}[ ! -e {stamp} ] || exit 0; {remove}", alone(locks), stamp = quote(stamp))
}

/// Restores the earlier program, unless another controller's agent was started from the new one.
fn restore_previous(path: &str, locks: [&str; 2]) -> String {
    format!("{}mv -f {path}.before {path}", alone(locks))
}

/// Continues only if nobody else holds any of these locks, and holds them until the script ends.
fn alone(locks: [&str; 2]) -> String {
    let lock = |(number, lock): (usize, &str)| {
        let (lock, file) = (quote(lock), number + 8);
        format!(
            "if [ -e {lock} ] && command -v flock > /dev/null; then exec {file}< {lock}; flock -w 5 {file} || exit 0; fi; "
        )
    };
    locks.into_iter().enumerate().map(lock).collect()
}

/// Deletes the earlier program, in a separate session.
pub async fn forget_previous(
    (connection, session): (&Connection, Channel<Msg>),
    target: &SshTarget,
    agent: &AgentBinary,
) -> Result<(), LinkError> {
    let script = root_script(target, &format!("rm -f {}.before", quote(&agent.path)));
    let output = connection.run(session, &script, tokio::io::empty(), SCRIPT).await?;
    if output.status == Some(0) {
        Ok(())
    } else {
        Err(failed(target, "the agent's old program cannot be removed", &output))
    }
}

/// The command that starts the agent in one of its modes.
pub fn agent_command(target: &SshTarget, agent: &AgentBinary, mode: &[&str]) -> String {
    shell(&format!("echo {MARK} >&2; exec {} {} {}", target.root_prefix(), quote(&agent.path), mode.join(" ")))
}

struct Seen {
    arch: Arch,
    agent: Option<Digest>,
}

async fn look(connection: &Connection, target: &SshTarget, agent: &AgentBinary) -> Result<Seen, LinkError> {
    let script = format!(
        "echo; echo {MARK}; uname -m; {}; {}; echo \"digest ${{d%% *}}\"",
        if agent.path == AGENT_PATH { digest_once(&quote(&agent.path), NOTE) } else { digest_of(&quote(&agent.path)) },
        clear_if_replaceable(&quote(&agent.path)),
    );
    let output = as_root(connection, target, &script, (tokio::io::empty(), SCRIPT)).await?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines().skip_while(|line| *line != MARK).skip(1);
    let (Some(machine), Some(digest)) = (lines.next(), lines.next().and_then(|line| line.strip_prefix("digest ")))
    else {
        return Err(match output.status {
            _ if output.password_refused => no_sudo(target, &said(&output.stderr), true),
            None => unreachable(target, "the connection ended while looking at the host"),
            // The mark is written before sudo runs.
            Some(_) if String::from_utf8_lossy(&output.stderr).contains(MARK) && !target.root_prefix().is_empty() => {
                no_sudo(target, &said(&output.stderr), false)
            }
            Some(_) => failed(target, "the user's login shell does not run commands", &output),
        });
    };
    let arch = Arch::from_any(machine).ok_or_else(|| {
        denied(target, format!("its architecture {machine:?} is not supported (amd64 and arm64 are)"))
    })?;
    Ok(Seen { arch, agent: Digest::from_hex(digest).ok() })
}

/// Sets `$d` to the program's digest, from `sha256sum`.
fn digest_of(path: &str) -> String {
    format!("d=$(sha256sum 2> /dev/null < {path})")
}

/// Clears `$d` if another user can write to the program, who could replace it before root starts it.
fn clear_if_replaceable(path: &str) -> String {
    format!("[ -n \"$(find -H {path} -prune -user \"$(id -u)\" ! -perm -020 ! -perm -002 2> /dev/null)\" ] || d=")
}

/// The same with a cache that only root can write: a program whose metadata, including its ctime, have not changed is
/// not hashed again for a day. Nothing is cached if no agent has run since the last boot, if the program has just
/// changed, or without GNU `stat`.
fn digest_once(path: &str, note: &str) -> String {
    let stat = format!("stat -c '%d %i %s %f %u %g %y %z' {path} 2> /dev/null");
    format!(
        "s=$({stat}); d=; \
         if [ -n \"$s\" ] && [ -n \"$(find {note} -user \"$(id -u)\" -mmin -1440 2> /dev/null)\" ]; then \
         {{ read -r was && read -r d; }} < {note}; [ \"$was\" = \"$s\" ] || d=; fi; \
         if [ -z \"$d\" ]; then old=$(( $(date +%s) - $(stat -c %Z {path} 2> /dev/null || echo 0) )); {hash}; d=${{d%% *}}; \
         if [ -n \"$s\" ] && [ \"$old\" -gt 5 ] && [ -d {folder} ] && [ \"$({stat})\" = \"$s\" ]; then \
         (umask 077; printf '%s\\n%s\\n' \"$s\" \"$d\" > {note}.$$ && mv -f {note}.$$ {note}) 2> /dev/null; fi; fi",
        hash = digest_of(path),
        folder = note.rsplit_once('/').map_or("/", |(folder, _)| folder),
    )
}

async fn run(connection: &Connection, target: &SshTarget, script: &str, what: &str) -> Result<(), LinkError> {
    let output = as_root(connection, target, script, (tokio::io::empty(), SCRIPT)).await?;
    if output.status == Some(0) { Ok(()) } else { Err(failed(target, what, &output)) }
}

/// Runs a script as root, in the first session of a connection.
async fn as_root(
    connection: &Connection,
    target: &SshTarget,
    script: &str,
    (input, limit): (impl AsyncRead + Unpin + Send, Duration),
) -> Result<Output, LinkError> {
    let session = connection.only_session().await?;
    connection.run(session, &root_script(target, script), input, limit).await
}

/// One sudo for the whole script, which asks for the password once, before the script reads anything.
fn root_script(target: &SshTarget, script: &str) -> String {
    shell(&format!("echo {MARK} >&2; exec {} {}", target.root_prefix(), shell(script)))
}

/// Interprets sudo's error. `refused`: it asked for the password a second time.
pub fn no_sudo(target: &SshTarget, said: &str, refused: bool) -> LinkError {
    let reason = if refused {
        "sudo refused the password of `sudoPasswordFrom`".to_owned()
    } else {
        let fix = match said {
            text if text.contains("password is required") || text.contains("a terminal is required") => {
                "name its password with `sudoPasswordFrom`, or let it sudo without one (NOPASSWD)"
            }
            text if text.contains("must have a tty") => {
                "sudo requires a terminal; put `Defaults:USER !requiretty` into sudoers there"
            }
            text if text.contains("not in the sudoers") || text.contains("not allowed to") => {
                "let it run anything as root there, or name another user"
            }
            "" => "sudo printed nothing; is it installed there?",
            _ => "passwordless sudo or `sudoPasswordFrom` is needed",
        };
        if said.is_empty() { fix.to_owned() } else { format!("{fix} (it said: {said})") }
    };
    LinkError::NoSudo { host: target.name.clone(), user: target.login.user.clone(), reason }
}

fn failed(target: &SshTarget, what: &str, output: &Output) -> LinkError {
    if output.password_refused {
        return no_sudo(target, &said(&output.stderr), true);
    }
    let Some(status) = output.status else {
        return unreachable(target, "the connection ended while the agent was being installed");
    };
    let said = said(&output.stderr);
    LinkError::Op { host: target.name.clone(), text: format!("{what} (exit status {status}): {said}") }
}

/// Runs the script in `sh`, whatever the user's login shell is.
fn shell(script: &str) -> String {
    format!("sh -c {}", quote(script))
}

/// Quotes one word for any shell.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_refusal_the_agent_is_removed_unless_a_controller_or_a_cluster_uses_it() {
        let folder = tempfile::tempdir().unwrap();
        let [new, replaced, before, stamp, lock, present] =
            ["agent's", "other's", "other's.before", "stamp.json", "lock", "agents.lock"]
                .map(|name| folder.path().join(name));
        let text = |path: &std::path::Path| path.display().to_string();
        // Whether a program that was new stays, and one that has replaced an earlier one: at once, since both wait for the locks.
        let stay = || {
            for (path, content) in [(&new, "program"), (&replaced, "program"), (&before, "earlier")] {
                std::fs::write(path, content).unwrap();
            }
            let locks = [text(&present), text(&lock)];
            let locks = locks.each_ref().map(String::as_str);
            let remove = format!("rm -f {}", quote(&text(&new)));
            let scripts = [removal(&remove, &text(&stamp), locks), restore_previous(&quote(&text(&replaced)), locks)];
            for mut running in
                scripts.map(|script| std::process::Command::new("sh").args(["-c", &script]).spawn().unwrap())
            {
                assert!(running.wait().unwrap().success());
            }
            [new.exists(), std::fs::read_to_string(&replaced).unwrap() == "program"]
        };
        assert_eq!(stay(), [false; 2], "nobody has ever worked here");
        let held = std::fs::File::create(&lock).unwrap();
        assert_eq!(stay(), [false; 2], "nobody works here now, as after a rollback");
        held.lock().unwrap();
        assert_eq!(stay(), [true; 2], "an agent works with it");
        held.unlock().unwrap();
        let other = crate::link::agent::lock::Presence::take(&present).unwrap();
        assert_eq!(stay(), [true; 2], "another operator is being asked, and has said nothing yet");
        drop(other);
        assert_eq!(stay(), [false; 2], "the other operator said no, too");
        std::fs::write(&stamp, "{}").unwrap();
        assert!(stay()[0], "the node of a cluster lost its agent");
    }

    #[test]
    fn a_program_is_hashed_again_when_a_byte_of_it_changed_though_its_size_and_mtime_are_as_before() {
        let folder = tempfile::tempdir().unwrap();
        let [program, note] = ["agent's", "noted"].map(|name| folder.path().join(name));
        let text = |path: &std::path::Path| path.display().to_string();
        let digest = || {
            let script = format!("{}; echo $d", digest_once(&quote(&text(&program)), &text(&note)));
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        assert_eq!(digest(), "", "there is none");
        std::fs::write(&program, "program").unwrap();
        assert_eq!(digest(), Digest::of("program").hex());
        assert!(!note.exists(), "it was written just now, and may be written again with the same times");
        // A wrong entry shows that the cache is used.
        let recorded = |text: &str| std::fs::write(&note, text).unwrap();
        let stat = std::process::Command::new("stat").args(["-c", "%d %i %s %f %u %g %y %z"]).arg(&program).output();
        let stat = String::from_utf8(stat.unwrap().stdout).unwrap();
        recorded(&format!("{}\nbelieved\n", stat.trim()));
        assert_eq!(digest(), "believed");
        let was = program.metadata().unwrap().modified().unwrap();
        std::fs::write(&program, "pr0gram").unwrap();
        std::fs::File::options().write(true).open(&program).unwrap().set_modified(was).unwrap();
        assert_eq!(digest(), Digest::of("pr0gram").hex());
        recorded("torn");
        assert_eq!(digest(), Digest::of("pr0gram").hex());
    }

    #[test]
    fn an_agent_that_others_may_write_to_is_replaced() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("agent's");
        std::fs::write(&program, "program").unwrap();
        let path = quote(&program.display().to_string());
        let counts = |mode: u32| {
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(mode)).unwrap();
            let script = format!("{}; {}; echo \"${{d%% *}}\"", digest_of(&path), clear_if_replaceable(&path));
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim() == Digest::of("program").hex()
        };
        assert!(counts(0o755));
        assert!(!counts(0o775) && !counts(0o757));
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&program, Some(54_321), None).unwrap();
            assert!(!counts(0o755), "its owner may write to it");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_quoted_text_is_one_word_for_the_shell(text in "[ -~\n]{0,40}") {
            let printed = std::process::Command::new("sh")
                .args(["-c", &format!("printf %s {}", quote(&text))])
                .output()
                .unwrap();
            proptest::prop_assert_eq!(String::from_utf8_lossy(&printed.stdout), text);
        }
    }
}
