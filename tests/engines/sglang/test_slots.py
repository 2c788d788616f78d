"""Slots of pools in every dtype are read, written and copied alike."""

import pytest
import torch

from v14.engines.sglang.slots import copy, read, wide, write

WIDE = (torch.float32, torch.bfloat16, torch.float16)
NARROW = (torch.float8_e4m3fn, torch.float8_e5m2)
SHAPE = (17, 3, 5)


def filled(dtype):
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(1)).to(dtype)


@pytest.mark.parametrize("dtype", [*WIDE, *NARROW])
def test_what_is_written_is_read(dtype):
    buffer, slots = filled(dtype), torch.tensor([3, 16, 0])
    before = buffer.float()
    contents = torch.randn(3, *SHAPE[1:])
    write(buffer, slots, contents)
    found = read(buffer, slots)
    assert found.dtype == wide(dtype)
    assert torch.equal(found.float(), contents.to(dtype).float())
    others = torch.ones(SHAPE[0], dtype=torch.bool)
    others[slots] = False
    assert torch.equal(buffer.float()[others], before[others])


@pytest.mark.parametrize("dtype", [*WIDE, *NARROW])
def test_slots_are_copied_to_the_bit_and_cleared(dtype):
    buffer = filled(dtype)
    copy(buffer, torch.tensor([1, 2]), torch.tensor([9, 8]))
    assert torch.equal(buffer[1].float(), buffer[9].float())
    assert torch.equal(buffer[2].float(), buffer[8].float())
    write(buffer, torch.tensor([4, 5]), 0.0)
    assert not buffer[4].float().any()
    assert not buffer[5].float().any()
    assert buffer[6].float().any()


@pytest.mark.parametrize("dtype", NARROW)
def test_every_narrow_value_survives_reading_and_writing(dtype):
    values = torch.arange(256, dtype=torch.uint8).view(dtype).view(16, 4, 4)
    finite = values.float().isfinite()
    buffer, slots = values.clone(), torch.arange(16)
    write(buffer, slots, read(buffer, slots))
    assert torch.equal(buffer.float()[finite], values.float()[finite])


@pytest.mark.parametrize("dtype", NARROW)
def test_a_number_too_large_for_the_pool_becomes_its_largest(dtype):
    buffer = torch.zeros(2, 1, 1).to(dtype)
    write(buffer, torch.tensor([0, 1]), torch.tensor([1e6, -1e6]).view(2, 1, 1))
    limit = torch.finfo(dtype).max
    assert buffer.float().flatten().tolist() == [limit, -limit]
