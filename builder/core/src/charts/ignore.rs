//! `.helmignore` (helm.sh/docs/chart_template_guide/helm_ignore_file): one pattern a line, `!` negates, `/` at the end means
//! folders only, a pattern with a `/` is about the whole path.

/// The rules of one file, in order.
#[derive(Clone, Debug, Default)]
pub struct Ignore {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    pattern: Vec<char>,
    negated: bool,
    folders_only: bool,
    whole_path: bool,
}

impl Ignore {
    /// Reads the text of the file.
    pub fn parse(text: &str) -> Self {
        let rules = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(|line| {
                let (negated, line) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
                let (folders_only, line) = line.strip_suffix('/').map_or((false, line), |rest| (true, rest));
                let whole_path = line.contains('/');
                let pattern = line.strip_prefix('/').unwrap_or(line).chars().collect();
                Rule { pattern, negated, folders_only, whole_path }
            })
            .collect();
        Self { rules }
    }

    /// Whether a file or folder, by its path below the chart's folder, is left out.
    pub fn names(&self, path: &str, is_folder: bool) -> bool {
        let base = path.rsplit('/').next().unwrap_or(path);
        let mut ignored = false;
        for rule in self.rules.iter().filter(|rule| is_folder || !rule.folders_only) {
            let text = if rule.whole_path { path } else { base };
            if matches(&rule.pattern, &text.chars().collect::<Vec<_>>()) {
                ignored = !rule.negated;
            }
        }
        ignored
    }
}

/// `*` is any run and `?` any one character, both within one part of a path. Linear in the text for each star.
fn matches(pattern: &[char], text: &[char]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        let one = pattern.get(p).is_some_and(|c| *c == text[t] || (*c == '?' && text[t] != '/'));
        if pattern.get(p) == Some(&'*') {
            star = Some((p, t));
            p += 1;
        } else if one {
            p += 1;
            t += 1;
        } else if let Some((at, from)) = star.filter(|(_, from)| text[*from] != '/') {
            star = Some((at, from + 1));
            p = at + 1;
            t = from + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_helm_means_by_them() {
        let ignore = Ignore::parse("# a comment\n.git/\n*.tgz\n!keep.tgz\n/docs/*.md\n??.txt\n");
        for (path, folder, ignored) in [
            (".git", true, true),
            (".git", false, false),
            ("charts/old.tgz", false, true),
            ("keep.tgz", false, false),
            ("docs/a.md", false, true),
            ("docs/deep/a.md", false, false),
            ("a.md", false, false),
            ("ab.txt", false, true),
            ("abc.txt", false, false),
        ] {
            assert_eq!(ignore.names(path, folder), ignored, "{path}");
        }
    }

    #[test]
    fn many_stars_do_not_take_for_ever() {
        let ignore = Ignore::parse(&format!("{}b", "*a".repeat(60)));
        assert!(!ignore.names(&"a".repeat(5_000), false));
    }
}
