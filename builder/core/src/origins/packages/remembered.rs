//! What the cache remembers of a repository: the signed file that was trusted last, how to ask whether it is still the same,
//! and the newest date that was seen, so that an old state cannot be replayed.

use kubexm_spec::Digest;
use kubexm_transport::{Store, TransportError, Validators};
use serde::{Deserialize, Serialize};

use super::PackagesError;
use super::protection::Protection;

/// How far another clock may be ahead of ours, in seconds.
const SKEW: i64 = 600;

/// Of one repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Remembered {
    /// The address that served it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub base: String,
    /// InRelease, Release or repomd.xml. (The other names are those of earlier versions of this program.)
    #[serde(alias = "release", alias = "repomd")]
    pub signed: Option<Digest>,
    /// Release.gpg or repomd.xml.asc.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<Digest>,
    /// What protected it on its way; none in the cache of an earlier version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protection: Option<Protection>,
    /// Validators (ETag, Last-Modified) that the address sent with the signed file.
    pub validators: Validators,
    /// The newest date that was seen, in seconds of Unix time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newest: Option<i64>,
}

impl Remembered {
    /// What is remembered under a key; nothing of what cannot be read.
    pub fn read(store: &Store, key: &str) -> Result<Self, TransportError> {
        Ok(store.recorded(key)?.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
    }

    /// The signed file and its signature, as they came last; none where the cache has other bytes by now, so that a repository is asked
    /// for all of them again. `limits` are the most bytes of each.
    pub fn kept(&self, store: &Store, limits: (u64, u64)) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        let whole =
            |digest: &Digest, limit| store.read(digest, limit).ok().filter(|bytes| Digest::of(bytes) == *digest);
        let text = whole(self.signed.as_ref()?, limits.0)?;
        let signature = match &self.signature {
            Some(digest) => Some(whole(digest, limits.1)?),
            None => None,
        };
        Some((text, signature))
    }

    /// Whether the vendor may have made it then. A medium is as old as it is, and another one may be in its place tomorrow: its
    /// dates are compared with the clock alone, and not remembered.
    pub fn dated(
        &mut self,
        date: Option<i64>,
        now: i64,
        is_local: bool,
        (repository, url): (&str, &str),
    ) -> Result<(), PackagesError> {
        let Some(date) = date else { return Ok(()) };
        let (repository, url) = (repository.to_owned(), url.to_owned());
        if date > now.saturating_add(SKEW) {
            return Err(PackagesError::NotYet { repository, url, date });
        }
        if is_local {
            return Ok(());
        }
        if let Some(before) = self.newest.filter(|before| date < *before) {
            return Err(PackagesError::Replayed { repository, url, date, before });
        }
        self.newest = Some(date);
        Ok(())
    }

    /// Remembers what was trusted: only that is shown to the next run. The digest of the signed file.
    pub fn keep(
        mut self,
        store: &Store,
        key: &str,
        text: &[u8],
        signature: Option<&[u8]>,
    ) -> Result<Digest, TransportError> {
        let digest = stored(store, self.signed, text)?;
        self.signed = Some(digest);
        self.signature = signature.map(|signature| stored(store, self.signature, signature)).transpose()?;
        // Fields of text always become JSON.
        if let Ok(note) = serde_json::to_string(&self)
            && store.recorded(key)?.as_deref() != Some(&note)
        {
            store.note(key, &note)?;
        }
        Ok(digest)
    }
}

/// Writing waits for the disk: what is there and whole is not written again.
fn stored(store: &Store, before: Option<Digest>, bytes: &[u8]) -> Result<Digest, TransportError> {
    let digest = Digest::of(bytes);
    match before == Some(digest) && store.verify(&digest)? {
        true => Ok(digest),
        false => store.insert(bytes, Some(digest)).map(|(digest, _)| digest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_state_is_refused_of_a_mirror_and_not_of_a_medium() {
        let at = ("main", "http://x/InRelease");
        let mut remembered = Remembered::default();
        remembered.dated(Some(100), 100, false, at).unwrap();
        let error = remembered.dated(Some(99), 100, false, at).unwrap_err();
        assert!(matches!(error, PackagesError::Replayed { before: 100, .. }), "{error}");
        remembered.dated(Some(99), 100, true, at).unwrap();
        assert_eq!(remembered.newest, Some(100), "what a medium has says nothing of a mirror");
        for is_local in [true, false] {
            let error = remembered.dated(Some(100 + SKEW + 1), 100, is_local, at).unwrap_err();
            assert!(matches!(error, PackagesError::NotYet { .. }), "{error}");
        }
    }

    #[test]
    fn what_is_damaged_in_the_cache_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        Remembered::default().keep(&store, "key", b"text", Some(b"signature")).unwrap();
        let remembered = Remembered::read(&store, "key").unwrap();
        let kept = || remembered.kept(&store, (100, 100));
        assert_eq!(kept(), Some((b"text".to_vec(), Some(b"signature".to_vec()))));
        for digest in [remembered.signature.unwrap(), remembered.signed.unwrap()] {
            std::fs::write(store.path(&digest), "").unwrap();
            assert_eq!(kept(), None);
        }
    }

    #[test]
    fn what_an_earlier_version_remembered_is_not_forgotten() {
        let digest = Digest::of("x");
        for name in ["release", "repomd"] {
            let text = format!("{{\"{name}\": \"{digest}\", \"newest\": 5}}");
            let read: Remembered = serde_json::from_str(&text).unwrap();
            assert_eq!((read.signed, read.newest), (Some(digest), Some(5)));
        }
    }
}
