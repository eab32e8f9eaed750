use kubexm_spec::Digest;

use super::*;
use crate::model::{Deferred, MultiArch, Provide};

const TEXT: &str = "
---
{document: modulemd, version: 2, data: {name: db, stream: '10', version: 1, context: a, arch: x86_64,
  dependencies: [{requires: {platform: [el8], lang: ['1', '2']}}], artifacts: {rpms: [db-0:10-1.x86_64, tool-0:1-1.src]}}}
---
{document: modulemd, version: 2, data: {name: db, stream: '11', version: 1, context: a, arch: x86_64,
  dependencies: [{requires: {platform: [el8], lang: ['2']}}], artifacts: {rpms: [db-0:11-1.x86_64]}}}
---
{document: modulemd, version: 2, data: {name: lang, stream: '1', version: 1, context: a, arch: x86_64,
  dependencies: [{requires: {platform: [el8]}}], artifacts: {rpms: [lang-0:1-1.x86_64]}}}
---
{document: modulemd, version: 2, data: {name: lang, stream: '2', version: 1, context: a, arch: x86_64,
  dependencies: [{requires: {platform: [-el7]}}], artifacts: {rpms: [lang-0:2-1.x86_64]}}}
---
{document: modulemd-defaults, version: 1, data: {module: db, stream: '10'}}
---
{document: modulemd-defaults, version: 1, data: {module: lang, stream: '1'}}
";

fn package(name: &str, version: &str, provides: &[&str], repo: u16) -> Package {
    let provides = provides.iter().map(|name| Provide { name: (*name).into(), version: None });
    Package {
        name: name.into(),
        version: version.into(),
        arch: "x86_64".into(),
        repo: RepoId(repo),
        location: "x.rpm".into(),
        size: 1,
        digest: Digest::of(name),
        installed_size: 0,
        provides: provides.collect(),
        files: Vec::new(),
        multi_arch: MultiArch::No,
        module: None,
        essential: false,
        priority: 3,
        relations: Deferred::Rpm("".into()),
    }
}

fn seen(choice: &Choice<'_>) -> Result<Vec<String>, ModuleError> {
    let packages = vec![
        package("db", "10-1", &[], 0),
        package("db", "11-1", &[], 0),
        package("db", "99-1", &[], 0),
        package("db", "98-1", &[], 1),
        package("lang", "1-1", &[], 0),
        package("lang", "2-1", &[], 0),
        package("fork", "1-1", &["lang"], 0),
        package("tool", "1-1", &[], 0),
    ];
    let visible = Modules::read(TEXT).unwrap().visible(packages, choice)?;
    let shown =
        visible.iter().map(|p| format!("{}-{}{}", p.name, p.version, if p.module.is_some() { "*" } else { "" }));
    Ok(shown.collect())
}

#[test]
fn a_default_stream_hides_other_streams_and_its_names_elsewhere() {
    let choice = Choice { arch: "x86_64", platform: Some("el8"), enabled: &[], hotfixes: &[RepoId(1)] };
    assert_eq!(seen(&choice).unwrap(), ["db-10-1*", "db-98-1", "lang-1-1*", "tool-1-1"]);
}

#[test]
fn an_enabled_stream_brings_the_streams_it_needs_and_outranks_defaults() {
    let choice = Choice { arch: "x86_64", platform: Some("el8"), enabled: &[("db", "11")], hotfixes: &[] };
    assert_eq!(seen(&choice).unwrap(), ["db-11-1*", "lang-2-1*", "tool-1-1"]);
}

#[test]
fn a_stream_for_another_platform_or_machine_is_not_active() {
    let choice = Choice { arch: "x86_64", platform: Some("el7"), enabled: &[], hotfixes: &[] };
    assert_eq!(seen(&choice).unwrap(), ["db-99-1", "db-98-1", "fork-1-1", "tool-1-1"]);
    let choice = Choice { arch: "aarch64", platform: Some("el8"), ..choice };
    assert_eq!(seen(&choice).unwrap(), ["db-99-1", "db-98-1", "fork-1-1", "tool-1-1"]);
}

#[test]
fn a_stream_that_cannot_be_had_is_reported_with_those_that_can() {
    let enabled = |enabled| Choice { arch: "x86_64", platform: Some("el8"), enabled, hotfixes: &[] };
    let error = seen(&enabled(&[("db", "12")])).unwrap_err().to_string();
    assert!(error.contains("db:12") && error.contains("10, 11"), "{error}");
    let error = seen(&enabled(&[("lang", "1"), ("db", "11")])).unwrap_err().to_string();
    assert!(error.contains("the other streams"), "{error}");
    assert!(seen(&enabled(&[("bd", "1")])).is_err());
}

#[test]
fn modules_that_need_each_other_in_a_million_ways_end_the_choice_by_name_however_many_defaults_there_are() {
    let build = |module: &str, stream: u32, needs: &str| {
        format!(
            "---\n{{document: modulemd, version: 2, data: {{name: {module}, stream: 's{stream}', version: 1, context: a, \
             arch: x86_64, dependencies: [{{requires: {{{needs}: []}}}}]}}}}\n"
        )
    };
    let mut text = String::new();
    for level in 0..6 {
        (0..20).for_each(|stream| text.push_str(&build(&format!("l{level}"), stream, &format!("l{}", level + 1))));
    }
    for number in 0..600 {
        text.push_str(&build(&format!("d{number}"), 1, "l0"));
        text.push_str(&format!(
            "---\n{{document: modulemd-defaults, version: 1, data: {{module: d{number}, stream: s1}}}}\n"
        ));
    }
    let modules = Modules::read(&text).unwrap();
    let choice = Choice { arch: "x86_64", platform: Some("el9"), enabled: &[], hotfixes: &[] };
    let begun = std::time::Instant::now();
    let error = modules.visible(Vec::new(), &choice).unwrap_err();
    assert_eq!(error, ModuleError::TooHard { module: "d0".to_owned(), stream: "s1".to_owned() });
    assert!(error.to_string().contains("stopped at d0:s1"), "{error}");
    // Each default had a search of its own, of a third of a second: minutes together.
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}

#[test]
fn defaults_by_the_thousand_that_need_nothing_are_chosen() {
    let mut text = String::new();
    for number in 0..2000 {
        text.push_str(&format!(
            "---\n{{document: modulemd, version: 2, data: {{name: d{number}, stream: s, version: 1, context: a, arch: \
             x86_64, artifacts: {{rpms: [p{number}-0:1-1.x86_64]}}}}}}\n---\n{{document: modulemd-defaults, version: 1, \
             data: {{module: d{number}, stream: s}}}}\n"
        ));
    }
    let modules = Modules::read(&text).unwrap();
    let choice = Choice { arch: "x86_64", platform: None, enabled: &[], hotfixes: &[] };
    let seen = modules.visible(vec![package("p1999", "1-1", &[], 0)], &choice).unwrap();
    assert_eq!(seen[0].module.as_deref(), Some("d1999:s"));
}

#[test]
fn what_a_build_needs_of_the_system_a_thousand_times_is_counted_each_time_that_it_is_looked_at() {
    let needs = "{requires: {platform: [el9]}}, ".repeat(20_000);
    let mut text = format!(
        "---\n{{document: modulemd, version: 2, data: {{name: wide, stream: s, version: 1, context: a, arch: x86_64, \
         dependencies: [{needs}{{requires: {{nowhere: []}}}}]}}}}\n"
    );
    for number in 0..1_000 {
        text.push_str(&format!(
            "---\n{{document: modulemd, version: 2, data: {{name: d{number}, stream: s, version: 1, context: a, arch: x86_64, \
             dependencies: [{{requires: {{wide: []}}}}]}}}}\n---\n{{document: modulemd-defaults, version: 1, data: {{module: \
             d{number}, stream: s}}}}\n"
        ));
    }
    let modules = Modules::read(&text).unwrap();
    let choice = Choice { arch: "x86_64", platform: Some("el9"), enabled: &[], hotfixes: &[] };
    let error = modules.visible(Vec::new(), &choice).unwrap_err();
    assert!(matches!(error, ModuleError::TooHard { .. }), "{error}");
}
