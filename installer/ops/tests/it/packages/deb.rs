//! apt and dpkg.

use kubexm_ops::system::Program;
use kubexm_ops::{OpError, Wave, dispatch, step};
use kubexm_plan::{ObservedState, Op, Reset, Step, Undo};

use crate::packages::debs::{Deb, left_of_work, op, op_dated, site, tampered};
use crate::packages::private::{Root, bare, changes};

const UNIT: &str = "[Service]\nExecStart=/usr/bin/tool-daemon\n[Install]\nWantedBy=multi-user.target\n";
const POLICY: &str = "/usr/sbin/policy-rc.d";
const MARK: &str = "/var/lib/kubexm/packages.json";

/// A tool with a library and a service that starts by itself, as Debian's do.
fn tool() -> [Deb; 2] {
    let postinst = "touch /tmp/reached; [ ! -e /tmp/slow ] || sleep 30\ndeb-systemd-helper enable tool.service\n\
                    if [ -x /usr/sbin/policy-rc.d ]; then /usr/sbin/policy-rc.d tool start || exit 0; fi\ntouch /tmp/started";
    [
        Deb::new("kubexm-tool", "1:1.0-1")
            .control("Depends: kubexm-library (>= 1)\nRecommends: kubexm-nowhere\n")
            .file("/usr/bin/tool", "#!/bin/sh\n")
            .file("/lib/systemd/system/tool.service", UNIT)
            .file("/etc/tool.conf", "a=1\n")
            .script("postinst", postinst)
            .script("postrm", "[ \"$1\" != purge ] || deb-systemd-helper purge tool.service"),
        Deb::new("kubexm-library", "1.0").file("/usr/lib/kubexm-library", "x"),
    ]
}

const TOOL: [&str; 2] = ["kubexm-tool", "kubexm-library"];

fn look(root: &Root, op: &Op) -> ObservedState {
    dispatch::observe(op, &root.machine).expect("a look")
}

fn converge(root: &Root, op: &Op) -> Result<(), OpError> {
    dispatch::converge(op, &root.machine)
}

fn roll_back(root: &Root, op: &Op, before: &ObservedState) {
    for wave in Wave::ALL {
        dispatch::restore(op, &root.machine, before, wave).expect("rolled back");
    }
}

/// Installs packages of a test's own, without our op.
fn had(root: &Root, deb: &Deb) {
    root.put("/tmp/had.deb", deb.build());
    root.says("dpkg", &["--install", "/tmp/had.deb"]);
}

fn nothing_half_way(root: &Root) {
    assert!(!root.has(POLICY), "services are forbidden still");
    assert!(!root.has(MARK), "{}", root.read(MARK));
    assert_eq!(root.says("dpkg", &["--audit"]), "");
}

fn version(root: &Root, name: &str) -> String {
    root.tells("dpkg-query", &["--show", "--showformat", "${db:Status-Abbrev}${Version}", name])
}

#[test]
fn apt_installs_without_starting_services_and_the_rollback_leaves_no_trace() {
    let root = Root::over(&bare());
    let op = op(&root, &tool(), &TOOL, &[]);
    let listed = root.says("dpkg", &["-l"]);
    let before = look(&root, &op);
    assert!(!before.satisfied);

    converge(&root, &op).expect("installed");
    assert!(look(&root, &op).satisfied);
    assert!(root.has("/usr/bin/tool") && root.has("/usr/lib/kubexm-library"));
    assert!(root.has("/tmp/reached") && !root.has("/tmp/started"), "a service was started");
    assert_eq!(root.tells("systemctl", &["is-enabled", "tool.service"]).trim(), "disabled");
    assert_eq!(left_of_work(&root), ["kubexm-library_1.0_amd64.deb", "kubexm-tool_1%3a1.0-1_amd64.deb"]);
    nothing_half_way(&root);

    roll_back(&root, &op, &before);
    assert_eq!(root.says("dpkg", &["-l"]), listed);
    assert!(!root.has("/etc/tool.conf") && !root.has("/usr/bin/tool"));
    assert!(!root.has("/etc/systemd/system/multi-user.target.wants/tool.service"));
    assert_eq!(left_of_work(&root), Vec::<String>::new());
    nothing_half_way(&root);
}

#[test]
fn beside_the_same_package_of_another_architecture_only_ours_is_installed_and_removed() {
    let root = Root::over(&bare());
    root.says("dpkg", &["--add-architecture", "i386"]);
    let [tool, library] = tool();
    let same = |deb: Deb| deb.control("Multi-Arch: same\n");
    had(&root, &same(Deb::new("kubexm-tool", "1:1.0-1")).of("i386"));
    let op = op(&root, &[same(tool), library], &TOOL, &[]);
    let before = look(&root, &op);

    converge(&root, &op).expect("installed");
    assert_eq!(root.tells("systemctl", &["is-enabled", "tool.service"]).trim(), "disabled");
    roll_back(&root, &op, &before);
    assert_eq!(version(&root, "kubexm-tool:i386"), "ii 1:1.0-1");
    assert!(!root.has("/usr/bin/tool"));
    nothing_half_way(&root);
}

#[test]
fn packages_that_the_administrator_installed_since_stay() {
    let root = Root::over(&bare());
    let op = op(&root, &tool(), &TOOL, &[]);
    let before = look(&root, &op);
    had(&root, &Deb::new("kubexm-tool", "1:2.0-1"));
    roll_back(&root, &op, &before);
    assert_eq!(version(&root, "kubexm-tool"), "ii 1:2.0-1");
    nothing_half_way(&root);
}

#[test]
fn a_clock_that_is_behind_the_day_of_the_lock_stops_nothing() {
    let root = Root::over(&bare());
    let op = op_dated(&root, &tool(), &TOOL, &[], site().created() + 3 * 86_400);
    converge(&root, &op).expect("installed");
    assert!(look(&root, &op).satisfied);
}

#[test]
fn host_hooks_that_fail_after_the_installation_do_not_fail_the_step_and_update_hooks_do_not_run() {
    for (file, text) in [
        ("apt.conf.d/99hook", "DPkg::Post-Invoke {\"touch /tmp/hooked; false\";};\n"),
        ("apt.conf.d/99hook", "APT::Update::Post-Invoke {\"touch /tmp/updated; false\";};\n"),
        ("apt.conf.d/99hook", "APT::Update::Post-Invoke-Success {\"touch /tmp/updated; false\";};\n"),
        ("apt.conf", "APT::Update::Pre-Invoke {\"touch /tmp/updated; false\";};\n"),
    ] {
        let root = Root::over(&bare());
        root.put(&format!("/etc/apt/{file}"), text);
        let op = op(&root, &tool(), &TOOL, &[]);
        converge(&root, &op).expect(text);
        assert_eq!(root.tells("systemctl", &["is-enabled", "tool.service"]).trim(), "disabled");
        assert!(!root.has("/tmp/updated") && look(&root, &op).satisfied, "{text}");
        assert_eq!(root.has("/tmp/hooked"), text.starts_with("DPkg"), "hooks around dpkg run");
        nothing_half_way(&root);
    }
}

#[test]
fn a_hook_that_stops_dpkg_before_anything_is_done_fails_the_step() {
    let root = Root::over(&bare());
    root.put("/etc/apt/apt.conf.d/99hook", "DPkg::Pre-Invoke {\"false\";};\n");
    let op = op(&root, &tool(), &TOOL, &[]);
    let error = converge(&root, &op).expect_err("a failure").full();
    assert!(error.contains("apt-get install of 2 packages"), "{error}");
    assert!(!root.has(POLICY) && version(&root, "kubexm-tool").is_empty());
}

#[test]
fn package_managers_outlive_the_agent_and_may_take_as_long_as_the_step() {
    let root = Root::over(&bare());
    let [new, old] = clocks();
    had(&root, &old);
    let op = op(&root, &[new, old], &["new-clock"], &["old-clock"]);
    let before = look(&root, &op);
    root.system.ran.lock().expect("a lock").clear();
    converge(&root, &op).expect("replaced");
    roll_back(&root, &op, &before);
    let acted = root.system.acted.lock().expect("a lock").clone();
    let all = root.system.ran.lock().expect("a lock").clone();
    let parsed = |line: &&String| {
        let mut words = line.split(' ');
        changes(&Program::new(words.next().unwrap_or_default()).args(words))
    };
    let changed: Vec<&String> = all.iter().filter(parsed).collect();
    assert_eq!(changed, acted.iter().map(|(line, _)| line).collect::<Vec<_>>(), "{all:#?}");
    let is_there = |words: &str| acted.iter().any(|(line, _)| line.contains(words));
    assert!(is_there("apt-get") && is_there("--purge new-clock") && is_there("--install "), "{acted:#?}");
    assert!(acted.iter().all(|(_, limit)| limit.as_secs() >= 915), "{acted:#?}");
}

#[test]
fn a_running_apt_is_waited_for() {
    let root = Root::over(&bare());
    let op = op(&root, &tool(), &TOOL, &[]);
    let slow = Deb::new("site-slow", "1").script("postinst", "touch /tmp/at-work; sleep 3; touch /tmp/done");
    root.put("/tmp/slow.deb", slow.build());
    std::thread::scope(|scope| {
        let other = scope.spawn(|| root.says("dpkg", &["--install", "/tmp/slow.deb"]));
        while !root.has("/tmp/at-work") {
            std::thread::yield_now();
        }
        converge(&root, &op).expect("installed after it");
        assert!(root.has("/tmp/done"));
        other.join().expect("the other");
    });
    assert!(look(&root, &op).satisfied);
    assert_eq!(version(&root, "site-slow"), "ii 1");
}

#[test]
fn what_was_held_since_it_was_planned_is_refused_in_apts_words() {
    let root = Root::over(&bare());
    had(&root, &Deb::new("kubexm-library", "0.9"));
    let op = op(&root, &tool(), &TOOL, &[]);
    root.put("/tmp/held", "kubexm-library hold\n");
    root.says("sh", &["-c", "dpkg --set-selections < /tmp/held"]);
    let error = converge(&root, &op).expect_err("a refusal").full();
    assert!(error.contains("Held packages"), "{error}");
    assert_eq!(version(&root, "kubexm-library"), "hi 0.9");
    assert!(!root.has(POLICY));
}

#[test]
fn a_killed_rollback_is_finished_by_a_second_one() {
    let root = Root::over(&bare());
    let [tool, library] = tool();
    let tool = tool.script("prerm", "touch /tmp/leaving; [ ! -e /tmp/slow-back ] || sleep 30");
    let op = op(&root, &[tool, library], &TOOL, &[]);
    let listed = root.says("dpkg", &["-l"]);
    let before = look(&root, &op);
    converge(&root, &op).expect("installed");
    root.put("/tmp/slow-back", "");
    root.cut_when("/tmp/leaving");
    root.dies_in(|| roll_back(&root, &op, &before)).expect_err("a kill");
    assert!(root.read(POLICY).contains("exit 101") && root.has(MARK));
    std::fs::remove_file(root.machine.path("/tmp/slow-back")).expect("gone");
    roll_back(&root, &op, &before);
    assert_eq!(root.says("dpkg", &["-l"]), listed);
    assert!(!root.has("/usr/bin/tool") && !root.has("/etc/tool.conf") && !root.has("/usr/lib/kubexm-library"));
    assert_eq!(left_of_work(&root), Vec::<String>::new());
    nothing_half_way(&root);
}

#[test]
fn a_second_converge_asks_apt_for_nothing() {
    let root = Root::over(&bare());
    let op = op(&root, &tool(), &TOOL, &[]);
    converge(&root, &op).expect("installed");
    root.system.ran.lock().expect("a lock").clear();
    converge(&root, &op).expect("again");
    let ran = root.system.ran.lock().expect("a lock").join("\n");
    assert!(!ran.contains("apt-get") && ran.contains("dpkg-query"), "{ran}");
    nothing_half_way(&root);
}

#[test]
fn killed_in_the_middle_it_is_finished_by_the_next_converge() {
    let root = Root::over(&bare());
    let op = op(&root, &tool(), &TOOL, &[]);
    root.put("/tmp/slow", "");
    root.put(POLICY, "#!/bin/sh\n# the site's own\nexit 0\n");
    std::fs::set_permissions(root.machine.path(POLICY), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("a mode");
    root.cut_when("/tmp/reached");
    // As after a kill of the agent, too: nobody was there to bring the policy back.
    let lost = root.dies_in(|| converge(&root, &op));
    assert!(lost.is_err());
    assert!(root.read(POLICY).contains("exit 101") && root.has(MARK));
    assert!(!look(&root, &op).satisfied);
    assert_ne!(root.says("dpkg", &["--audit"]), "");

    std::fs::remove_file(root.machine.path("/tmp/slow")).expect("gone");
    converge(&root, &op).expect("finished");
    assert!(look(&root, &op).satisfied && !root.has("/tmp/started"));
    assert_eq!(root.tells("systemctl", &["is-enabled", "tool.service"]).trim(), "disabled");
    assert!(root.read(POLICY).contains("the site's own"));
    assert!(!root.has(MARK));
}

#[test]
fn killed_in_the_middle_it_is_rolled_back_all_the_same() {
    let root = Root::over(&bare());
    let op = op(&root, &tool(), &TOOL, &[]);
    let listed = root.says("dpkg", &["-l"]);
    let before = look(&root, &op);
    root.put("/tmp/slow", "");
    root.cut_when("/tmp/reached");
    root.dies_in(|| converge(&root, &op)).expect_err("a kill");
    std::fs::remove_file(root.machine.path("/tmp/slow")).expect("gone");
    roll_back(&root, &op, &before);
    assert_eq!(root.says("dpkg", &["-l"]), listed);
    assert!(!root.has("/usr/bin/tool") && !root.has("/etc/tool.conf"));
    assert_eq!(left_of_work(&root), Vec::<String>::new());
    nothing_half_way(&root);
}

#[test]
fn a_script_that_fails_is_reported_in_dpkgs_words_and_rolled_back() {
    let root = Root::over(&bare());
    let broken = Deb::new("kubexm-broken", "1").script("postinst", "echo the disk is made of cheese >&2; exit 3");
    let op = op(&root, &[broken], &["kubexm-broken"], &[]);
    let listed = root.says("dpkg", &["-l"]);
    let before = look(&root, &op);
    let error = converge(&root, &op).expect_err("a failure").full();
    assert!(error.contains("apt-get install of 1 packages") && error.contains("the disk is made of cheese"), "{error}");
    assert!(error.len() < 4000 && !root.has(POLICY), "{error}");
    assert!(!look(&root, &op).satisfied);
    roll_back(&root, &op, &before);
    assert_eq!(root.says("dpkg", &["-l"]), listed);
    nothing_half_way(&root);
}

#[test]
fn configuration_that_was_there_of_a_removed_package_is_there_again_after_the_rollback() {
    let root = Root::over(&bare());
    let [tool, library] = tool();
    had(&root, &library);
    had(&root, &tool);
    root.put("/etc/tool.conf", "a=2\n");
    root.says("dpkg", &["--remove", "kubexm-tool", "kubexm-library"]);
    let listed = root.says("dpkg", &["-l"]);
    let op = op(&root, &[tool, library], &TOOL, &[]);
    let before = look(&root, &op);
    converge(&root, &op).expect("installed");
    assert_eq!(root.read("/etc/tool.conf"), "a=2\n", "the site's configuration was replaced");
    roll_back(&root, &op, &before);
    assert_eq!((root.says("dpkg", &["-l"]), root.read("/etc/tool.conf")), (listed, "a=2\n".to_owned()));
}

#[test]
fn packages_that_others_need_by_now_stay_and_the_rest_is_removed() {
    let root = Root::over(&bare());
    let op = op(&root, &tool(), &TOOL, &[]);
    let before = look(&root, &op);
    converge(&root, &op).expect("installed");
    had(&root, &Deb::new("site-program", "1").control("Depends: kubexm-library\n"));
    roll_back(&root, &op, &before);
    assert_eq!(version(&root, "kubexm-library"), "ii 1.0");
    assert_eq!(version(&root, "kubexm-tool"), "");
    nothing_half_way(&root);
}

#[test]
fn newer_packages_are_left_and_older_ones_upgraded_for_good() {
    let root = Root::over(&bare());
    let [tool, library] = tool();
    had(&root, &Deb::new("kubexm-library", "2.0"));
    let op = op(&root, &[tool.clone(), library.clone()], &TOOL, &[]);
    let before = look(&root, &op);
    converge(&root, &op).expect("installed");
    assert!(look(&root, &op).satisfied);
    assert_eq!(version(&root, "kubexm-library"), "ii 2.0");
    roll_back(&root, &op, &before);
    assert_eq!(version(&root, "kubexm-library"), "ii 2.0");
    drop(root);

    let root = Root::over(&bare());
    had(&root, &Deb::new("kubexm-library", "0.9"));
    let op = crate::packages::debs::op(&root, &[tool, library], &TOOL, &[]);
    let before = look(&root, &op);
    converge(&root, &op).expect("upgraded");
    roll_back(&root, &op, &before);
    assert_eq!((version(&root, "kubexm-library"), version(&root, "kubexm-tool")), ("ii 1.0".into(), String::new()));
}

/// As chrony and systemd-timesyncd.
fn clocks() -> [Deb; 2] {
    let control = "Provides: time-thing\nConflicts: time-thing\nReplaces: time-thing\n";
    let old = Deb::new("old-clock", "1")
        .control(control)
        .file("/etc/old-clock.conf", "tick\n")
        .file("/lib/systemd/system/old-clock.service", UNIT)
        .script("postinst", "deb-systemd-helper unmask old-clock.service; deb-systemd-helper enable old-clock.service");
    let old = old.script("postrm", "[ \"$1\" != remove ] || deb-systemd-helper mask old-clock.service");
    [Deb::new("new-clock", "1").control(control), old]
}

#[test]
fn a_replaced_package_is_restored_with_its_configuration_and_enabled_state() {
    let root = Root::over(&bare());
    let [new, old] = clocks();
    had(&root, &old);
    root.put("/etc/old-clock.conf", "tock\n");
    let listed = root.says("dpkg", &["-l"]);
    let op = op(&root, &[new, old], &["new-clock"], &["old-clock"]);
    let before = look(&root, &op);
    converge(&root, &op).expect("replaced");
    assert_eq!((version(&root, "new-clock"), version(&root, "old-clock")), ("ii 1".into(), "rc 1".into()));
    roll_back(&root, &op, &before);
    assert_eq!(root.says("dpkg", &["-l"]), listed);
    assert_eq!(root.read("/etc/old-clock.conf"), "tock\n");
    assert_eq!(root.tells("systemctl", &["is-enabled", "old-clock.service"]).trim(), "enabled");
    nothing_half_way(&root);
}

#[test]
fn nothing_leaves_that_the_plan_does_not_name() {
    let root = Root::over(&bare());
    let [new, old] = clocks();
    had(&root, &old);
    let op = op(&root, &[new], &["new-clock"], &[]);
    let error = converge(&root, &op).expect_err("a refusal").full();
    assert!(error.contains("remove"), "{error}");
    assert_eq!((version(&root, "new-clock"), version(&root, "old-clock")), (String::new(), "ii 1".into()));
    assert!(!root.has(POLICY));
}

#[test]
fn what_the_plan_does_not_name_is_not_installed_though_the_repository_has_it() {
    let root = Root::over(&bare());
    let op = op(&root, &tool(), &["kubexm-tool"], &[]);
    let error = converge(&root, &op).expect_err("a refusal").full();
    assert!(error.contains("install kubexm-library 1.0") && error.contains("plan again"), "{error}");
    assert_eq!(version(&root, "kubexm-tool"), "");
}

#[test]
fn a_repository_or_a_package_that_was_tampered_with_is_refused() {
    for what in ["InRelease", "Packages", "kubexm-tool_1%3a1.0-1_amd64.deb"] {
        let root = Root::over(&bare());
        let op = op(&root, &tool(), &TOOL, &[]);
        tampered(&root, what, &tool());
        let error = converge(&root, &op).expect_err(what).full();
        assert!(error.contains("exit code 100"), "{what}: {error}");
        assert_eq!(version(&root, "kubexm-tool"), "", "{what}");
        assert!(!root.has(POLICY));
    }
}

#[test]
fn settings_for_the_hosts_own_repositories_do_not_affect_ours() {
    let root = Root::over(&bare());
    let conf = "APT::Default-Release \"bookworm\";\nAcquire::http::Proxy \"http://127.0.0.1:9\";\nAPT::Install-Recommends \"true\";\n";
    root.put("/etc/apt/apt.conf.d/90site", conf);
    root.put("/etc/apt/preferences.d/site", "Package: *\nPin: release n=kubexm\nPin-Priority: -10\n");
    root.put("/etc/apt/sources.list.d/site.list", "deb http://127.0.0.1:9/debian bookworm main\n");
    let op = op(&root, &tool(), &TOOL, &[]);
    converge(&root, &op).expect("installed");
    assert!(look(&root, &op).satisfied);
    let lists: Vec<_> =
        std::fs::read_dir(root.machine.path("/var/lib/apt/lists")).into_iter().flatten().flatten().collect();
    assert!(!lists.iter().any(|entry| entry.file_name().to_string_lossy().contains("kubexm")), "{lists:?}");
}

#[test]
fn a_reset_removes_packages_and_its_rollback_reinstalls_them() {
    let root = Root::over(&bare());
    let op = op(&root, &tool(), &TOOL, &[]);
    let listed = root.says("dpkg", &["-l"]);
    let before = look(&root, &op);
    converge(&root, &op).expect("installed");
    let installed = root.says("dpkg", &["-l"]);
    let reset = Op::Reset(Reset::Reverted { ops: vec![op.clone()], before: vec![before] });
    let found = look(&root, &reset);
    assert!(!found.satisfied);
    converge(&root, &reset).expect("reset");
    assert_eq!(root.says("dpkg", &["-l"]), listed);
    assert!(look(&root, &reset).satisfied, "it would be done again for ever");
    roll_back(&root, &reset, &found);
    assert_eq!(root.says("dpkg", &["-l"]), installed);
    assert!(look(&root, &op).satisfied && root.has("/usr/bin/tool"));
    nothing_half_way(&root);
}

#[test]
fn a_killed_irreversible_upgrade_does_not_leave_policy_rc_d_behind() {
    let root = Root::over(&bare());
    let op = op(&root, &tool(), &TOOL, &[]);
    let before = vec![look(&root, &op)];
    let why = "an older version is not at hand".to_owned();
    let step = Step::on("node1", "packages.upgrade", "Upgrade").ensure(op).undo(Undo::Irreversible { why }).build();
    root.put("/tmp/slow", "");
    root.cut_when("/tmp/reached");
    root.dies_in(|| step::converge(&step, &root.machine, "run", 1, &before)).expect_err("a kill");
    assert!(root.has(POLICY));
    step::undo(&step, &root.machine, "run", 2, &before, Wave::Start).expect("let go");
    assert!(!root.has(POLICY));
}

#[test]
fn a_step_with_packages_and_their_files_is_rolled_back_from_the_ledger() {
    let root = Root::over(&bare());
    let policy = "#!/bin/sh\n# the site's own\nexit 0\n";
    root.put(POLICY, policy);
    let op = op(&root, &tool(), &TOOL, &[]);
    let step = Step::on("node1", "packages.install", "Install").ensure(op).undo(Undo::RestoreBefore).build();
    let listed = root.says("dpkg", &["-l"]);
    let before = step::observe(&step, &root.machine).expect("a look");
    step::converge(&step, &root.machine, "run", 1, &before).expect("installed");
    assert_eq!(root.read(POLICY), policy);
    for wave in Wave::ALL {
        step::undo(&step, &root.machine, "run", 2, &before, wave).expect("rolled back");
    }
    assert_eq!((root.read(POLICY).as_str(), root.says("dpkg", &["-l"])), (policy, listed));
}
