//! The one table of exit codes. Tens are the kind, units the detail; 1 is diff's, 2 is clap's.

/// How a program ended. When several apply, the most severe (see [`ExitCode::worst`]) is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ExitCode {
    /// All well.
    Ok = 0,
    /// `diff --exit-code`: the two differ (the code of `git diff --exit-code` and `cmp`).
    Differs = 1,
    /// The command line is wrong (clap's own code).
    Usage = 2,
    /// The operator said no, or interrupted.
    Declined = 10,
    /// A change was asked for without a terminal and without `-y`.
    NeedsYes = 11,
    /// cluster.yaml, a zone, a catalogue overlay or a key is wrong.
    Config = 20,
    /// A version or component that the catalogue does not know.
    UnknownVersion = 21,
    /// The design names it, this program does not build it yet.
    Unsupported = 22,
    /// cluster.yaml holds a secret where a bundle would carry it.
    InlineSecret = 23,
    /// What is needed now differs from the lock.
    LockDrift = 24,
    /// What a chart's rendering seems to name is neither carried nor ignored.
    ChartImages = 25,
    /// A chart cannot be rendered with these values.
    ChartRender = 26,
    /// A byte of the bundle does not match the manifest.
    BundleDamaged = 30,
    /// The bundle ends too early.
    BundleTruncated = 31,
    /// The bundle is of a newer format than this program reads.
    BundleNewer = 32,
    /// Something the cluster needs, or something the bundle names, is not in it.
    BundleIncomplete = 33,
    /// The signature is missing or not by a trusted key; or a bundle is older than the one that is installed, or of another signer.
    BundleUntrusted = 34,
    /// The file is not a bundle.
    NotABundle = 35,
    /// The bundle has no trusted signature, its own cluster.yaml was not confirmed, and there is no terminal to ask on.
    UnsignedCluster = 36,
    /// No file or folder has the name that was given for a bundle.
    NoSuchBundle = 37,
    /// An image is not signed by whom `spec.bundle.imageSignatures` demands, or no rule there names it.
    ImageUnsigned = 38,
    /// An origin does not answer, or answers too slowly or too little.
    OriginDown = 40,
    /// What an origin sent has another digest or size, or is another kind of thing.
    OriginMismatch = 41,
    /// An origin says it has no such thing.
    OriginMissing = 42,
    /// An origin wants other credentials.
    OriginDenied = 43,
    /// The disk of this machine is full or fails.
    Disk = 44,
    /// `zone check`: something needed is available from no source.
    NoSource = 45,
    /// Nothing may be asked (`--offline`), and the cache lacks something that is needed.
    NotCached = 46,
    /// A tag of a registry names something else than what is to be pushed.
    TagTaken = 47,
    /// A registry has no room left: its disk is full, or a quota is used up.
    RegistryFull = 48,
    /// A host cannot be reached.
    HostUnreachable = 50,
    /// A host refuses our key, or shows a key of its own that we do not know.
    HostDenied = 51,
    /// The user cannot become root on a host.
    HostNoSudo = 52,
    /// Preflight found something that must be fixed first.
    Preflight = 53,
    /// Another run holds the host.
    HostLocked = 54,
    /// A host answered something that is not accepted from a host.
    HostUntrusted = 55,
    /// A certificate of the cluster ends soon or has ended (`certs check`).
    CertificateEnds = 56,
    /// A backup is damaged, of another cluster, or cannot be opened.
    BackupUnusable = 57,
    /// Hosts or cluster.yaml are not as they were applied (`drift`).
    Drifted = 58,
    /// The plan does not pass its lint.
    PlanLint = 60,
    /// The plan belongs to another bundle, cluster or schema.
    PlanMismatch = 61,
    /// A step failed; what can continue, and how, is in the report.
    RunFailed = 70,
    /// The run can neither continue nor roll back by itself.
    RunStuck = 71,
    /// The run ended with some hosts left out.
    RunPartial = 72,
    /// A fault of this program.
    Internal = 90,
}

impl ExitCode {
    /// Every code, in order.
    pub const ALL: [Self; 45] = [
        Self::Ok,
        Self::Differs,
        Self::Usage,
        Self::Declined,
        Self::NeedsYes,
        Self::Config,
        Self::UnknownVersion,
        Self::Unsupported,
        Self::InlineSecret,
        Self::LockDrift,
        Self::ChartImages,
        Self::ChartRender,
        Self::BundleDamaged,
        Self::BundleTruncated,
        Self::BundleNewer,
        Self::BundleIncomplete,
        Self::BundleUntrusted,
        Self::NotABundle,
        Self::UnsignedCluster,
        Self::NoSuchBundle,
        Self::ImageUnsigned,
        Self::OriginDown,
        Self::OriginMismatch,
        Self::OriginMissing,
        Self::OriginDenied,
        Self::Disk,
        Self::NoSource,
        Self::NotCached,
        Self::TagTaken,
        Self::RegistryFull,
        Self::HostUnreachable,
        Self::HostDenied,
        Self::HostNoSudo,
        Self::Preflight,
        Self::HostLocked,
        Self::HostUntrusted,
        Self::CertificateEnds,
        Self::BackupUnusable,
        Self::Drifted,
        Self::PlanLint,
        Self::PlanMismatch,
        Self::RunFailed,
        Self::RunStuck,
        Self::RunPartial,
        Self::Internal,
    ];

    /// The number the shell sees.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// One line for the help and the README.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Ok => "all well",
            Self::Differs => "the two differ (diff --exit-code)",
            Self::Usage => "the command line is wrong",
            Self::Declined => "the operator declined, or interrupted",
            Self::NeedsYes => "a change without a terminal needs -y",
            Self::Config => "cluster.yaml, zone, catalogue overlay or key is wrong",
            Self::UnknownVersion => "unknown version or component",
            Self::Unsupported => "known, but not supported yet",
            Self::InlineSecret => "a secret is in a place that a bundle would carry",
            Self::LockDrift => "what is needed differs from the lock",
            Self::ChartImages => "what a chart seems to name is neither carried nor ignored",
            Self::ChartRender => "a chart cannot be rendered",
            Self::BundleDamaged => "the bundle is damaged",
            Self::BundleTruncated => "the bundle is truncated",
            Self::BundleNewer => "the bundle is of a newer format",
            Self::BundleIncomplete => "something needed is not in the bundle",
            Self::BundleUntrusted => {
                "signature missing or not trusted, or older or by another signer than what is installed"
            }
            Self::NotABundle => "this is not a bundle",
            Self::UnsignedCluster => "an unsigned bundle's own cluster.yaml needs -f or --allow-unsigned",
            Self::NoSuchBundle => "the bundle's file does not exist",
            Self::ImageUnsigned => "an image is not signed as spec.bundle.imageSignatures requires",
            Self::OriginDown => "an origin does not answer, or cuts off",
            Self::OriginMismatch => "an origin sent something other than was requested",
            Self::OriginMissing => "an origin does not have what was requested",
            Self::OriginDenied => "an origin requires other credentials",
            Self::Disk => "this machine's disk is full or fails",
            Self::NoSource => "something needed is available from no source",
            Self::NotCached => "offline, and something is missing in the cache",
            Self::TagTaken => "a tag in the registry names something else",
            Self::RegistryFull => "the registry has no room left",
            Self::HostUnreachable => "a host cannot be reached",
            Self::HostDenied => "a host's key or ours is refused",
            Self::HostNoSudo => "the user cannot become root on a host",
            Self::Preflight => "preflight found problems that must be fixed first",
            Self::HostLocked => "another run holds a host",
            Self::HostUntrusted => "a host answered something that is not accepted from a host",
            Self::CertificateEnds => "a certificate ends soon or has ended (certs check)",
            Self::BackupUnusable => "a backup is damaged, of another cluster, or cannot be opened",
            Self::Drifted => "hosts or cluster.yaml are not as they were applied (drift)",
            Self::PlanLint => "the plan does not pass its lint",
            Self::PlanMismatch => "the plan belongs to another bundle, cluster or schema",
            Self::RunFailed => "a step failed; see the report",
            Self::RunStuck => "the run can neither continue nor roll back by itself",
            Self::RunPartial => "done, with some hosts left out",
            Self::Internal => "a fault of this program",
        }
    }

    /// The more severe of two: the higher number, since the tens rise with how far things had gone.
    #[must_use]
    pub fn worst(self, other: Self) -> Self {
        self.max(other)
    }
}

/// An error that a program ends with: which exit code that is, and what machines may want of it besides its text.
pub trait ExitError: std::error::Error {
    /// The exit code.
    fn exit_code(&self) -> ExitCode;

    /// For machines (`--json`); nothing beyond the text, most often.
    fn details(&self) -> Option<serde_json::Value> {
        None
    }
}
