"""What votes take on a GPU is compiled before the first request."""

import time

import pytest
import torch

from tests.recall.test_index import World
from v14.recall.warming import warm


@pytest.mark.gpu
def test_after_warming_the_first_vote_compiles_nothing():
    world = World([3, 40, 17, 128])
    warm(world.geometry, world.voters, torch.device("cuda", 0))
    index = world.index(form="int8", device=torch.device("cuda", 0))
    begun = time.perf_counter()
    index.votes(world.cue).best(3)
    assert time.perf_counter() - begun < 0.2
