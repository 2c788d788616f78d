"""A row's note: what the catalog says of an event, kept beside its trace, so that a lost catalog can be made again.

A note is JSON of the fields, a line feed, the fields of bytes as they are, one behind the other, and less than 8 zeros.
What is sealed in the row is sealed in the note. Times that were renewed later are not in it, nor are links; a chat that
is named after its first event has another name.
"""

import hashlib
import json
from dataclasses import asdict
from typing import get_type_hints

from v14.errors import TraceCorruptError
from v14.store.row import Row
from v14.types import ID_PREFIX

TYPES = get_type_hints(Row)
BYTES = ("token_ids", "digests")


def write_note(row: Row) -> bytes:
    """The note of a row."""
    said = asdict(row)
    parts = [said.pop(name) for name in BYTES]
    del said["segment"]
    if row.chat_id.startswith(ID_PREFIX):
        # A chat named after its first event: the note must not keep that id when the event is forgotten.
        said["chat_id"] = f"chat-{hashlib.sha256(row.chat_id.encode()).hexdigest()[:32]}"
    return json.dumps({**said, "sizes": [len(part) for part in parts]}).encode() + b"\n" + b"".join(parts)


def read_note(data: bytes, segment: str) -> Row:
    """The row of a note that lies in `segment`. Raises `TraceCorruptError` where it is none."""
    try:
        head, _, rest = data.partition(b"\n")
        said = json.loads(head)
        first, second = said.pop("sizes")
        end = first + second
        if not 0 <= first <= end <= len(rest) < end + 8:
            raise ValueError(f"{len(rest)} bytes instead of {first} and {second}")
        row = Row(**said, segment=segment, token_ids=rest[:first], digests=rest[first:end])
        wrong = [name for name, kind in TYPES.items() if not isinstance(getattr(row, name), (kind, int))]
        if wrong:
            raise ValueError(f"{', '.join(wrong)} of another type")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise TraceCorruptError(f"{segment} holds a note that does not read ({error})") from error
    return row
