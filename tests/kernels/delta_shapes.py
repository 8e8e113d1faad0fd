"""Sizes, contents and allowed errors for tests of the kernels of linear attention."""

from typing import Any

import numpy as np
import numpy.typing as npt

from tests.kernels.helpers import EPS, TINY, Case

Array = npt.NDArray[Any]
KERNELS = ("place_keys", "convolve_slices", "state_products", "delta_update")


def random_operands(kernel: str, size: dict[str, int], rows: int, rng: np.random.Generator) -> dict[str, int]:
    """Return the numeric operands for some sizes, with a random division of the state over rows."""
    D, V, channels = size["D"], size["V"], size["Hk"] * size["G"] * size["V"]
    K = -(-D // int(rng.integers(1, rows + 1)))
    key_rows = -(-D // K)
    return size | {
        "tokens_before": int(rng.integers(0, 2)),
        "K": K,
        "key_rows": key_rows,
        "N": -(-V // max(1, rows // key_rows)),
        "taps": int(rng.integers(1, 5)),
        "C": -(-channels // rows),
        "F": -(-D // int(rng.integers(1, 4))),
        "stride": 2 * size["Hk"] * D + 3 * channels,
        "max_strength": int(rng.integers(1, 3)),
    }


def contents(kernel: str, p: dict[str, int], line: tuple[int, int], rng: np.random.Generator) -> dict[str, Array]:
    """Return contents that must not be arbitrary: feature ordinals (index + 1), and products of queries and keys."""
    if kernel == "place_keys":
        return {"first": rng.integers(0, p["D"] + 1, (*line, 1))}
    if kernel != "delta_update":
        return {}
    M, Hk, values = p["M"], p["Hk"], 4 * p["M"] * p["Hk"] * p["G"] * p["V"]
    q, k = rng.normal(size=(2, *line, Hk, M, 5))
    dots = [(k @ np.swapaxes(x, -1, -2)).reshape(*line, -1) for x in (k, q)]
    lengths = (q * q).sum(axis=-1).reshape(*line, -1)
    return {"sums": np.concatenate([rng.normal(size=(*line, values)), *dots, lengths], axis=-1)}


def allowed_error(case: Case, want: Array) -> dict[str, Array]:
    """Return the absolute errors allowed in buffers that depend on exponentials and long sums."""
    single, stored = EPS["float32"], EPS[case.types[0]]
    if case.kernel == "convolve_slices":
        largest = 10 + max(np.abs(case.values(name)).max() for name in ("new_keys", "new_values")) * max(
            np.abs(case.values(name)).max() for name in ("key_taps", "value_taps")
        )
        return {name: np.full(case.values(name).shape, 64 * single * largest) for name in ("keys", "sums")}
    if case.kernel == "delta_update":
        error = 1000 * single * (1 + np.abs(case.values("state")).max()) * (1 + np.abs(case.values("keys")).max())
        out = np.abs(case.values("out", want))
        return {"out": error + stored * out + TINY[case.types[0]], "state": np.full(case.values("state").shape, error)}
    return {}
