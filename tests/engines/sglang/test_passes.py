"""Rows of a pass, by request."""

from types import SimpleNamespace

from v14.engines.sglang.passes import passes


def test_shares_follow_each_other_in_the_batch():
    batch = SimpleNamespace(rids=["a", "b", "c"], extend_prefix_lens_cpu=[4, 0, 7], extend_seq_lens_cpu=[3, 1, 2])
    shares = list(passes(batch))
    assert [(part.rid, part.place, part.start, part.end) for part in shares] == [
        ("a", 0, 4, 7),
        ("b", 1, 0, 1),
        ("c", 2, 7, 9),
    ]
    rows = list(range(6))
    assert [rows[part.rows(part.start, part.end)] for part in shares] == [[0, 1, 2], [3], [4, 5]]
    assert rows[shares[0].rows(5, 7)] == [1, 2]
