"""The book of placements finds the longest known beginning of a transcript, in its own namespace only."""

from v14.reinstate.transcripts import Placement, Transcripts

FIRST = (Placement(index=2, event_ids=("a",)),)
BOTH = (*FIRST, Placement(index=7, event_ids=("b", "c")))


def test_finds_the_longest_prefix_that_was_read():
    book = Transcripts()
    book.record("n", [1, 2, 3, 4], FIRST)
    book.record("n", [1, 2, 3, 4, 5, 6, 7, 8], BOTH)
    assert book.find("n", [1, 2, 3, 4, 5, 6, 7, 8, 9], [4, 8]) == BOTH
    assert book.find("n", [1, 2, 3, 4, 5, 6, 7, 8, 9], [4, 6]) == FIRST
    assert book.find("n", [1, 2, 3, 4, 5], [2, 3]) == ()


def test_other_tokens_or_another_namespace_find_nothing():
    book = Transcripts()
    book.record("n", [1, 2, 3], FIRST)
    assert book.find("m", [1, 2, 3, 4], [3]) == ()
    assert book.find("n", [1, 2, 9, 4], [3]) == ()


def test_forgets_the_least_recently_used():
    book = Transcripts(max_transcripts=2)
    for token in (1, 2):
        book.record("n", [token], FIRST)
    assert book.find("n", [1, 5], [1]) == FIRST
    book.record("n", [3], FIRST)
    assert book.find("n", [2, 5], [1]) == ()
    assert book.find("n", [1, 5], [1]) == FIRST
