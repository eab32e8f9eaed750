//! The agent of another architecture: qemu in a directory that is its whole file system, spoken to over its standard
//! input and output as a controller does over SSH.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use kubexm_engine::link::wire::frame::{data_header, magic_line, parse, read_frame, write_message};
use kubexm_engine::link::wire::{Frame, PROTOCOL, Request, RequestMessage, Response, ResponseMessage};
use kubexm_spec::{Arch, Digest};

use super::{QEMU, program};

/// Bytes in a data frame.
const PIECE: usize = 64 * 1024;

/// A directory with nothing but the emulator and the program.
pub struct Root(tempfile::TempDir);

impl Root {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("run")).unwrap();
        for (from, name) in [(Path::new(QEMU), "qemu"), (&program("kubexm-install"), "kubexm-install")] {
            std::fs::copy(from, folder.path().join(name)).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
        }
        Self(folder)
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path.trim_start_matches('/'))
    }

    pub fn put(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Every path with kind, mode and content, but for what is the agent's own.
    pub fn tree(&self) -> Vec<String> {
        let mut lines = Vec::new();
        list(self.0.path(), self.0.path(), &mut lines);
        lines.sort();
        lines
    }
}

fn list(root: &Path, folder: &Path, lines: &mut Vec<String>) {
    use std::os::unix::fs::PermissionsExt as _;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().display().to_string();
        if ["run", "var", "qemu", "kubexm-install"].contains(&name.as_str()) {
            continue;
        }
        let meta = path.symlink_metadata().unwrap();
        let what = if meta.is_symlink() {
            format!("-> {}", std::fs::read_link(&path).unwrap().display())
        } else if meta.is_dir() {
            list(root, &path, lines);
            "folder".to_owned()
        } else {
            Digest::of(std::fs::read(&path).unwrap()).to_string()
        };
        lines.push(format!("{name} {:o} {what}", meta.permissions().mode()));
    }
}

/// A running agent.
pub struct Agent {
    child: Child,
    to: ChildStdin,
    from: ChildStdout,
    next: u64,
    /// What it says it was built for.
    pub arch: Option<Arch>,
}

impl Agent {
    /// Starts it with the directory as its root, and greets it.
    pub fn start(root: &Root, mode: &[&str]) -> Self {
        let mut command = Command::new("chroot");
        command.arg(root.0.path()).args(["/qemu", "/kubexm-install", "agent"]).args(mode);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut magic = vec![0; magic_line().len()];
        from.read_exact(&mut magic).expect("the agent begins with its magic line");
        assert_eq!(String::from_utf8(magic).unwrap(), magic_line());
        let mut agent = Self { child, to, from, next: 1, arch: None };
        let hello = Request::Hello { protocol: PROTOCOL, version: "test".into(), holder: "test".into() };
        match agent.ask(hello) {
            Response::Hello { protocol: PROTOCOL, arch, .. } => agent.arch = arch,
            other => panic!("{other:?}"),
        }
        agent
    }

    /// Asks, and waits for the answer.
    pub fn ask(&mut self, ask: Request) -> Response {
        self.send(ask);
        self.answer()
    }

    /// Sends a blob to a store channel.
    pub fn put(&mut self, digest: Digest, content: &[u8]) -> Response {
        let blobs = [(digest, content.len() as u64)].into();
        let answer = self.ask(Request::StoreMissing { blobs });
        assert!(matches!(answer, Response::Missing { .. }), "{answer:?}");
        self.send(Request::StorePut { digest, size: content.len() as u64, offset: 0 });
        for piece in content.chunks(PIECE) {
            self.to.write_all(&data_header(piece.len()).unwrap()).unwrap();
            self.to.write_all(piece).unwrap();
        }
        self.to.flush().unwrap();
        self.answer()
    }

    /// Ends it, in order.
    pub fn bye(mut self) {
        let answer = self.ask(Request::Bye);
        assert!(matches!(answer, Response::Bye), "{answer:?}");
        assert!(self.child.wait().unwrap().success());
    }

    fn send(&mut self, ask: Request) {
        write_message(&mut self.to, &RequestMessage { id: self.next, ask }).unwrap();
        self.to.flush().unwrap();
    }

    fn answer(&mut self) -> Response {
        let Some(Frame::Message(body)) = read_frame(&mut self.from).unwrap() else { panic!("no message") };
        let ResponseMessage { id, answer } = parse(&body).unwrap();
        assert_eq!(id, self.next);
        self.next += 1;
        answer
    }
}
