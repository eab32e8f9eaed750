//! The places that a lock names: what the zone at hand does not give is never believed, and what changes them changes no digest.

use kubexm_spec::{ExitCode, Lock};

use crate::server::{Server, nobody};
use crate::site::{Site, noise, says, wanted};

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

    /// Refused with all of these words, in a dry run too, before anything is asked.
    fn refused(&self, zone: &str, words: &[&str]) {
        let before = (self.origin.requests().len(), self.mirror.requests().len());
        says(&self.site.refused(ExitCode::LockDrift, &["--zone", zone, "--locked"]), words);
        says(&self.site.build(&["--zone", zone, "--locked", "--dry-run"]).must(ExitCode::LockDrift).err, words);
        assert_eq!((self.origin.requests().len(), self.mirror.requests().len()), before);
    }
}

#[test]
fn a_lock_of_a_zone_whose_file_is_not_here_is_refused_until_the_file_is_given_or_the_places_are_written_anew() {
    let locked = Locked::new();
    let (old, new) = (locked.mirror.url(TOOL), nobody());
    locked.zone("office.yaml", "office", &new);
    let told = format!("file/tool.bin: sources: the lock has {old}, zone office and those built in give ");
    let mend = "`kubexm-bundle update --sources`";
    locked.refused("office.yaml", &["zone: the lock has lab, whose file is not here", &told, "--zone FILE", mend]);
    locked.site.built(&["--zone", "zone.yaml", "--locked"]);

    let before = locked.lock();
    let update = ["update", "-f", "cluster.yaml", "--zone", "office.yaml", "--sources"];
    let asked = locked.origin.requests().len();
    let shown = locked.site.run(&[&update[..], &["--dry-run"]].concat()).must(ExitCode::Ok);
    says(&shown.out, &["~ file/tool.bin", "(other sources)"]);
    assert_eq!(locked.lock(), before, "a dry run has written");
    locked.site.run(&update).must(ExitCode::Ok);
    let mut wanted = before;
    wanted.zone = "office".to_owned();
    wanted.items[0].sources = vec![format!("http://{new}/{TOOL}"), locked.origin.url(TOOL)];
    assert_eq!(locked.lock(), wanted, "more than the places was changed");
    assert_eq!(locked.origin.requests().len(), asked, "an origin was asked");
    locked.site.built(&["--zone", "office.yaml", "--locked"]);
}

#[test]
fn a_zone_that_only_got_another_name_holds_no_build_up() {
    let locked = Locked::new();
    locked.zone("zone.yaml", "office", locked.mirror.address());
    let ended = locked.site.build(&["--zone", "zone.yaml", "--locked"]).must(ExitCode::Ok);
    let told = "locked in zone lab, whose file is not here; fetched in zone office, by the same digests; every place that the \
                lock names is one of zone office or built in";
    says(&ended.err, &[told]);
}

#[test]
fn one_more_mirror_in_the_zone_of_a_lock_changes_nothing() {
    let locked = Locked::new();
    let two = format!("{}\", \"http://{}", nobody(), locked.mirror.address());
    locked.zone("zone.yaml", "lab", &two);
    locked.site.built(&["--zone", "zone.yaml", "--locked"]);
}

#[test]
fn a_mirror_that_moved_is_told_as_that_and_the_lock_gets_its_new_place_without_another_digest() {
    let locked = Locked::new();
    let moved = Server::files(vec![(TOOL, noise(3, 30_000))]);
    locked.zone("zone.yaml", "lab", moved.address());
    let old = locked.mirror.url(TOOL);
    let told = format!("file/tool.bin: sources: the lock has {old}, zone lab gives {}", moved.url(TOOL));
    locked.refused("zone.yaml", &["1 difference\n", &told, "changes no digest", "`kubexm-bundle update --sources`"]);
    let digest = locked.lock().items[0].digest();
    locked.site.run(&["update", "-f", "cluster.yaml", "--zone", "zone.yaml", "--sources"]).must(ExitCode::Ok);
    assert_eq!(locked.lock().items[0].digest(), digest);
    locked.site.built(&["--zone", "zone.yaml", "--locked", "--cache", "cold"]);
    assert_eq!(moved.count(TOOL), 1);
}

#[test]
fn places_are_written_anew_for_all_items_or_for_none() {
    let locked = Locked::new();
    let update = ["update", "-f", "cluster.yaml", "--zone", "zone.yaml", "--sources", "tool.bin"];
    says(&locked.site.run(&update).must(ExitCode::Usage).err, &["--sources"]);
    locked.zone("office.yaml", "office", &nobody());
    let update = ["update", "-f", "cluster.yaml", "--zone", "office.yaml", "tool.bin"];
    let text = locked.site.run(&update).must(ExitCode::Usage).err;
    says(&text, &["made in zone lab", "this is office", "update --sources"]);
}
