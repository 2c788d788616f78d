"""Byte ranges as they are asked for: neighbours together, nothing twice, nothing beside them that is far away."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("obstore")

from v14.store.shared.objects import COALESCE_BYTES, _piece, merged

KIB = 1 << 10
ranges = st.lists(st.tuples(st.integers(0, 2000 * KIB), st.integers(0, 200 * KIB)).map(lambda r: (r[0], r[0] + r[1])))


@given(ranges, st.integers(0, 2500 * KIB))
def test_every_range_is_what_it_says_cut_where_the_object_ends(wanted: list[tuple[int, int]], length: int) -> None:
    content = bytes(range(251)) * (length // 251 + 1)
    content = content[:length]
    spans = merged(wanted)
    parts = [content[start:end] for start, end in spans]
    assert [bytes(_piece(*one, spans, parts)) for one in wanted] == [content[start:end] for start, end in wanted]


@given(ranges)
def test_spans_are_apart_and_hold_little_else(wanted: list[tuple[int, int]]) -> None:
    spans = merged(wanted)
    assert all(left[1] + COALESCE_BYTES < right[0] for left, right in itertools.pairwise(spans))
    num_wanted = sum(end - start for start, end in wanted)
    assert sum(end - start for start, end in spans) <= num_wanted + COALESCE_BYTES * max(0, len(wanted) - 1)
