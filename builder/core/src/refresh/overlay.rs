//! The versions that were found, written as a catalogue overlay.

use kubexm_manifests::catalogue::SCHEMA;

use super::question::Refreshed;

/// The text of the overlay; none where there is nothing new. `day` is `2026-11-23`.
pub fn text(refreshed: &Refreshed, day: &str) -> Option<String> {
    if refreshed.components.is_empty() {
        return None;
    }
    let mut text = format!(
        "# Written by `kubexm-bundle catalogue refresh` on {day}: versions that upstream has published since the catalogue was\n\
         # made, with the digests beside their files. Where cluster.yaml names only a minor of Kubernetes, the newest patch here\n\
         # is used, and so is the newest patch of CRI-O; of everything else the default stays, until cluster.yaml names a version.\n\
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
