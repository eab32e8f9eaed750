//! Packages as the builder resolves them: repositories served on loopback, and apt as the referee.

mod apt_referee;
mod packages;
