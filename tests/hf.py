"""Opening tiny V14 directories in Transformers, with and without the memory."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest import mock

import torch

from tests.tiny import turns_of
from v14.models.registry import base_architecture


@contextmanager
def remembering(directory: Path, home: Path, **kwargs) -> Iterator:
    """The model of a V14 directory with its store in `home`; closed at the end."""
    from transformers import AutoModelForCausalLM

    with mock.patch.dict(os.environ, SGLANG_V14_MEMORY_HOME=str(home)):
        model = AutoModelForCausalLM.from_pretrained(directory, trust_remote_code=True, **kwargs).eval()
    try:
        yield model
    finally:
        if model.v14 is not None:
            model.v14.close()


def native(directory: Path):
    """The same weights in the library's own class, without memory."""
    import transformers

    [architecture] = json.loads((directory / "config.json").read_text())["architectures"]
    return getattr(transformers, base_architecture(architecture)).from_pretrained(directory).eval()


@contextmanager
def options(model, **changed) -> Iterator[None]:
    """An opened model with other options for a while."""
    before = model.v14.profile
    model.v14.profile = replace(before, options=before.options.model_copy(update=changed))
    try:
        yield
    finally:
        model.v14.profile = before


@torch.no_grad()
def logits_of(model, ids: list[int]) -> torch.Tensor:
    """Logits `[T, vocabulary]` of a sequence read in one pass."""
    return model(torch.tensor([ids])).logits[0]


def greedy(model, ids: list[int], num_tokens: int = 12, **kwargs) -> list[int]:
    """What the model writes, greedily, never stopping early."""
    output = model.generate(
        torch.tensor([ids]), max_new_tokens=num_tokens, min_new_tokens=num_tokens, do_sample=False, **kwargs
    )
    assert output[0, : len(ids)].tolist() == ids
    return output[0, len(ids) :].tolist()


def asking(directory: Path) -> list[int]:
    """The tokens that open a reply."""
    return list(turns_of(directory).openings["assistant"])
