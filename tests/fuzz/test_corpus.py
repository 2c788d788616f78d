"""Every target answers its seeds, the kept corpus, and arbitrary bytes with nothing but the errors that it may."""

import logging
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS, expected

CORPUS = Path(__file__).parent / "corpus"


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL)


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_read(name):
    """A seed that is refused would fuzz nothing but the first check."""
    target = TARGETS[name]
    seeds = target.seeds()
    assert seeds
    accepted = 0
    for seed in seeds:
        try:
            target.run(seed)
        except target.allows:
            continue
        accepted += 1
    assert accepted


@pytest.mark.parametrize("name", TARGETS)
def test_corpus(name):
    for path in sorted((CORPUS / name).glob("*")):
        with expected(TARGETS[name]):
            TARGETS[name].run(path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_changed_seeds(name):
    target = TARGETS[name]
    seeds = target.seeds()

    @settings(max_examples=12, database=None, derandomize=True)
    @given(st.sampled_from(seeds), st.lists(st.tuples(st.integers(0, 4000), st.binary(max_size=4)), max_size=4))
    def run(seed, changes):
        data = bytearray(seed)
        for place, new in changes:
            data[place % (len(data) + 1) : place % (len(data) + 1) + len(new)] = new
        with expected(target):
            target.run(bytes(data))

    run()


def test_the_corpus_belongs_to_targets():
    assert {path.name for path in CORPUS.glob("*")} <= set(TARGETS)
