"""The form of a trace on disk, and its one line of text in the catalog (column `codec`).

""                      as it was computed
"int8"                  keys and values in 8 bits
"int4;fine=1,4"         in 4 bits, but the keys of slots 1 and 4 in 8: votes read those
"int8;only=1,4"         of the keys those of slots 1 and 4, no values, no engram: it can only be read again
"int8+aesgcm"           any of these, sealed with the data key of its segment
"""

import re
from dataclasses import dataclass, replace
from typing import cast

from v14.config import Codec
from v14.errors import TraceCorruptError

SEALED = "+aesgcm"
_TEXT = re.compile(r"(int8|int4|)(?:;fine=([0-9,]{1,4096}))?(?:;only=([0-9,]{1,4096}))?(\+aesgcm)?")
_MAX_SLOT = 9999


@dataclass(frozen=True, kw_only=True)
class Form:
    """Slots count the layers that hold KV. `fine` keys are never in less than 8 bits; `only` None keeps everything."""

    codec: Codec = "native"
    fine: tuple[int, ...] = ()
    only: tuple[int, ...] | None = None
    sealed: bool = False

    def __post_init__(self) -> None:
        """Finer keys are said of four bits alone, so that forms that store alike are equal, as `parse` makes them."""
        if self.codec != "int4":
            object.__setattr__(self, "fine", ())

    @property
    def text(self) -> str:
        """As the catalog says it."""
        parts: list[str] = ["" if self.codec == "native" else self.codec]
        if self.fine and self.codec == "int4":
            parts.append(f"fine={_numbers(self.fine)}")
        if self.only is not None:
            parts.append(f"only={_numbers(self.only)}")
        return ";".join(parts) + (SEALED if self.sealed else "")

    @classmethod
    def parse(cls, text: str) -> "Form":
        """The inverse of `text`. Raises `TraceCorruptError` for what no package writes."""
        try:
            found = _TEXT.fullmatch(text)
            if found is None:
                raise ValueError("it has another shape")
            codec, fine, only, sealed = found.groups()
            return cls(
                codec=cast(Codec, codec or "native"),
                fine=() if fine is None else _slots(fine),
                only=None if only is None else _slots(only),
                sealed=sealed is not None,
            )
        except (ValueError, TypeError) as error:
            raise TraceCorruptError(f"the catalog gives a trace the form {str(text)[:80]!r}: {error}") from error

    def key_codec(self, slot: int) -> Codec:
        """The codec of one layer's keys."""
        return "int8" if self.codec == "int4" and slot in self.fine else self.codec

    def key_slots(self, num_layers: int) -> tuple[int, ...]:
        """Slots whose keys are kept. Raises `TraceCorruptError` for a form of a model with more layers."""
        slots = tuple(range(num_layers)) if self.only is None else self.only
        if any(slot >= num_layers for slot in (*slots, *self.fine)):
            raise TraceCorruptError(f"the form {self.text!r} does not fit a trace of {num_layers} layers")
        return slots

    def native(self) -> "Form":
        """The same, as computed: for a trace that cannot be quantised, or would not get smaller."""
        return replace(self, codec="native", fine=())


def _numbers(slots: tuple[int, ...]) -> str:
    return ",".join(map(str, slots))


def _slots(text: str) -> tuple[int, ...]:
    slots = tuple(map(int, text.split(",")))
    if list(slots) != sorted(set(slots)) or slots[-1] > _MAX_SLOT:
        raise ValueError("its slots are not ascending")
    return slots


NATIVE = Form()
"""As computed, readable, everything kept."""
