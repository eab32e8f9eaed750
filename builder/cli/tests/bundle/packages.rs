//! `packages resolve` and `packages why` over small mirrors of our own, signed by a key of our own. That the answers are those of apt and
//! dnf is the referees' to say.

use std::collections::HashMap;
use std::io::Write;
use std::time::SystemTime;

use kubexm_packages::deb::release::format_date;
use kubexm_packages::trust::SiteKey;
use kubexm_spec::{Digest, ExitCode};

use crate::server::{Reply, Server, file};
use crate::site::{Site, assert_contains};

/// A site with a key, `site.key` and `site.key.pub`.
pub struct Mirrors {
    pub site: Site,
    key: SiteKey,
    pub files: HashMap<String, Vec<u8>>,
}

impl Mirrors {
    pub fn new() -> Self {
        let site = Site::new();
        let key = SiteKey::generate("mirror", 2048).unwrap();
        site.write("mirror.asc", key.public().unwrap());
        Self { site, key, files: HashMap::new() }
    }

    fn put(&mut self, path: &str, content: impl Into<Vec<u8>>) {
        self.files.insert(path.to_owned(), content.into());
    }

    /// A suite of Debian 12 with these packages.
    pub fn suite(&mut self, folder: &str, suite: &str, packages: &str) {
        let now = self.now();
        let index = gz(packages.as_bytes());
        let path = "main/binary-amd64/Packages.gz";
        let release = format!(
            "Suite: {suite}\nCodename: {suite}\nDate: {}\nComponents: main\nArchitectures: all amd64\nSHA256:\n {} {} {path}\n",
            format_date(now),
            Digest::of(&index).hex(),
            index.len(),
        );
        self.put(&format!("{folder}/dists/{suite}/InRelease"), self.key.clearsigned(&release, now).unwrap());
        self.put(&format!("{folder}/dists/{suite}/{path}"), index);
    }

    /// All of Debian 12; the security suite has its own packages.
    fn debian(mut self, main: &str, security: &str) -> Served {
        self.suite("debian", "bookworm", main);
        self.suite("debian", "bookworm-updates", "");
        self.suite("debian-security", "bookworm-security", security);
        self.serve()
    }

    /// A repository of Rocky 9; `packages` and `lists` are the elements of primary and filelists.
    pub fn rocky(&mut self, path: &str, count: usize, packages: &str, lists: &str) {
        let namespace = "http://linux.duke.edu/metadata";
        let primary = gz(format!("<?xml version=\"1.0\"?><metadata xmlns=\"{namespace}/common\" xmlns:rpm=\"{namespace}/rpm\" packages=\"{count}\">{packages}</metadata>").as_bytes());
        let filelists = gz(format!(
            "<?xml version=\"1.0\"?><filelists xmlns=\"{namespace}/filelists\" packages=\"{count}\">{lists}</filelists>"
        )
        .as_bytes());
        let mut data = String::new();
        for (kind, content) in [("primary", &primary), ("filelists", &filelists)] {
            data += &format!(
                "<data type=\"{kind}\"><checksum type=\"sha256\">{}</checksum><location href=\"repodata/{kind}.xml.gz\"/><timestamp>1</timestamp><size>{}</size></data>",
                Digest::of(content).hex(),
                content.len(),
            );
        }
        let now = self.now();
        let repomd = format!(
            "<?xml version=\"1.0\"?><repomd xmlns=\"{namespace}/repo\"><revision>{now}</revision>{data}</repomd>"
        );
        self.put(&format!("{path}/repodata/repomd.xml.asc"), self.key.detached(repomd.as_bytes(), now).unwrap());
        self.put(&format!("{path}/repodata/repomd.xml"), repomd);
        self.put(&format!("{path}/repodata/primary.xml.gz"), primary);
        self.put(&format!("{path}/repodata/filelists.xml.gz"), filelists);
    }

    fn now(&self) -> i64 {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        i64::try_from(now).unwrap().max(self.key.created())
    }

    pub fn serve(self) -> Served {
        let files = self.files;
        let server = Server::start(move |request| match files.get(&request.path) {
            Some(body) => file(request, body),
            None => Reply::new(404, "no such file"),
        });
        Served { site: self.site, server }
    }
}

pub struct Served {
    pub site: Site,
    pub server: Server,
}

impl Served {
    fn run(&self, os: &str, args: &[&str]) -> crate::site::Ended {
        let mirror = format!("http://{}", self.server.address());
        let mut all = vec!["packages"];
        all.extend(args);
        all.extend(["--os", os, "--mirror", &mirror, "--key", "mirror.asc"]);
        self.site.run(&all)
    }
}

fn gz(content: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(content).unwrap();
    writer.finish().unwrap()
}

pub fn deb(name: &str, version: &str, more: &str) -> String {
    let digest = Digest::of(format!("{name} {version}")).hex();
    format!(
        "Package: {name}\nVersion: {version}\nArchitecture: amd64\n{more}Filename: pool/{name}_{version}_amd64.deb\nSize: 1000\nSHA256: {digest}\n\n"
    )
}

pub fn socat() -> String {
    deb("socat", "1.7-2", "Depends: libc6 (>= 2.34), libwrap0 (>= 7.6)\n")
        + &deb("libwrap0", "7.6-1", "Depends: libc6\n")
        + &deb("libc6", "2.36-9", "")
        + &deb("exim4", "4", "Provides: mta\nConflicts: mta\n")
        + &deb("postfix", "3", "Provides: mta\nConflicts: mta\n")
}

#[test]
fn a_root_comes_with_all_it_needs_from_all_suites_and_each_with_address_digest_and_reason() {
    let served = Mirrors::new().debian(&socat(), &deb("libc6", "2.36-9+deb12u1", ""));
    let document = served.run("debian-12", &["resolve", "socat", "--json"]).must(ExitCode::Ok).document();
    assert_eq!(document["schema"], "kubexm.io/packages-resolve/v1");
    assert_eq!((&document["solvable"], &document["size"]), (&true.into(), &3000.into()));
    let packages = document["packages"].as_array().unwrap();
    let of = |name: &str| packages.iter().find(|one| one["name"] == name).unwrap();
    assert_eq!(packages.len(), 3);
    let libc = of("libc6");
    assert_eq!(libc["version"], "2.36-9+deb12u1", "the security suite has the newest");
    assert_eq!(
        libc["url"],
        format!("http://{}/debian-security/pool/libc6_2.36-9+deb12u1_amd64.deb", served.server.address())
    );
    assert_eq!(libc["sha256"], Digest::of("libc6 2.36-9+deb12u1").hex());
    assert_eq!(libc["repository"], "bookworm-security/main");
    assert_eq!(libc["because"], serde_json::json!({ "neededBy": "socat", "wants": "libc6 (>= 2.34)" }));
    assert_eq!(of("socat")["because"], serde_json::json!({ "root": "socat" }));
    assert!(document["repositories"].as_array().unwrap().iter().all(|one| one["signed"] == true), "{document}");
}

#[test]
fn packages_are_printed_one_per_line_with_the_total() {
    let served = Mirrors::new().debian(&socat(), "");
    let ended = served.run("debian-12", &["resolve", "socat"]).must(ExitCode::Ok);
    assert_contains(
        &ended.out,
        &["libwrap0 7.6-1 amd64  (socat needs libwrap0 (>= 7.6))", "socat 1.7-2 amd64  (asked for)", "3 packages"],
    );
}

#[test]
fn the_dependency_path_and_all_dependents_of_a_package_are_reported() {
    let served = Mirrors::new().debian(&socat(), "");
    let ended = served.run("debian-12", &["why", "libc6", "socat"]).must(ExitCode::Ok);
    assert_contains(&ended.out, &["socat 1.7-2 amd64  (asked for)", "libc6 2.36-9 amd64", "  libwrap0 needs libc6"]);
    let document = served.run("debian-12", &["why", "libwrap0", "socat", "--json"]).must(ExitCode::Ok).document();
    let chain: Vec<&str> =
        document["chain"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(chain, ["socat", "libwrap0"]);
    let ended = served.run("debian-12", &["why", "postfix", "socat"]).must(ExitCode::NoSource);
    assert_contains(&ended.err, &["postfix is none of the 3 packages that are needed"]);
}

#[test]
fn unsolvable_requests_are_explained_and_have_an_exit_code() {
    let served = Mirrors::new().debian(&socat(), "");
    let refused = |roots: &[&str], parts: &[&str]| {
        let args: Vec<&str> = ["resolve"].iter().chain(roots).copied().collect();
        assert_contains(&served.run("debian-12", &args).must(ExitCode::NoSource).err, parts);
    };
    refused(&["sokat"], &["no repository has sokat; close to it: socat"]);
    refused(&["socat=9"], &["no repository has socat (= 9) (there is 1.7-2)"]);
    refused(&["exim4", "postfix"], &["conflicts with mta", "exim4 4", "postfix 3"]);
    refused(&["mta"], &["mta is not a package; name one of those that provide it: exim4, postfix"]);
    let ended = served.run("debian-12", &["resolve", "exim4", "postfix", "--json"]).must(ExitCode::NoSource);
    assert_eq!(ended.document()["solvable"], false);
    let ended = served.run("debian-12", &["why", "libc6", "exim4", "postfix", "--json"]).must(ExitCode::NoSource);
    assert_eq!(ended.document()["solvable"], false);
    assert!(ended.document()["reasons"][0].as_str().unwrap().contains("exim4"), "{}", ended.out);
}

#[test]
fn packages_that_a_host_has_are_left_out_and_too_old_ones_reported() {
    let served = Mirrors::new().debian(&socat(), "");
    let entry = |name: &str, version: &str| {
        format!("Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n\n")
    };
    let status = |text: String| served.site.write("node1.status", text);
    let resolve = |more: &[&str]| {
        let args = [&["resolve", "socat", "--installed", "node1.status"], more].concat();
        served.run("debian-12", &args)
    };
    status(entry("libc6", "2.36-9") + &entry("bash", "5"));
    let document = resolve(&["--json"]).must(ExitCode::Ok).document();
    let names: Vec<&str> =
        document["packages"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["libwrap0", "socat"], "libc6 is there");
    status(entry("libc6", "2.33-1"));
    let document = resolve(&["--json"]).must(ExitCode::Ok).document();
    assert_eq!(
        (&document["packages"][0]["name"], &document["packages"][0]["replaces"]),
        (&"libc6".into(), &"2.33-1".into())
    );
    assert_contains(
        &resolve(&[]).must(ExitCode::Ok).out,
        &["libc6 2.36-9 amd64", "takes the place of 2.33-1", "3 packages"],
    );
    status(entry("libc6", "2.33-1").replace("install ok", "hold ok"));
    assert_contains(&resolve(&[]).must(ExitCode::NoSource).err, &["socat 1.7-2 needs libc6 (>= 2.34)"]);

    let asked = served.server.requests().len();
    for (text, says_so) in [("", "lists no package"), ("N\tsocat\t0\t1\t1\tx86_64\n", "packages query --os debian-12")]
    {
        status(text.to_owned());
        assert_contains(&resolve(&[]).must(ExitCode::Config).err, &["node1.status", says_so]);
    }
    assert_eq!(served.server.requests().len(), asked, "somebody was asked");
    let query = served.site.run(&["packages", "query", "--os", "debian-12"]).must(ExitCode::Ok);
    assert_eq!(query.out, "cat /var/lib/dpkg/status\n");
}

#[test]
fn repositories_that_the_key_has_not_signed_are_refused() {
    let served = Mirrors::new().debian(&socat(), "");
    let mirror = format!("http://{}", served.server.address());
    let ended = served.site.run(&["packages", "resolve", "socat", "--os", "debian-12", "--mirror", &mirror]);
    assert_contains(&ended.must(ExitCode::OriginMismatch).err, &["bookworm-security", "not by a key that is trusted"]);
}

#[test]
fn an_impossible_command_line_is_refused_before_any_request() {
    let served = Mirrors::new().debian(&socat(), "");
    assert_contains(&served.run("debian-21", &["resolve", "socat"]).must(ExitCode::UnknownVersion).err, &["debian-12"]);
    assert_contains(
        &served.run("debian-12", &["resolve", "--arch", "riscv64", "socat"]).must(ExitCode::Usage).err,
        &["riscv64"],
    );
    for root in ["socat>=1.7", "socat=>1.7", "socat==1.7", "socat=", "=1.7", "a b"] {
        assert_contains(
            &served.run("debian-12", &["resolve", root]).must(ExitCode::Usage).err,
            &[root, "name=version"],
        );
    }
    let ended = served.run("debian-12", &["resolve", "socat", "--mirror", "updates=http://lan"]);
    assert_contains(&ended.must(ExitCode::Usage).err, &["no repository \"updates\"", "main, security"]);
    assert!(served.server.requests().is_empty());
}

pub fn rpm(name: &str, format: &str) -> String {
    let digest = Digest::of(name).hex();
    format!(
        "<package type=\"rpm\"><name>{name}</name><arch>x86_64</arch><version epoch=\"0\" ver=\"1\" rel=\"1.el9\"/><checksum type=\"sha256\" pkgid=\"YES\">{digest}</checksum><size package=\"1000\" installed=\"1\" archive=\"1\"/><location href=\"Packages/{name}.rpm\"/><format>{format}</format></package>"
    )
}

#[test]
fn a_path_that_primary_does_not_have_is_looked_up_in_the_lists_of_files() {
    let mut mirrors = Mirrors::new();
    let base = "pub/rocky/9";
    let packages = rpm("app", "<rpm:requires><rpm:entry name=\"/opt/tool/run\"/></rpm:requires>") + &rpm("tool", "");
    let lists = format!(
        "<package pkgid=\"{}\" name=\"app\" arch=\"x86_64\"><version epoch=\"0\" ver=\"1\" rel=\"1.el9\"/></package>\
         <package pkgid=\"{}\" name=\"tool\" arch=\"x86_64\"><version epoch=\"0\" ver=\"1\" rel=\"1.el9\"/><file>/opt/tool/run</file></package>",
        Digest::of("app").hex(),
        Digest::of("tool").hex(),
    );
    mirrors.rocky(&format!("{base}/BaseOS/x86_64/os"), 2, &packages, &lists);
    mirrors.rocky(&format!("{base}/AppStream/x86_64/os"), 0, "", "");
    mirrors.rocky(&format!("{base}/extras/x86_64/os"), 0, "", "");
    let served = mirrors.serve();
    let ended = served.run("rocky-9", &["resolve", "app"]).must(ExitCode::Ok);
    assert_contains(
        &ended.out,
        &["app 1-1.el9 x86_64  (asked for)", "tool 1-1.el9 x86_64  (app needs /opt/tool/run)", "2 packages"],
    );
    let ended = served.run("rocky-9", &["resolve", "tool"]).must(ExitCode::Ok);
    assert_contains(&ended.out, &["1 packages"]);
}
