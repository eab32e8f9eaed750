//! What a private key is encrypted with.

use zeroize::Zeroizing;

/// A password; wiped from memory when dropped, and never shown.
#[derive(Clone)]
pub struct Password(Zeroizing<Vec<u8>>);

impl Password {
    /// These bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The content of a password file: without the line's end that editors and `echo` leave.
    pub fn from_file_content(mut content: Zeroizing<Vec<u8>>) -> Self {
        if content.last() == Some(&b'\n') {
            content.pop();
            if content.last() == Some(&b'\r') {
                content.pop();
            }
        }
        Self(content)
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_end_of_a_password_file_is_not_part_of_the_password() {
        let of = |text: &[u8]| Password::from_file_content(Zeroizing::new(text.to_vec())).bytes().to_vec();
        assert_eq!(of(b"a b\n"), b"a b");
        assert_eq!(of(b"a b\r\n"), b"a b");
        assert_eq!(of(b"a\n\n"), b"a\n");
        assert_eq!(of(b"a"), b"a");
    }

    #[test]
    fn a_password_does_not_show_in_debug_output() {
        assert!(!format!("{:?}", Password::new(b"secret".to_vec())).contains("secret"));
    }
}
