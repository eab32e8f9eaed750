//! What is known of a cluster before it is adopted. Pure.

use kubexm_session::{AdoptedFrom, AdoptionItem, AdoptionView, Verdict, escaped};
use kubexm_spec::ExitCode;
use serde_json::{Value, json};

use super::table::table;

const SCHEMA: &str = "kubexm.io/adoption/v1";

/// Of `adopt --dry-run`.
pub fn exit_code(view: &AdoptionView) -> ExitCode {
    match view.adoption.of_verdict(Verdict::InTheWay).next() {
        Some(_) => ExitCode::Preflight,
        None => ExitCode::Ok,
    }
}

/// For machines.
pub fn document(view: &AdoptionView) -> Value {
    let AdoptionView { cluster, adoption, facts } = view;
    json!({
        "schema": SCHEMA, "cluster": cluster, "origin": adoption.origin, "id": facts.id, "items": adoption.items,
        "exitCode": exit_code(view).code(),
    })
}

/// For people. What hosts answered is shown escaped.
pub fn text(view: &AdoptionView) -> String {
    let AdoptionView { cluster, adoption, .. } = view;
    let count = |verdict| adoption.of_verdict(verdict).count();
    let mut lines = vec![match adoption.origin {
        AdoptedFrom::Kubexm => format!(
            "cluster {cluster}: kubexm-install has made it, so there is nothing to adopt; `kubexm-install drift` compares it with its bundle"
        ),
        AdoptedFrom::Adopted | AdoptedFrom::Foreign => format!(
            "cluster {cluster}: {} in the way, {} different, {} unknown, {} as cluster.yaml and the bundle say",
            count(Verdict::InTheWay),
            count(Verdict::Differs),
            count(Verdict::Unknown),
            count(Verdict::Known)
        ),
    }];
    for (verdict, title) in [
        (Verdict::InTheWay, "in the way:"),
        (Verdict::Differs, "different, and kept as it is:"),
        (Verdict::Unknown, "unknown, and kept as it is:"),
        (Verdict::Known, "as cluster.yaml and the bundle say:"),
    ] {
        let rows: Vec<[String; 4]> = adoption.of_verdict(verdict).map(row).collect();
        if !rows.is_empty() {
            lines.push(title.to_owned());
            lines.extend(table(rows.into_iter()));
        }
    }
    lines.push(match (exit_code(view), adoption.origin) {
        (ExitCode::Preflight, _) => "it cannot be adopted before that is mended; nothing was changed".to_owned(),
        (_, AdoptedFrom::Foreign) => "to adopt it: the same command without --dry-run".to_owned(),
        (_, AdoptedFrom::Adopted) => "it is adopted already".to_owned(),
        (_, AdoptedFrom::Kubexm) => String::new(),
    });
    let shown: Vec<String> = lines.iter().filter(|line| !line.is_empty()).map(|line| escaped(line)).collect();
    shown.join("\n")
}

fn row(item: &AdoptionItem) -> [String; 4] {
    let wanted = match (&item.wanted, item.verdict) {
        (Some(wanted), Verdict::InTheWay | Verdict::Differs) => format!("not {wanted}"),
        _ => String::new(),
    };
    let fix = item.fix.iter().map(|fix| format!("-> {fix}"));
    let last = Some(wanted).filter(|text| !text.is_empty()).into_iter().chain(fix).collect::<Vec<_>>().join(" ");
    [item.host.clone().unwrap_or_else(|| "(cluster)".to_owned()), item.what.to_owned(), item.found.clone(), last]
}

#[cfg(test)]
mod tests {
    use kubexm_plan::ClusterFacts;
    use kubexm_session::Adoption;

    use super::*;

    fn item(
        verdict: Verdict,
        host: Option<&str>,
        found: &str,
        wanted: Option<&str>,
        fix: Option<&str>,
    ) -> AdoptionItem {
        let text = |text: &str| text.to_owned();
        let what = "pod network";
        let (host, wanted, fix) = (host.map(text), wanted.map(text), fix.map(text));
        AdoptionItem { verdict, host, what, found: found.to_owned(), wanted, fix }
    }

    fn view(origin: AdoptedFrom, items: Vec<AdoptionItem>) -> AdoptionView {
        AdoptionView {
            cluster: "demo".to_owned(),
            adoption: Adoption { origin, items },
            facts: ClusterFacts::default(),
        }
    }

    #[test]
    fn what_is_in_the_way_comes_first_decides_the_exit_code_and_is_shown_escaped() {
        let view = view(
            AdoptedFrom::Foreign,
            vec![
                item(Verdict::InTheWay, None, "10.1.0.0/16\n\u{1b}[2J", Some("10.233.64.0/18"), Some("write it")),
                item(Verdict::Differs, Some("cp1"), "v1.33.1", Some("v1.34.4"), None),
                item(Verdict::Known, Some("cp1"), "the same", Some("the same"), None),
            ],
        );
        assert_eq!(exit_code(&view), ExitCode::Preflight);
        let text = super::text(&view);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "cluster demo: 1 in the way, 1 different, 0 unknown, 1 as cluster.yaml and the bundle say"
        );
        assert_eq!(lines[1], "in the way:");
        assert!(
            lines[2].contains(r"10.1.0.0/16\n\u{1b}[2J") && lines[2].ends_with("not 10.233.64.0/18 -> write it"),
            "{text}"
        );
        assert!(lines[4].trim_start().starts_with("cp1") && lines[4].ends_with("not v1.34.4"), "{text}");
        assert!(text.ends_with("it cannot be adopted before that is mended; nothing was changed"), "{text}");
        let document = document(&view);
        assert_eq!((&document["exitCode"], &document["items"][0]["verdict"]), (&json!(53), &json!("inTheWay")));
        assert_eq!(document["items"][1]["host"], "cp1");
    }

    #[test]
    fn it_says_what_to_do_next() {
        let last = |origin| text(&view(origin, Vec::new())).lines().last().unwrap_or_default().to_owned();
        assert!(last(AdoptedFrom::Foreign).contains("without --dry-run"));
        assert!(last(AdoptedFrom::Adopted).contains("adopted already"));
        assert!(last(AdoptedFrom::Kubexm).contains("nothing to adopt"));
        assert_eq!(exit_code(&view(AdoptedFrom::Kubexm, Vec::new())), ExitCode::Ok);
    }
}
