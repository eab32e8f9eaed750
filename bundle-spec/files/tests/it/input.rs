//! What is read of a file that an operator names, and why some are refused.

use std::fs;
use std::path::Path;

use kubexm_files::{InputError, read, read_text};
use kubexm_spec::ExitCode;

#[test]
fn a_file_of_more_than_the_limit_is_refused_and_one_without_an_end_is_not_read_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("text");
    fs::write(&path, "12345").unwrap();
    assert_eq!(read(&path, 5).unwrap(), b"12345");
    assert!(matches!(read(&path, 4), Err(InputError::TooLarge { limit: 4, .. })));
    let error = read(Path::new("/dev/zero"), 1 << 20).unwrap_err();
    assert!(error.to_string().starts_with("/dev/zero has more than 1048576 bytes"), "{error}");
    assert_eq!(error.exit_code(), ExitCode::Config);
}

#[test]
fn a_text_in_another_encoding_says_which_and_how_to_mend_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cluster.yaml");
    let gbk = b"name: a\nowner: \xb9\xdc\xc0\xed\xd4\xb1\n";
    let utf16: Vec<u8> = [0xff, 0xfe].into_iter().chain("name: a".encode_utf16().flat_map(u16::to_le_bytes)).collect();
    for (content, says) in [(&gbk[..], "is not UTF-8 in line 2, perhaps GBK"), (&utf16[..], "is not UTF-8 but UTF-16")]
    {
        fs::write(&path, content).unwrap();
        let error = read_text(&path, 1 << 20).unwrap_err().to_string();
        assert!(error.contains(says) && error.ends_with("save it as UTF-8"), "{error}");
    }
    fs::write(&path, "名: 管理员").unwrap();
    assert_eq!(read_text(&path, 1 << 20).unwrap(), "名: 管理员");
}
