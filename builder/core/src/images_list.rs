//! Lists of images that other programs and people write: one a line. Pure.

use std::collections::BTreeSet;

use kubexm_spec::cluster::full_reference;

/// A line that names no image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// From 1 on.
    pub line: usize,
    /// What is wrong with it.
    pub problem: String,
}

/// Full references of a list, in its order, each once. Blank lines, `#` comments (at the end of a line too) and the marks
/// of a YAML list are passed over; short names are completed as docker does.
pub fn parse(text: &str) -> Result<Vec<String>, Vec<BadLine>> {
    let (mut all, mut bad, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (line, number) in text.trim_start_matches('\u{feff}').lines().zip(1..) {
        // A `#` within a word is none of a comment's.
        let line = match line.find(" #").or_else(|| line.find("\t#")) {
            Some(at) => &line[..at],
            None => line,
        };
        let word = line.trim().trim_start_matches("- ").trim().trim_matches(['"', '\'']);
        if word.is_empty() || word.starts_with('#') || word == "---" {
            continue;
        }
        match full_reference(word) {
            Ok(reference) => {
                if seen.insert(reference.clone()) {
                    all.push(reference);
                }
            }
            Err(problem) => bad.push(BadLine { line: number, problem }),
        }
    }
    if bad.is_empty() { Ok(all) } else { Err(bad) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_blanks_marks_and_repetitions_are_passed_over() {
        let text = "\u{feff}##k8s-images\r\nregistry.k8s.io/pause:3.10\r\n\n  busybox:1  # tools\n- quay.io/a/b:2\n\
                    docker.io/library/busybox:1\n\"kubesphere/x:v3\"\n";
        assert_eq!(
            parse(text).unwrap(),
            ["registry.k8s.io/pause:3.10", "docker.io/library/busybox:1", "quay.io/a/b:2", "docker.io/kubesphere/x:v3"]
        );
    }

    #[test]
    fn every_line_that_names_no_image_is_reported_with_its_number() {
        let bad = parse("busybox\nquay.io/a/b:2\nquay.io/A/b:2 extra\n").unwrap_err();
        assert_eq!(bad.iter().map(|bad| bad.line).collect::<Vec<_>>(), [1, 3]);
        assert!(bad[0].problem.contains("tag or digest"), "{bad:?}");
    }
}
