use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;
use crate::deb::index;

/// Two readers for everything, however small.
fn parted(text: &str, readers: usize) -> Option<Vec<Part>> {
    let pieces = cut(text.as_bytes(), readers);
    together(text.as_bytes(), &pieces, "amd64")
}

fn all(listing: &Listing) -> Vec<Package> {
    (0..listing.len()).map(|at| listing.package(at, RepoId(3))).collect()
}

/// What the reader of streams gives, in the order of names.
fn streamed(text: &str) -> Result<Vec<Package>, String> {
    let mut packages = index::read(text.as_bytes(), RepoId(3), "amd64").map_err(|error| error.to_string())?;
    packages.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(packages)
}

fn entry(name: &str, more: &str) -> String {
    let digest = "0".repeat(64);
    format!(
        "Package: {name}\nVersion: 1\nArchitecture: amd64\nFilename: pool/{name}.deb\nSize: 1\nSHA256: {digest}\n{more}"
    )
}

/// Lines as indexes have them, and as none should.
fn line() -> impl Strategy<Value = String> {
    let name = "[a-c0-9+.-]{1,20}";
    let line = prop_oneof![
        4 => name.prop_map(|name| entry(&name, "")),
        4 => Just("\n".to_owned()),
        2 => prop_oneof![Just(" \t\n"), Just("\r\n"), Just("\t\n"), Just(" more\n"), Just("\tmore \r\n"), Just(" .\n")].prop_map(str::to_owned),
        1 => "(Provides: a \\(= [12]\\), b-c:i386, d|Depends: a \\| b|Provides:|provides: x y|Version: 1:2-3|Size: x|Multi-Arch: same)\n",
        1 => "(Architecture: (all|arm64|amd64 )|Filename: (\\./)?(\\.\\.|%2e%2E|http:/|a:)?/?x|SHA256: [0-9A-F]{64}|SHA256: abc|Package: (é|a\u{85}b)?)\n",
        1 => "[a-z: \t]{0,6}\n",
    ];
    prop_oneof![20 => line.clone(), 1 => line.prop_map(|line| line.trim_end().to_owned())]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn a_listing_has_what_a_reader_of_streams_finds_and_refuses_what_it_refuses(lines in prop::collection::vec(line(), 0..30)) {
        let text = lines.concat();
        let listing = Listing::read(text.clone().into_bytes(), "amd64");
        let found = listing.as_ref().map(all).map_err(ToString::to_string);
        prop_assert_eq!(&found, &streamed(&text));
        if let Ok(listing) = listing {
            for (at, package) in (0..).zip(found.unwrap_or_default()) {
                prop_assert_eq!((listing.name(at), listing.version(at)), (package.name.as_bytes(), &*package.version));
                let provided: Vec<_> = package.provides.iter().map(|provide| hash(&provide.name)).collect();
                prop_assert_eq!(listing.provided(at), provided);
            }
        }
    }
}

#[test]
fn a_text_read_at_several_places_gives_what_one_reader_gives() {
    let text = (0..5_000_usize).fold(String::new(), |mut text, number| {
        // Not in the order of names, and with a line of a description that looks empty.
        let name = format!("p{}", number * 7919 % 5000);
        let more = format!("Provides: v{number}\nDescription: says\n {}it\n .\n it\n\n", "long ".repeat(number % 40));
        write!(text, "{}", entry(&name, &more)).unwrap();
        text
    });
    let whole = Part::of(text.as_bytes(), 0, "amd64").unwrap();
    for readers in [2, 3, 8] {
        let parts = parted(&text, readers).unwrap();
        assert_eq!(parts.len(), readers);
        assert_eq!(parts.iter().map(|part| part.entries.len()).sum::<usize>(), whole.entries.len());
        assert_eq!(parts.iter().flat_map(|part| part.provided.clone()).collect::<Vec<_>>(), whole.provided);
    }
    assert!(text.len() < LARGE);
    let large = text.repeat(LARGE * 3 / text.len());
    let listing = Listing::read(large.clone().into_bytes(), "amd64").unwrap();
    assert!(all(&listing) == streamed(&large).unwrap());
}

#[test]
fn an_error_names_the_paragraph_by_its_number_from_the_first_on_whoever_reads_it() {
    let text: String = (0..90_000).map(|number| entry(&format!("p{number}"), "\n")).collect();
    assert!(text.len() > 2 * LARGE);
    for at in [10, 89_000] {
        let text = text.replace(&format!("Package: p{at}\n"), "nothing\n");
        let error = Listing::read(text.into_bytes(), "amd64").unwrap_err().to_string();
        assert!(error.contains(&format!("paragraph {} ", at + 1)), "{error}");
    }
}

#[test]
fn names_are_in_the_order_of_their_bytes_however_long_they_are() {
    let mut names = ["a", "a\0", "aa", "a-very-long-name", "a-very-long-name-", "a-very-long-nam\u{ff}", "b"];
    names.sort_unstable();
    for pair in names.windows(2) {
        assert!((head(pair[0].as_bytes()), pair[0]) < (head(pair[1].as_bytes()), pair[1]), "{pair:?}");
    }
}

#[test]
fn names_without_end_that_packages_provide_are_refused_before_they_fill_the_memory() {
    let wide = entry("a", &format!("Provides: b{}\n\n", ",b".repeat(PROVIDED / 4)));
    assert_eq!(Listing::read(wide.repeat(3).into_bytes(), "amd64").unwrap().len(), 3);
    let error = Listing::read(wide.repeat(4).into_bytes(), "amd64").unwrap_err().to_string();
    assert!(error.contains("more than 10000000 names"), "{error}");
}
