//! Answers of a server: flat XML documents, which anybody may have written. They are read from memory, so their length is bounded before.

use std::collections::BTreeMap;

use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;

/// Deeper than any answer is.
const DEPTH: usize = 16;
/// More than a page has.
const RECORDS: usize = 10_000;

/// The texts of an element's children, by their names; of several with one name the first.
pub type Fields = BTreeMap<String, String>;

/// An answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// Name of its first element.
    pub root: String,
    /// Of the first element.
    pub fields: Fields,
    /// Of each child with the wanted name.
    pub records: Vec<Fields>,
}

/// Reads a document; `record` is the name of its children that are lists of fields.
///
/// # Errors
/// A sentence: it is no XML, or none of this form.
pub fn read(bytes: &[u8], record: &str) -> Result<Document, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    let mut reader = quick_xml::Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let mut document = Document::default();
    let mut path: Vec<String> = Vec::new();
    let mut value = String::new();
    loop {
        match reader.read_event().map_err(|error| error.to_string())? {
            Event::Start(start) => {
                path.push(start.local_name().into_inner().to_owned());
                value.clear();
                if path.len() > DEPTH {
                    return Err("its elements are nested too deeply".to_owned());
                }
                match path.as_slice() {
                    [root] if document.root.is_empty() => document.root.clone_from(root),
                    [_] => return Err("it has two documents".to_owned()),
                    [_, name] if name == record => {
                        if document.records.len() == RECORDS {
                            return Err(format!("it has more than {RECORDS} entries"));
                        }
                        document.records.push(Fields::new());
                    }
                    _ => {}
                }
            }
            Event::End(_) => {
                match path.as_slice() {
                    [_, name] if name != record => {
                        document.fields.entry(name.clone()).or_insert_with(|| value.clone());
                    }
                    [_, parent, name] if parent == record => {
                        if let Some(fields) = document.records.last_mut() {
                            fields.entry(name.clone()).or_insert_with(|| value.clone());
                        }
                    }
                    _ => {}
                }
                path.pop();
                value.clear();
            }
            Event::Text(text) => value.push_str(&text.into_inner()),
            Event::CData(text) => value.push_str(&text.into_inner()),
            Event::GeneralRef(reference) => match reference.resolve_char_ref().map_err(|error| error.to_string())? {
                Some(c) => value.push(c),
                None => match resolve_predefined_entity(&reference) {
                    Some(text) => value.push_str(text),
                    None => return Err("it uses an entity of its own".to_owned()),
                },
            },
            Event::DocType(_) => return Err("it has a document type".to_owned()),
            Event::Eof if !path.is_empty() => return Err("it ends in the middle".to_owned()),
            Event::Eof if document.root.is_empty() => return Err("it is no XML".to_owned()),
            Event::Eof => return Ok(document),
            _ => {}
        }
    }
}

/// As the text of an element.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_read() {
        let text = "<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name>\
                    <IsTruncated>true</IsTruncated><Contents><Key>a&amp;b</Key><Size>7</Size><Owner><ID>x</ID></Owner>\
                    <ETag>&quot;1&#x41;&quot;</ETag></Contents><Contents><Key>c</Key></Contents><Empty/></ListBucketResult>";
        let document = read(text.as_bytes(), "Contents").unwrap();
        assert_eq!(document.root, "ListBucketResult");
        assert_eq!(document.fields["IsTruncated"], "true");
        assert_eq!(document.fields["Empty"], "");
        assert_eq!((document.records.len(), document.records[0]["Key"].as_str()), (2, "a&b"));
        assert_eq!(document.records[0]["ETag"], "\"1A\"");
        assert!(!document.fields.contains_key("ID"));
    }

    #[test]
    fn what_is_no_answer_is_an_error_and_takes_no_time() {
        let deep = "<a>".repeat(100_000);
        let bomb = "<!DOCTYPE a [<!ENTITY b \"x\">]><a>&b;</a>";
        let many = format!("<a>{}</a>", "<r/>".repeat(RECORDS + 1));
        for wrong in ["", "hello", "<a><b>", "<a/><b/>", &deep, bomb, "<a>&b;</a>", "<a></b>", &many] {
            assert!(read(wrong.as_bytes(), "r").is_err(), "{}", &wrong[..wrong.len().min(40)]);
        }
        assert!(read(b"<a>\xff</a>", "r").is_err());
    }
}
