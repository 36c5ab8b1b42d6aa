#!/usr/bin/env python3
"""Makes austen.txt from the Debian package r-cran-janeaustenr.

    apt-get download r-cran-janeaustenr && dpkg-deb -x r-cran-janeaustenr_*.deb unpacked
    examples/data/austen.py unpacked/usr/lib/R/site-library/janeaustenr/data/Rdata.rdb > examples/data/austen.txt

An .rdb file is a row of records: uncompressed length (4 bytes, big endian), then a zlib stream; each holds one novel as
an R character vector, one element a line.
"""

import struct
import sys
import zlib

BOOKS = ("PRIDE AND PREJUDICE", "EMMA")
SEPARATOR = "<|endoftext|>"
CHARACTER_VECTOR = 16


def records(data):
    while data:
        (length,) = struct.unpack_from(">I", data)
        stream = zlib.decompressobj()
        record = stream.decompress(data[4:])
        if len(record) != length:
            raise ValueError(f"a record has {len(record)} bytes where its head says {length}")
        yield record
        data = stream.unused_data


def lines(record):
    """The strings of a serialized R character vector (format version 3, XDR)."""
    (encoding_length,) = struct.unpack_from(">I", record, 14)
    at = 18 + encoding_length
    kind, count = struct.unpack_from(">II", record, at)
    if kind & 0xFF != CHARACTER_VECTOR:
        raise ValueError(f"expected a character vector, found R type {kind & 0xFF}")
    at += 8
    for _ in range(count):
        _, size = struct.unpack_from(">Ii", record, at)
        yield record[at + 8 : at + 8 + size].decode("utf-8")
        at += 8 + size


def main():
    with open(sys.argv[1], "rb") as file:
        novels = [list(lines(record)) for record in records(file.read())]
    by_title = {novel[0].strip(): novel for novel in novels}
    texts = ["\n".join(line.rstrip() for line in by_title[title]).strip() + "\n" for title in BOOKS]
    sys.stdout.write(f"{SEPARATOR}\n".join(texts))


if __name__ == "__main__":
    main()
