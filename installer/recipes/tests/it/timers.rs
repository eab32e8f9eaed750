//! Timers of nodes: which hosts get them, what they are, and that they go with their field.

use insta::{Settings, assert_snapshot};
use kubexm_plan::op::Op;
use kubexm_plan::timers::{BackupConfig, CERTS, ETCD_BACKUP, TIMERS};
use kubexm_plan::{Plan, Step, lint};
use kubexm_recipes::sample;
use kubexm_spec::cluster::{Backup, Cluster, EtcdKind};

use crate::common::{Site, text};

fn with_both(mut cluster: Cluster) -> Cluster {
    cluster.kubernetes.as_mut().unwrap().auto_renew_certs = true;
    cluster.etcd.backup = Some(Backup { keep: 3, ..Backup::default() });
    cluster
}

fn checked(site: &Site) -> Plan {
    let plan = site.create().unwrap();
    let (_, warnings) = lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(warnings, Vec::new());
    plan
}

fn steps<'p>(plan: &'p Plan, name: &str) -> Vec<&'p Step> {
    plan.steps.iter().filter(|step| step.id.0.ends_with(name)).collect()
}

fn hosts<'p>(plan: &'p Plan, name: &str) -> Vec<&'p str> {
    steps(plan, name).into_iter().map(|step| step.host.as_str()).collect()
}

#[test]
fn control_planes_get_both_after_the_final_check_and_workers_none() {
    let plan = checked(&Site::of(with_both(sample::fleet(2, 1))));
    assert_eq!(hosts(&plan, "/timers.start"), ["node1", "node2"]);
    for step in steps(&plan, "/timers.start") {
        assert!(step.after.iter().any(|id| id.0.contains("/check.")), "{:?}", step.after);
    }
    let record = plan.steps.iter().find(|step| step.id.0 == "node1/record.applied").unwrap();
    assert!(record.after.iter().any(|id| id.0 == "node2/timers.start"), "{:?}", record.after);
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path("../golden/timers");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        for timer in TIMERS {
            assert_snapshot!(timer.timer(), text(&plan, &format!("/etc/systemd/system/{}", timer.timer())));
            assert_snapshot!(timer.service(), text(&plan, &format!("/etc/systemd/system/{}", timer.service())));
            assert_snapshot!(format!("{}.json", timer.name), text(&plan, &timer.config()));
        }
    });
}

#[test]
fn members_of_an_etcd_of_its_own_back_it_up_and_control_planes_without_one_do_not() {
    let plan = checked(&Site::of(with_both(sample::with_etcd())));
    let has = |host: &str, path: &str| {
        let is_it = |op: &Op| matches!(op, Op::File(file) if file.path == path);
        steps(&plan, "/timers.start").iter().any(|step| step.host == host && step.ops.iter().any(is_it))
    };
    for host in &sample::with_etcd().hosts {
        assert_eq!(has(&host.name, &ETCD_BACKUP.config()), host.name.starts_with("etcd"), "{}", host.name);
        assert_eq!(has(&host.name, &CERTS.config()), host.name == "node1", "{}", host.name);
    }
    assert_eq!(sample::with_etcd().etcd.kind, EtcdKind::Kubexm);
}

#[test]
fn an_older_systemd_does_not_get_what_it_does_not_know() {
    let mut site = Site::of(with_both(sample::cluster()));
    site.facts().systemd = Some(239);
    let timer = checked(&site);
    assert!(!text(&timer, "/etc/systemd/system/kubexm-certs.timer").contains("FixedRandomDelay"));
}

#[test]
fn a_timer_goes_with_its_field_and_the_other_stays() {
    let mut cluster = with_both(sample::fleet(2, 1));
    cluster.kubernetes.as_mut().unwrap().auto_renew_certs = false;
    let mut site = Site::of(cluster);
    for name in ["node1", "node2"] {
        site.facts.get_mut(name).unwrap().timers = TIMERS.map(|timer| timer.name.to_owned()).into();
    }
    let plan = checked(&site);
    assert_eq!(hosts(&plan, "/timers.remove"), ["node1", "node2"]);
    for step in steps(&plan, "/timers.remove") {
        let units: Vec<&str> = step
            .ops
            .iter()
            .filter_map(|op| match op {
                Op::Unit(unit) => Some((unit.name.as_str(), unit.enabled, unit.running)),
                _ => None,
            })
            .map(|(name, enabled, running)| {
                assert_eq!((enabled, running), (false, Some(false)));
                name
            })
            .collect();
        assert_eq!(units, ["kubexm-certs.timer", "kubexm-certs.service"]);
        // Before that systemd would have a file for it.
        assert!(matches!(step.ops.last(), Some(Op::Unit(unit)) if unit.name == "kubexm-certs.service"));
        let gone: Vec<&str> = step
            .ops
            .iter()
            .filter_map(|op| match op {
                Op::Absent(absent) => Some(absent.path.as_str()),
                _ => None,
            })
            .collect();
        assert!(gone.contains(&"/etc/systemd/system/kubexm-certs.service"), "{gone:?}");
        // What was backed up is the operator's.
        assert!(gone.iter().all(|path| !path.contains("backup")), "{gone:?}");
    }
    let config: BackupConfig = serde_json::from_str(text(&plan, &ETCD_BACKUP.config())).unwrap();
    assert_eq!((config.dir.as_str(), config.keep), ("/var/backups/etcd", 3));
}

#[test]
fn recipients_stand_in_the_file_of_the_backup_which_has_no_key_that_opens_one() {
    let mut cluster = with_both(sample::cluster());
    cluster.etcd.backup.as_mut().unwrap().recipients = vec![sample::RECIPIENT.to_owned()];
    let plan = checked(&Site::of(cluster));
    let config: BackupConfig = serde_json::from_str(text(&plan, &ETCD_BACKUP.config())).unwrap();
    assert_eq!(config.recipients, [sample::RECIPIENT]);
}

#[test]
fn a_cluster_that_asks_for_none_has_no_step_of_them() {
    let plan = checked(&Site::of(sample::fleet(2, 1)));
    assert!(plan.steps.iter().all(|step| !step.id.0.contains("/timers.")));
}
