//! The places that a lock names: a build asks those of the zone at hand, and what changes them changes no digest.

use kubexm_spec::{ExitCode, Lock};

use crate::server::{Server, nobody};
use crate::site::{Site, assert_contains, noise, wanted};

const TOOL: &str = "tools/tool.bin";

/// A cluster of one file, locked in zone `lab`, which has a mirror before its origin.
struct Locked {
    site: Site,
    origin: Server,
    mirror: Server,
}

impl Locked {
    fn new() -> Self {
        let serve = || Server::files(vec![(TOOL, noise(3, 30_000))]);
        let locked = Self { site: Site::new(), origin: serve(), mirror: serve() };
        locked.site.extras(&format!("extraFiles:\n{}", wanted(&locked.origin.url(TOOL), &noise(3, 30_000))));
        locked.zone("zone.yaml", "lab", locked.mirror.address());
        locked.site.run(&["lock", "-f", "cluster.yaml", "--zone", "zone.yaml"]).must(ExitCode::Ok);
        locked
    }

    fn zone(&self, file: &str, name: &str, to: &str) {
        let origin = self.origin.address();
        self.site.write(file, format!("name: {name}\nrules:\n- {{match: \"{origin}\", to: [\"http://{to}\"]}}\n"));
    }

    fn lock(&self) -> Lock {
        Lock::parse(&std::fs::read(self.site.path("cluster.lock.json")).unwrap()).unwrap()
    }
}

#[test]
fn a_lock_is_built_with_another_mirror_without_using_the_addresses_in_it() {
    let locked = Locked::new();
    let other = Server::files(vec![(TOOL, noise(3, 30_000))]);
    locked.zone("office.yaml", "office", other.address());
    let asked = (locked.origin.requests().len(), locked.mirror.requests().len());
    let ended = locked.site.build(&["--zone", "office.yaml", "--locked", "--cache", "cold"]).must(ExitCode::Ok);
    assert_contains(&ended.err, &["locked in zone lab; fetched in zone office, by the same digests"]);
    assert_eq!(other.count(TOOL), 1);
    assert_eq!((locked.origin.requests().len(), locked.mirror.requests().len()), asked, "another place was asked");
    let shown = locked.site.run(&["inspect", "--json", "out.tar.zst"]).must(ExitCode::Ok).document();
    assert_eq!((&shown["zone"], &shown["artifacts"][0]["from"][0]), (&"office".into(), &other.url(TOOL).into()));
    assert!(!shown.to_string().contains(locked.mirror.address()), "{shown}");

    // A lock whose places somebody has written is no other lock.
    let mut lock = locked.lock();
    lock.items[0].sources = vec!["https://evil.test/tool.bin".to_owned()];
    locked.site.write("cluster.lock.json", lock.to_text().unwrap());
    let digest = shown["manifest"].clone();
    locked.site.built(&["--zone", "office.yaml", "--locked", "--cache", "colder"]);
    let shown = locked.site.run(&["inspect", "--json", "out.tar.zst"]).must(ExitCode::Ok).document();
    assert_eq!(shown["manifest"], digest);
    assert!(!shown.to_string().contains("evil.test"), "{shown}");
}

#[test]
fn addresses_in_a_lock_are_rewritten_offline_and_digests_stay() {
    let locked = Locked::new();
    let new = nobody();
    locked.zone("office.yaml", "office", &new);
    let before = locked.lock();
    let update = ["update", "-f", "cluster.yaml", "--zone", "office.yaml", "--sources"];
    let asked = locked.origin.requests().len();
    let shown = locked.site.run(&[&update[..], &["--dry-run"]].concat()).must(ExitCode::Ok);
    assert_contains(&shown.out, &["~ file/tool.bin", "(other sources)"]);
    assert_eq!(locked.lock(), before, "a dry run has written");
    locked.site.run(&update).must(ExitCode::Ok);
    let mut wanted = before;
    wanted.zone = Some("office".to_owned());
    wanted.items[0].sources = vec![format!("http://{new}/{TOOL}"), locked.origin.url(TOOL)];
    assert_eq!(locked.lock(), wanted, "more than the places was changed");
    assert_eq!(locked.origin.requests().len(), asked, "an origin was asked");
}

#[test]
fn addresses_in_a_lock_are_rewritten_for_all_items_or_for_none() {
    let locked = Locked::new();
    let update = ["update", "-f", "cluster.yaml", "--zone", "zone.yaml", "--sources", "tool.bin"];
    assert_contains(&locked.site.run(&update).must(ExitCode::Usage).err, &["--sources"]);
    locked.zone("office.yaml", "office", &nobody());
    let update = ["update", "-f", "cluster.yaml", "--zone", "office.yaml", "tool.bin"];
    let text = locked.site.run(&update).must(ExitCode::Usage).err;
    assert_contains(&text, &["made in zone lab", "this is office", "update --sources"]);
}
