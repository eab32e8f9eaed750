//! Recipients of age: public keys for which something is encrypted.

/// The characters of Bech32, each for five bits (BIP 173).
const BECH32: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
/// 32 bytes and the checksum.
const LENGTH: usize = 58;
/// What the checksum begins with: `age`, each letter by its high and low bits.
const PREFIX: [u32; 7] = [3, 3, 3, 0, 1, 7, 5];

/// The public key of an age identity (age-encryption.org/v1, "The X25519 recipient type"). Errors never show the text: it may be
/// the secret key.
pub(in crate::cluster) fn recipient(text: &str) -> Result<String, String> {
    if text.trim().to_ascii_uppercase().starts_with("AGE-SECRET-KEY-") {
        return Err("this is a secret key, which belongs into no file but its owner's: give the recipient (age1…) here, and make a \
                    new identity, since this one was written down"
            .to_owned());
    }
    let key = text.strip_prefix("age1").filter(|key| key.len() == LENGTH);
    let five = |byte: u8| BECH32.iter().position(|one| *one == byte).and_then(|at| u32::try_from(at).ok());
    match key.and_then(|key| key.bytes().map(five).collect::<Option<Vec<u32>>>()) {
        Some(key) if is_whole(&key) => Ok(text.to_owned()),
        Some(_) => {
            Err("a character of this recipient is wrong (its checksum does not match): copy it again".to_owned())
        }
        None => {
            Err("this is no recipient; `kubexm-install identity` prints one's own (age1 and 58 characters)".to_owned())
        }
    }
}

/// Whether the checksum is right (BIP 173, "Checksum"), and no bits follow the 32 bytes. A mistyped key would be noticed only by a host
/// that is to encrypt for it, or by nobody.
fn is_whole(key: &[u32]) -> bool {
    const GENERATOR: [u32; 5] = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];
    let checksum = PREFIX.iter().chain(key).fold(1_u32, |sum, value| {
        let shifted = ((sum & 0x01ff_ffff) << 5) ^ value;
        let top = sum >> 25;
        (0..5).filter(|bit| top >> bit & 1 == 1).fold(shifted, |sum, bit| sum ^ GENERATOR[bit])
    });
    // Of the last of 52 characters, one bit belongs to the key.
    checksum == 1 && key.get(LENGTH - 7).is_some_and(|last| last & 0b1111 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "age195lpn50un3389thrdqqyv42xdl3hcgguumxpm827kg8zg5wmyc0qew6cj8";

    #[test]
    fn a_recipient_with_a_wrong_character_is_refused_wherever_it_is() {
        assert_eq!(recipient(KEY).as_deref(), Ok(KEY));
        for at in 4..KEY.len() {
            let other = if &KEY[at..=at] == "q" { "p" } else { "q" };
            let mut wrong = KEY.to_owned();
            wrong.replace_range(at..=at, other);
            assert!(recipient(&wrong).is_err_and(|said| said.contains("checksum")), "{wrong}");
        }
        let swapped = KEY.replace("95lp", "95pl");
        assert!(recipient(&swapped).is_err());
    }

    #[test]
    fn what_is_no_recipient_is_refused_without_showing_it() {
        let secret = "AGE-SECRET-KEY-1J59TJ7NCP8QKV02YQXEXASFA54P3YC5K94MA674LWPWUHFEYQLJQRVVM63";
        for (text, said) in [
            (secret, "secret key"),
            (&*secret.to_lowercase(), "secret key"),
            (&*format!(" {secret}"), "secret key"),
            (&KEY[..61], "no recipient"),
            (&*KEY.to_uppercase(), "no recipient"),
            ("age1é", "no recipient"),
            ("", "no recipient"),
        ] {
            let error = recipient(text).unwrap_err();
            assert!(error.contains(said) && !error.to_uppercase().contains("1J59TJ7"), "{text}: {error}");
        }
    }
}
