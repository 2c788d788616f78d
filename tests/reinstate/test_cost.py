from v14.reinstate.cost import RETRY_EVERY, CostBook


def test_each_way_is_tried_once_then_the_cheaper_one_is_taken():
    book = CostBook()
    assert book.choose(100) == "kv"
    book.note("kv", 100, 0.2)
    assert book.choose(100) == "reread"
    book.note("reread", 100, 0.1)
    assert [book.choose(100) for _ in range(5)] == ["reread"] * 5
    book.note("reread", 100, 30.0)
    assert book.choose(100) == "kv"


def test_spans_of_another_size_are_measured_on_their_own():
    book = CostBook()
    for way, seconds in (("kv", 0.2), ("reread", 0.1)):
        book.note(way, 100, seconds)
    assert book.choose(64) == book.choose(127) == "reread"
    assert book.choose(128) == "kv"


def test_one_slow_measurement_fades():
    book = CostBook()
    book.note("kv", 64, 1.0)
    book.note("reread", 64, 0.5)
    chosen = []
    for _ in range(20 * RETRY_EVERY):
        chosen.append(book.choose(64))
        book.note(chosen[-1], 64, 0.1 if chosen[-1] == "kv" else 0.5)
    assert chosen[:3] == ["reread"] * 3
    assert chosen[-4:-1] == ["kv"] * 3
