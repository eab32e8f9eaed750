//! How a program ends on a refusal.

use kubexm_spec::ExitCode;

use super::RecipeError;

impl RecipeError {
    /// Exit code of the program.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::NotInBundle { .. } | Self::Rendered { .. } | Self::Manifest { .. } => ExitCode::BundleIncomplete,
            Self::Unsupported { .. } | Self::NotInstalled { .. } | Self::Adopted { .. } | Self::ByHand { .. } => {
                ExitCode::Unsupported
            }
            Self::NoCluster
            | Self::NoRequests { .. }
            | Self::SharedRequest { .. }
            | Self::NoHosts { .. }
            | Self::NoAddress { .. }
            | Self::OneFamily { .. }
            | Self::BadAddress { .. }
            | Self::ArchMismatch { .. }
            | Self::BadNetwork { .. }
            | Self::ExtraConfig { .. }
            | Self::CannotJoin { .. }
            | Self::UnknownHost { .. }
            | Self::NoInterface { .. } => ExitCode::Config,
            Self::NoFacts { .. }
            | Self::NotSigned { .. }
            | Self::Packages { .. }
            | Self::OlderPackages { .. }
            | Self::UnknownArch { .. }
            | Self::Mounted { .. }
            | Self::Switched { .. }
            | Self::NoClusterYet { .. }
            | Self::FirstLost { .. }
            | Self::ClusterMismatch { .. }
            | Self::UnreadableStamp { .. }
            | Self::IdentityMismatch { .. }
            | Self::MarksDiffer { .. }
            | Self::MinorMismatch { .. }
            | Self::MemberNotListed { .. }
            | Self::CannotApplyAddons { .. }
            | Self::CannotAdopt { .. }
            | Self::CannotPrune { .. }
            | Self::NotFresh { .. }
            | Self::BackupNeeded { .. }
            | Self::StillMember { .. }
            | Self::CannotDelete { .. }
            | Self::CannotUpgrade { .. }
            | Self::NetworkChanged { .. }
            | Self::StorageChanged { .. }
            | Self::CannotRenew { .. }
            | Self::CannotDeleteEtcd { .. }
            | Self::CannotRestore { .. }
            | Self::Unobserved { .. }
            | Self::NewerLedger { .. }
            | Self::UnreadableState { .. } => ExitCode::Preflight,
            Self::CannotUseBackup { .. } => ExitCode::BackupUnusable,
            Self::Unreached { .. } => ExitCode::HostUnreachable,
            Self::Catalogue(error) => error.exit_code(),
            Self::Template { .. } | Self::Document { .. } => ExitCode::Internal,
        }
    }
}
