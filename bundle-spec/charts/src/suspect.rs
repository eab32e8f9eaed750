//! What looks like the name of an image in other text: arguments, environment, files in ConfigMaps. Reported by its
//! form alone, and by whether what is before it speaks of an image.

use kubexm_spec::Reference;

/// The longest text that may be a name.
const LENGTH: usize = 512;
/// Tags without a digit that are in use.
const WORDS: [&str; 9] = ["latest", "stable", "main", "master", "edge", "nightly", "dev", "canary", "release"];
/// What is behind a taint's key (kubernetes.io/docs, "Taints and Tolerations").
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
/// Ends of names that speak of images and hold something else.
const OTHERS: [&str; 9] =
    ["policy", "repository", "registry", "prefix", "secret", "secrets", "tag", "hub", "imagepullsecrets"];

/// The longest name that says something, in bytes.
const LONGEST_NAME: usize = 253;

/// Whether the name of a key, a flag or a variable says that an image follows: `image`, `--sidecar-image`, `RELATED_IMAGE_X`.
pub fn speaks_of_image(name: &str) -> bool {
    // Each item of a list may ask for the one above it.
    if name.len() > LONGEST_NAME {
        return false;
    }
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    if OTHERS.iter().any(|other| name.ends_with(other)) {
        return false;
    }
    name.ends_with("image") || name.ends_with("images") || name.starts_with("relatedimage")
}

/// The name of an image, if a word looks like one. `of_image` when what is before it says so.
pub fn reference(word: &str, of_image: bool) -> Option<Reference> {
    let word = word.strip_prefix("docker://").unwrap_or(word).trim_end_matches(['.', ':', '/']);
    if word.len() < 3 || word.len() > LENGTH {
        return None;
    }
    let reference = Reference::read(word)?;
    if reference.digest.is_some() {
        return Some(reference);
    }
    let (first, has_path) = word.split_once('/').map_or((word, false), |(first, _)| (first, true));
    let has_host = has_path && (first.contains(['.', ':']) || first == "localhost");
    let is_image = match &reference.tag {
        Some(_) if of_image => true,
        // `registry.example/name:1`; a port is before the path.
        Some(tag) if has_host => !EFFECTS.contains(&tag.as_str()),
        Some(tag) if has_path => is_version(tag) && !is_number(tag),
        // `redis:7.2`, and neither `server:8080` nor `system:nodes`
        Some(tag) => is_dotted(tag) || tag == "latest",
        None => of_image && has_path,
    };
    is_image.then_some(reference)
}

fn is_number(tag: &str) -> bool {
    tag.bytes().all(|b| b.is_ascii_digit())
}

fn is_version(tag: &str) -> bool {
    tag.bytes().any(|b| b.is_ascii_digit()) || WORDS.contains(&tag)
}

/// `1.2`, `v1.2.3-alpine`.
fn is_dotted(tag: &str) -> bool {
    let rest = tag.strip_prefix('v').unwrap_or(tag);
    let Some((major, rest)) = rest.split_once('.') else { return false };
    !major.is_empty() && is_number(major) && rest.starts_with(|c: char| c.is_ascii_digit())
}

/// Calls with each name in a text, as long as it says true: a text of megabytes may have a million of them.
pub fn words(text: &str, of_image: bool, mut call: impl FnMut(Reference) -> bool) {
    let mut any = false;
    // Whether the word before speaks of an image.
    let mut before = of_image;
    let mut last = ' ';
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(is_between).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let between: String = after.chars().take_while(|c| is_between(*c)).collect();
        rest = &after[between.len()..];
        if word.is_empty() {
            continue;
        }
        // A list continues as it began: `--images=a,b`.
        let of_image = before || (last == ',' && any);
        if (!word.contains("://") || word.starts_with("docker://"))
            && let Some(name) = reference(word, of_image)
        {
            any = true;
            if !call(name) {
                return;
            }
        }
        before = speaks_of_image(word.trim_end_matches(':'));
        last = between.chars().next().unwrap_or(' ');
    }
}

fn is_between(c: char) -> bool {
    c.is_whitespace()
        || matches!(
            c,
            '"' | '\'' | '`' | ',' | ';' | '(' | ')' | '[' | ']' | '{' | '}' | '<' | '>' | '|' | '=' | '\\' | '&' | '$'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let mut all = Vec::new();
        words(text, false, |name| {
            all.push(name.to_string());
            true
        });
        all
    }

    #[test]
    fn a_name_that_nobody_would_give_says_nothing() {
        let long = |length: usize| format!("{}image", "a".repeat(length));
        assert!(speaks_of_image(&long(200)) && !speaks_of_image(&long(1 << 20)));
    }

    #[test]
    fn hidden_references_to_images_are_found() {
        for (text, name) in [
            ("--prometheus-config-reloader=quay.io/prometheus/reloader:v0.80.0", "quay.io/prometheus/reloader:v0.80.0"),
            ("--acme-http01-solver-image=quay.io/jetstack/solver", "quay.io/jetstack/solver"),
            ("--image openebs/linux-utils:4.3.0 --port 80", "docker.io/openebs/linux-utils:4.3.0"),
            ("RELATED_IMAGE_X=registry.example:5000/x/y", "registry.example:5000/x/y"),
            ("run 'redis:7.2-alpine'.", "docker.io/library/redis:7.2-alpine"),
            ("image: busybox:1", "docker.io/library/busybox:1"),
            ("{\"image\":\"a.b/c:latest\"}", "a.b/c:latest"),
            ("docker://a.b/c:1.2", "a.b/c:1.2"),
            ("busybox:latest", "docker.io/library/busybox:latest"),
        ] {
            assert_eq!(found(text), [name], "{text}");
        }
        let pinned = format!("x/y@{}", kubexm_spec::Digest::of("x"));
        assert_eq!(found(&pinned), [format!("docker.io/{pinned}")]);
        assert_eq!(found("--images=a/b:1,c/d:2").len(), 2);
    }

    #[test]
    fn what_is_no_image_is_left_alone() {
        for text in [
            "10.96.0.10:53",
            "localhost:8080",
            "http://a.b/c:1.2",
            "https://registry.example/v2/x:1",
            "system:nodes",
            "--image-pull-policy=Always",
            "imagePullPolicy: IfNotPresent",
            "app.kubernetes.io/name",
            "kube-system/web:http",
            "apps/v1:Deployment",
            "/var/run/x.sock:ro",
            "12:30",
            "pkg/main.go:12",
            "web.default.svc:443",
            "--image-repository=quay.io/x",
            "tcp:1",
            "10.0.0.1:8080/healthz",
            "{{ .Values.image }}:{{ .Values.tag }}",
            "$(IMAGE):1",
            "a: b",
            "node-role.kubernetes.io/control-plane:NoSchedule",
            "registry.example:5000/path",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }
}
