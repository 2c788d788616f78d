"""Row `picture`: a picture shown in one chat and asked about in a later one, where the model takes pictures."""

import base64
import random
import struct
import zlib

from v14.check.client import Message
from v14.check.scoring import contains
from v14.check.suite import Suite, user

COLOURS = {
    "red": (220, 20, 20), "green": (20, 160, 40), "blue": (30, 60, 220), "yellow": (245, 225, 30),
}  # fmt: skip
SIDE = 224
ROWS = ("picture", "picture_same_chat")


def picture(suite: Suite) -> None:
    """Rows `picture`, `picture_same_chat`; skipped, with the reason, where pictures are not taken or not remembered."""
    if not suite.served.get("has_image_understanding"):
        suite.report.skip("not served: the model takes no pictures", *ROWS)
        return
    if not suite.questions.pictures:
        suite.report.skip("the question about it is English; not asked with --questions", *ROWS)
        return
    step = suite.phase("a picture", 3)
    colour = random.Random(f"picture {suite.seed}").choice(sorted(COLOURS))
    shown: list[Message] = [
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png(COLOURS[colour])}"}},
                {"type": "text", "text": "This is the sign above my shop."},
            ],
        }
    ]
    question = user("Which colour does the sign above my shop have?")
    told = suite.say(shown)
    step()
    asked = suite.say(question)
    step()
    same = suite.say([*shown, {"role": "assistant", "content": "Okay."}, *question], memory="off")
    step()
    suite.report.count("picture_same_chat", contains(same.text, [colour]), 1)
    if told.account is not None and told.account.memory == "off":
        suite.report.skip("not served: a prompt with pictures is served without memory", "picture")
    else:
        suite.report.count("picture", contains(asked.text, [colour]), 1)


def png(colour: tuple[int, int, int], side: int = SIDE) -> str:
    """A square of one colour as a PNG file in base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    row = b"\0" + bytes(colour) * side
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(row * side)), chunk(b"IEND", b""))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(parts)).decode()
