//! The order of versions against rpm's own.

use std::cmp::Ordering;
use std::io::Write as _;
use std::process::{Command, Stdio};

use kubexm_packages::rpm::version::{compare, part};

/// Pairs that are compared.
const PAIRS: usize = 100_000;

/// Pseudo-random numbers of which a failure can be repeated.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % limit as u64).unwrap()
    }

    fn version(&mut self) -> String {
        const PIECES: [&str; 24] = [
            "0",
            "1",
            "2",
            "9",
            "10",
            "01",
            "007",
            "a",
            "b",
            "rc",
            "git",
            "el9",
            "Z",
            ".",
            ".",
            ".",
            "_",
            "+",
            "~",
            "^",
            "~~",
            "..",
            "99999999999999999999",
            "é",
        ];
        let length = 1 + self.below(7);
        let mut text: String = (0..length).map(|_| PIECES[self.below(PIECES.len())]).collect();
        if text.starts_with(['~', '^']) && self.below(4) != 0 {
            text.insert(0, '1');
        }
        text
    }
}

fn answers(program: &str, lines: &[String]) -> Vec<Ordering> {
    let mut child = Command::new("/usr/bin/python3")
        .args(["-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let text = lines.join("\n");
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "rpm's library died (scripts/test installs python3-rpm)");
    let order = |line: &str| line.parse::<i32>().unwrap().cmp(&0);
    String::from_utf8(output.stdout).unwrap().lines().map(order).collect()
}

#[test]
fn versions_are_ordered_as_by_rpm() {
    let mut numbers = Numbers(7);
    let mut pairs = Vec::new();
    while pairs.len() < PAIRS {
        let one = numbers.version();
        // Half of the pairs differ in one place only.
        let other = if numbers.below(2) == 0 {
            numbers.version()
        } else {
            let piece = numbers.version();
            one.replacen(['.', '1', 'a'], &piece, 1)
        };
        pairs.push((one, other));
    }
    let lines: Vec<String> = pairs.iter().map(|(one, other)| format!("{one}\t{other}")).collect();
    let program = "import rpm, sys\nfor line in sys.stdin:\n  a, b = line.rstrip('\\n').split('\\t')\n  print(rpm.labelCompare(('0', a, '1'), ('0', b, '1')))";
    let theirs = answers(program, &lines);
    assert_eq!(theirs.len(), PAIRS);
    for ((one, other), theirs) in pairs.iter().zip(theirs) {
        assert_eq!(part(one, other), theirs, "{one} {other}");
    }
}

#[test]
fn epoch_version_and_release_are_split_as_by_rpm() {
    let mut numbers = Numbers(11);
    let mut pairs = Vec::new();
    for _ in 0..20_000 {
        let mut evr = || {
            let epoch = ["", "0:", "1:", "2:", "10:"][numbers.below(5)];
            let version = ["1", "1.0", "2", "1~rc"][numbers.below(4)];
            format!("{epoch}{version}-{}", ["1", "2.el9", "10"][numbers.below(3)])
        };
        pairs.push((evr(), evr()));
    }
    let lines: Vec<String> = pairs.iter().map(|(one, other)| format!("{one}\t{other}")).collect();
    // hawkey's parser of names splits an EVR as dnf does.
    let program = "import rpm, sys, hawkey\ndef split(t):\n  n = hawkey.split_nevra('n-' + t + '.noarch')\n  return (str(n.epoch or 0), n.version, n.release)\nfor line in sys.stdin:\n  a, b = line.rstrip('\\n').split('\\t')\n  print(rpm.labelCompare(split(a), split(b)))";
    for ((one, other), theirs) in pairs.iter().zip(answers(program, &lines)) {
        assert_eq!(compare(one, other), theirs, "{one} {other}");
    }
}
