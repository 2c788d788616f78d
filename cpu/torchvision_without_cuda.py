"""Lets a CUDA build of torchvision be imported beside a CPU build of PyTorch.

torchvision registers shape functions for two operators whose library a CPU build of PyTorch cannot load; the
import then fails. Declaring their schemas first is enough: SGLang imports torchvision and calls neither.
Imported by a `.pth` file of the virtual environment that the Makefile makes.
"""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType


class _DeclareOperators(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname == "torchvision" and self in sys.meta_path:
            sys.meta_path.remove(self)
            import torch

            for operator in ("nms", "qnms"):
                if not hasattr(torch.ops.torchvision, operator):
                    torch.library.define(
                        f"torchvision::{operator}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
                    )
        return None


sys.meta_path.insert(0, _DeclareOperators())
