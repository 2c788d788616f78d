"""Compiles the Triton kernels of events for a GPU that need not be there (compute capability 9.0), at small sizes.

The interpreter runs them as Python; what Triton's own front end refuses shows here only. Prints the names.
"""

from triton import compile as compile_kernel
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from v14.kernels.engram import triton as kernels

SIZES = {"N": 4, "GROUP": 2, "K": 20, "P": 24, "C": 16, "R": 16, "PADDED_K": 32}
POINTERS = {
    "k": "*bf16", "v": "*bf16", "x": "*bf16", "b": "*bf16", "g": "*fp32", "beta": "*bf16", "dt": "*fp32", "a": "*fp32",
    "bounds": "*i32", "decay": "*fp32", "out": "*fp32",
}  # fmt: skip


def compiled(kernel, **options) -> None:
    """Compile with arguments as the launchers in `v14.kernels.engram.triton` give them; what is left is a stride."""
    names = kernel.arg_names
    constants = {(names.index(name),): value for name, value in (SIZES | options).items()}
    signature = {name: "constexpr" if (i,) in constants else POINTERS.get(name, "i32") for i, name in enumerate(names)}
    source = ASTSource(kernel, signature, constants)
    program = compile_kernel(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "num_stages": 1})
    print(kernel.__name__, len(program.asm["ptx"]) > 0)


if __name__ == "__main__":
    for erase in (False, True):
        compiled(kernels._gated_delta, LEVELS=4, ERASE=erase, NORMALISE=erase, EPS=1e-6, PRECISION="tf32")
    compiled(kernels._mamba2, PRECISION="tf32x3")
