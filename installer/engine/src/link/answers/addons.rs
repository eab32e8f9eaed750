//! What a control plane says of installed add-ons, which is listed and compared.

use kubexm_plan::addons::{InstalledAddons, MOST};

use super::{LONGEST_LINE, cut, untrusted};
use crate::link::LinkError;

/// Kinds that a cluster serves, and objects of an add-on that differ: several times what large clusters have.
const MOST_KINDS: usize = 20_000;
const MOST_DRIFTED: usize = 10_000;
/// Of a name in bytes: Kubernetes allows 253.
const LONGEST_NAME: usize = 300;

/// Names are compared, so they are as they can be, or refused; other texts are cut off.
pub(crate) fn addons(host: &str, mut installed: InstalledAddons) -> Result<InstalledAddons, LinkError> {
    let InstalledAddons { kubernetes, apis, addons, not_listed } = &mut installed;
    if addons.len() > MOST || apis.len() > MOST_KINDS {
        let reason =
            format!("it reported {} add-ons and {} kinds, more than any cluster has", addons.len(), apis.len());
        return Err(untrusted(host, reason));
    }
    let names = addons.iter().flat_map(|one| [&one.name, &one.namespace]).chain(&*apis).chain([&*kubernetes]);
    if names.into_iter().any(|name| name.len() > LONGEST_NAME) {
        return Err(untrusted(host, "a name of an add-on or of a kind that it reported is longer than any".to_owned()));
    }
    if let Some(text) = not_listed {
        cut(text, LONGEST_LINE);
    }
    for one in addons {
        let texts = [Some(&mut one.status), one.chart.as_mut(), one.source.as_mut(), one.not_compared.as_mut()];
        texts.into_iter().flatten().for_each(|text| cut(text, LONGEST_LINE));
        let drifted = one.drifted.iter_mut();
        drifted.for_each(|lines| lines.truncate(MOST_DRIFTED));
        one.drifted.iter_mut().flatten().for_each(|line| cut(line, LONGEST_LINE));
    }
    Ok(installed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(name: &str, apis: usize, status: &str) -> InstalledAddons {
        let apis = vec!["apps/v1".to_owned(); apis];
        let addon = json!({"namespace": "web", "name": name, "type": "helm", "ours": true, "status": status, "drifted": [status]});
        let installed = json!({"kubernetes": "v1.34.4", "apis": apis, "addons": [addon]});
        serde_json::from_value(installed).expect("an answer")
    }

    #[test]
    fn what_no_cluster_has_is_refused_and_long_texts_are_cut_off() {
        let good = of("shop", 3, "deployed");
        assert_eq!(addons("n1", good.clone()).expect("good"), good);
        let cut = addons("n1", of("shop", 3, &"x".repeat(1 << 20))).expect("good");
        let one = &cut.addons[0];
        assert!(
            one.status.len() < 2 * LONGEST_LINE
                && one.drifted.as_ref().is_some_and(|lines| lines[0].len() < 2 * LONGEST_LINE)
        );
        for bad in [of(&"x".repeat(LONGEST_NAME + 1), 3, ""), of("shop", MOST_KINDS + 1, "")] {
            assert!(addons("n1", bad).is_err());
        }
        let many = InstalledAddons { addons: vec![good.addons[0].clone(); MOST + 1], ..good };
        assert!(addons("n1", many).is_err());
    }
}
