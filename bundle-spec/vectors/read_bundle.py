#!/usr/bin/env python3
"""A second reader of bundles, written from ../SPEC.md alone: pure Python, with `zstandard` for the compressed frames.

    read_bundle.py BUNDLE [--base BUNDLE]...

BUNDLE is a file, or a volume of a split bundle (the others lie beside it). Every byte is held against the format.
What was read is printed as one JSON document; what is wrong ends with code 1 and one line. It reads whole files into memory.
"""
import argparse
import glob
import hashlib
import json
import re
import struct
import sys

import zstandard

PIECE = 8 << 20  # of a member's stream, in one frame
BLOCK = 128 << 10  # of a raw frame
GROUP = 256 << 20  # of the streams of all members of a group
WINDOW = 128 << 20  # that a frame of a group may need
ROOM = 16384  # of the signatures
FORMATS = (1, 2)
FRAME, VOLUME, TRAILER, TABLE = b"\x28\xb5\x2f\xfd", b"\x5c\x2a\x4d\x18", b"\x5d\x2a\x4d\x18", b"\x5e\x2a\x4d\x18"
FIXED = ["lock.yaml", "cluster.yaml", "catalogue.json", "oci-layout", "index.json"]


class Wrong(Exception):
    """A byte is not what the format says."""


def demand(holds, what):
    if not holds:
        raise Wrong(what)


def digest(data):
    return hashlib.sha256(data).hexdigest()


# -- the end of the file: seek table and trailer ---------------------------------------------------------------------


def seek_table(data):
    """The table at the very end, as (offset, stored size, content size) of every frame before it."""
    demand(len(data) > 17, "too short for a seek table")
    count, descriptor, magic = struct.unpack("<IBI", data[-9:])
    demand(magic == 0x8F92EAB1 and descriptor == 0 and 0 < count <= 1 << 20, "no seek table at the end")
    start = len(data) - 8 * count - 17
    demand(start > 0, "the seek table is longer than the file")
    demand(data[start : start + 4] == TABLE, "the seek table does not begin where it should")
    demand(struct.unpack("<I", data[start + 4 : start + 8])[0] == 8 * count + 9, "the seek table tells another length")
    frames, offset = [], 0
    for stored, content in struct.iter_unpack("<II", data[start + 8 : -9]):
        frames.append((offset, stored, content))
        offset += stored
    demand(offset == start, "the seek table does not cover the file")
    return frames


def trailer(data, frame):
    """Format, count of volumes, and the digests of the frames with content but the signature's."""
    offset, stored, content = frame
    whole = data[offset : offset + stored]
    demand(content == 0 and len(whole) >= 8 + 28 + 32 and whole[:4] == TRAILER, "no trailer before the seek table")
    payload = whole[8:]
    demand(struct.unpack("<I", whole[4:8])[0] == len(payload), "the trailer tells another length")
    demand(payload[:8] == b"KUBEXM\r\n", "the trailer is another program's")
    demand(hashlib.sha256(payload[:-32]).digest() == payload[-32:], "the trailer's own digest")
    version, volumes, length, count = struct.unpack("<IIQI", payload[8:28])
    demand(version in FORMATS, f"format {version} is newer than this reader")
    demand(length == len(data), "the trailer tells another length of the file")
    demand(len(payload) == 28 + 32 * count + 32, "the trailer has another number of digests than it says")
    return version, volumes, [payload[28 + 32 * n : 60 + 32 * n] for n in range(count)]


# -- volumes -----------------------------------------------------------------------------------------------------------


def volume_header(frame):
    """Format, number, bundle id and offset of a volume."""
    demand(len(frame) == 96 and frame[:8] == VOLUME + struct.pack("<I", 88), "no volume header")
    demand(frame[8:16] == b"KUBEXMV\n", "the volume header is another program's")
    demand(hashlib.sha256(frame[8:64]).digest() == frame[64:], "the volume header's own digest")
    version, number = struct.unpack("<II", frame[16:24])
    return version, number, frame[24:56].hex(), struct.unpack("<Q", frame[56:64])[0]


# -- frames ------------------------------------------------------------------------------------------------------------


def raw(frame):
    """Content of a raw frame; its form leaves no choice, so it is built again and compared."""
    demand(len(frame) >= 9 and frame[:5] == FRAME + b"\xa4", "no raw frame")
    size = struct.unpack("<I", frame[5:9])[0]
    blocks, at = [], 9
    while True:
        demand(at + 3 <= len(frame), "a raw frame ends too early")
        header = int.from_bytes(frame[at : at + 3], "little")
        last, kind, length = header & 1, header >> 1 & 3, header >> 3
        demand(kind == 0 and length <= BLOCK, "a block that is not raw")
        blocks.append(frame[at + 3 : at + 3 + length])
        demand(len(blocks[-1]) == length and (last or length == BLOCK), "a raw block of another length")
        at += 3 + length
        if last:
            break
    content = b"".join(blocks)
    demand(len(content) == size and len(frame) == at + 4, "a raw frame of another length")
    demand(length > 0 or size == 0, "an empty block at the end")
    check(frame, content)
    return content


def check(frame, content):
    """The four bytes at the end of a frame are of the xxh64 over its content: libzstd says whether they are."""
    try:
        told = zstandard.ZstdDecompressor().decompress(frame, max_output_size=len(content), read_across_frames=False)
    except zstandard.ZstdError as error:
        raise Wrong(f"a frame cannot be decompressed: {error}") from error
    demand(told == content, "a frame with another content")


def bound(size):
    """ZSTD_compressBound."""
    return size + (size >> 8) + (((128 << 10) - size) >> 11 if size < 128 << 10 else 0)


def zstd(frame, size):
    """Content of a compressed frame, which must be one whole frame with size and checksum."""
    demand(len(frame) <= bound(size), "a compressed frame that is too long")
    try:
        told = zstandard.get_frame_parameters(frame)
        demand(told.content_size == size and told.has_checksum and told.dict_id == 0, "a frame of another form")
        demand(told.window_size <= WINDOW, "a frame that needs a larger window")
        decompressor = zstandard.ZstdDecompressor(max_window_size=WINDOW).decompressobj()
        content = decompressor.decompress(frame)
    except zstandard.ZstdError as error:
        raise Wrong(f"a frame cannot be decompressed: {error}") from error
    demand(decompressor.eof and not decompressor.unused_data and len(content) == size, "a frame that is not one")
    return content


# -- tar ---------------------------------------------------------------------------------------------------------------


def tar_header(name, size):
    number = b"%011o\0" % size if size < 1 << 33 else b"\x80" + size.to_bytes(11, "big")
    fields = [name.encode().ljust(100, b"\0"), b"0000644\0", b"0000000\0", b"0000000\0", number, b"00000000000\0"]
    fields += [b" " * 8, b"0", bytes(100), b"ustar\0", b"00", bytes(32), bytes(32), b"0000000\0", b"0000000\0", bytes(167)]
    header = b"".join(fields)
    return header[:148] + b"%06o\0 " % sum(header) + header[156:]


class Stream:
    """Frames one after the other, as members of the tar archive."""

    def __init__(self, data, frames):
        self.data, self.frames, self.at = data, frames, 0

    def next_frame(self, encoding, size):
        demand(self.at < len(self.frames), "a frame is missing")
        offset, stored, content = self.frames[self.at]
        self.at += 1
        demand(size is None or content == size, "the seek table tells another size than the frame has")
        frame = self.data[offset : offset + stored]
        found = raw(frame) if encoding == "raw" else zstd(frame, content)
        demand(len(found) == content, "a frame has another size than the seek table tells")
        return found

    def member(self, name, size, encoding):
        """Content of a member. The first three have no size elsewhere: `size` is none, and their header tells it."""
        first = None
        if size is None:
            first = self.next_frame(encoding, None)
            field = first[124:136]
            demand(len(first) > 511 and re.fullmatch(rb"[0-7]{11}\0", field), f"no tar header of {name}")
            size = int(field[:11], 8)
        length = 512 + (size + 511) // 512 * 512
        stream = b""
        while len(stream) < length:
            piece = min(PIECE, length - len(stream))
            if first is not None:
                demand(len(first) == piece, f"the first frame of {name} has another size")
                stream, first = first, None
            else:
                stream += self.next_frame(encoding, piece)
        demand(stream[:512] == tar_header(name, size), f"the tar header of {name}")
        demand(not any(stream[512 + size :]), f"the padding of {name}")
        return stream[512 : 512 + size]


    def group(self, members):
        """Contents of members that share a frame."""
        lengths = [512 + (member["size"] + 511) // 512 * 512 for member in members]
        whole, contents, at = self.next_frame("zstd", sum(lengths)), {}, 0
        for member, length in zip(members, lengths):
            name, size, stream = member["name"], member["size"], whole[at : at + length]
            demand(stream[:512] == tar_header(name, size), f"the tar header of {name}")
            demand(not any(stream[512 + size :]), f"the padding of {name}")
            contents[name] = stream[512 : 512 + size]
            at += length
        return contents


# -- documents ---------------------------------------------------------------------------------------------------------


def canonical(name, text, version):
    try:
        value = json.loads(text, parse_float=lambda _: demand(False, f"a float in {name}"))
        again = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    except ValueError as error:
        raise Wrong(f"{name} is no JSON: {error}") from error
    demand(again == text, f"{name} is not canonical")
    demand(value["format"] == version, f"{name} is of another format than the trailer")
    return value


def signatures(room):
    demand(len(room) == ROOM, "the room of the signatures has another size")
    text = room.rstrip(b" ")
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Wrong(f"manifest.json.sig is no JSON: {error}") from error
    demand(isinstance(found, list) and all(set(one) - {"statement"} == {"keyId", "alg", "sig"} for one in found), "no list of signatures")
    return found


def statement(signature, manifest_digest, sources_digest):
    """What a signature says of the bundle; nothing where it is over manifest.json itself, as all of format 1 are."""
    if "statement" not in signature:
        return {}
    said = json.loads(signature["statement"])
    again = json.dumps(said, sort_keys=True, separators=(",", ":"))
    demand(again == signature["statement"], "a statement that is not canonical")
    demand(said.keys() <= {"schema", "manifest", "sources", "date", "sequence"} and isinstance(said["date"], int), "the fields of a statement")
    demand(said["schema"] == "kubexm.io/statement/v1", "a statement of another schema")
    demand(said["manifest"] == "sha256:" + manifest_digest, "a statement about another manifest.json")
    demand(sources_digest is None or said["sources"] == "sha256:" + sources_digest, "a statement about another sources.json")
    return said


def read_sources(content):
    """sources.json: one canonical document, then spaces."""
    text = content.rstrip(b" ")
    try:
        value = json.loads(text)
        again = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    except ValueError as error:
        raise Wrong(f"sources.json is no JSON: {error}") from error
    demand(again == text, "sources.json is not canonical")
    demand(value.keys() == {"schema", "zone", "artifacts"} and value["schema"] == "kubexm.io/sources/v1", "another sources.json")
    return value


def names(members):
    """Names from a closed set, in order, each once."""
    last, seen = 0, set()
    for member in members:
        name, sha256 = member["name"], member["sha256"]
        demand(re.fullmatch("sha256:[0-9a-f]{64}", sha256), f"the digest of {name}")
        rank = FIXED.index(name) if name in FIXED else len(FIXED)
        demand(rank < len(FIXED) or name == "blobs/sha256/" + sha256[7:], f"{name} is no name of a member")
        demand(rank >= last and name not in seen, f"{name} stands where it must not")
        last = rank
        seen.add(name)


def groups(layout, members, encodings):
    """The members of each group, those that are left out included, by the name of its first."""
    names, after, found = [member["name"] for member in members], 0, {}
    for group in layout.get("groups", []):
        demand(group.keys() == {"first", "level", "members"} and 1 <= group["level"] <= 19, "a group of another form")
        demand(group["first"] in names[after:] and group["members"] > 0, "a group from a member on that is not there")
        at = names.index(group["first"])
        after = at + group["members"]
        demand(after <= len(names), "a group with more members than there are")
        found[group["first"]] = members[at:after]
        demand(sum(512 + (member["size"] + 511) // 512 * 512 for member in members[at:after]) <= GROUP, "a group that is too large")
        demand(all(name.startswith("blobs/") and encodings[name] == "zstd" for name in names[at:after]), "a member of a group that must not be")
    return found


# -- the whole ---------------------------------------------------------------------------------------------------------


def read(data, volume_ends=None):
    """Reads a bundle of which all bytes (of all volumes, in order) are `data`, and checks every one of them."""
    table = seek_table(data)
    version, volumes, digests = trailer(data, table[-1])
    frames = [frame for frame in table[:-1] if data[frame[0] : frame[0] + 4] != VOLUME]
    headers = [frame for frame in table[:-1] if data[frame[0] : frame[0] + 4] == VOLUME]
    demand(all(content > 0 for _, _, content in frames), "a frame without content")
    demand(all(content == 0 for _, _, content in headers), "a volume header with content")

    stream = Stream(data, frames)
    manifest_json = stream.member("manifest.json", None, "raw")
    room_frame = stream.at
    room = stream.member("manifest.json.sig", None, "raw")
    demand(stream.at == room_frame + 1, "the signatures are not in one frame")
    layout_json = stream.member("layout.json", None, "raw")
    manifest, layout = canonical("manifest.json", manifest_json, version), canonical("layout.json", layout_json, version)
    bundle_id = hashlib.sha256(manifest_json + layout_json).hexdigest()

    demand(len(digests) == len(frames) - 1, "the trailer has another number of digests than the file has frames")
    told = iter(digests)
    for number, (offset, stored, _) in enumerate(frames):
        if number != room_frame:
            demand(hashlib.sha256(data[offset : offset + stored]).digest() == next(told), f"the digest of frame {number}")

    demand((volumes == 1 and not headers) or volumes == len(headers), "another number of volumes than the trailer says")
    for number, (offset, stored, _) in enumerate(headers, 1):
        demand(volume_header(data[offset : offset + stored]) == (version, number, bundle_id, offset), f"the header of volume {number}")
    if volume_ends and len(volume_ends) > 1:
        demand([0] + volume_ends[:-1] == [offset for offset, _, _ in headers], "volumes end elsewhere than frames")

    names(manifest["members"])
    stored = {member["name"]: member["encoding"] for member in layout["members"]}
    left_out = {member["name"]: member["encoding"] for member in layout.get("leftOut", [])}
    demand(not layout.get("recoded"), "recoded members are not read yet")
    demand(layout.keys() <= {"base", "encoder", "format", "groups", "leftOut", "level", "members", "recoded", "sources"}, "a newer layout.json")
    demand("sources" not in layout or version > 1, "sources.json came with format 2")
    demand("groups" not in layout or version > 1, "groups came with format 2")
    places = [one for one in [manifest, *manifest["artifacts"]] if ("zone" if one is manifest else "sources") in one]
    demand(len(places) == (len(manifest["artifacts"]) + 1 if version == 1 else 0), "places are in manifests of format 1 only")
    demand(all(encoding in ("raw", "zstd") for encoding in [*stored.values(), *left_out.values()]), "an unknown encoding")
    listed = [member["name"] for member in manifest["members"]]
    demand([name for name in listed if name in stored] == [member["name"] for member in layout["members"]], "order of layout.json")
    demand([name for name in listed if name in left_out] == list(left_out), "order of leftOut")
    demand(set(listed) == stored.keys() | left_out.keys() and not stored.keys() & left_out.keys(), "layout.json lists other members")
    demand(all(name.startswith("blobs/") for name in left_out), "a member is left out that every bundle must have")

    together = groups(layout, manifest["members"], stored | left_out)
    contents = {}
    for member in manifest["members"]:
        name = member["name"]
        here = [one for one in together.get(name, []) if one["name"] in stored]
        if here:
            contents |= stream.group(here)
        if name in stored:
            if name not in contents:
                contents[name] = stream.member(name, member["size"], stored[name])
            demand("sha256:" + digest(contents[name]) == member["sha256"], f"the digest of {name}")
    sources = stream.member("sources.json", layout["sources"], "raw") if "sources" in layout else None
    sources_digest = None if sources is None else digest(sources)
    demand(stream.next_frame("raw", 1024) == bytes(1024), "the end of the archive")
    demand(stream.at == len(frames), "frames behind the end of the archive")
    if "lock.yaml" in contents:
        demand("sha256:" + digest(contents["lock.yaml"]) == manifest["lock"], "lock.yaml is another than the manifest's")
    return {
        "manifest": manifest,
        "manifestDigest": digest(manifest_json),
        "bundleId": bundle_id,
        "layout": layout,
        "volumes": volumes,
        "signatures": [(one, statement(one, digest(manifest_json), sources_digest)) for one in signatures(room)],
        "sources": None if sources is None else read_sources(sources),
        "contents": contents,
        "leftOut": list(left_out),
    }


def on_bases(delta, bases):
    """The contents of a delta with those that its bases have: any bundle that has a member is one."""
    whole = {}
    for member in delta["manifest"]["members"]:
        name = member["name"]
        holders = [bundle["contents"][name] for bundle in [delta, *bases] if name in bundle["contents"]]
        right = [content for content in holders if "sha256:" + digest(content) == member["sha256"]]
        demand(right, f"no base has {name}")
        whole[name] = right[0]
    return whole


def load(path):
    """The bytes of a bundle, and where its volumes end."""
    split = re.fullmatch(r"(.*)\.[0-9]{3}", path)
    parts = []
    for name in glob.glob(glob.escape(split[1]) + ".[0-9][0-9][0-9]") if split else [path]:
        with open(name, "rb") as file:
            parts.append(file.read())
    # A volume says itself which it is, whatever its file is called.
    parts.sort(key=lambda part: part[20:24][::-1])
    ends = [sum(map(len, parts[: count + 1])) for count in range(len(parts))]
    return b"".join(parts), ends


def told(bundle, whole):
    return {
        "base": bundle["layout"].get("base"),
        "bundleId": "sha256:" + bundle["bundleId"],
        "encoder": bundle["layout"]["encoder"],
        "leftOut": bundle["leftOut"],
        "level": bundle["layout"]["level"],
        "manifest": "sha256:" + bundle["manifestDigest"],
        "members": [{"name": name, "sha256": digest(content), "size": len(content)} for name, content in whole.items()],
        "name": bundle["manifest"]["name"],
        "signatures": [
            {"alg": one["alg"], "date": said.get("date"), "keyId": one["keyId"]} for one, said in bundle["signatures"]
        ],
        "sources": bundle["sources"],
        "volumes": bundle["volumes"],
    }


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("bundle")
    arguments.add_argument("--base", action="append", default=[], help="of a delta: a bundle that has what it leaves out")
    chosen = arguments.parse_args()
    try:
        bundle = read(*load(chosen.bundle))
        bases = [read(*load(base)) for base in chosen.base]
        whole = on_bases(bundle, bases) if bases else bundle["contents"]
    except (Wrong, OSError) as error:
        sys.exit(f"{chosen.bundle}: {error}")
    json.dump(told(bundle, whole), sys.stdout, indent=1, sort_keys=True)
    print()


if __name__ == "__main__":
    main()
