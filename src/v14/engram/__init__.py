"""The algebra of recurrent events: what an event does to a state, S ↦ S·A + B, composed, compressed and applied.

factors.py       one layer's factors of one event, and stacking the layers to an engram
gated_delta.py   the factors from the inputs of a gated delta rule (WY form)
mamba2.py        the same for Mamba2's state-space update
algebra.py       applying an engram to states and convolution inputs, composing two
compress.py      cutting factors to a rank
naive.py         all of it token by token or as whole matrices, in plain fp32: what the rest is checked against
"""

from v14.engram.algebra import advance, compose
from v14.engram.compress import compress, compression_error
from v14.engram.factors import Factors, conv_tail, stack

__all__ = ["Factors", "advance", "compose", "compress", "compression_error", "conv_tail", "stack"]
