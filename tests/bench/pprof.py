# SPDX-License-Identifier: Apache-2.0
"""As much of a pprof profile (profile.proto of google/pprof) as the bench needs."""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data):
    """(number, value) of each field; bytes for what has a length."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == VARINT:
            value, at = varint(data, at)
        else:
            if kind == BYTES:
                size, at = varint(data, at)
            elif kind in (FIXED64, FIXED32):
                size = 8 if kind == FIXED64 else 4
            else:
                raise ValueError("not a pprof profile")
            value = data[at:at + size]
            at += size
        yield key >> 3, value


def numbers(value):
    """Of a repeated number: one, or packed."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = varint(value, at)
        found.append(number)
    return found


def by_number(data):
    found = {}
    for number, value in fields(data):
        found.setdefault(number, []).append(value)
    return found


def first(message, number, default=0):
    return message.get(number, [default])[0]


def read(data):
    """(names root first, {value type: value}, thread id) of each sample."""
    profile = by_number(data)
    texts = [text.decode(errors="replace") for text in profile.get(6, [])]
    types = [texts[first(by_number(one), 1)] for one in profile.get(1, [])]
    functions, locations = {}, {}
    for one in map(by_number, profile.get(5, [])):
        functions[first(one, 1)] = texts[first(one, 2)]
    for one in map(by_number, profile.get(4, [])):
        # Of inlined ones the last is the caller.
        lines = [first(by_number(line), 1) for line in one.get(4, [])]
        locations[first(one, 1)] = [functions[line] for line in reversed(lines)]
    for one in map(by_number, profile.get(2, [])):
        at = [n for value in one.get(1, []) for n in numbers(value)]
        values = [n for value in one.get(2, []) for n in numbers(value)]
        names = [name for n in reversed(at) for name in locations[n]]
        thread = None
        for label in map(by_number, one.get(3, [])):
            if texts[first(label, 1)] == "thread id":
                thread = first(label, 3)
        yield names, dict(zip(types, values)), thread
