//! Add-ons: what is installed, and what a bundle would change. Pure.

use kubexm_plan::addons::InstalledAddon;
use kubexm_session::{AddonChange, AddonDiff, AddonsDiff, AddonsView, ObjectDiff, escaped};
use kubexm_spec::{ExitCode, counted_of};
use serde_json::{Value, json};

use super::table::table;

const LIST_SCHEMA: &str = "kubexm.io/addons/v1";
const DIFF_SCHEMA: &str = "kubexm.io/addons-diff/v1";
/// The most characters of a value in a text.
const SHOWN: usize = 120;
/// Characters of a digest in a table.
const SHORT: usize = 12;

/// What is installed, for machines. `exit_code`: of the program.
pub fn list_document(view: &AddonsView, exit_code: ExitCode) -> Value {
    let AddonsView { cluster, host, wanted, installed, .. } = view;
    let addon = |one: &InstalledAddon| {
        let mut document = json!({
            "name": one.name, "namespace": one.namespace, "type": one.kind.word(), "ours": one.ours, "status": one.status,
            "inClusterYaml": is_wanted(view, one), "chart": one.chart, "revision": one.revision,
            "source": one.source, "values": one.values, "drifted": one.drifted, "notCompared": one.not_compared,
        });
        if let Some(fields) = document.as_object_mut() {
            fields.retain(|key, value| !value.is_null() || key == "drifted");
        }
        document
    };
    let missing: Vec<&String> =
        wanted.iter().filter(|name| !installed.addons.iter().any(|one| one.name == **name)).collect();
    let mut document = json!({
        "schema": LIST_SCHEMA, "cluster": cluster, "host": host, "kubernetes": installed.kubernetes,
        "addons": installed.addons.iter().map(addon).collect::<Vec<_>>(), "notInstalled": missing,
        "exitCode": exit_code.code(),
    });
    if let Some(text) = &installed.not_listed {
        document["notListed"] = text.as_str().into();
    }
    document
}

fn is_wanted(view: &AddonsView, one: &InstalledAddon) -> bool {
    one.ours && (view.wanted.contains(&one.name) || is_network(view, one))
}

fn is_network(view: &AddonsView, one: &InstalledAddon) -> bool {
    // A chart has the plugin's own name; manifests of a network have one that no add-on can have.
    let is_its = one.name == view.network || one.name.starts_with("network.");
    one.ours && is_its && !view.wanted.contains(&one.name)
}

/// Whether something of ours has drifted, is not as it should be, or is missing.
pub fn differs(view: &AddonsView) -> bool {
    let of_one = |one: &InstalledAddon| {
        one.ours
            && (one.drifted.as_ref().is_some_and(|all| !all.is_empty())
                || !["deployed", "applied"].contains(&one.status.as_str()))
    };
    view.installed.addons.iter().any(of_one)
        || view.wanted.iter().any(|name| !view.installed.addons.iter().any(|one| one.ours && one.name == *name))
}

/// What is installed, for people.
pub fn list_text(view: &AddonsView) -> String {
    let AddonsView { cluster, wanted, installed, .. } = view;
    if installed.addons.is_empty() && wanted.is_empty() {
        return format!("cluster {cluster} has no add-ons");
    }
    let heads = ["NAMESPACE", "NAME", "TYPE", "FROM", "REVISION", "STATUS", "BY", "DRIFTED"].map(str::to_owned);
    let row = |one: &InstalledAddon| {
        let source = one.source.as_deref().map(|digest| digest.chars().take(SHORT).collect::<String>());
        let from = one.chart.clone().map(|chart| escaped(&chart)).or(source).unwrap_or_else(|| "-".to_owned());
        let by = match (one.ours, is_wanted(view, one)) {
            (false, _) => "somebody else",
            (true, true) if is_network(view, one) => "kubexm, the pod network",
            (true, true) => "kubexm",
            (true, false) => "kubexm, not in cluster.yaml",
        };
        let drifted = match &one.drifted {
            None => "?".to_owned(),
            Some(all) if all.is_empty() => "no".to_owned(),
            Some(all) => counted_of(all, "object"),
        };
        let revision = one.revision.map_or_else(|| "-".to_owned(), |number| number.to_string());
        [
            escaped(&one.namespace),
            escaped(&one.name),
            one.kind.word().to_owned(),
            from,
            revision,
            escaped(&one.status),
            by.to_owned(),
            drifted,
        ]
    };
    let missing = wanted
        .iter()
        .filter(|name| !installed.addons.iter().any(|one| one.name == **name))
        .map(|name| ["-", name.as_str(), "-", "-", "-", "not installed", "-", "-"].map(escaped));
    let mut lines = vec![format!("cluster {cluster}, Kubernetes {}", escaped(&installed.kubernetes))];
    lines.extend(table(std::iter::once(heads).chain(installed.addons.iter().map(row)).chain(missing)));
    for one in &installed.addons {
        for object in one.drifted.iter().flatten() {
            lines.push(format!(
                "{}/{}: {} is not as it was installed",
                escaped(&one.namespace),
                escaped(&one.name),
                escaped(object)
            ));
        }
        if let Some(why) = one.not_compared.as_ref().filter(|_| one.ours) {
            lines.push(format!(
                "{}/{} was not compared: {}",
                escaped(&one.namespace),
                escaped(&one.name),
                escaped(why)
            ));
        }
    }
    lines.extend(installed.not_listed.as_deref().map(escaped));
    lines.join("\n")
}

/// What would change, for machines.
pub fn diff_document(diff: &AddonsDiff, exit_code: ExitCode) -> Value {
    let object = |one: &ObjectDiff| {
        let fields: Vec<Value> = one
            .fields
            .iter()
            .map(|field| json!({"field": field.field, "before": field.before, "after": field.after}))
            .collect();
        json!({
            "apiVersion": one.api_version, "kind": one.kind, "namespace": one.namespace, "name": one.name,
            "change": one.change.word(), "kept": one.kept, "fields": fields,
        })
    };
    let addon = |one: &AddonDiff| {
        json!({
            "name": one.name, "namespace": one.namespace, "type": one.kind.word(), "change": one.change.word(),
            "objects": one.objects.as_ref().map(|all| all.iter().map(object).collect::<Vec<_>>()), "notes": one.notes,
        })
    };
    json!({
        "schema": DIFF_SCHEMA, "cluster": diff.cluster, "addons": diff.addons.iter().map(addon).collect::<Vec<_>>(),
        "exitCode": exit_code.code(),
    })
}

/// What would change, for people.
pub fn diff_text(diff: &AddonsDiff) -> String {
    let mut lines = Vec::new();
    for one in diff.addons.iter().filter(|one| one.change != AddonChange::Same || !one.notes.is_empty()) {
        let what = match one.kind.word() {
            "secrets" => "secrets of add-on",
            _ => "add-on",
        };
        lines.push(format!("{what} {} in {}: {}", escaped(&one.name), escaped(&one.namespace), one.change.word()));
        lines.extend(one.notes.iter().map(|note| format!("  {}", escaped(note))));
        for object in one.objects.iter().flatten() {
            lines.push(format!("  {}", line(object)));
            for field in &object.fields {
                lines.push(format!(
                    "      {}: {} -> {}",
                    escaped(&field.field),
                    value(field.before.as_ref()),
                    value(field.after.as_ref())
                ));
            }
        }
    }
    if diff.is_same() {
        lines.push(format!("the add-ons of cluster {} are as cluster.yaml and the bundle have them", diff.cluster));
    }
    lines.join("\n")
}

fn line(object: &ObjectDiff) -> String {
    let sign = match object.change {
        AddonChange::Installed => '+',
        AddonChange::Removed if object.kept => '=',
        AddonChange::Removed => '-',
        AddonChange::Changed | AddonChange::Same => '~',
    };
    let name = match object.namespace.as_str() {
        "" => object.name.clone(),
        namespace => format!("{namespace}/{}", object.name),
    };
    let kept = if object.kept { " (stays: it may hold data, or objects of others)" } else { "" };
    format!("{sign} {} {}{kept}", escaped(&object.kind), escaped(&name))
}

fn value(of: Option<&Value>) -> String {
    let Some(value) = of else { return "nothing".to_owned() };
    let text = escaped(&value.to_string());
    let mut short: String = text.chars().take(SHOWN).collect();
    if short.len() < text.len() {
        short.push_str("...");
    }
    short
}
