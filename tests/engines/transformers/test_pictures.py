"""Classes that take pictures too: prompts of text alone have memory, others run without."""

import pytest
import torch

from tests.hf import greedy, native, remembering
from tests.tiny import chat_ids, tiny_v14
from v14.types import MAX_EVENT_TOKENS

SYSTEM = ("system", "Remember the morning train.")
FACT = ("user", "My cat is blue and the letter is in the garden.")
QUESTION = ("user", "Where is the paper story of summer?")
PICTURE_TOKEN = 999


@pytest.fixture(scope="module", params=["qwen3_5_vl", "qwen3_5_moe_vl"])
def directory(request, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param) / "model"
    return tiny_v14(request.param, path, write_generated=False, engram_rank=MAX_EVENT_TOKENS)


@pytest.fixture
def models(directory, tmp_path, monkeypatch):
    """The model with memory and the library's own."""
    with remembering(directory, tmp_path / "memory") as model:
        plain = native(directory)
        for each in (model, plain):
            monkeypatch.setattr(each.config, "image_token_id", PICTURE_TOKEN)
        yield model, plain


def with_picture(model, generator):
    """Arguments of `generate` for a prompt with a picture of 8 by 12 patches, which become 4 by 6 tokens."""
    vision = model.config.vision_config
    merged = vision.spatial_merge_size
    numbers = 3 * vision.temporal_patch_size * vision.patch_size**2
    ids = torch.tensor([[*range(300, 310), *[PICTURE_TOKEN] * (8 * 12 // merged**2), *range(310, 320)]])
    return {
        "input_ids": ids,
        "pixel_values": torch.randn(8 * 12, numbers, generator=generator),
        "image_grid_thw": torch.tensor([[1, 8, 12]]),
        "mm_token_type_ids": (ids == PICTURE_TOKEN).int(),
    }


def test_a_picture_runs_without_memory_and_leaves_none_of_its_positions(models, directory):
    model, plain = models
    head = chat_ids(directory, [SYSTEM], reply=False)
    told, question = (chat_ids(directory, [SYSTEM, turn]) for turn in (FACT, QUESTION))
    greedy(model, told)
    given = with_picture(model, torch.Generator().manual_seed(0))
    seen = model.generate(**given, max_new_tokens=6, do_sample=False)
    assert torch.equal(seen, plain.generate(**given, max_new_tokens=6, do_sample=False))
    assert model.v14.counters["without_memory"] == 1
    assert model.v14_last is None
    assert model.model.rope_deltas.item() < 0

    fact = list(model.v14.store.events("default")[0].token_ids)
    # A processor gives token types with every prompt.
    written = greedy(model, question, mm_token_type_ids=torch.zeros(1, len(question), dtype=torch.int))
    assert model.v14_last.plan.events
    assert written == greedy(native(directory), head + fact + question[len(head) :])


def test_the_class_is_one_of_pictures(models):
    model, plain = models
    assert type(model).__name__ == type(plain).__name__.replace("For", "V14For")
    assert isinstance(model, type(plain))
