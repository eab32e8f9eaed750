//! Damaged records of a run on the controller: each command says which file is damaged and what to do, and none guesses.

use std::fs;
use std::path::Path;

use kubexm_session::RecordedRun;
use kubexm_spec::ExitCode;

use super::site::{CLUSTER, KEEP, ROLLBACK, Site};
use super::verbs::dies;

type Damage = fn(&Path);

/// The damage, and the file that is named.
const DAMAGES: [(Damage, &str); 5] = [
    (|run| fs::write(run.join("plan.json"), "{\"schema\":").unwrap(), "plan.json"),
    (|run| fs::remove_file(run.join("plan.json")).unwrap(), "runs/"),
    (|run| fs::remove_dir_all(run.join("texts")).unwrap(), "texts"),
    (text_of_another, "texts/"),
    (|run| fs::write(run.join("journal.jsonl"), "not a record\n").unwrap(), "journal.jsonl"),
];

fn text_of_another(run: &Path) {
    let text = fs::read_dir(run.join("texts")).unwrap().next().unwrap().unwrap().path();
    fs::write(text, "something else").unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_damaged_run_is_named_by_every_command_and_a_create_does_without_it() {
    for (damage, named) in DAMAGES {
        let mut site = Site::of(1);
        let died = site.create(false, dies(60)).await;
        assert!(died.text.contains("to continue"), "{}", died.text);
        let run = site.run_folder();
        let id = run.file_name().unwrap().to_string_lossy().into_owned();
        damage(&run);
        site.remember();

        let status = site.home.status(Some(CLUSTER)).unwrap();
        let Some(RecordedRun::Unreadable { run: unreadable, error, .. }) = status[0].runs.last() else {
            unreachable!("{named}: {status:?}")
        };
        assert_eq!(*unreadable, id);
        assert!(error.contains(named), "status does not name {named}: {error}");
        let recorded = site.home.recorded_command(None, kubexm_session::Direction::Forward).unwrap_err().to_string();
        assert!(recorded.contains(&id) && recorded.contains(named), "{recorded}");
        for ending in [site.resume(KEEP).await, site.roll_back(ROLLBACK, false).await] {
            assert_ne!(ending.code, ExitCode::Ok, "{named}");
            assert!(ending.text.contains(named), "it does not name {named}: {}", ending.text);
        }
        assert_eq!(site.lost(None), [""; 0], "{named}: nothing was touched");

        let created = site.create(false, KEEP).await;
        assert_eq!(created.code, ExitCode::Ok, "{named}: {}", created.text);
        let warned = site.warnings();
        let about =
            warned.iter().find(|text| text.contains(&id)).unwrap_or_else(|| unreachable!("{named}: {warned:?}"));
        assert!(about.contains(named), "{about}");
        let reset = site.reset(KEEP).await;
        assert_eq!(reset.code, ExitCode::Ok, "{named}: {}", reset.text);
    }
}
