//! `scripts/catalogue compare`, on repositories that the test makes: what is equal, what differs, what cannot be compared.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const RULES: &str = r#"
[[feature]]
name = "net"
repository = "acme/net"
tag = "v{version}"
how = "exactly"
images = [{file = "all.yaml", find = 'image: (\S+)'}]
render = {chart = "chart", values = [{}, {debug = true}], optional = ["/debug:"]}

[[feature]]
name = "gone"
repository = "acme/elsewhere"
tag = "v{version}"
how = "exactly"
images = [{file = "all.yaml", find = 'image: (\S+)'}]

[[supports]]
feature = "net"
repository = "acme/net"
tag = "HEAD"
file = "README.md"
find = 'v{version} \| ([0-9., ]+) \|'
kernel = '^kernel ([0-9.]+)'

[[recommends]]
repository = "acme/net"
tag = "HEAD"
file = "README.md"
find = '^for {minor}: ([0-9., ]+)'

[[component]]
name = "tool"
repository = "acme/net"
tag = "v{version}"
sha256 = "all.yaml"
names = [{file = "README.md", text = "tool-$VERSION.tgz"}]

[[newest]]
component = "tool"
repository = "acme/net"
tag = "HEAD"
file = "README.md"
find = '^newest of ([0-9.]+): ([0-9.]+)$'

[[end]]
about = ["tool"]
repository = "acme/net"
tag = "HEAD"
file = "README.md"
find = '^line ([0-9.]+) ends ([0-9-]+)$'
dates = "%Y-%m-%d"
"#;

const README: &str = "v1.0.0 | 1.33, 1.32 |\nline 1.0 ends 2026-07-03\nkernel 5.10\nfor 1.30: 2.0.6, 2.1.3\n\
    newest of 1.0: 1.0.0\nmakes tool-$VERSION.tgz\n";

struct Bench {
    folder: PathBuf,
}

impl Bench {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("compare-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("acme+net")).unwrap();
        let bench = Self { folder };
        bench.write("rules.toml", RULES);
        bench.git(&["init", "--quiet"]);
        bench.release("1.0.0", "image: quay.io/acme/agent:v1.0.0\nimage: \"quay.io/acme/agent:v1.0.0\"\n");
        bench
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.join(name), text).unwrap();
    }

    fn git(&self, arguments: &[&str]) {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"];
        let mut command = Command::new("git");
        command.arg("-C").arg(self.folder.join("acme+net")).args(identity).args(arguments);
        assert!(command.env("GIT_CONFIG_GLOBAL", "/dev/null").status().unwrap().success(), "{arguments:?}");
    }

    fn release(&self, version: &str, images: &str) {
        self.write("acme+net/all.yaml", images);
        self.write("acme+net/README.md", README);
        self.git(&["add", "."]);
        self.git(&["commit", "--quiet", "-m", version]);
        self.git(&["tag", &format!("v{version}")]);
    }

    /// A catalogue with one feature, its image by this name, and one program by this digest.
    fn catalogue(&self, image: &str, sha256: &str) {
        let versions = |more: &str| format!("{{\"1.0.0\": {{\"kubernetes\": {{\"from\": \"1.24\"}}{more}}}}}");
        let supports = ", \"supports\": {\"from\": \"1.32\", \"to\": \"1.33\"}, \"minimumKernel\": \"5.10\"";
        let feature = |versions: &str| {
            format!("{{\"images\": [{{\"name\": \"agent\", \"repository\": \"{image}\"}}], \"versions\": {versions}}}")
        };
        let tool = format!(
            "{{\"endOfLife\": {{\"1.0\": \"2026-07-03\"}}, \"versions\": {{\"1.0.0\": {{\"amd64\": {{\"sha256\": \"{sha256}\"}}}}}}}}"
        );
        let (net, gone) = (feature(&versions(supports)), feature(&versions("")));
        let text = format!(
            "{{\"features\": {{\"net\": {net}, \"gone\": {gone}}}, \"components\": {{\"tool\": {tool}}}, \"releases\": {{\"1.29\": {{\"patches\": []}}, \"1.30\": {{\"patches\": [], \"support\": {{\"recommendedContainerd\": [\"2.0.6\", \"2.1.3\"]}}}}}}}}"
        );
        self.write("catalogue.json", &text);
    }

    fn compare(&self) -> (i32, String) {
        self.compare_with(&[])
    }

    fn compare_with(&self, more: &[&str]) -> (i32, String) {
        let file = |name: &str| self.folder.join(name).display().to_string();
        let output: Output = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/catalogue"))
            .args(["compare", "--upstream", &file("acme+net"), "--catalogue", &file("catalogue.json"), "--write"])
            .args(["--rules", &file("rules.toml"), "--result", &file("verified.yaml")])
            .args(more)
            .output()
            .unwrap();
        (output.status.code().unwrap(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    }

    fn verified(&self, feature: &str) -> String {
        self.row(&format!("\"feature\": \"{feature}\""))
    }

    fn row(&self, place: &str) -> String {
        let text = std::fs::read_to_string(self.folder.join("verified.yaml")).unwrap();
        let begins = format!("- {{{place}");
        text.lines().find(|line| line.starts_with(&begins)).unwrap_or_default().to_owned()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn charts_are_rendered_for_every_minor_and_what_only_one_of_them_names_is_found() {
    let bench = Bench::new("render");
    bench.catalogue("quay.io/acme/agent", &sum());
    std::fs::create_dir_all(bench.folder.join("acme+net/chart/templates")).unwrap();
    bench.write("acme+net/chart/Chart.yaml", "apiVersion: v2\nname: net\nversion: 1.0.0\n");
    let pod = |name: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers:\n  - name: a\n    image: quay.io/acme/{name}:v1.0.0\n"
        )
    };
    let template = |newer: &str| {
        format!(
            "{}{{{{ if .Values.debug }}}}\n{}{{{{ end }}}}\n{{{{ if semverCompare \">=1.30-0\" .Capabilities.KubeVersion.Version }}}}\n{}{{{{ end }}}}\n",
            pod("agent"),
            pod("debug"),
            pod(newer)
        )
    };
    let render = |newer: &str| {
        bench.write("acme+net/chart/templates/all.yaml", &template(newer));
        bench.git(&["add", "."]);
        bench.git(&["commit", "--quiet", "-m", newer]);
        bench.git(&["tag", "--force", "v1.0.0"]);
        bench.compare_with(&["--helm", lab_helm().to_str().unwrap()])
    };
    let (code, text) = render("agent");
    assert!(
        code == 0
            && text.contains(
                "equal       render net 1.0.0: 2 images, 0 switches (acme/net rendered for 2 minors at v1.0.0)"
            ),
        "{text}"
    );
    let (code, text) = render("newer");
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("render net 1.0.0: a pod names quay.io/acme/newer:v1.0.0, the catalogue not"), "{text}");
}

#[test]
fn short_names_in_a_chart_are_those_that_containerd_completes() {
    for (image, short) in [
        ("docker.io/library/agent", "agent"),
        ("docker.io/library/agent", "docker.io/agent"),
        ("docker.io/acme/agent", "acme/agent"),
        ("localhost/agent", "localhost/agent"),
        ("mirror:5000/agent", "mirror:5000/agent"),
    ] {
        let bench = Bench::new("short");
        bench.catalogue(image, &sum());
        std::fs::create_dir_all(bench.folder.join("acme+net/chart/templates")).unwrap();
        bench.write("acme+net/chart/Chart.yaml", "apiVersion: v2\nname: net\nversion: 1.0.0\n");
        let pod = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n  containers:\n  - name: a\n    image: {short}:v1.0.0\n"
        );
        bench.write("acme+net/chart/templates/all.yaml", &pod);
        bench.git(&["add", "."]);
        bench.git(&["commit", "--quiet", "-m", short]);
        bench.git(&["tag", "--force", "v1.0.0"]);
        let (_, text) = bench.compare_with(&["--helm", lab_helm().to_str().unwrap()]);
        assert!(text.contains("equal       render net 1.0.0: 1 images"), "{short}\n{text}");
    }
}

#[test]
fn every_switch_of_a_chart_is_turned_by_itself_and_with_the_others() {
    let bench = Bench::new("switches");
    bench.catalogue("quay.io/acme/agent", &sum());
    bench.write("rules.toml", &RULES.replace("values = [{}, {debug = true}], ", ""));
    std::fs::create_dir_all(bench.folder.join("acme+net/chart/templates")).unwrap();
    bench.write("acme+net/chart/Chart.yaml", "apiVersion: v2\nname: net\nversion: 1.0.0\n");
    bench.write(
        "acme+net/chart/values.yaml",
        "own: true\nextra: {enabled: false, deep: {enabled: false}}\nbroken: false\nlist: [{enabled: false}]\n",
    );
    let pod = |name: &str, on: &str| {
        format!(
            "{{{{ if {on} }}}}\n---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers:\n  - image: quay.io/acme/{name}:v1.0.0\n    name: a\n{{{{ end }}}}\n"
        )
    };
    let render = |more: &str| {
        let refused = "{{ if .Values.broken }}{{ fail \"broken wants a name\" }}{{ end }}\n";
        let template = format!("{refused}{}{more}", pod("agent", ".Values.own"));
        bench.write("acme+net/chart/templates/all.yaml", &template);
        bench.git(&["add", "."]);
        bench.git(&["commit", "--quiet", "--allow-empty", "-m", "next"]);
        bench.git(&["tag", "--force", "v1.0.0"]);
        bench.compare_with(&["--helm", lab_helm().to_str().unwrap()])
    };
    let (code, text) = render("");
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("render net 1.0.0: 1 images, 4 switches, 1 of them need more values (acme/net"), "{text}");
    let place = r#""render": "net", "version": "1.0.0""#;
    assert!(
        bench.row(place).contains(r#""verified": {"by": "acme/net rendered for 2 minors""#),
        "{}",
        bench.row(place)
    );
    for (name, on) in [
        ("instead", "not .Values.own"),
        ("extra", ".Values.extra.enabled"),
        ("both", "and .Values.extra.enabled .Values.extra.deep.enabled"),
    ] {
        let (code, text) = render(&pod(name, on));
        assert_eq!(code, 1, "{text}");
        assert!(text.contains(&format!("a pod names quay.io/acme/{name}:v1.0.0, the catalogue not")), "{text}");
        assert!(bench.row(place).contains("\"unverified\": \"differs: "), "{}", bench.row(place));
    }
}

fn lab_helm() -> PathBuf {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = || set("XDG_CACHE_HOME").unwrap_or_else(|| set("HOME").unwrap_or_default().join(".cache"));
    let helm = set("KUBEXM_LAB").unwrap_or_else(|| cache().join("kubexm-lab")).join("bin/helm");
    assert!(helm.exists(), "{} is needed: scripts/lab build makes it", helm.display());
    helm
}

/// Of what the test's release has as `all.yaml`.
fn sum() -> String {
    let text = "image: quay.io/acme/agent:v1.0.0\nimage: \"quay.io/acme/agent:v1.0.0\"\n";
    kubexm_spec::Digest::of(text).hex().to_owned()
}

#[test]
fn what_upstream_confirms_is_equal_and_recorded_with_place_tag_and_day() {
    let bench = Bench::new("equal");
    bench.catalogue("quay.io/acme/agent", &sum());
    let (code, text) = bench.compare();
    assert_eq!(code, 0, "{text}");
    for line in [
        "equal       feature net 1.0.0: 1 images (acme/net all.yaml at v1.0.0)",
        "cannot tell feature gone 1.0.0: no checkout of acme/elsewhere",
        "equal       supports net 1.0.0: 1.32, 1.33",
        "equal       recommends 1.30: 2.0.6, 2.1.3",
        "equal       component tool: 1 versions",
        "equal       newest tool: 1 lines",
        "equal       end tool: 1 lines",
        "cannot tell render net 1.0.0: no --helm is given",
        "6 equal, 0 differs, 2 cannot tell",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let row = bench.verified("net");
    assert!(row.contains(r#""verified": {"by": "acme/net all.yaml", "tag": "v1.0.0", "date": "20"#), "{row}");
    assert!(bench.verified("gone").contains(r#""unverified": "no checkout of acme/elsewhere""#));
    for place in
        [r#""supports": "net", "version": "1.0.0""#, r#""recommends": "1.30""#, r#""end": "tool", "line": "1.0""#]
    {
        let row = bench.row(place);
        assert!(row.contains(r#""verified": {"by": "acme/net README.md", "tag": ""#), "{place}: {row}");
    }
    assert_eq!(bench.row(r#""recommends": "1.29""#), "", "the catalogue names none for it");
}

#[test]
fn the_end_of_a_line_that_upstream_does_not_name_is_not_called_verified_with_those_that_it_names() {
    let bench = Bench::new("lines");
    bench.catalogue("quay.io/acme/agent", &sum());
    let text = std::fs::read_to_string(bench.folder.join("catalogue.json")).unwrap();
    let dates = r#"{"1.0": "2026-07-03""#;
    bench.write("catalogue.json", &text.replace(dates, &format!("{dates}, \"1.1\": \"2027-01-01\"")));
    let (code, text) = bench.compare();
    assert!(code == 0 && text.contains("equal       end tool: 1 lines"), "{text}");
    assert!(bench.row(r#""end": "tool", "line": "1.0""#).contains("\"verified\""));
    let row = bench.row(r#""end": "tool", "line": "1.1""#);
    assert!(row.contains("\"unverified\": \"acme/net README.md does not name 1.1\""), "{row}");
    // a month that is named alone, of one line, lasts until its last day
    let find = "find = '^kept until (\\w+ [0-9]{4})'\ndates = \"%B %Y\"\nline = \"1.1\"\n";
    let rule = "[[end]]\nabout = [\"tool\"]\nrepository = \"acme/net\"\ntag = \"HEAD\"\nfile = \"README.md\"\n";
    bench.write("rules.toml", &format!("{rule}{find}"));
    bench.write("acme+net/README.md", "kept until January 2027\n");
    bench.git(&["commit", "--quiet", "-am", "month"]);
    let (code, text) = bench.compare();
    assert!(code == 1 && text.contains("1.1 ended 2027-01-31, the catalogue has 2027-01-01"), "{text}");
}

#[test]
fn a_version_counts_as_released_where_either_of_two_repositories_has_its_tag() {
    let bench = Bench::new("also");
    bench.catalogue("quay.io/acme/agent", &sum());
    let text = std::fs::read_to_string(bench.folder.join("catalogue.json")).unwrap();
    bench.write("catalogue.json", &text.replace("{\"amd64\"", "{}, \"1.1.0\": {\"amd64\""));
    let rules = "[[component]]\nname = \"tool\"\nrepository = \"acme/net\"\ntag = \"v{version}\"\n";
    bench.write("rules.toml", rules);
    let (_, text) = bench.compare();
    assert!(text.contains("cannot tell component tool: 1 versions have a tag; no tag v1.1.0"), "{text}");
    bench.git(&["tag", "release-1.1.0"]);
    bench.write("rules.toml", &format!("{rules}also = {{repository = \"acme/net\", tag = \"release-{{version}}\"}}\n"));
    let (_, text) = bench.compare();
    assert!(text.contains("equal       component tool: 2 versions"), "{text}");
}

#[test]
fn what_differs_is_named_fails_and_is_no_longer_called_verified() {
    let bench = Bench::new("differs");
    bench.catalogue("quay.io/acme/agent", &sum());
    bench.compare();
    bench.catalogue("quay.io/acme/agnet", &"ab".repeat(32));
    let (code, text) = bench.compare();
    assert_eq!(code, 1, "{text}");
    for part in [
        "differs     feature net 1.0.0: upstream has quay.io/acme/agent:v1.0.0, the catalogue not; the catalogue has quay.io/acme/agnet:v1.0.0, upstream not",
        &format!("differs     component tool: 1.0.0: {} at its tag, {} is pinned", sum(), "ab".repeat(32)),
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(bench.verified("net").contains(r#""unverified": "differs: "#));
}

#[test]
fn ranges_kernels_newest_patches_and_names_of_files_that_differ_are_named() {
    let bench = Bench::new("ranges");
    bench.catalogue("quay.io/acme/agent", &sum());
    let readme = README.replace("1.33, 1.32", "1.34, 1.32").replace("5.10", "6.1").replace(": 1.0.0", ": 1.0.1");
    bench.write("acme+net/README.md", &readme.replace("2.1.3", "2.1.4").replace("tool-", "tools-"));
    bench.git(&["add", "."]);
    bench.git(&["commit", "--quiet", "-m", "newer"]);
    bench.git(&["tag", "--force", "v1.0.0"]);
    let (code, text) = bench.compare();
    assert_eq!(code, 1, "{text}");
    for part in [
        "supports net 1.0.0: upstream names {'from': '1.32', 'to': '1.34'}, the catalogue {'from': '1.32', 'to': '1.33'}; upstream names kernel 6.1, the catalogue 5.10",
        "recommends 1.30: upstream names 2.0.6, 2.1.4, the catalogue 2.0.6, 2.1.3",
        "newest tool: 1.0.1 is there, the catalogue's newest is 1.0.0",
        "component tool: 1.0.0: README.md makes no tool-$VERSION.tgz",
    ] {
        assert!(text.contains(&format!("differs     {part}")), "{part}\n{text}");
    }
}

#[test]
fn a_rule_that_finds_nothing_is_not_called_equal() {
    let bench = Bench::new("nothing");
    let constants = "pause = 'pause ([0-9.]+)'\ncoredns = 'coredns (v[0-9.]+)'\netcd = 'etcd ([0-9.-]+)'\n";
    let rule = format!(
        "[[constants]]\nrepository = \"acme/net\"\ntag = \"v{{version}}\"\nfile = \"constants.go\"\n{constants}\n\
         [[component]]\nname = \"empty\"\nrepository = \"acme/net\"\ntag = \"v{{version}}\"\n"
    );
    bench.write("rules.toml", &format!("{RULES}\n{rule}"));
    bench.write(
        "catalogue.json",
        "{\"features\": {}, \"components\": {\"kubelet\": {\"versions\": {\"1.0.0\": {}}}, \"tool\": {\"endOfLife\": {\"1.0\": \"2026-07-03\"}, \"versions\": {\"1.0.0\": {}}}, \"empty\": {\"versions\": {}}}, \"releases\": {\"1.0\": {\"patches\": [{\"from\": 0, \"pause\": \"3.1\", \"coredns\": \"v1.1\", \"etcd\": \"3.5-0\"}]}}}",
    );
    let compare = |constants: &str, readme: &str| {
        bench.write("acme+net/constants.go", constants);
        bench.write("acme+net/README.md", readme);
        bench.git(&["add", "."]);
        bench.git(&["commit", "--quiet", "-m", "next"]);
        bench.git(&["tag", "--force", "v1.0.0"]);
        bench.compare()
    };
    let (code, text) = compare("pause 3.1\ncoredns v1.1\netcd 3.5-0\n", README);
    assert_eq!(code, 0, "{text}");
    for part in ["equal       constants 1.0 from patch 0: v1.0.0 to v1.0.0", "equal       end tool: 1 lines"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(text.contains("cannot tell component empty: the catalogue has no version of it"), "{text}");
    let (code, text) = compare("pause 3.1\ncore_dns v1.1\netcd 3.5-0\n", &README.replace("line 1.0 ends", "1.0:"));
    assert_eq!(code, 0, "{text}");
    for part in [
        "constants 1.0 from patch 0: constants.go of acme/net at v1.0.0 names no coredns",
        "end tool: README.md of acme/net names no line whose end the catalogue has",
    ] {
        assert!(text.contains(&format!("cannot tell {part}")), "{part}\n{text}");
    }
}

#[test]
fn what_cannot_be_reported_today_stays_as_it_was_reported_unless_it_has_changed() {
    let bench = Bench::new("kept");
    bench.catalogue("quay.io/acme/agent", &sum());
    bench.compare();
    let before = bench.verified("net");
    bench.git(&["tag", "--delete", "v1.0.0"]);
    let (code, text) = bench.compare();
    assert!(code == 0 && text.contains("cannot tell feature net 1.0.0: acme/net has no v1.0.0"), "{text}");
    assert_eq!(bench.verified("net"), before);
    bench.catalogue("quay.io/acme/other", &sum());
    bench.compare();
    let after = bench.verified("net");
    assert!(after.contains(r#""unverified": "changed since it was compared; "#), "{after}");
}

#[test]
fn rows_are_kept_whatever_their_texts_hold_and_those_of_what_is_gone_from_the_catalogue_go() {
    let bench = Bench::new("rows");
    bench.catalogue("quay.io/acme/agent", &sum());
    bench.compare();
    let kept = bench.verified("net").replace("acme/net all.yaml", "a list of mine: {by: hand, tag: none}");
    let old = r#"- {"feature": "old", "version": "1.0.0", "of": "000000000000", "verified": {"by": "x"}}"#;
    let older = kept.replace("1.0.0", "0.9.0");
    bench.write(
        "verified.yaml",
        &format!("# head\n{kept}\n{old}\n{older}\n- {{\"component\": \"lost\", \"unverified\": \"x\"}}\n"),
    );
    bench.git(&["tag", "--delete", "v1.0.0"]);
    assert_eq!(bench.compare().0, 0);
    assert_eq!(bench.verified("net"), kept);
    let text = std::fs::read_to_string(bench.folder.join("verified.yaml")).unwrap();
    assert!(!text.contains("old") && !text.contains("0.9.0") && !text.contains("lost"), "{text}");
}
