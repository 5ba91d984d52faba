"""Kept inputs of a fuzzer in one file, so that the tree has one file for each target and not thousands.

    corpus.py pack FOLDER FILE [BYTES]   the smallest inputs of the folder, at most BYTES in all
    corpus.py unpack FILE FOLDER         named as libFuzzer names them, by their SHA-1

Each input follows its length in four bytes, the high one first. The same inputs give the same file.
"""

import hashlib
import pathlib
import struct
import sys


def packed(inputs, bytes_max):
    file = b""
    for one in sorted(set(inputs), key=lambda one: (len(one), one)):
        record = struct.pack(">I", len(one)) + one
        if len(file) + len(record) > bytes_max:
            break
        file += record
    return file


def unpacked(file):
    inputs = []
    while file:
        (size,) = struct.unpack_from(">I", file)
        if 4 + size > len(file):
            raise ValueError("an input is cut off")
        inputs.append(file[4:4 + size])
        file = file[4 + size:]
    return inputs


def main(action, source, target, bytes_max=1 << 30):
    source, target = pathlib.Path(source), pathlib.Path(target)
    if action == "pack":
        inputs = [path.read_bytes() for path in source.iterdir()]
        target.write_bytes(packed(inputs, int(bytes_max)))
    elif action == "unpack":
        target.mkdir(parents=True, exist_ok=True)
        for one in unpacked(source.read_bytes()):
            (target / hashlib.sha1(one).hexdigest()).write_bytes(one)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])
