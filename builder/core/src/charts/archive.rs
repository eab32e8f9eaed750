//! A chart's archive: a gzip-compressed tar of one folder (helm.sh/docs/topics/charts, "The Chart File Structure"). It is
//! foreign input: it is read here once, within limits, before helm gets it, and is never unpacked to disk.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use flate2::{Compression, GzBuilder};
use kubexm_spec::tar_headers::LimitedHeaders;
use serde::Deserialize;

use super::ignore::Ignore;

/// The most bytes that a chart may have when it is unpacked (helm itself stops at the same size).
pub const UNPACKED_LIMIT: u64 = 100 << 20;
/// The most files.
const FILES_LIMIT: usize = 10_000;
/// The most bytes of `Chart.yaml`.
const CHART_YAML_LIMIT: u64 = 1 << 20;
/// Values of it, bytes of its texts, and values that its aliases stand for, as where it is pushed (`kubexm-install seed`).
const NODES: usize = 50_000;
const TEXTS: usize = 2 << 20;
const REPLAYED: usize = 10_000;
/// How deep folders of a chart are looked into.
const DEPTH_LIMIT: usize = 32;

/// What a chart says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chart {
    /// `name` of Chart.yaml.
    pub name: String,
    /// `version` of Chart.yaml.
    pub version: String,
}

#[derive(Deserialize)]
struct ChartYaml {
    #[serde(default)]
    name: String,
    #[serde(default)]
    version: String,
    #[serde(default, rename = "type")]
    kind: String,
}

/// Reads an archive to its end and returns which chart it is; the error states why it is not a chart.
pub fn check(archive: impl Read) -> Result<Chart, String> {
    let (bounded, members) = LimitedHeaders::of(MultiGzDecoder::new(archive).take(UNPACKED_LIMIT + 1));
    let mut tar = tar::Archive::new(bounded);
    let unreadable = |e: io::Error| format!("it is not a gzip-compressed tar archive: {e}");
    let (mut top, mut chart, mut files) = (None, None, 0);
    let mut entries = tar.entries().map_err(unreadable)?;
    while let Some(entry) = members.next_of(&mut entries) {
        let mut entry = entry.map_err(unreadable)?;
        let kind = entry.header().entry_type();
        if kind.is_pax_global_extensions() {
            pass(&mut entry).map_err(unreadable)?;
            continue;
        }
        files += 1;
        if files > FILES_LIMIT {
            return Err(format!("it has more than {FILES_LIMIT} files"));
        }
        let path =
            String::from_utf8(entry.path_bytes().into_owned()).map_err(|_| "a name in it is not text".to_owned())?;
        if !kind.is_file() && !kind.is_dir() {
            return Err(format!("{path:?} is neither file nor folder"));
        }
        let parts = parts(&path)?;
        let Some((first, rest)) = parts.split_first() else {
            pass(&mut entry).map_err(unreadable)?;
            continue;
        };
        if *top.get_or_insert_with(|| (*first).to_owned()) != **first {
            return Err(format!("{path:?} lies outside its one folder"));
        }
        if kind.is_file() && *rest == ["Chart.yaml"] {
            if chart.is_some() {
                return Err("it has two Chart.yaml".to_owned());
            }
            chart = Some(read_chart_yaml(&mut entry)?);
        }
        pass(&mut entry).map_err(unreadable)?;
    }
    if tar.into_inner().into_inner().limit() == 0 {
        return Err(format!("it has more than {UNPACKED_LIMIT} bytes unpacked"));
    }
    chart.ok_or_else(|| "it has no Chart.yaml in its one folder".to_owned())
}

/// Reads the rest of a file, which counts as headers of the next one otherwise.
fn pass(entry: &mut impl Read) -> io::Result<()> {
    io::copy(entry, &mut io::sink()).map(drop)
}

/// The parts of a name that stays where it is unpacked.
fn parts(path: &str) -> Result<Vec<&str>, String> {
    let good = |part: &&str| !matches!(*part, "" | "." | "..") && !part.contains(['\\', '\0', ':']);
    let path_only = path.strip_prefix("./").unwrap_or(path).trim_end_matches('/');
    if matches!(path_only, "" | ".") {
        return Ok(Vec::new());
    }
    let parts: Vec<&str> = path_only.split('/').collect();
    if parts.iter().all(good) { Ok(parts) } else { Err(format!("{path:?} is not the name of a file in a folder")) }
}

fn read_chart_yaml(from: impl Read) -> Result<Chart, String> {
    let mut text = String::new();
    let wrong = |e: String| format!("its Chart.yaml cannot be read: {e}");
    from.take(CHART_YAML_LIMIT + 1).read_to_string(&mut text).map_err(|e| wrong(e.to_string()))?;
    if text.len() as u64 > CHART_YAML_LIMIT {
        return Err(wrong(format!("it has more than {CHART_YAML_LIMIT} bytes")));
    }
    let reported: ChartYaml = of_yaml(&text).map_err(wrong)?;
    if reported.name.is_empty() || reported.version.is_empty() {
        return Err("its Chart.yaml has no name or no version".to_owned());
    }
    if reported.kind == "library" {
        return Err(format!("{} is a library chart, which cannot be installed", reported.name));
    }
    Ok(Chart { name: reported.name, version: reported.version })
}

/// Within limits: what aliases repeat counts each time.
fn of_yaml(text: &str) -> Result<ChartYaml, String> {
    let budget = serde_saphyr::budget! {
        max_nodes: NODES,
        max_events: 4 * NODES,
        max_documents: 2,
        max_total_scalar_bytes: TEXTS,
    };
    let options = serde_saphyr::options! {
        budget: budget,
        with_snippet: false,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: REPLAYED },
    };
    serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())
}

fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(CHART_YAML_LIMIT).read_to_string(&mut text)?;
    Ok(text)
}

/// Packs a chart's folder, the same bytes for the same files: sorted names, no times, no owners; what `.helmignore` names is
/// left out, as `helm package` does.
pub fn pack(folder: &Path) -> Result<(Vec<u8>, Chart), String> {
    let failed = |path: &Path, e: io::Error| format!("{}: {e}", path.display());
    let chart_yaml = folder.join("Chart.yaml");
    let chart = read_chart_yaml(fs::File::open(&chart_yaml).map_err(|e| failed(&chart_yaml, e))?)?;
    let ignore = match read_bounded(&folder.join(".helmignore")) {
        Ok(text) => Ignore::parse(&text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ignore::default(),
        Err(error) => return Err(failed(&folder.join(".helmignore"), error)),
    };
    let mut files = BTreeMap::new();
    list(folder, "", &ignore, 0, &mut files)?;
    let gzip = GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::new(6));
    let mut tar = tar::Builder::new(gzip);
    let mut total = 0;
    for (name, path) in files {
        let mut bytes = Vec::new();
        let file = fs::File::open(&path).map_err(|e| failed(&path, e))?;
        file.take(UNPACKED_LIMIT + 1 - total).read_to_end(&mut bytes).map_err(|e| failed(&path, e))?;
        total += bytes.len() as u64;
        if total > UNPACKED_LIMIT {
            return Err(format!("it has more than {UNPACKED_LIMIT} bytes"));
        }
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        tar.append_data(&mut header, format!("{}/{name}", chart.name), bytes.as_slice())
            .map_err(|e| failed(&path, e))?;
    }
    let mut gzip = tar.into_inner().map_err(|e| e.to_string())?;
    gzip.flush().map_err(|e| e.to_string())?;
    let bytes = gzip.finish().map_err(|e| e.to_string())?;
    // What was packed must pass for a chart like any other.
    check(bytes.as_slice()).map(|_| (bytes, chart))
}

/// Every file below a folder that is not ignored, by its name in the archive.
fn list(
    folder: &Path,
    above: &str,
    ignore: &Ignore,
    depth: usize,
    files: &mut BTreeMap<String, std::path::PathBuf>,
) -> Result<(), String> {
    if depth > DEPTH_LIMIT {
        return Err(format!("{} nests too deep", folder.display()));
    }
    let failed = |e: io::Error| format!("{}: {e}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        let name = entry.file_name().into_string().map_err(|_| format!("{}: its name is not text", path.display()))?;
        let name = if above.is_empty() { name } else { format!("{above}/{name}") };
        let kind = entry.file_type().map_err(failed)?;
        if ignore.names(&name, kind.is_dir()) {
            continue;
        }
        if kind.is_dir() {
            list(&path, &name, ignore, depth + 1, files)?;
        } else if kind.is_file() {
            files.insert(name, path);
        } else {
            return Err(format!("{} is neither file nor folder; a chart's archive cannot hold it", path.display()));
        }
        if files.len() > FILES_LIMIT {
            return Err(format!("it has more than {FILES_LIMIT} files"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHART: &str = "apiVersion: v2\nname: web\nversion: 1.2.3\n";

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut gzip = GzBuilder::new().write(Vec::new(), Compression::fast());
        gzip.write_all(bytes).unwrap();
        gzip.finish().unwrap()
    }

    /// An archive with unchecked names: the crate would refuse the bad ones.
    fn archive(entries: &[(&str, tar::EntryType, &[u8])]) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (name, kind, bytes) in entries {
            let mut header = tar::Header::new_gnu();
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(*kind);
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            header.set_cksum();
            tar.append(&header, *bytes).unwrap();
        }
        gzip(&tar.into_inner().unwrap())
    }

    fn of(entries: &[(&str, tar::EntryType, &[u8])]) -> Result<Chart, String> {
        check(archive(entries).as_slice())
    }

    #[test]
    fn a_chart_says_its_name_and_version() {
        let file = tar::EntryType::Regular;
        let chart = of(&[("web/Chart.yaml", file, CHART.as_bytes()), ("web/templates/a.yaml", file, b"a: b")]).unwrap();
        assert_eq!((chart.name.as_str(), chart.version.as_str()), ("web", "1.2.3"));
    }

    #[test]
    fn names_that_would_leave_the_folder_and_links_are_refused() {
        let (file, link) = (tar::EntryType::Regular, tar::EntryType::Symlink);
        let chart = ("web/Chart.yaml", file, CHART.as_bytes());
        for bad in ["../x", "/etc/x", "web/../../x", "web//x", "web\\x", "other/x", "web/./x"] {
            assert!(of(&[chart, (bad, file, b"x")]).is_err(), "{bad}");
        }
        assert!(of(&[chart, ("web/link", link, b"")]).unwrap_err().contains("neither file nor folder"));
        assert!(of(&[chart, ("web/link", tar::EntryType::Link, b"")]).is_err());
        assert!(of(&[chart, chart]).unwrap_err().contains("two Chart.yaml"));
    }

    #[test]
    fn what_is_no_chart_is_refused_with_the_reason() {
        let file = tar::EntryType::Regular;
        for (bytes, reason) in [
            (b"<html>".to_vec(), "not a gzip"),
            (gzip(b"no tar at all"), "archive"),
            (archive(&[("web/values.yaml", file, b"a: b")]), "no Chart.yaml"),
            (archive(&[("web/Chart.yaml", file, b"name: web\n")]), "no version"),
            (archive(&[("web/Chart.yaml", file, b"name: web\nversion: 1.0.0\ntype: library\n")]), "library"),
        ] {
            let error = check(bytes.as_slice()).unwrap_err();
            assert!(error.contains(reason), "{reason}: {error}");
        }
    }

    #[test]
    fn a_bomb_is_read_up_to_the_limit_only() {
        let mut tar = tar::Builder::new(GzBuilder::new().write(Vec::new(), Compression::fast()));
        let mut header = tar::Header::new_gnu();
        header.set_size(UNPACKED_LIMIT + (1 << 20));
        header.set_mode(0o644);
        tar.append_data(&mut header, "web/zeros", io::repeat(0).take(UNPACKED_LIMIT + (1 << 20))).unwrap();
        let bytes = tar.into_inner().unwrap().finish().unwrap();
        assert!(bytes.len() < 2 << 20);
        assert!(check(bytes.as_slice()).is_err());
    }

    #[test]
    fn a_name_and_a_chart_yaml_that_no_chart_has_are_refused_before_they_are_in_memory() {
        let mut tar = tar::Builder::new(GzBuilder::new().write(Vec::new(), Compression::fast()));
        for (name, text) in [("web/Chart.yaml".to_owned(), CHART), (format!("web/{}", "x/".repeat(1 << 20)), "a")] {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, name, text.as_bytes()).unwrap();
        }
        let error = check(tar.into_inner().unwrap().finish().unwrap().as_slice()).unwrap_err();
        assert!(error.contains("the headers of a member have more than"), "{error}");
        let many = format!("{CHART}keywords: [{}]\n", "0, ".repeat(60_000));
        let error = of(&[("web/Chart.yaml", tar::EntryType::Regular, many.as_bytes())]).unwrap_err();
        assert!(error.starts_with("its Chart.yaml cannot be read"), "{error}");
    }

    #[test]
    fn a_chart_yaml_has_no_more_than_a_megabyte() {
        let read = |text: &str| read_chart_yaml(text.as_bytes()).map(|chart| chart.name);
        let of = |length: usize| format!("{CHART}# {}\n", "x".repeat(length - CHART.len() - 3));
        let most = usize::try_from(CHART_YAML_LIMIT).unwrap();
        assert_eq!(read(&of(most)), Ok("web".to_owned()));
        let error = read(&of(most + 1)).unwrap_err();
        assert!(error.contains("more than 1048576 bytes"), "{error}");
    }

    #[test]
    fn aliases_of_a_chart_yaml_stand_for_few_values() {
        let read = |text: &str| read_chart_yaml(text.as_bytes()).map(|chart| chart.name);
        // With its begin and end, each alias is 200 events.
        let repeated = |aliases: usize| {
            format!("{CHART}sources: &l [{}]\nkeywords: [{}]\n", "'', ".repeat(198), "*l, ".repeat(aliases))
        };
        assert_eq!(read(&repeated(REPLAYED / 200)), Ok("web".to_owned()));
        let error = read(&repeated(REPLAYED / 200 + 1)).unwrap_err();
        assert!(error.contains("replay"), "{error}");
    }

    #[test]
    fn a_large_file_counts_as_no_header() {
        let (file, large) = (tar::EntryType::Regular, vec![0_u8; 3 << 20]);
        let global = tar::EntryType::XGlobalHeader;
        let chart = of(&[("pax", global, &large), ("web/a", file, &large), ("web/Chart.yaml", file, CHART.as_bytes())]);
        assert_eq!(chart.unwrap().name, "web");
    }

    #[test]
    fn a_folder_packed_twice_is_the_same_archive_without_what_helmignore_names() {
        let pack_one = |order: &[&str]| {
            let folder = tempfile::tempdir().unwrap();
            let write = |name: &str, text: &str| {
                let path = folder.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            };
            order.iter().for_each(|name| write(name, name));
            write("Chart.yaml", CHART);
            write(".helmignore", ".git/\n*.swp\n");
            write(".git/config", "secret");
            write("templates/x.swp", "x");
            pack(folder.path()).unwrap().0
        };
        let first = pack_one(&["templates/a.yaml", "values.yaml"]);
        assert_eq!(first, pack_one(&["values.yaml", "templates/a.yaml"]));
        let mut tar = tar::Archive::new(MultiGzDecoder::new(first.as_slice()));
        let names: Vec<String> =
            tar.entries().unwrap().map(|e| e.unwrap().path().unwrap().display().to_string()).collect();
        assert_eq!(names, ["web/.helmignore", "web/Chart.yaml", "web/templates/a.yaml", "web/values.yaml"]);
    }

    #[test]
    fn a_link_in_a_folder_is_not_followed_out_of_it() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("Chart.yaml"), CHART).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", folder.path().join("values.yaml")).unwrap();
        assert!(pack(folder.path()).unwrap_err().contains("neither file nor folder"));
    }
}
