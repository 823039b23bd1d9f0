# SPDX-License-Identifier: Apache-2.0
"""Reads the event file of a folder, by hand or with TensorBoard, and prints {tag: [[step, value, wall time], ...]}."""
import glob
import json
import struct
import sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def unmasked(masked):
    rotated = (masked - 0xA282EAD8) & 0xFFFFFFFF
    return (rotated >> 17 | rotated << 15) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        assert unmasked(struct.unpack_from("<I", data, at + 8)[0]) == crc32c(data[at : at + 8]), "length's checksum"
        body = data[at + 12 : at + 12 + length]
        assert len(body) == length, "truncated"
        assert unmasked(struct.unpack_from("<I", data, at + 12 + length)[0]) == crc32c(body), "checksum"
        yield body
        at += 16 + length


def fields(message):
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
        elif kind == 1:
            (value,) = struct.unpack_from("<d", message, at)
            at += 8
        elif kind == 5:
            (value,) = struct.unpack_from("<f", message, at)
            at += 4
        else:
            assert kind == 2, kind
            length = varint()
            value = message[at : at + length]
            assert len(value) == length, "truncated"
            at += length
        yield key >> 3, value


def by_hand(file):
    scalars = {}
    with open(file, "rb") as opened:
        events = [list(fields(body)) for body in records(opened.read())]
    assert dict(events[0])[3] == b"brain.Event:2"
    for event in events[1:]:
        event = dict(event)
        for number, value in fields(event[5]):
            assert number == 1, number
            value = dict(fields(value))
            scalars.setdefault(value[1].decode(), []).append([event[2], value[2], event[1]])
    return scalars


def by_tensorboard(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(folder, size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [[e.step, e.value, e.wall_time] for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


way, folder = sys.argv[1:]
files = glob.glob(folder + "/events.out.tfevents.*")
assert len(files) == 1, files
print(json.dumps(by_hand(files[0]) if way == "struct" else by_tensorboard(folder)))
