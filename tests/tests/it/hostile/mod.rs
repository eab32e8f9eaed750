//! Hostile starts and interruptions: what was on a host before, or was put there meanwhile, is as it was afterwards, byte for
//! byte, or the command refused to begin and says why. Each case runs the whole installer (session, engine, ops) on machines
//! that are rooted in directories.

mod case;
mod controller;
mod mortal;
mod mounts;
mod picture;
mod rows;
mod site;
mod verbs;

#[test]
fn there_are_at_least_forty_and_no_two_have_the_same_name() {
    let names: std::collections::BTreeSet<&str> = rows::all().map(|case| case.name).collect();
    assert_eq!(names.len(), rows::all().count());
    assert!(names.len() >= 40, "{} cases", names.len());
}
