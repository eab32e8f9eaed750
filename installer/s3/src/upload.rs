//! A file to an object, in parts: each is in memory while it is sent, and sent again from there.

use std::path::Path;

use bytes::Bytes;
use reqwest::Method;
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;

use crate::call::Call;
use crate::client::S3Client;
use crate::error::S3Error;
use crate::objects::content_md5;
use crate::watch::{Moved, Watch};
use crate::xml::escaped;

/// In bytes. Ten thousand of them, which is the most that an object has, are 80 GiB.
pub const PART: u64 = 8 << 20;
/// Longer than a tag of a part or a name of an upload is, in bytes.
const LONGEST: usize = 1024;

impl S3Client {
    /// Writes a file of `size` bytes as an object, which is there when it is whole and not before. If it fails, its parts are removed.
    ///
    /// # Errors
    /// The server refuses it or does not answer, or the file cannot be read.
    pub async fn upload(&self, key: &str, (file, size): (&Path, u64), watch: &dyn Watch) -> Result<(), S3Error> {
        let path = || file.display().to_string();
        let opened = File::open(file).await;
        let mut opened = opened.map_err(|source| S3Error::Disk { action: "read", path: path(), source })?;
        if size <= PART {
            let body = part(&mut opened, size).await;
            let body = body.map_err(|source| S3Error::Disk { action: "read", path: path(), source })?;
            self.put(key, body, watch).await?;
            watch.moved(Moved::Up, size, size);
            return Ok(());
        }
        let id = self.begin(key, watch).await?;
        let sent = self.send_parts((key, &id), (&mut opened, size, file), watch).await;
        let Err(error) = sent else { return Ok(()) };
        // Also when the operator wants to end: it is the last thing that is done.
        match self.abort(key, &id, &Persistent(watch)).await {
            Ok(()) => Err(error),
            Err(why) => Err(S3Error::PartsStay { error: Box::new(error), key: self.shown(key), why: Box::new(why) }),
        }
    }

    /// Removes the parts of an upload that was not completed.
    ///
    /// # Errors
    /// The server refuses it, or does not answer.
    pub async fn abort(&self, key: &str, id: &str, watch: &dyn Watch) -> Result<(), S3Error> {
        let what = format!("remove the parts of {}", self.shown(key));
        let call = Call::new(Method::DELETE, Some(key), "s3:AbortMultipartUpload", what).with("uploadId", id);
        match self.call(&call, watch).await {
            Ok(_) | Err(S3Error::NoObject { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn begin(&self, key: &str, watch: &dyn Watch) -> Result<String, S3Error> {
        let what = format!("write {}", self.shown(key));
        let call = Call::new(Method::POST, Some(key), "s3:PutObject", what).with("uploads", "");
        let document = self.document(&call, ("InitiateMultipartUploadResult", ""), watch).await?;
        match document.fields.get("UploadId").filter(|id| !id.is_empty() && id.len() <= LONGEST) {
            Some(id) => Ok(id.clone()),
            None => Err(self.misfit(&call, "an upload began, and it does not say which")),
        }
    }

    async fn send_parts(
        &self,
        (key, id): (&str, &str),
        (file, size, path): (&mut File, u64, &Path),
        watch: &dyn Watch,
    ) -> Result<(), S3Error> {
        let (mut done, mut number) = (0, 0_u32);
        let mut parts = String::new();
        while done < size {
            if watch.is_stopped() {
                return Err(S3Error::Stopped);
            }
            let body = part(file, PART.min(size - done)).await.map_err(|source| S3Error::Disk {
                action: "read",
                path: path.display().to_string(),
                source,
            })?;
            (done, number) = (done + body.len() as u64, number + 1);
            let what = format!("write part {number} of {}", self.shown(key));
            let call = Call::new(Method::PUT, Some(key), "s3:PutObject", what)
                .with("partNumber", number.to_string())
                .with("uploadId", id)
                .header("content-md5", content_md5(&body))
                .body(body);
            let answer = self.call(&call, watch).await?;
            let tag = answer.headers.get("etag").and_then(|tag| tag.to_str().ok());
            let Some(tag) = tag.filter(|tag| !tag.is_empty() && tag.len() <= LONGEST) else {
                return Err(self.misfit(&call, "a part was written, and it does not say as what (ETag)"));
            };
            let tag = escaped(tag);
            parts.push_str(&format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>"));
            watch.moved(Moved::Up, done, size);
        }
        self.complete((key, id), size, &parts, watch).await
    }

    async fn complete(
        &self,
        (key, id): (&str, &str),
        size: u64,
        parts: &str,
        watch: &dyn Watch,
    ) -> Result<(), S3Error> {
        let what = format!("complete {}", self.shown(key));
        let body = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
        let call = Call::new(Method::POST, Some(key), "s3:PutObject", what)
            .with("uploadId", id)
            .header("content-type", "application/xml")
            .body(body.into());
        match self.document(&call, ("CompleteMultipartUploadResult", ""), watch).await {
            Ok(_) => Ok(()),
            // The answer to an earlier try was lost: then the object is there, and the upload is not any more.
            Err(S3Error::NoObject { what }) => {
                let listed = self.list(key, watch).await?;
                match listed.iter().any(|one| one.key == key && one.size == size) {
                    true => Ok(()),
                    false => Err(S3Error::NoObject { what }),
                }
            }
            Err(error) => Err(error),
        }
    }
}

/// The next bytes of a file.
async fn part(file: &mut File, size: u64) -> std::io::Result<Bytes> {
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
    file.read_exact(&mut bytes).await?;
    Ok(bytes.into())
}

/// Learns the same, and does not end.
struct Persistent<'a>(&'a dyn Watch);

impl Watch for Persistent<'_> {
    fn moved(&self, way: Moved, done: u64, total: u64) {
        self.0.moved(way, done, total);
    }

    fn waiting(&self, at: &str, reason: &str, tries: (u32, u32), pause: std::time::Duration) {
        self.0.waiting(at, reason, tries, pause);
    }

    fn is_stopped(&self) -> bool {
        false
    }
}
