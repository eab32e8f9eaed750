//! Small objects, and lists of objects.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use md5::{Digest as _, Md5};
use reqwest::Method;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::call::Call;
use crate::client::S3Client;
use crate::encode::decode;
use crate::error::S3Error;
use crate::watch::Watch;
use crate::xml::{self, Document, Fields};

/// More objects than backups make in a lifetime.
const MOST: usize = 100_000;
/// More pages than a listing of them has, also with a server that puts little on each.
const PAGES: usize = 1000;
/// An object's name has no more bytes (Amazon S3, "Naming Amazon S3 objects").
const LONGEST_KEY: usize = 1024;
/// Longer than a token of a listing is, in bytes.
const TOKEN: usize = 8192;

/// An object of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub key: String,
    /// In bytes.
    pub size: u64,
}

/// An upload in parts that was not completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenUpload {
    /// The object's name.
    pub key: String,
    /// Which one.
    pub id: String,
    /// When it began, by the server's clock, in seconds of Unix time; none if it does not say.
    pub began: Option<i64>,
}

/// Buckets with object lock take nothing without it, and servers that do not look at the signed digest compare this one.
pub(crate) fn content_md5(body: &[u8]) -> String {
    STANDARD.encode(Md5::digest(body))
}

/// Whether a name can be that of an object which was asked for: a server may answer with any, also of megabytes.
fn is_below(key: &str, prefix: &str) -> bool {
    key.len() <= LONGEST_KEY && key.starts_with(prefix)
}

impl S3Client {
    /// Writes an object, whole or not at all.
    ///
    /// # Errors
    /// The server refuses it, or does not answer.
    pub async fn put(&self, key: &str, body: Bytes, watch: &dyn Watch) -> Result<(), S3Error> {
        let what = format!("write {}", self.shown(key));
        let md5 = content_md5(&body);
        let call = Call::new(Method::PUT, Some(key), "s3:PutObject", what).header("content-md5", md5).body(body);
        self.call(&call, watch).await.map(drop)
    }

    /// Deletes an object. One that is not there is deleted.
    ///
    /// # Errors
    /// The server refuses it, or does not answer.
    pub async fn delete(&self, key: &str, watch: &dyn Watch) -> Result<(), S3Error> {
        let what = format!("delete {}", self.shown(key));
        let call = Call::new(Method::DELETE, Some(key), "s3:DeleteObject", what);
        match self.call(&call, watch).await {
            Ok(_) | Err(S3Error::NoObject { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The objects whose names begin like this.
    ///
    /// # Errors
    /// The server refuses it, does not answer, or has more than a place of backups has; it was stopped between two pages.
    pub async fn list(&self, prefix: &str, watch: &dyn Watch) -> Result<Vec<Listed>, S3Error> {
        let what = format!("list {}", self.shown(prefix));
        let first = Call::new(Method::GET, None, "s3:ListBucket", what)
            .with("list-type", "2")
            .with("encoding-type", "url")
            .with("prefix", prefix);
        let (mut all, mut call) = (Vec::new(), first.clone());
        for _ in 0..PAGES {
            let document = self.document(&call, ("ListBucketResult", "Contents"), watch).await?;
            for fields in &document.records {
                let listed = (|| {
                    let key = decode(fields.get("Key")?)?;
                    Some(Listed { key, size: fields.get("Size")?.trim().parse().ok()? })
                })();
                // What has no name that can be read is nothing of ours.
                all.extend(listed.filter(|listed| is_below(&listed.key, prefix)));
            }
            if all.len() > MOST {
                let reason = format!("it has more than {MOST} objects there; give backups a prefix of their own");
                return Err(self.misfit(&call, reason));
            }
            let next = self.next(&document, (&call, "NextContinuationToken"))?;
            let Some(next) = next else { return Ok(all) };
            if call.query.iter().any(|(name, value)| *name == "continuation-token" && *value == next) {
                return Err(self.misfit(&call, "its listing does not go on"));
            }
            // Each page may be answered well, and the next one, for ever.
            if watch.is_stopped() {
                return Err(S3Error::Stopped);
            }
            call = first.clone().with("continuation-token", next);
        }
        Err(self.misfit(&call, format!("its listing has more than {PAGES} pages; give backups a prefix of their own")))
    }

    /// Uploads in parts that were not completed, of objects whose names begin like this: those of the first page.
    ///
    /// # Errors
    /// The server refuses it, or does not answer.
    pub async fn open_uploads(&self, prefix: &str, watch: &dyn Watch) -> Result<Vec<OpenUpload>, S3Error> {
        let what = format!("list uploads below {}", self.shown(prefix));
        let call = Call::new(Method::GET, None, "s3:ListBucketMultipartUploads", what)
            .with("uploads", "")
            .with("encoding-type", "url")
            .with("prefix", prefix);
        let document = self.document(&call, ("ListMultipartUploadsResult", "Upload"), watch).await?;
        let upload = |fields: &Fields| {
            let began = fields.get("Initiated").and_then(|text| OffsetDateTime::parse(text, &Rfc3339).ok());
            Some(OpenUpload {
                key: decode(fields.get("Key")?)?,
                id: fields.get("UploadId").filter(|id| id.len() <= TOKEN)?.clone(),
                began: began.map(OffsetDateTime::unix_timestamp),
            })
        };
        let all = document.records.iter().filter_map(upload);
        Ok(all.filter(|upload| is_below(&upload.key, prefix)).collect())
    }

    /// A document with the wanted first element.
    pub(crate) async fn document(
        &self,
        call: &Call,
        (root, record): (&str, &str),
        watch: &dyn Watch,
    ) -> Result<Document, S3Error> {
        let answer = self.call(call, watch).await?;
        let document = xml::read(&answer.body, record).map_err(|reason| self.misfit(call, reason))?;
        match document.root == root {
            true => Ok(document),
            false => Err(self.misfit(call, format!("wanted is a {root}"))),
        }
    }

    /// Where a listing goes on.
    fn next(&self, document: &Document, (call, name): (&Call, &str)) -> Result<Option<String>, S3Error> {
        if document.fields.get("IsTruncated").is_none_or(|text| text.trim() != "true") {
            return Ok(None);
        }
        match document.fields.get(name).filter(|token| !token.is_empty() && token.len() <= TOKEN) {
            Some(token) => Ok(Some(token.clone())),
            None => Err(self.misfit(call, format!("its listing has more, and no {name}"))),
        }
    }
}
