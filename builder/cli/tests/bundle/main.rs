//! The whole program against real origins: an HTTP server whose every answer a test decides, Debian's registry, folders,
//! small disks, kills. Needs `docker-registry`, `skopeo`, `chromium` and `man-db` (Debian packages) and root (for a tmpfs).

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test dies of what it did not expect")]

mod ahead;
mod arguments;
mod catalogue;
mod catalogue_refresh;
mod charts;
mod ci;
mod cluster;
mod cn;
mod config;
mod contents;
mod copy;
mod disk;
mod dry_run;
mod events;
mod explain;
mod extract;
mod extras;
mod faults;
mod fetching;
#[path = "../../../../bundle-spec/signing/tests/fulcio/mod.rs"]
#[allow(dead_code, reason = "the tests of its own crate use the rest")]
mod fulcio;
mod generated;
mod groups;
mod handover;
mod http;
mod image_identities;
mod image_signatures;
mod image_signatures_shown;
mod images;
mod import;
mod in_place;
mod input;
mod kill;
mod lock;
mod lock_sizes;
mod lock_zones;
mod materials;
mod named;
mod os_profiles;
mod overlap;
mod packages;
mod packages_entitled;
mod packages_locked;
mod packages_media;
mod packages_repo;
mod packages_unsigned;
mod page;
mod parts;
mod paths;
mod policies;
mod proxies;
mod pull;
mod push;
mod registry;
mod replaced;
mod server;
mod sign;
mod sign_referees;
mod site;
mod sources;
mod stock;
mod verify;
mod waiting;
mod zone_check;
mod zone_places;
mod zone_repositories;
mod zones;
