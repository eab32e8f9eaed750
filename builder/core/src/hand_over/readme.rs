//! The page of instructions: plain ASCII, short lines, for a reader at an old host without UTF-8.

use kubexm_spec::Arch;

/// What the page is about.
pub(super) struct Page<'a> {
    pub(super) stem: &'a str,
    /// The bundle's file, or its volumes.
    pub(super) files: &'a [String],
    /// The cluster, in words; none in a bundle of extras.
    pub(super) cluster: Option<String>,
    /// Names of the installers and what they are for.
    pub(super) installers: &'a [(String, Arch)],
    /// How `NAME.sums` is signed; none when it is not.
    pub(super) signed: Option<&'a str>,
    /// Whether the bundle itself is signed.
    pub(super) bundle_signed: bool,
    /// It needs another bundle.
    pub(super) delta: bool,
    /// sha256 of manifest.json.
    pub(super) manifest: String,
}

/// The text. Every line has at most 72 characters, but for those with a long name in them.
pub(super) fn text(page: &Page<'_>) -> String {
    let Page { stem, files, .. } = page;
    let mut text = format!("{stem}\n{}\n\n", "=".repeat(stem.len().min(72)));
    match &page.cluster {
        Some(cluster) => text.push_str(&format!("Carries: {cluster}.\n")),
        None => text.push_str("Carries files and images, and no cluster.\n"),
    }
    text.push_str(&format!("Manifest sha256: {}\n\n", page.manifest));
    if page.delta {
        text.push_str(
            "THIS IS A DELTA. It holds only what an earlier bundle does not.\n\
             Keep that one: give it with --base wherever this one is given.\n\n",
        );
    }
    if files.len() > 1 {
        text.push_str(&format!(
            "The bundle lies in {} volumes. They are used as they are, in any\n\
             folders; nothing has to be joined or unpacked.\n\n",
            files.len()
        ));
    }
    let mut step = 0;
    let mut heading = |title: &str| {
        step += 1;
        format!("{step}. {title}\n{}\n", "-".repeat(title.len() + 3))
    };
    if let Some(algorithm) = page.signed {
        text.push_str(&heading("Is it from the right sender?"));
        text.push_str(&format!(
            "Take release.pub, the sender's public key, from ANOTHER way: you have\n\
             it already, or it came by another person, or its sum was read to you\n\
             on the telephone:\n\n    openssl pkey -pubin -in release.pub -outform DER | sha256sum\n\n\
             {stem}.pub in this folder is a copy for convenience. It proves\n\
             nothing: anyone who can change the bundle can change it too. Then:\n\n"
        ));
        text.push_str(&match algorithm {
            "ed25519" => format!(
                "    openssl pkeyutl -verify -pubin -inkey release.pub -rawin \\\n        \
                 -in {stem}.sums -sigfile {stem}.sums.sig\n\n\
                 must print: Signature Verified Successfully (needs OpenSSL 3).\n\n"
            ),
            _ => format!(
                "    openssl dgst -sha256 -verify release.pub \\\n        -signature {stem}.sums.sig {stem}.sums\n\n\
                 must print: Verified OK\n\n"
            ),
        });
    }
    text.push_str(&heading("Is every byte here?"));
    text.push_str(&format!(
        "    sha256sum -c {stem}.sums\n\n\
         must print OK on every line. If a line has FAILED, copy that one file\n\
         again; the others are good.\n\n"
    ));
    if page.signed.is_none() {
        text.push_str(
            "These sums are not signed: they show damage, but not that somebody\n\
             changed both the bundle and the sums.\n\n",
        );
    }
    if page.signed.is_none() && page.bundle_signed {
        text.push_str(&heading("Is the bundle from the right sender?"));
        text.push_str(&own_signature(page));
    }
    if page.cluster.is_none() && page.installers.is_empty() {
        text.push_str("kubexm-bundle list, extract and cat read its content.\n");
        return text;
    }
    install(page, &mut text, &mut heading);
    text
}

/// What a signature in the bundle is good for where the sums have none.
fn own_signature(page: &Page<'_>) -> String {
    let bundle = page.files.first().map_or("", String::as_str);
    let mut text = format!(
        "The bundle itself was signed before it came here. Its signature holds\n\
         for every byte in the bundle{}.\n\
         Take release.pub, the signer's public key, from ANOTHER way: you have\n\
         it already, or it came by another person, or its sum was read to you\n\
         on the telephone:\n\n    openssl pkey -pubin -in release.pub -outform DER | sha256sum\n\n\
         Where you have a kubexm-bundle that you trust:\n\n    \
         kubexm-bundle verify --key release.pub {bundle}\n\n\
         must print: signature valid. ",
        if page.installers.is_empty() { "" } else { ", and not for the\nprograms beside it" },
    );
    if !page.installers.is_empty() {
        text.push_str(
            "kubexm-install below checks it too; but one\n\
             that was changed on its way checks nothing: take the program from the\n\
             bundle, with kubexm-bundle extract, or from another way.",
        );
    }
    text.push_str("\n\n");
    text
}

fn install(page: &Page<'_>, text: &mut String, heading: &mut dyn FnMut(&str) -> String) {
    let bundle = page.files.first().map_or("", String::as_str);
    let key = if page.bundle_signed { " --key release.pub" } else { "" };
    let base = if page.delta { " --base EARLIER-BUNDLE" } else { "" };
    if page.installers.is_empty() {
        text.push_str("The kubexm-install that you have already installs this one too.\n\n");
    } else {
        make_a_program(page, text, heading);
    }
    text.push_str(&heading("Look at the hosts; this changes nothing"));
    text.push_str(&format!("    kubexm-install preflight --bundle {bundle}{key}{base}\n\n"));
    text.push_str(
        "It reads every byte of the bundle, and reports what is missing\n\
         on which host.\n\
         Another cluster.yaml than the one in the bundle: -f cluster.yaml\n\n",
    );
    if !page.bundle_signed {
        text.push_str(
            "This bundle is NOT SIGNED: before anything else it asks whether the\n\
             hosts and secrets that its own cluster.yaml names may be used.\n\n",
        );
    }
    text.push_str(&heading("Install"));
    text.push_str(&format!("    kubexm-install create --bundle {bundle}{key}{base}\n\n"));
    text.push_str(
        "It shows the plan and asks before it changes anything. An\n\
         interrupted run continues with: kubexm-install resume\n",
    );
}

fn make_a_program(page: &Page<'_>, text: &mut String, heading: &mut dyn FnMut(&str) -> String) {
    text.push_str(&heading("Make the installer a program"));
    text.push_str("Check the host's architecture (uname -m), and take the file for it:\n\n");
    for (name, arch) in page.installers {
        text.push_str(&format!("    {:8} {name}\n", arch.uname()));
    }
    let name = page.installers.first().map_or("", |(name, _)| name.as_str());
    text.push_str(&format!(
        "\nSticks often allow no programs to run, so put it on the disk:\n\n    \
         cp {name} /usr/local/bin/kubexm-install\n    chmod +x /usr/local/bin/kubexm-install\n\n"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_plain_ascii_in_short_lines_and_names_each_file() {
        let installers = [("kubexm-install-linux-amd64".to_owned(), Arch::Amd64)];
        let files = ["site.tar.zst.001".to_owned(), "site.tar.zst.002".to_owned()];
        for signed in [None, Some("ed25519"), Some("ecdsa-p256-sha256")] {
            let page = Page {
                stem: "site",
                files: &files,
                cluster: Some("Kubernetes v1.34.4, containerd 2.2.1".into()),
                installers: &installers,
                signed,
                bundle_signed: signed.is_some(),
                delta: true,
                manifest: "0".repeat(64),
            };
            let text = text(&page);
            assert!(text.is_ascii() && !text.contains('\t') && !text.contains('\r'));
            let long: Vec<_> =
                text.lines().filter(|l| l.len() > 72 && !l.contains("--bundle") && !l.contains("Manifest")).collect();
            assert!(long.is_empty(), "{long:#?}");
            for word in
                ["2 volumes", "DELTA", "kubexm-install-linux-amd64", "sha256sum -c site.sums", "site.tar.zst.001"]
            {
                assert!(text.contains(word), "{word}: {text}");
            }
            assert_eq!(text.contains("proves"), signed.is_some());
            assert!(!text.contains("the bundle from the right sender"), "{text}");
            let without = super::text(&Page { installers: &[], ..page });
            assert!(without.contains("that you have already") && without.contains("create --bundle"), "{without}");
        }
    }

    #[test]
    fn a_bundle_that_is_signed_where_the_sums_are_not_says_what_can_be_checked_and_with_what() {
        let (installers, files) = ([("kubexm-install-linux-amd64".to_owned(), Arch::Amd64)], ["s.tar.zst".to_owned()]);
        let mut page = Page {
            stem: "s",
            files: &files,
            cluster: Some("Kubernetes v1.34.4".into()),
            installers: &installers,
            signed: None,
            bundle_signed: true,
            delta: false,
            manifest: "0".repeat(64),
        };
        let text = super::text(&page);
        let words =
            ["These sums are not signed", "ANOTHER way", "verify --key release.pub s.tar.zst", "programs beside it"];
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
        let key = text.find("Take release.pub").unwrap();
        assert!(key < text.find("preflight --bundle s.tar.zst --key release.pub").unwrap(), "{text}");
        let long = |line: &&str| line.len() > 72 && !line.contains("--bundle") && !line.contains("Manifest");
        assert!(text.is_ascii() && text.lines().find(long).is_none(), "{text}");
        page.bundle_signed = false;
        assert!(!text.contains("NOT SIGNED"), "{text}");
        let text = super::text(&page);
        assert!(!text.contains("release.pub") && text.contains("This bundle is NOT SIGNED"), "{text}");
    }
}
