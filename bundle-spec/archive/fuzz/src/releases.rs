//! Releases of helm in a cluster, which whoever may make a Secret can have made.

use kubexm_charts::stored::{Revision, encode};
use serde_json::{Value, json};

/// The bytes as the JSON of a release, packed as helm packs it: mutations of what is packed would be refused at once. And as what is packed.
pub(crate) fn stored(bytes: &[u8]) {
    read(&String::from_utf8_lossy(bytes));
    if let Ok(release) = serde_json::from_slice::<Value>(bytes) {
        read(&encode(&release).unwrap());
    }
}

fn read(data: &str) {
    let name = "sh.helm.release.v1.web.v1";
    let secret = json!({"metadata": {"name": name, "labels": {"version": "1"}}, "data": {"release": data}});
    let Ok(release) = Revision::of(secret).read() else { return };
    let chart = release.chart();
    assert!(chart.len() < 600 && !chart.contains(char::is_control), "{chart:?}");
    let _ = (release.values(), release.description(), release.check(), release.documents());
    if let Ok(hooks) = release.hooks() {
        assert!(hooks.iter().all(|hook| hook.phase.len() <= 32));
    }
    // What is written instead of it can be read again, and has the objects that stay.
    if let (Ok(objects), Ok(secret)) = (release.objects(), release.without(|_| false)) {
        assert_eq!(Revision::of(secret).read().unwrap().objects().map(|all| all.len()), Ok(objects.len()));
    }
}
