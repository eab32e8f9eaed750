//! A second writer of the format, from its description alone (raw frames only), which writes whatever it is reported.

use std::hash::Hasher as _;

use kubexm_spec::Digest;

/// A bundle that may contradict itself.
pub struct Forged {
    pub manifest_json: Vec<u8>,
    pub room: Vec<u8>,
    pub layout_json: Vec<u8>,
    /// Name and size for the tar header, content.
    pub members: Vec<(String, u64, Vec<u8>)>,
    pub format: u32,
    pub volumes: u32,
    /// Members that share a frame, and that frame's window descriptor; none are in a group where it is empty.
    pub group: std::ops::Range<usize>,
    pub window: u8,
    /// What the frame of the group states as its size, where that is a lie.
    pub stated: Option<u32>,
}

/// 128 MiB, the largest window that is allowed.
pub const WINDOW: u8 = 17 << 3;

impl Forged {
    /// An honest one, every member raw.
    pub fn honest(contents: &[(String, Vec<u8>)]) -> Self {
        let manifest_json = super::manifest(contents).canonical_json().unwrap();
        let mut room = b"[]".to_vec();
        room.resize(16384, b' ');
        let names: Vec<String> =
            contents.iter().map(|(name, _)| format!(r#"{{"encoding":"raw","name":"{name}"}}"#)).collect();
        let encoder = zstd::zstd_safe::version_string();
        let layout_json =
            format!(r#"{{"encoder":"zstd {encoder}","format":2,"level":1,"members":[{}]}}"#, names.join(","));
        let members = contents.iter().map(|(n, c)| (n.clone(), c.len() as u64, c.clone())).collect();
        Self {
            manifest_json,
            room,
            layout_json: layout_json.into_bytes(),
            members,
            format: 2,
            volumes: 1,
            group: 0..0,
            window: WINDOW,
            stated: None,
        }
    }

    /// The same with a group of some members, whose frame is made of raw blocks too.
    pub fn grouped(contents: &[(String, Vec<u8>)], group: std::ops::Range<usize>) -> Self {
        let entry = |name: &str, encoding: &str| format!(r#"{{"encoding":"{encoding}","name":"{name}"}}"#);
        let listed =
            format!(r#""groups":[{{"first":"{}","level":3,"members":{}}}],"#, contents[group.start].0, group.len());
        let mut forged = Self::honest(contents).edit_layout("\"level\":1", &format!("{listed}\"level\":1"));
        for (name, _) in &contents[group.clone()] {
            forged = forged.edit_layout(&entry(name, "raw"), &entry(name, "zstd"));
        }
        Self { group, ..forged }
    }

    /// The file.
    pub fn bytes(&self) -> Vec<u8> {
        let head = [
            ("manifest.json".to_owned(), self.manifest_json.len() as u64, self.manifest_json.clone()),
            ("manifest.json.sig".to_owned(), self.room.len() as u64, self.room.clone()),
            ("layout.json".to_owned(), self.layout_json.len() as u64, self.layout_json.clone()),
        ];
        let mut frames: Vec<Vec<u8>> = Vec::new();
        let mut sizes: Vec<usize> = Vec::new();
        let mut signature = 0;
        let mut together: Vec<u8> = Vec::new();
        for (number, (name, size, content)) in head.iter().chain(&self.members).enumerate() {
            if number == 1 {
                signature = frames.len();
            }
            let mut stream = tar_header(name, *size);
            stream.extend_from_slice(content);
            stream.resize(stream.len().next_multiple_of(512), 0);
            if number >= 3 && self.group.contains(&(number - 3)) {
                together.extend(stream);
                if number - 3 + 1 == self.group.end {
                    frames.push(group_frame(&together, self.window, self.stated));
                    sizes.push(together.len());
                }
                continue;
            }
            for input in stream.chunks(8 << 20) {
                frames.push(raw_frame(input));
                sizes.push(input.len());
            }
        }
        frames.push(raw_frame(&[0; 1024]));
        sizes.push(1024);

        let stored: usize = frames.iter().map(Vec::len).sum();
        let trailer_len = 8 + 8 + 4 + 4 + 8 + 4 + 32 * (frames.len() - 1) + 32;
        let total = stored + trailer_len + 8 + 8 * (frames.len() + 1) + 9;
        let mut payload = b"KUBEXM\r\n".to_vec();
        payload.extend(self.format.to_le_bytes());
        payload.extend(self.volumes.to_le_bytes());
        payload.extend((total as u64).to_le_bytes());
        payload.extend((frames.len() as u32 - 1).to_le_bytes());
        for (_, frame) in frames.iter().enumerate().filter(|(number, _)| *number != signature) {
            payload.extend(Digest::of(frame).as_bytes());
        }
        let own = Digest::of(&payload);
        payload.extend(own.as_bytes());
        let mut trailer = 0x184D_2A5D_u32.to_le_bytes().to_vec();
        trailer.extend((payload.len() as u32).to_le_bytes());
        trailer.extend(payload);
        assert_eq!(trailer.len(), trailer_len);

        let mut table = 0x184D_2A5E_u32.to_le_bytes().to_vec();
        table.extend((8 * (frames.len() as u32 + 1) + 9).to_le_bytes());
        for (frame, size) in frames.iter().zip(&sizes) {
            table.extend((frame.len() as u32).to_le_bytes());
            table.extend((*size as u32).to_le_bytes());
        }
        table.extend((trailer_len as u32).to_le_bytes());
        table.extend(0_u32.to_le_bytes());
        table.extend((frames.len() as u32 + 1).to_le_bytes());
        table.push(0);
        table.extend(0x8F92_EAB1_u32.to_le_bytes());
        let mut file = frames.concat();
        file.extend(trailer);
        file.extend(table);
        file
    }

    /// The manifest with a part of its text replaced.
    pub fn edit_manifest(mut self, from: &str, to: &str) -> Self {
        self.manifest_json = edit(&self.manifest_json, from, to);
        self
    }

    /// The layout with a part of its text replaced.
    pub fn edit_layout(mut self, from: &str, to: &str) -> Self {
        self.layout_json = edit(&self.layout_json, from, to);
        self
    }
}

fn edit(json: &[u8], from: &str, to: &str) -> Vec<u8> {
    let text = String::from_utf8(json.to_vec()).unwrap();
    assert!(text.contains(from), "{text}");
    text.replacen(from, to, 1).into_bytes()
}

fn tar_header(name: &str, size: u64) -> Vec<u8> {
    let mut header = tar::Header::new_ustar();
    header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
    header.set_size(size);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_device_major(0).unwrap();
    header.set_device_minor(0).unwrap();
    header.set_entry_type(tar::EntryType::Regular);
    header.set_cksum();
    // POSIX has the checksum as six digits, NUL, space; the crate writes seven digits and NUL.
    let sum = header.cksum().unwrap();
    let mut bytes = header.as_bytes().to_vec();
    bytes[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    bytes
}

fn raw_frame(input: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa4];
    frame.extend((input.len() as u32).to_le_bytes());
    blocks(frame, input)
}

/// With a window descriptor, and not in one segment.
fn group_frame(input: &[u8], window: u8, stated: Option<u32>) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x84, window];
    frame.extend(stated.unwrap_or(input.len() as u32).to_le_bytes());
    blocks(frame, input)
}

fn blocks(mut frame: Vec<u8>, input: &[u8]) -> Vec<u8> {
    let count = input.chunks(131_072).count();
    for (number, block) in input.chunks(131_072).enumerate() {
        let header = (block.len() as u32) << 3 | u32::from(number + 1 == count);
        frame.extend(&header.to_le_bytes()[..3]);
        frame.extend(block);
    }
    let mut hasher = twox_hash::XxHash64::with_seed(0);
    hasher.write(input);
    frame.extend((hasher.finish() as u32).to_le_bytes());
    frame
}
