//! Versions, trust and solving of packages, compared with what rpm, dnf and gpg say.

mod deb_versions;
mod dnf_referee;
mod solve;
mod trust;
