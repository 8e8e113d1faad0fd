"""Python interface of the Llama decoder in decoder.c, which is compiled when it is first used.

The C code reads the weights and the KV cache directly from numpy arrays.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from tests.benchmarks.numpy_decoder import F32
from wse.models.spec import ModelSpec
from wse.models.tensors.checkpoint import Checkpoint

SOURCE: Final = Path(__file__).with_name("decoder.c")
COMPILERS: Final = ("cc", "gcc", "clang")
FLAGS: Final = ("-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC")
_FLOATS = ctypes.POINTER(ctypes.c_float)
_PER_LAYER = ("attention_norm", "q", "k", "v", "o", "mlp_norm", "gate", "up", "down")
_SIZES = ("layers", "hidden", "ffn", "heads", "kv_heads", "head_size", "vocab", "context")


class _Model(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int) for name in _SIZES),
        ("eps", ctypes.c_float),
        *((name, _FLOATS) for name in ("frequencies", "embedding", "head", "final_norm")),
        *((name, ctypes.POINTER(_FLOATS)) for name in _PER_LAYER),
        *((name, _FLOATS) for name in ("keys", "values")),
    )


def compiler() -> str | None:
    """Return the path of a C compiler, or None if there is none on this machine."""
    return next((found for name in COMPILERS if (found := shutil.which(name))), None)


class CDecoder:
    """A float32 Llama decoder in C for one sequence, which processes one token at a time.

    OpenMP determines the number of threads.

    Attributes:
        length: Number of tokens in the KV cache.
    """

    def __init__(self, spec: ModelSpec, checkpoint: Checkpoint, context: int, folder: Path) -> None:
        library, cc = folder / "decoder.so", compiler()
        assert cc is not None
        subprocess.run([cc, *FLAGS, "-o", library, SOURCE, "-lm"], check=True)
        self._step = ctypes.CDLL(str(library)).step
        self._kept: list[Any] = []  # references to arrays that only C uses, so that they are not freed
        self.length = 0
        cache = (spec.layer_count, context, spec.kv_head_count * spec.head_size)
        self._logits = np.zeros(spec.vocab_size, np.float32)
        self._model = _Model(
            *(spec.layer_count, spec.hidden_size, spec.ffn_size, spec.head_count, spec.kv_head_count, spec.head_size),
            *(spec.vocab_size, context, spec.norm_eps),
            self._floats(np.array(spec.rope.frequencies)),
            *(self._floats(checkpoint.tensor(name)) for name in ("embedding",)),
            self._floats(checkpoint.tensor("embedding" if spec.tied_embedding else "head")),
            self._floats(checkpoint.tensor("final_norm")),
            *(
                self._pointers([checkpoint.tensor(f"layers.{i}.{name}") for i in range(spec.layer_count)])
                for name in _PER_LAYER
            ),
            *(self._floats(np.zeros(cache)) for _ in range(2)),
        )

    def _floats(self, values: Any) -> Any:
        array = np.ascontiguousarray(values, np.float32)
        self._kept.append(array)
        return array.ctypes.data_as(_FLOATS)

    def _pointers(self, tensors: Sequence[Any]) -> Any:
        pointers = (_FLOATS * len(tensors))(*(self._floats(tensor) for tensor in tensors))
        self._kept.append(pointers)
        return pointers

    def step(self, token: int) -> F32:
        """Append a token to the sequence and return the logits after it, [vocabulary].

        The next call overwrites the returned array.
        """
        self._step(ctypes.byref(self._model), token, self.length, self._logits.ctypes.data_as(_FLOATS))
        self.length += 1
        return self._logits

    def read(self, tokens: Sequence[int]) -> F32:
        """Append tokens to the sequence one by one, and return the logits after the last one."""
        for token in tokens:
            self.step(token)
        return self._logits
