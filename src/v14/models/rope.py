"""Inverse frequencies of the rotary embeddings that keep one angular step per pair whatever the position.

Sources: RoFormer (arXiv 2104.09864) eq. 15; position interpolation (arXiv 2306.15595); Llama 3.1's wavelength bands
(Meta's `apply_scaling`); YaRN (arXiv 2309.00071) sections 3.2 and 3.3. Computed in fp64, so they differ from an
engine's fp32 tables by rounding only.
"""

import math
from collections.abc import Mapping
from typing import Any

from v14.errors import UnsupportedModelError
from v14.geometry import Rotary

SUPPORTED = ("default", "linear", "llama3", "yarn")


def rope_parameters(config: Mapping[str, Any], *, default_theta: float) -> dict[str, Any]:
    """Rope parameters of a config with one kind of layer: `rope_parameters` (Transformers 5), or the older
    `rope_theta` and `rope_scaling`."""
    parameters = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    parameters.setdefault("rope_theta", config.get("rope_theta", default_theta))
    parameters.setdefault("max_position_embeddings", config.get("max_position_embeddings"))
    for key in ("original_max_position_embeddings", "partial_rotary_factor"):
        if key in config:
            parameters.setdefault(key, config[key])
    return parameters


def rotary(parameters: Mapping[str, Any], head_dim: int) -> Rotary:
    """The rotary embedding that `rope_parameters` describe. Raises `UnsupportedModelError` naming the rope type."""
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    if kind not in SUPPORTED:
        raise UnsupportedModelError(
            f"rope type {kind!r} is not supported: one fixed rotation cannot move its keys "
            f"(supported are {', '.join(SUPPORTED)}). SGLang serves the checkpoint itself, without memory."
        )
    theta = float(parameters["rope_theta"])
    dim = int(head_dim * float(parameters.get("partial_rotary_factor", 1.0)))
    plain = [theta ** (-2 * pair / dim) for pair in range(dim // 2)]
    if kind == "linear":
        steps = [step / float(_value(parameters, "factor", kind)) for step in plain]
    elif kind == "llama3":
        steps = [_llama3(step, parameters) for step in plain]
    elif kind == "yarn":
        steps = _yarn(plain, theta, dim, parameters)
    else:
        steps = plain
    return Rotary(inv_freq=tuple(steps))


def _llama3(step: float, parameters: Mapping[str, Any]) -> float:
    """Long wavelengths are stretched by `factor`, short ones kept, those between blended."""
    factor = float(_value(parameters, "factor", "llama3"))
    low = float(_value(parameters, "low_freq_factor", "llama3"))
    high = float(_value(parameters, "high_freq_factor", "llama3"))
    turns = float(_original_length(parameters, "llama3")) * step / (2 * math.pi)
    if turns > high:
        return step
    if turns < low:
        return step / factor
    blend = (turns - low) / (high - low)
    return (1 - blend) * step / factor + blend * step


def _yarn(plain: list[float], theta: float, dim: int, parameters: Mapping[str, Any]) -> list[float]:
    """Between the pairs that turn `beta_fast` and `beta_slow` times in the original context, a linear ramp from
    the plain step to the interpolated one."""
    original = float(_original_length(parameters, "yarn"))
    factor = parameters.get("factor")
    if factor is None:
        factor = float(_value(parameters, "max_position_embeddings", "yarn")) / original

    def pair_turning(times: float) -> float:
        return dim * math.log(original / (times * 2 * math.pi)) / (2 * math.log(theta))

    low = pair_turning(float(parameters.get("beta_fast") or 32))
    high = pair_turning(float(parameters.get("beta_slow") or 1))
    if parameters.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    width = (high - low) or 0.001
    steps = []
    for pair, step in enumerate(plain):
        interpolated = min(1.0, max(0.0, (pair - low) / width))
        steps.append(interpolated * step / float(factor) + (1 - interpolated) * step)
    return steps


def _original_length(parameters: Mapping[str, Any], kind: str) -> Any:
    if parameters.get("original_max_position_embeddings") is not None:
        return parameters["original_max_position_embeddings"]
    return _value(parameters, "max_position_embeddings", kind)


def _value(parameters: Mapping[str, Any], key: str, kind: str) -> Any:
    if parameters.get(key) is None:
        raise UnsupportedModelError(f"config.json: rope type {kind!r} needs {key!r}; download it again")
    return parameters[key]
