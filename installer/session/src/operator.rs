//! The operator's identity in a home: what opens the authorities of clusters.

use std::path::Path;

use kubexm_engine::{EngineError, OperatorIdentity};

use crate::credentials::Credentials;
use crate::error::SessionError;
use crate::home::Home;

impl Home {
    /// The public key of its identity ([`Home::identity`], `age1…`), which is made if there is none.
    ///
    /// # Errors
    /// The file cannot be read or written, or holds something else.
    pub fn recipient(&self, credentials: &dyn Credentials) -> Result<String, SessionError> {
        Ok(self.operator(credentials)?.recipient())
    }

    /// The same; from now on the identity is encrypted with a passphrase.
    ///
    /// # Errors
    /// It is encrypted already, the file cannot be read or written, or there is no passphrase.
    pub fn encrypt_identity(&self, credentials: &dyn Credentials) -> Result<String, SessionError> {
        let path = self.identity();
        let refused = |_: &Path| Err("it is encrypted already; `age -d` decrypts it".to_owned());
        OperatorIdentity::read_or_make(&path, &refused)?;
        let passphrase = credentials
            .new_passphrase(&path)
            .map_err(|reason| SessionError::from(EngineError::Identity { path: path.clone(), reason }))?;
        Ok(OperatorIdentity::encrypt(&path, passphrase)?.recipient())
    }

    /// What opens the authorities of clusters.
    pub(crate) fn operator(&self, credentials: &dyn Credentials) -> Result<OperatorIdentity, SessionError> {
        Ok(OperatorIdentity::read_or_make(&self.identity(), &|path| credentials.passphrase(path))?)
    }
}
