//! The order of versions against Debian's own: its Perl module on a great many pairs, dpkg itself on some of them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test dies of what it did not expect")]

use std::cmp::Ordering;
use std::io::Write as _;
use std::process::{Command, Stdio};

use kubexm_packages::deb::version::{compare, is_valid};

/// xorshift64*: the same pairs in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end
    }
}

/// A version of few letters, so that two of them often begin alike.
fn version(random: &mut Random) -> String {
    let mut text = String::new();
    if random.below(4) == 0 {
        text.push_str(["0:", "1:", "2:", "10:", "01:"][random.below(5)]);
    }
    text.push(char::from(b'0' + random.below(10) as u8));
    let parts = ["0", "1", "00", "9", "10", "a", "b", "Z", "~", "~~", "+", ".", ".0", "rc", "~rc1", "+b1", "-", "-1"];
    for _ in 0..random.below(7) {
        text.push_str(parts[random.below(parts.len())]);
    }
    if text.ends_with('-') {
        text.push('0');
    }
    text
}

/// A version, or one that differs from the other in one byte or two.
fn pairs(count: usize) -> Vec<(String, String)> {
    let mut random = Random(0x5eed);
    let mut pairs = Vec::with_capacity(count);
    while pairs.len() < count {
        let one = version(&mut random);
        let other = match random.below(3) {
            0 => version(&mut random),
            _ => {
                let mut bytes = one.clone().into_bytes();
                let (at, with) = (random.below(bytes.len()), b"0123~+.aZ"[random.below(9)]);
                match random.below(3) {
                    0 => bytes[at] = with,
                    1 => bytes.insert(at, with),
                    _ => drop(bytes.remove(at)),
                }
                String::from_utf8(bytes).unwrap()
            }
        };
        if is_valid(&one) && is_valid(&other) {
            pairs.push((one, other));
        }
    }
    pairs
}

/// The lines that a program prints to these.
fn asked(command: &mut Command, input: String) -> Vec<String> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writing = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap().unwrap();
    assert!(output.status.success(), "{command:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn check(pairs: &[(String, String)], answers: &[String], who: &str) {
    assert_eq!(answers.len(), pairs.len(), "{who} answers each pair");
    let mut seen = [0; 3];
    for ((one, other), answer) in pairs.iter().zip(answers) {
        let expected = match answer.as_str() {
            "-1" => Ordering::Less,
            "0" => Ordering::Equal,
            "1" => Ordering::Greater,
            other => panic!("{who} says {other:?}"),
        };
        assert_eq!(compare(one, other), expected, "{one} and {other}: {who}");
        assert_eq!(compare(other, one), expected.reverse(), "{other} and {one}: {who}");
        seen[match expected {
            Ordering::Less => 0,
            Ordering::Equal => 1,
            Ordering::Greater => 2,
        }] += 1;
    }
    assert!(seen.iter().all(|count| *count > pairs.len() / 100), "{seen:?}: the pairs try too little");
}

#[test]
fn a_hundred_thousand_pairs_are_ordered_as_by_debians_own_module() {
    let pairs = pairs(100_000);
    let input = pairs.iter().map(|(one, other)| format!("{one} {other}\n")).collect();
    let script = "while (<STDIN>) { my ($a, $b) = split; print version_compare($a, $b), \"\\n\" }";
    check(&pairs, &asked(Command::new("perl").args(["-MDpkg::Version", "-e", script]), input), "Dpkg::Version");
}

#[test]
fn a_sample_of_pairs_is_ordered_as_by_dpkg() {
    let pairs = &pairs(600)[..];
    let input = pairs.iter().map(|(one, other)| format!("{one} {other}\n")).collect();
    let script = "while read -r a b; do if dpkg --compare-versions \"$a\" lt \"$b\"; then echo -1; \
                  elif dpkg --compare-versions \"$a\" eq \"$b\"; then echo 0; else echo 1; fi; done";
    check(pairs, &asked(Command::new("sh").args(["-c", script]), input), "dpkg");
}
