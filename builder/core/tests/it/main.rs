//! Packages as the builder resolves them (repositories served on loopback, apt as the referee), and the builder as a library.

mod apt_referee;
mod packages;
mod session;
