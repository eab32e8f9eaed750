//! What `kubexm-bundle build --dry-run` shows.

use kubexm_builder::verbs::dry_run::{DryRun, Item, Sum};
use kubexm_spec::counted;
use kubexm_terminal::bytes;

use super::chart_images;

/// `asked`: origins were asked for sizes.
pub fn lines(list: &DryRun<'_>, asked: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for of in &list.platforms {
        let name = of.platform.map_or_else(|| "every platform".to_owned(), |platform| platform.to_string());
        lines.push(format!("{name}: {}", text(&of.sum)));
        lines.extend(list.items.iter().filter(|item| item.platform == of.platform).map(line));
    }
    for chart in &list.charts {
        let images = chart_images(chart.images.as_deref()).into_iter();
        lines.extend(images.map(|image| format!("images of {}: {image}", chart.key)));
    }
    // Only a lock could tell what they need.
    for need in list.packages.iter().filter(|_| !list.is_locked) {
        let names = need.names().join(" ");
        lines.push(format!("packages of {} {}, and all that these need: {names}", need.os, need.platform));
    }
    lines.extend(list.image_signatures.iter().map(ToString::to_string));
    lines.push(format!("in all: {}", text(&list.total)));
    if list.total.unknown > 0 && !asked {
        lines.push("--sizes asks the origins for the sizes that are not known here".to_owned());
    }
    lines
}

fn text(sum: &Sum) -> String {
    let artifacts = counted(sum.artifacts as u64, "artifact");
    match sum.unknown {
        0 => format!("{artifacts}, {}", bytes(sum.bytes)),
        unknown if unknown == sum.artifacts => format!("{artifacts} of unknown size"),
        1 => format!("{artifacts}, at least {}: the size of 1 of them is unknown", bytes(sum.bytes)),
        unknown => format!("{artifacts}, at least {}: the sizes of {unknown} of them are unknown", bytes(sum.bytes)),
    }
}

fn line(item: &Item) -> String {
    let size = item.size.map_or_else(|| "size unknown".to_owned(), bytes);
    let address = item.sources.first().map_or("this machine", String::as_str);
    let (key, version, trust) = (item.key.to_string(), &item.version, &item.trust);
    format!("  {key:32} {version:16} {size:>12}  {trust:17} {address}")
}
