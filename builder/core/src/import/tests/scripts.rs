//! No secret of a script gets into cluster.yaml, and none is shown; what only names where a secret is to be had stays.

use super::{cluster, file, import, left_at};

fn script(bash: &str) -> String {
    let lines: String = bash.lines().map(|line| format!("        {line}\n")).collect();
    file(&format!(
        "  system:\n    preInstall:\n    - name: fine\n      bash: \"true\"\n    - name: odd\n      bash: |\n{lines}"
    ))
}

#[test]
fn a_script_that_holds_a_secret_is_left_out_and_the_line_is_reported_without_it() {
    for bash in [
        "export PASSWORD=hunter2",
        "DB_PASS='hunter2' ./setup",
        "PGPASSWORD=\"hunter2\" psql -c 'select 1'",
        "export AWS_SECRET_ACCESS_KEY=hunter2",
        "curl -u admin:hunter2 https://example.com/x",
        "curl --user=admin:hunter2 https://example.com/x",
        "curl -fsS -uadmin:hunter2 https://example.com/x",
        "wget --http-user me --http-password hunter2 https://example.com/x",
        "git clone https://me:hunter2@example.com/x.git",
        "kubeadm join 10.0.0.1:6443 --token hunter2.0123456789abcdef",
        "curl -H 'Authorization: Bearer hunter2' https://example.com",
        "curl -H \"X-Vault-Token: hunter2\" https://example.com",
        "echo root:hunter2 | chpasswd",
        "chpasswd <<< root:hunter2",
        "echo hunter2 | docker login -u me --password-stdin r.example.com",
        "echo 'hunter2' | sudo -S true",
        "docker login -u me -p hunter2 r.example.com",
        "sshpass -p hunter2 ssh root@10.0.0.1",
        "mysql -uroot -phunter2",
        "htpasswd -bc users me hunter2",
        "usermod -p hunter2 root",
        "cat > /etc/x.yaml <<EOF\npassword: hunter2\nEOF",
        "cat > ~/.docker/config.json <<EOF\n{\"auths\": {\"r.example.com\": {\"auth\": \"hunter2\"}}}\nEOF",
        "cat > key <<EOF\n-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\n-----END OPENSSH PRIVATE KEY-----\nEOF",
        "export PASSWORD=${PASSWORD:-hunter2}",
        "x=ghp_hunter2hunter2hunter2hunter2hunter2a",
        "x=AKIAHUNTER2HUNTER2HU",
        "run \\\n  --registry-token \\\n  hunter2",
    ] {
        let imported = import(&script(&format!("set -e\n{bash}\ntrue")));
        let shown = format!("{}{:?}", imported.cluster_yaml, imported.left).to_lowercase();
        assert!(!shown.contains("hunter2"), "{bash}: {shown}");
        let names: Vec<String> = cluster(&imported).system.pre_install.into_iter().map(|one| one.name).collect();
        assert_eq!(names, ["fine"], "{bash}");
        let said = left_at(&imported, "spec.system.preInstall[1].bash");
        assert_eq!(said.len(), 1, "{bash}: {:?}", imported.left);
        let line = if bash.starts_with("cat ") { "line 3 of it" } else { "line 2 of it" };
        assert!(said[0].contains(line) && said[0].contains("left out"), "{bash}: {said:?}");
    }
}

#[test]
fn a_script_that_only_says_where_a_secret_is_to_be_had_is_carried_as_it_is() {
    for bash in [
        "export PASSWORD=$(cat /root/password)",
        "PASSWORD=\"$1\"; TOKEN=`cat t`; PWD=/x; compass=north",
        "docker login -u me --password-stdin < /root/password",
        "cat /root/password | docker login -u me --password-stdin",
        "echo \"$PASSWORD\" | sudo -S true",
        "curl -u \"admin:$PASSWORD\" https://example.com",
        "curl -H \"Authorization: Bearer $TOKEN\" https://example.com",
        "kubeadm join --token \"$TOKEN\" --discovery-token-unsafe-skip-ca-verification",
        "docker run -u 1000:1000 -p 80:80 x && mkdir -p /a/b && rsync -u a:b c",
        "TOKEN=/var/run/secrets/kubernetes.io/serviceaccount/token",
        "PASSWORD_FILE=/root/password PASSWORD= ./setup --password-file /root/p --token-ttl 0",
        "kubectl create secret generic db --from-file=/root/password",
        "if [ \"$TOKEN\" == \"\" ]; then exit 1; fi",
        "passwd -l root; chpasswd < /root/passwords",
        "export PASSWORD=${PASSWORD:?set it}",
        "sed -i 's/^PermitRootLogin.*/PermitRootLogin no/;s/#PasswordAuthentication yes/PasswordAuthentication no/' /etc/ssh/sshd_config",
    ] {
        let imported = import(&script(bash));
        let scripts = cluster(&imported).system.pre_install;
        assert_eq!(scripts.len(), 2, "{bash}: {:?}", imported.left);
        assert_eq!(scripts[1].bash.trim_end(), bash);
        assert_eq!(imported.left, [], "{bash}");
    }
}

#[test]
fn every_line_that_looks_like_a_secret_is_reported_and_so_is_what_it_looks_like() {
    let imported = import(&script("A_TOKEN=hunter2\ntrue\ncurl -u me:hunter2 x\n"));
    let said = left_at(&imported, "spec.system.preInstall[1].bash");
    for part in ["line 1 of it gives A_TOKEN a value", "line 3 of it gives curl a login"] {
        assert!(said[0].contains(part), "{part}: {said:?}");
    }
}
