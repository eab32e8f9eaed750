//! Tags of headers that are read here (rpm's `rpmtag.h`).

/// In the signature header.
pub mod signature {
    /// The region that covers all of it.
    pub const REGION: u32 = 62;
    /// DSA signature of the main header.
    pub const DSA: u32 = 267;
    /// RSA signature of the main header.
    pub const RSA: u32 = 268;
    /// sha256 of the main header, in hex.
    pub const SHA256: u32 = 273;
    /// Signatures of the main header in base64 (rpm 6).
    pub const OPENPGP: u32 = 278;
    /// Size of main header and payload, in bytes.
    pub const SIZE: u32 = 1000;
    /// RSA signature of main header and payload.
    pub const PGP: u32 = 1002;
    /// DSA signature of main header and payload.
    pub const GPG: u32 = 1005;
}

/// The region that covers all of the main header.
pub const REGION: u32 = 63;
/// Name.
pub const NAME: u32 = 1000;
/// Version.
pub const VERSION: u32 = 1001;
/// Release.
pub const RELEASE: u32 = 1002;
/// Epoch.
pub const EPOCH: u32 = 1003;
/// A line about it.
pub const SUMMARY: u32 = 1004;
/// More about it.
pub const DESCRIPTION: u32 = 1005;
/// When it was built, in seconds of Unix time.
pub const BUILDTIME: u32 = 1006;
pub const BUILDHOST: u32 = 1007;
/// Size of its files, in bytes.
pub const SIZE: u32 = 1009;
pub const VENDOR: u32 = 1011;
/// Its licence.
pub const LICENSE: u32 = 1014;
/// Who packed it.
pub const PACKAGER: u32 = 1015;
/// Its group.
pub const GROUP: u32 = 1016;
/// Its address.
pub const URL: u32 = 1020;
/// Its architecture.
pub const ARCH: u32 = 1022;
/// Names of files, whole (before rpm 4).
pub const OLDFILENAMES: u32 = 1027;
/// Modes of files.
pub const FILEMODES: u32 = 1030;
/// Flags of files.
pub const FILEFLAGS: u32 = 1037;
/// The source package it was built from; none in a source package.
pub const SOURCERPM: u32 = 1044;
/// Size of the archive, in bytes.
pub const ARCHIVESIZE: u32 = 1046;
/// Names, flags and versions of what it provides.
pub const PROVIDES: [u32; 3] = [1047, 1112, 1113];
/// Names, flags and versions of what it requires.
pub const REQUIRES: [u32; 3] = [1049, 1048, 1050];
/// Names, flags and versions of what it conflicts with.
pub const CONFLICTS: [u32; 3] = [1054, 1053, 1055];
/// Names, flags and versions of what it obsoletes.
pub const OBSOLETES: [u32; 3] = [1090, 1114, 1115];
/// There in source packages.
pub const SOURCEPACKAGE: u32 = 1106;
/// For each file, which of [`DIRNAMES`] it is in.
pub const DIRINDEXES: u32 = 1116;
/// For each file, its name.
pub const BASENAMES: u32 = 1117;
/// Folders, each with a slash at its end.
pub const DIRNAMES: u32 = 1118;
/// Size of its files where 32 bits are too few.
pub const LONGSIZE: u32 = 5009;
/// Digest of the payload as it is packed, in hex.
pub const PAYLOADDIGEST: u32 = 5092;
/// By which algorithm; 8 is sha256 (RFC 9580, 9.5).
pub const PAYLOADDIGESTALGO: u32 = 5093;
/// The module stream it was built for: `name:stream:version:context`.
pub const MODULARITYLABEL: u32 = 5096;
