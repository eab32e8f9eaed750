//! What was found, as an overlay.

use kubexm_manifests::catalogue::SCHEMA;

use super::question::Refreshed;

/// How an overlay of `catalogue refresh` begins.
pub const HEAD: &str = "# Written by `kubexm-bundle catalogue refresh`";

/// The text of the overlay; none where there is nothing new. `day` is `2026-11-23`.
pub fn text(refreshed: &Refreshed, day: &str) -> Option<String> {
    if refreshed.components.is_empty() {
        return None;
    }
    let mut text = format!(
        "{HEAD} on {day}: versions that upstream has published since the catalogue was made,\n\
         # with the digests beside their files. No default is changed: name a version in cluster.yaml, or in `releases` here.\n\
         schema: {SCHEMA}\nname: refresh-{day}\ncomponents:\n"
    );
    for (name, versions) in &refreshed.components {
        text.push_str(&format!("  {name}:\n    versions:\n"));
        for (version, pins) in versions {
            text.push_str(&format!("      \"{version}\":\n"));
            for (arch, pin) in pins {
                text.push_str(&format!("        {arch}: {{sha256: \"{}\", trust: {}}}\n", pin.sha256.hex(), pin.trust));
            }
        }
    }
    Some(text)
}
