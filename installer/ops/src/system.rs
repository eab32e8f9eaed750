//! The system of a machine besides its files: programs, the kernel, systemd.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::OpError;
pub use crate::connections::Connections;

/// A program with typed arguments. There is no shell, no terminal and, unless given, no input.
#[must_use]
#[derive(Clone, Debug)]
pub struct Program {
    /// Searched for in [`crate::paths::PATH`].
    pub name: String,
    /// Never a secret: every user of the host can see arguments.
    pub args: Vec<String>,
    /// Written to its standard input; none is /dev/null.
    pub stdin: Option<Vec<u8>>,
    /// Written after `stdin`, in pieces: for input that is too large for memory.
    pub pieces: Vec<Piece>,
    /// Added to the fixed environment.
    pub env: Vec<(String, String)>,
    /// Folders that an act sees as empty and cannot change; only for [`System::run_act`].
    pub hidden: Vec<String>,
    /// After this time its whole process group is killed.
    pub timeout: Duration,
    /// Whether the beginning of a long output is as good as all of it.
    pub cut_off: bool,
}

impl Program {
    /// A program with a timeout of a minute.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            args: Vec::new(),
            stdin: None,
            pieces: Vec::new(),
            env: Vec::new(),
            hidden: Vec::new(),
            timeout: Duration::from_secs(60),
            cut_off: false,
        }
    }

    /// Adds arguments.
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// Sets its input, in pieces.
    pub fn pieces(mut self, pieces: Vec<Piece>) -> Self {
        self.pieces = pieces;
        self
    }

    /// Adds an environment variable.
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    /// Hides folders: it sees them as empty.
    pub fn hiding(mut self, folders: impl IntoIterator<Item = String>) -> Self {
        self.hidden.extend(folders);
        self
    }

    /// Its output is for people: a long one is cut off, and is no error.
    pub fn may_be_cut_off(mut self) -> Self {
        self.cut_off = true;
        self
    }

    /// Sets its timeout in seconds.
    pub fn within(mut self, seconds: u64) -> Self {
        self.timeout = Duration::from_secs(seconds);
        self
    }
}

/// A piece of a program's input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// These bytes.
    Bytes(Vec<u8>),
    /// As many bytes of a file as it had when the piece was created; a shorter file is an error.
    File {
        /// Path for this process.
        path: PathBuf,
        /// In bytes.
        size: u64,
    },
}

impl Piece {
    /// Writes the piece.
    pub fn write_to(&self, target: &mut impl Write) -> std::io::Result<()> {
        match self {
            Self::Bytes(bytes) => target.write_all(bytes),
            Self::File { path, size } => {
                let copied = std::io::copy(&mut File::open(path)?.take(*size), target)?;
                if copied == *size { Ok(()) } else { Err(std::io::ErrorKind::UnexpectedEof.into()) }
            }
        }
    }
}

/// The answer to a HEAD request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// HTTP status code.
    pub status: u16,
    /// `Docker-Content-Digest` (OCI distribution-spec, "Pulling manifests").
    pub digest: Option<String>,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.args.iter().try_for_each(|arg| write!(f, " {arg}"))
    }
}

/// The result of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Exit code; 128 + signal if a signal ended it.
    pub code: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

impl Output {
    /// Success with this text.
    pub fn text(stdout: impl Into<Vec<u8>>) -> Self {
        Self { code: 0, stdout: stdout.into(), stderr: Vec::new() }
    }

    /// Failure with this message.
    pub fn failed(code: i32, stderr: impl Into<Vec<u8>>) -> Self {
        Self { code, stdout: Vec::new(), stderr: stderr.into() }
    }

    /// Standard output as text.
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The last 20 lines of its output, preferably of standard error: for error messages.
    pub fn tail(&self) -> String {
        let said = if self.stderr.iter().all(u8::is_ascii_whitespace) { &self.stdout } else { &self.stderr };
        let said = String::from_utf8_lossy(said);
        let lines: Vec<&str> = said.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

/// The act and run that are executed: determine the names of the transient unit and the log file.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActContext {
    /// Run id.
    pub run: String,
    /// Step id, `<host>/<module>.<step>`.
    pub step: String,
}

impl ActContext {
    /// `kubexm-act-<run>-<step>.service`; characters that systemd does not allow in names become `-`.
    pub fn unit(&self) -> String {
        format!("kubexm-act-{}-{}.service", plain(&self.run), plain(&self.step))
    }

    /// Absolute path of the log.
    pub fn log(&self) -> String {
        format!("{}/{}/{}.log", crate::paths::RUNS, plain(&self.run), plain(&self.step))
    }
}

fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' || c == '_' { c } else { '-' }).collect()
}

/// Free and total size of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Available to root.
    pub free: u64,
    /// Total.
    pub size: u64,
    /// None if the number of inodes is not fixed (btrfs).
    pub inodes: Option<kubexm_plan::facts::Inodes>,
}

/// The kernel's identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// `uname -r`.
    pub release: String,
    /// `uname -m`.
    pub machine: String,
    /// In bytes.
    pub page_size: u64,
    /// Online CPUs.
    pub cpus: u32,
}

/// What an HTTPS server has answered.
#[derive(Debug)]
pub struct HttpsAnswer {
    /// `200`.
    pub status: u16,
    /// Its clock: the header `Date` (RFC 9110, 6.6.1).
    pub date: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

/// A request to a server that uses JSON and requires a client certificate (etcd, the API server) or a login (Harbor).
#[derive(Clone, Copy)]
pub struct HttpsRequest<'a> {
    /// `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: &'a str,
    /// `https://10.0.0.5:2379/v3/cluster/member/list`.
    pub url: &'a str,
    /// PEM of the only CAs that are trusted for the server.
    pub ca: &'a [u8],
    /// PEM of the client certificate; empty for none.
    pub certificate: &'a [u8],
    /// PEM of its key; secret.
    pub key: &'a [u8],
    /// Value of the `Authorization` header; secret.
    pub login: Option<&'a str>,
    /// JSON; empty for none.
    pub body: &'a str,
    /// The body's media type, if the server knows several forms of JSON.
    pub content: Option<&'a str>,
    /// Media types of the answer, where JSON is not enough.
    pub accept: Option<&'a str>,
    /// Connections that stay open for the next request with the same CA and certificate; otherwise it has one of its own. A request over
    /// one may be sent twice.
    pub over: Option<&'a Connections>,
}

/// Images that are pushed to a registry out of the node's content store.
#[derive(Clone, Copy)]
pub struct PushRequest<'a> {
    /// `registry.demo.kubexm.internal:443`.
    pub registry: &'a str,
    /// PEM file, a path of this process, of the CA of its certificate.
    pub ca_file: &'a std::path::Path,
    /// User name.
    pub username: &'a str,
    /// Its password; secret.
    pub password: &'a str,
    /// By upstream's full reference.
    pub images: &'a BTreeMap<String, kubexm_plan::op::HarborImage>,
    /// The folder of blobs by digest, a path of this process: `<folder>/<hex>`.
    pub blobs: &'a std::path::Path,
    /// Folder for what an interrupted push has to remember, a path of this process.
    pub record: &'a std::path::Path,
}

// The password is a secret.
impl fmt::Debug for PushRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushRequest").field("registry", &self.registry).finish_non_exhaustive()
    }
}

// The key is a secret, and so may be what is in the body.
impl fmt::Debug for HttpsRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpsRequest").field("method", &self.method).field("url", &self.url).finish_non_exhaustive()
    }
}

/// An HTTPS server that needs no client certificate: the depot, a registry.
#[derive(Clone, Copy)]
pub struct HttpsServer<'a> {
    /// `https://host:port`, with a path where one is requested.
    pub url: &'a str,
    /// PEM of the only CAs that are trusted for it.
    pub ca: &'a [u8],
    /// Value of the `Authorization` header; secret.
    pub login: Option<&'a str>,
}

// The login is a secret.
impl fmt::Debug for HttpsServer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpsServer").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Programs, the kernel and systemd: the real ones, or a strict fake for a machine rooted in a directory.
pub trait System: Send + Sync + fmt::Debug {
    /// Runs a program to its end. A program that is not found or does not end in time is an error; an exit code other
    /// than 0 is not.
    fn run(&self, program: &Program) -> Result<Output, OpError>;

    /// Runs the program of an act so that it outlives this process, or attaches to it if it is already running.
    fn run_act(&self, act: &ActContext, program: &Program) -> Result<Output, OpError>;

    /// The kernel's host name.
    fn hostname(&self) -> Result<String, OpError>;

    /// Sets the kernel's host name.
    fn set_hostname(&self, name: &str) -> Result<(), OpError>;

    /// The kernel's properties.
    fn kernel(&self) -> Result<Kernel, OpError>;

    /// Space of the file system that contains a path of the machine.
    fn space(&self, path: &str) -> Result<Space, OpError>;

    /// Microseconds in which 99 of 100 small writes are on the disk of a folder, or of its nearest parent that exists. None where the
    /// file system has no files without a name: nothing may stay there.
    fn write_us(&self, folder: &str) -> Result<Option<u64>, OpError>;

    /// Removes a datapath of Open vSwitch from the kernel, with its own ports. One that is not there is removed.
    fn delete_datapath(&self, name: &str) -> Result<(), OpError>;

    /// Interfaces with addresses.
    fn interfaces(&self) -> Result<Vec<kubexm_plan::facts::Interface>, OpError>;

    /// Status of an HTTPS GET.
    fn https_get(&self, server: &HttpsServer<'_>) -> Result<u16, OpError>;

    /// Answers of an OCI registry for these paths, over one connection.
    fn https_heads(&self, server: &HttpsServer<'_>, paths: &[String]) -> Result<Vec<Head>, OpError>;

    /// Body of the answer of a local HTTP server, `http://127.0.0.1:PORT/`, if that is 200.
    fn http_get(&self, port: u16) -> Result<String, OpError>;

    /// An HTTPS server's answer.
    fn https_request(&self, request: &HttpsRequest<'_>) -> Result<HttpsAnswer, OpError>;

    /// Pushes images to a registry, and looks each of them up afterwards. Returns a description.
    fn push_images(&self, request: &PushRequest<'_>) -> Result<String, OpError>;

    /// From inside the network namespace of a process: queries the DNS server `dns` for `name`, and connects to
    /// `service` (`address:port`). Returns a description.
    fn pod_network(&self, pid: u32, name: &str, dns: &str, service: &str) -> Result<String, OpError>;

    /// The same from the host's network: the rules of a Service treat packets of the host and of pods alike.
    fn host_network(&self, name: &str, dns: &str, service: &str) -> Result<String, OpError>;

    /// Asks each of these name servers for each name: the first address of each name that has one, after its server.
    fn dns_addresses(
        &self,
        servers: &[IpAddr],
        names: &[String],
        limit: std::time::Duration,
    ) -> BTreeMap<String, (IpAddr, IpAddr)>;

    /// Sends SIGTERM, or SIGKILL if `kill` is set, to a process. A missing process is not an error.
    fn signal(&self, pid: u32, kill: bool) -> Result<(), OpError>;

    /// Whether this is the real machine, whose network, processes and owners can be used.
    fn is_real(&self) -> bool;
}
