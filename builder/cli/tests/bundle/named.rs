//! Files that an operator names: what is read of them, and which never get into a bundle.

use kubexm_spec::ExitCode;

use crate::site::{Site, assert_contains};

const KEY: &str =
    "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg\n-----END PRIVATE KEY-----\n";

#[test]
fn a_credential_is_bundled_only_when_its_file_is_allowed_by_name() {
    let site = Site::new();
    site.write("site.key", KEY);
    site.write("admin.conf", "kind: Config\nusers:\n- user:\n    client-key-data: MIGHAgEAMBMGByqGSM49\n");
    site.write("notes.txt", "no secret\n");
    site.extras("extraFiles: [{path: site.key}, {path: admin.conf}, {path: notes.txt}]");
    let verbs: [&[&str]; 3] = [&["build", "-o", "out.tar.zst"], &["build", "--dry-run"], &["lock"]];
    for verb in verbs {
        let run = |more: &[&str]| site.run(&[verb, &["-f", "cluster.yaml"], more].concat());
        let said = run(&[]).must(ExitCode::InlineSecret).err;
        assert_contains(&said, &["site.key holds a private key", "admin.conf holds a kubeconfig", "--allow-secret"]);
        assert!(!said.contains("notes.txt") && !said.contains("MIGH"), "{said}");
        let said = run(&["--allow-secret", "site.key"]).must(ExitCode::InlineSecret).err;
        assert!(!said.contains("site.key holds"), "{said}");
        run(&["--allow-secret", "site.key", "--allow-secret", "admin.conf"]).must(ExitCode::Ok);
    }
}

#[test]
fn objects_and_values_of_add_ons_are_searched_too() {
    let site = Site::new();
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {password: hunter2}\n";
    std::fs::create_dir(site.path("objects")).unwrap();
    for name in ["one.yaml", "objects/two.yaml"] {
        site.write(name, secret);
    }
    site.write("values.yaml", format!("tls:\n  key: |\n{}", KEY.replace("-----BEGIN", "    -----BEGIN")));
    let chart = "{name: c, source: {oci: oci://registry.test/charts/c, version: 1.0.0}, valuesFile: values.yaml}";
    let bundle = crate::site::extras(&format!("extraCharts: [{chart}]"));
    let addon = |name: &str, path: &str| format!("{{name: {name}, type: yaml, source: {{path: {path}}}}}");
    let addons = format!("  addons: [{}, {}]\n", addon("a", "one.yaml"), addon("b", "objects"));
    site.write("cluster.yaml", bundle + &addons);
    let said = site.run(&["build", "-f", "cluster.yaml", "--dry-run"]).must(ExitCode::InlineSecret).err;
    assert_contains(&said, &["one.yaml holds a Kubernetes Secret", "objects/two.yaml holds a Kubernetes Secret"]);
    assert_contains(&said, &["values.yaml holds a private key"]);
    assert!(!said.contains("hunter2"), "{said}");
}

#[test]
fn a_credential_is_known_in_every_form_that_keys_and_secrets_have() {
    let site = Site::new();
    let openssl = |args: &str| {
        let output = std::process::Command::new("openssl").args(args.split(' ')).current_dir(site.path("")).output();
        let output = output.expect("openssl is needed");
        assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
    };
    openssl("genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out rsa.pem");
    openssl("ecparam -name prime256v1 -genkey -noout -out ec.pem");
    openssl("req -x509 -key ec.pem -subj /CN=a -days 1 -out cert.pem");
    for args in [
        "pkey -in rsa.pem -outform DER -out pkcs8.der",
        "rsa -in rsa.pem -outform DER -traditional -out pkcs1.der",
        "ec -in ec.pem -outform DER -out sec1.der",
        "pkcs8 -topk8 -in ec.pem -outform DER -passout pass:hunter2 -out encrypted.der",
        "pkcs12 -export -inkey ec.pem -in cert.pem -passout pass:hunter2 -out store.p12",
        // What holds no secret.
        "x509 -in cert.pem -outform DER -out cert.der",
        "pkey -in rsa.pem -pubout -outform DER -out public.der",
        "rsa -in rsa.pem -RSAPublicKey_out -outform DER -out rsa-public.der",
        "req -new -key ec.pem -subj /CN=a -outform DER -out request.der",
    ] {
        openssl(args);
    }
    let key = std::fs::read_to_string(site.path("ec.pem")).unwrap();
    let units: Vec<u16> = key.encode_utf16().collect();
    site.write("bare.txt", units.iter().flat_map(|unit| unit.to_le_bytes()).collect::<Vec<u8>>());
    let marked = [vec![0xfe, 0xff], units.iter().flat_map(|unit| unit.to_be_bytes()).collect()].concat();
    site.write("marked.txt", marked);
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {password: aHVudGVyMg==}\n";
    site.write("late.yaml", format!("{}---\n{secret}", "# a long list of objects\n".repeat(60_000)));
    let held = ["pkcs8.der", "pkcs1.der", "sec1.der", "encrypted.der", "bare.txt", "marked.txt"];
    let clean = ["cert.pem", "cert.der", "public.der", "rsa-public.der", "request.der"];
    let all = held.iter().chain(&clean).chain(&["store.p12", "late.yaml"]);
    let files: Vec<String> = all.map(|name| format!("{{path: {name}}}")).collect();
    site.extras(&format!("extraFiles: [{}]", files.join(", ")));
    let said = site.run(&["build", "-f", "cluster.yaml", "--dry-run"]).must(ExitCode::InlineSecret).err;
    for name in held {
        assert_contains(&said, &[&format!("- {name} holds a private key")]);
    }
    assert_contains(&said, &["- store.p12 holds a key store (PKCS#12)", "- late.yaml holds a Kubernetes Secret"]);
    for name in clean {
        assert!(!said.contains(name), "{name}: {said}");
    }
    let help = site.run(&["build", "--help"]).must(ExitCode::Ok).out;
    let help: String = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_contains(&help, &["Archives are not opened to look for credentials"]);
}

#[test]
fn a_missing_file_is_reported_by_a_dry_run_too() {
    let site = Site::new();
    site.extras("extraFiles: [{path: absent.bin}]");
    for verb in [&["build", "-o", "out.tar.zst"][..], &["build", "--dry-run"]] {
        let ended = site.run(&[verb, &["-f", "cluster.yaml"]].concat());
        assert_ne!(ended.code, 0);
        assert_contains(&ended.err, &["absent.bin"]);
    }
}

#[test]
fn a_cluster_yaml_that_is_not_read_is_mentioned() {
    let site = Site::new();
    site.write("notes.txt", "a\n");
    site.extras("extraFiles: [{path: notes.txt}]");
    let said = site.run(&["build", "--dry-run"]).must(ExitCode::Ok).err;
    assert_contains(&said, &["warning: cluster.yaml in this folder is not read; give it with -f cluster.yaml"]);
    let said = site.run(&["build", "--dry-run", "--kubernetes", "v1.34.4"]).must(ExitCode::Ok).err;
    assert_contains(&said, &["cluster.yaml in this folder is not read: --kubernetes v1.34.4"]);
    assert!(!site.run(&["build", "--dry-run", "-f", "cluster.yaml"]).must(ExitCode::Ok).err.contains("is not read"));
}

#[test]
fn a_dash_is_standard_input_and_a_text_is_utf_8_and_has_an_end() {
    let site = Site::new();
    site.write("notes.txt", "a\n");
    site.extras("extraFiles: [{path: notes.txt}]");
    let given = |args: &[&str], input: &[u8]| {
        let output = site.program().args(args).write_stdin(input).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let cluster = std::fs::read(site.path("cluster.yaml")).unwrap();
    for args in
        [&["build", "-o", "out.tar.zst"][..], &["lock"], &["config"], &["build", "--dry-run"], &["zone", "show"]]
    {
        let (code, said) = given(&[args, &["-f", "-"]].concat(), &cluster);
        assert_eq!(code, Some(0), "{args:?}: {said}");
    }
    assert!(site.path("cluster.lock.json").exists() && !site.path("-.lock.json").exists());
    let utf16: Vec<u8> = "a: b".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let (code, said) = given(&["config", "-f", "-"], &[&[0xff, 0xfe][..], &utf16].concat());
    assert_eq!(code, Some(20));
    assert_contains(
        &said,
        &["standard input is not UTF-8 but UTF-16 (it begins with a byte order mark); save it as UTF-8"],
    );
    let utf16: Vec<u8> = String::from_utf8(cluster).unwrap().encode_utf16().flat_map(u16::to_le_bytes).collect();
    let (code, said) = given(&["config", "-f", "-"], &utf16);
    assert_eq!(code, Some(20), "{said}");
    assert_contains(&said, &["standard input is not UTF-8 but UTF-16 (without a byte order mark); save it as UTF-8"]);
    site.write("gbk.yaml", b"# \xb9\xdc\xc0\xed\n");
    assert_contains(
        &site.run(&["config", "-f", "gbk.yaml"]).must(ExitCode::Config).err,
        &["gbk.yaml is not UTF-8 in line 1"],
    );
    assert_contains(&site.run(&["config", "-f", "/dev/zero"]).must(ExitCode::Config).err, &["/dev/zero has more than"]);
}
