"""Compiles the Triton kernel of votes for a GPU that need not be there (compute capability 9.0). Prints the kinds."""

import triton.language as tl
from triton import compile as compile_kernel
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from v14.kernels.votes.triton import _event_shares, _tally

SIZES = {
    "D": 80, "PADDED_D": 128, "Q": 32, "T": 32, "LIMIT": 100.0, "PRECISION": "tf32",
    "SATURATES": True,
    "FLOOR": 0.01, "RATIO": True, "PICKED": False, "N": 256,
}  # fmt: skip
POINTERS = {
    "starts": "*i64", "lengths": "*i32", "rows": "*i32", "voters": "*i32",
    **dict.fromkeys(("queries", "context", "inverse", "shares", "null_shares", "weights", "out"), "*fp32"),
}  # fmt: skip


def compiled(kernel, name: str, keys: str, scales: str, kind: tl.dtype, planes: int = 0) -> None:
    """Compile with arguments as the launchers in `v14.kernels.votes.triton` give them; what is left is a number."""
    names = kernel.arg_names
    sizes = SIZES | {"PLANES": planes, "KIND": kind}
    constants = {(names.index(name),): value for name, value in sizes.items() if name in names}
    pointers = POINTERS | {"keys": keys, "scales": scales}
    signature = {name: "constexpr" if (i,) in constants else pointers.get(name, "i32") for i, name in enumerate(names)}
    source = ASTSource(kernel, signature, constants)
    program = compile_kernel(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 1, "num_stages": 3})
    print(kernel.__name__, name, len(program.asm["ptx"]) > 0)


if __name__ == "__main__":
    compiled(_event_shares, "int8", "*i8", "*fp16", tl.int8, planes=2)
    compiled(_event_shares, "sketch", "*i8", "*i8", tl.int8, planes=1)
    compiled(_event_shares, "bf16", "*bf16", "*bf16", tl.bfloat16)
    compiled(_tally, "fp32", "", "", tl.float32)
