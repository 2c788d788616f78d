"""Compiles the Triton kernel of votes for a GPU that need not be there (compute capability 9.0). Prints the kinds."""

from triton import compile as compile_kernel
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from v14.kernels.votes.triton import _event_shares

SIZES = {"V": 5, "D": 80, "PADDED_D": 128, "Q": 32, "T": 64, "EVENTS": 4, "LIMIT": 100.0, "PRECISION": "tf32"}
POINTERS = {"starts": "*i64", "lengths": "*i32", "rows": "*i32", "context": "*fp32", "out": "*fp32"}


def compiled(name: str, keys: str, scales: str, queries: str) -> None:
    """Compile with arguments as the launcher in `v14.kernels.votes.triton` gives them; what is left is a number."""
    names = _event_shares.arg_names
    constants = {(names.index(name),): value for name, value in (SIZES | {"SCALED": keys == "*i8"}).items()}
    pointers = POINTERS | {"keys": keys, "scales": scales, "queries": queries}
    signature = {name: "constexpr" if (i,) in constants else pointers.get(name, "i32") for i, name in enumerate(names)}
    source = ASTSource(_event_shares, signature, constants)
    program = compile_kernel(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "num_stages": 2})
    print(name, len(program.asm["ptx"]) > 0)


if __name__ == "__main__":
    compiled("int8", "*i8", "*fp16", "*fp16")
    compiled("bf16", "*bf16", "*bf16", "*bf16")
