//! A login at a registry as a client shows it and as a server keeps it.

use base64::Engine;
use kubexm_plan::{LoginForm, Plan};
use kubexm_spec::Digest;
use kubexm_spec::cluster::password_line;
use zeroize::Zeroizing;

/// bcrypt's cost. htpasswd takes 5, and OWASP asks for 10; distribution compares anew for each blob of each node, so each step
/// doubles what a registry host computes during a pull.
const COST: u32 = 8;

/// What is made of user name and password. It is the same in each run, so that a second one changes nothing.
///
/// # Errors
/// A sentence that shows nothing of the password.
pub(crate) fn in_form(
    form: LoginForm,
    username: &str,
    password: &str,
    plan: &Plan,
) -> Result<Zeroizing<String>, String> {
    let password = password_line(password);
    match form {
        LoginForm::Header => Ok(Zeroizing::new(format!("Basic {}", auth(username, password).as_str()))),
        LoginForm::Auth => Ok(auth(username, password)),
        LoginForm::Htpasswd => {
            let id = plan.cluster_id.ok_or("the plan has no cluster id; run `kubexm-install create` again")?;
            htpasswd(username, password, &id.to_string())
        }
    }
}

fn auth(username: &str, password: &str) -> Zeroizing<String> {
    let both = Zeroizing::new(format!("{username}:{password}"));
    Zeroizing::new(base64::engine::general_purpose::STANDARD.encode(both.as_bytes()))
}

/// The salt is of the cluster and the name, and of nothing secret: a hash by SHA-256 of the password would be easier to
/// guess than bcrypt's. It is another one in each cluster, and the same in each run and on each controller.
fn htpasswd(username: &str, password: &str, cluster: &str) -> Result<Zeroizing<String>, String> {
    let digest = Digest::of(format!("kubexm htpasswd\n{cluster}\n{username}"));
    let mut salt = [0; 16];
    salt.copy_from_slice(&digest.as_bytes()[..16]);
    let hash = bcrypt::hash_with_salt(password, COST, salt).map_err(|error| format!("bcrypt: {error}"))?;
    Ok(Zeroizing::new(format!("{username}:{}\n", hash.format_for_version(bcrypt::Version::TwoB))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_encoded_as_rfc_7617_does_it() {
        assert_eq!(auth("Aladdin", "open sesame").as_str(), "QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
    }

    #[test]
    fn a_line_of_htpasswd_verifies_its_password_alone_and_is_the_same_in_each_run_of_one_cluster() {
        let line = htpasswd("me", "hunter2", "one").unwrap();
        let hash = line.strip_prefix("me:").unwrap().trim_end();
        assert!(hash.starts_with("$2b$08$"), "{hash}");
        assert!(bcrypt::verify("hunter2", hash).unwrap() && !bcrypt::verify("hunter3", hash).unwrap());
        assert_eq!(htpasswd("me", "hunter2", "one").unwrap(), line);
        let salt = |line: &str| line.split('$').next_back().unwrap()[..22].to_owned();
        assert_eq!(salt(&htpasswd("me", "another", "one").unwrap()), salt(&line));
        for other in [htpasswd("me", "hunter2", "two").unwrap(), htpasswd("you", "hunter2", "one").unwrap()] {
            assert_ne!(salt(&other), salt(&line), "equal passwords look different elsewhere");
        }
    }
}
