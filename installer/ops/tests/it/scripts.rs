//! Scripts of the user: run once, undone by their own undo, and never run again blindly.

use kubexm_ops::{Machine, OpError, dispatch};
use kubexm_plan::Op;
use kubexm_plan::op::{Act, Progress, ScriptRun, ScriptUndo};

use crate::common::Host;

const FOLDER: &str = "/var/lib/kubexm/scripts/pre-1-0123456789ab";
const MARK: &str = "/var/lib/kubexm/acts/script-pre-1-0123456789ab.json";

/// A script that lays a file down and then ends with this code.
fn script(host: &Host, code: u8, undo: bool) -> Op {
    host.put(
        &format!("{FOLDER}/run.sh"),
        format!("# by hand\ncp disks.txt /srv/disks\necho token: hunter2\nexit {code}\n"),
    );
    host.put(&format!("{FOLDER}/files/disks.txt"), "sdb\n");
    if undo {
        host.put(&format!("{FOLDER}/undo.sh"), "rm -f /srv/disks\ntouch /srv/undone\n");
    }
    let (id, name) = ("pre-1-0123456789ab".to_owned(), "disks".to_owned());
    Op::from(ScriptRun { id, name, folder: FOLDER.to_owned(), timeout_s: 60, undo })
}

fn undo() -> Op {
    let (id, name) = ("pre-1-0123456789ab".to_owned(), "disks".to_owned());
    Op::from(ScriptUndo { id, name, folder: FOLDER.to_owned(), timeout_s: 60 })
}

fn progress(op: &Op, machine: &Machine) -> Progress {
    dispatch::observe(op, machine).expect("observe").state::<Act>().expect("a progress")
}

fn there(host: &Host, path: &str) -> bool {
    host.machine.path(path).exists()
}

fn fails(op: &Op, host: &Host) -> String {
    let error: OpError = dispatch::converge(op, &host.machine).expect_err("it fails");
    error.to_string()
}

#[test]
fn a_script_and_its_undo_each_run_once_in_the_folder_of_its_materials() {
    let host = Host::fresh();
    let run = script(&host, 0, true);
    assert_eq!(progress(&run, &host.machine), Progress::NotBegun);
    assert_eq!(progress(&undo(), &host.machine), Progress::Done, "what was not begun needs no undo");
    dispatch::converge(&run, &host.machine).expect("converge");
    assert_eq!(host.read("/srv/disks"), "sdb\n");
    assert_eq!(progress(&run, &host.machine), Progress::Done);
    std::fs::remove_file(host.machine.path("/srv/disks")).expect("a file");
    dispatch::converge(&run, &host.machine).expect("again");
    assert!(!there(&host, "/srv/disks"), "it is not run again");

    dispatch::converge(&undo(), &host.machine).expect("undo");
    assert!(there(&host, "/srv/undone") && !there(&host, MARK));
    assert_eq!(progress(&run, &host.machine), Progress::NotBegun);
    assert_eq!(progress(&undo(), &host.machine), Progress::Done);
}

#[test]
fn a_script_that_failed_is_undone_before_it_is_run_again() {
    let host = Host::fresh();
    let run = script(&host, 3, true);
    let error = fails(&run, &host);
    assert!(error.contains("script \"disks\" failed") && error.contains("3"), "{error}");
    assert!(error.contains("(a line with a credential)") && !error.contains("hunter2"), "{error}");
    assert_eq!(progress(&run, &host.machine), Progress::HalfDone);
    assert!(!there(&host, "/srv/undone"), "a rollback or the next try undoes it");
    let run = script(&host, 0, true);
    dispatch::converge(&run, &host.machine).expect("converge");
    assert!(there(&host, "/srv/undone") && there(&host, "/srv/disks"));
    assert_eq!(progress(&run, &host.machine), Progress::Done);
}

#[test]
fn an_undo_that_fails_is_run_again_and_the_script_not() {
    let host = Host::fresh();
    let run = script(&host, 3, true);
    fails(&run, &host);
    host.put(&format!("{FOLDER}/undo.sh"), "exit 4\n");
    let error = fails(&undo(), &host);
    assert!(error.contains("undo of script \"disks\" failed"), "{error}");
    assert!(fails(&run, &host).contains("undo of script"), "the script is not run over what is not undone");
    host.put(&format!("{FOLDER}/undo.sh"), "touch /srv/undone\n");
    dispatch::converge(&undo(), &host.machine).expect("undo");
    assert!(there(&host, "/srv/undone") && !there(&host, MARK));
}

#[test]
fn a_half_done_script_without_an_undo_stops_the_run_until_an_operator_acts() {
    let host = Host::fresh();
    let run = script(&host, 3, false);
    fails(&run, &host);
    std::fs::remove_file(host.machine.path("/srv/disks")).expect("a file");
    let run = script(&host, 0, false);
    let error = fails(&run, &host);
    assert!(error.contains("not run again automatically") && error.contains(MARK), "{error}");
    assert!(!there(&host, "/srv/disks"), "it was not run");
    host.put(MARK, "{\"endedWell\":true}");
    assert_eq!(progress(&run, &host.machine), Progress::Done);
    std::fs::remove_file(host.machine.path(MARK)).expect("a mark");
    dispatch::converge(&run, &host.machine).expect("from its start");
    assert!(there(&host, "/srv/disks"));
    // A mark that cannot be read says that it was begun.
    host.put(MARK, "{");
    assert_eq!(progress(&run, &host.machine), Progress::HalfDone);
}
