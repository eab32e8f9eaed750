//! What a person at a terminal sees at the end of `kubexm-bundle build`.

use kubexm_builder::summary::Summary;
use kubexm_builder::verbs::build::Built;
use kubexm_spec::counted;
use kubexm_terminal::{bytes, seconds};

/// The widest that the table gets.
const WIDEST: usize = 100;

/// Columns of a size: `1023.99 MiB`.
const SIZE: usize = 11;

pub fn lines(built: &Built<'_>, width: usize) -> Vec<String> {
    let mut lines = table(&built.summary, width);
    let severe = built.unverified.iter().filter(|doubt| doubt.is_severe()).count();
    if !built.unverified.is_empty() {
        lines.push(String::new());
        let things = counted(built.unverified.len() as u64, "thing");
        let severe = if severe > 0 { format!(", {severe} of them severe") } else { String::new() };
        lines.push(format!("Unverified: {things}{severe}"));
        lines.extend(built.unverified.iter().map(|doubt| cut(&format!("  {}", doubt.about), width)));
    }
    if let Some(next) = &built.next {
        // A command is never cut.
        lines.extend([String::new(), format!("Next: {next}")]);
    }
    lines
}

/// No line of it is wider than the terminal.
fn table(summary: &Summary, width: usize) -> Vec<String> {
    let width = width.clamp(30, WIDEST);
    let mut lines = vec![String::new(), "Size by kind".to_owned()];
    for kind in &summary.kinds {
        lines.push(row(&format!("{} ({})", kind.kind, kind.artifacts), &bytes(kind.bytes), width));
    }
    if !summary.largest.is_empty() {
        lines.extend([String::new(), "Largest".to_owned()]);
    }
    for artifact in &summary.largest {
        let platform = artifact.platform.map(|platform| format!(" {}", platform.arch.as_str())).unwrap_or_default();
        lines.push(row(&format!("{}{platform}", artifact.key), &bytes(artifact.bytes), width));
    }
    lines.extend([String::new(), "Time".to_owned()]);
    lines.extend(summary.phases.iter().map(|phase| row(&phase.name, &seconds(phase.duration_ms), width)));
    let cache = &summary.cache;
    lines.push(String::new());
    if cache.blobs > 0 {
        let hits = format!("From the cache: {} of {} blobs", cache.hit_blobs, cache.blobs);
        let sizes = format!("{} of {}", bytes(cache.hit_bytes), bytes(cache.bytes));
        lines.push(cut(&format!("{hits} ({sizes})"), width));
    }
    if cache.local_blobs > 0 {
        let of_here = bytes(cache.local_bytes);
        lines.push(cut(&format!("From this machine, not cached: {} ({of_here})", cache.local_blobs), width));
    }
    lines
}

fn row(name: &str, value: &str, width: usize) -> String {
    let room = width - SIZE - 4;
    format!("  {:room$}  {value:>SIZE$}", cut(name, room))
}

/// With `…` in place of the start: the end of a reference tells what it is.
fn cut(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    std::iter::once('…').chain(text.chars().skip(count + 1 - width)).collect()
}

#[cfg(test)]
mod tests {
    use kubexm_builder::summary::{CacheUse, KindSize, LargeArtifact, PhaseTime};
    use kubexm_spec::ArtifactKey;

    use super::*;

    fn summary() -> Summary {
        let name = format!("registry.example.com/{}/kube-apiserver:v1.34.4", "team/".repeat(12));
        Summary {
            kinds: vec![KindSize { kind: "image", artifacts: 12_345, bytes: 1_073_700_000 }],
            largest: vec![LargeArtifact { key: ArtifactKey::ExtraImage(name), platform: None, bytes: 1_073_700_000 }],
            phases: vec![PhaseTime { name: "fetch".to_owned(), duration_ms: 754_000 }],
            cache: CacheUse {
                blobs: 10_000,
                bytes: 1 << 40,
                hit_blobs: 9_999,
                hit_bytes: 1_073_700_000,
                local_blobs: 9_999,
                local_bytes: 1 << 40,
            },
        }
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_the_end_of_a_long_name_stays() {
        for width in [30, 50, 80, 200] {
            let lines = table(&summary(), width);
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{lines:#?}");
            if width >= 50 {
                let text = lines.join("\n");
                for part in ["image (12345)", "…", "/kube-apiserver:v1.34.4", "1023.96 MiB", "12 min 34 s"] {
                    assert!(text.contains(part), "{part} is not in {text}");
                }
            }
        }
    }
}
