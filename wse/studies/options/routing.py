"""Values of the options ``--routing`` and ``--place-experts``: how tokens select experts.

A file has the experts that tokens selected in each layer with experts. It is one of:

- a trace of ``wse run``. If the outputs of routers were recorded (``--record
  'activations=layers.*.router'``), the file contains the selections of all tokens. Otherwise, only
  passes of a single token are used, because a trace counts the tokens of each expert per pass.
- a CSV file with the columns ``token,layer,experts``, where ``experts`` are indices separated by
  spaces. Every token needs a row for every layer with experts. Other columns are ignored.

      token,layer,experts
      0,0,17 4
      0,1,3 30
      1,0,4 9
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from wse.arrays import I32, I64
from wse.errors import BadInput
from wse.files import read_file, short_repr
from wse.models.expert_traits import Experts
from wse.models.spec import ModelSpec
from wse.program.routing import EVEN, RoutingDistribution, measured_routing, zipf_routing

if TYPE_CHECKING:
    from wse_traces.reader.read import Trace

ZIPF: Final = "zipf:"
MAX_EXPONENT: Final = 10
LIMIT_BYTES: Final = 64 * 2**20
MAX_INDEX: Final = 2**31 - 1
PASS_TOKENS: Final = MAX_INDEX + 1
"""Distance between the numbers of the first tokens of two passes of a trace."""
COLUMNS: Final = ("token", "layer", "experts")
_RECORD: Final = "give the selections of all tokens in this model"
HDF5_START: Final = b"\x89HDF\r\n\x1a\n"


class _Selections(NamedTuple):
    """The experts that tokens selected, as read from a file.

    Each array is int64 and has one element for each selection: index of the token, of the layer and
    of the expert.
    """

    token: I64
    layer: I64
    expert: I64


def read_routing(text: str, spec: ModelSpec) -> RoutingDistribution:
    """Return how often tokens select each expert, as specified by the option ``--routing``.

    Args:
        text: ``even``, ``zipf:S`` with an exponent S, or the path of a file.
        spec: The model.

    Raises:
        BadInput: The model has no experts, the exponent is invalid, or the file cannot be used.
    """
    if text == EVEN.name:
        return EVEN
    layers, experts = _layers_with_experts("--routing", text, spec)
    if text.startswith(ZIPF):
        return zipf_routing(layers, experts.count, experts.active, _exponent(text))
    return read_choices("--routing", text, spec)


def read_choices(option: str, path: str, spec: ModelSpec) -> RoutingDistribution:
    """Return how often tokens select each expert, according to a file of recorded selections.

    Args:
        option: Option that names the file, for error messages.
        path: A CSV file or a trace.
        spec: The model, whose numbers of layers and experts must be those of the file.

    Raises:
        BadInput: The model has no experts, or the file cannot be used or is for another model.
    """
    layers, experts = _layers_with_experts(option, path, spec)
    selections = _trace_selections(path, experts.active) if _is_hdf5(path) else _csv_selections(path)
    return measured_routing(path, layers, _checked_choices(path, selections, spec, layers, experts), experts.count)


def _layers_with_experts(option: str, value: str, spec: ModelSpec) -> tuple[tuple[int, ...], Experts]:
    """Return the indices of the layers with experts, and the experts of a layer.

    Raises:
        BadInput: The model has no experts.
    """
    if spec.experts is None:
        raise BadInput(f"{option} {value}: {spec.name} has no experts; leave it out")
    return tuple(index for index, layer in enumerate(spec.layers) if layer.experts), spec.experts


def _exponent(text: str) -> float:
    """Return the exponent S of ``zipf:S``, or raise BadInput."""
    try:
        exponent = float(text.removeprefix(ZIPF))
    except ValueError:
        exponent = -1.0
    if not 0 <= exponent <= MAX_EXPONENT:
        raise BadInput(
            f"--routing {text[:80]}: the exponent is not a number from 0 to {MAX_EXPONENT}; give one, such as zipf:1"
        )
    return exponent


def _is_hdf5(path: str) -> bool:
    """Return whether a path is a regular file that starts with the HDF5 signature."""
    try:
        if not Path(path).is_file():
            return False
        with Path(path).open("rb") as stream:
            return stream.read(len(HDF5_START)) == HDF5_START
    except (OSError, ValueError):
        return False


def _csv_selections(path: str) -> _Selections:
    """Return the selected experts in a CSV file.

    Raises:
        BadInput: The file is not CSV in UTF-8, a column is missing, or a value is not an index.
    """
    data = read_file(Path(path), LIMIT_BYTES, BadInput, "a trace of wse run or a CSV file; or give even or zipf:S")
    values = array("q"), array("q"), array("q")
    try:
        rows = csv.reader(data.decode("utf-8-sig").splitlines(), strict=True)
        header = [name.strip() for name in next(rows, [])]
        if missing := [name for name in COLUMNS if name not in header]:
            raise BadInput(f"{path}: column {missing[0]} is missing; begin with the line {','.join(COLUMNS)}")
        places = [header.index(name) for name in COLUMNS]
        for row in rows:
            if not row:
                continue
            if len(row) != len(header):
                raise BadInput(
                    f"{path}, line {rows.line_num}: {len(row)} values under {len(header)} columns; give one for each"
                )
            token, layer, experts = (row[place] for place in places)
            for expert in experts.split():
                for column, text in zip(values, (token, layer, expert), strict=True):
                    column.append(_index(f"{path}, line {rows.line_num}", text))
    except (UnicodeDecodeError, csv.Error) as fault:
        raise BadInput(
            f"{path}: not a CSV file in UTF-8 ({fault}); give the columns {','.join(COLUMNS)}, or a trace"
        ) from fault
    return _Selections(*(np.array(column, np.int64) for column in values))


def _index(place: str, text: str) -> int:
    """Return a token, layer or expert index. Raise BadInput if the text is not one."""
    text = text.strip()
    index = int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else -1
    if not 0 <= index <= MAX_INDEX:
        raise BadInput(f"{place}: {short_repr(text)} is not an index; give whole numbers from 0")
    return index


def _trace_selections(path: str, active: int) -> _Selections:
    """Return the selected experts that a trace recorded.

    Args:
        path: The trace.
        active: Number of experts that each token selects.

    Raises:
        BadInput: The file is not a readable trace, or has no selections of single tokens.
    """
    from wse_traces.errors import TraceError  # HDF5 is slow to load
    from wse_traces.reader.read import open_trace

    try:
        with open_trace(path) as trace:
            selections = _router_selections(trace) or _single_token_selections(trace, active)
    except TraceError as error:
        raise BadInput(str(error)) from error
    if selections is None:
        raise BadInput(
            f"{path}: the trace has no selected experts of single tokens; run a model with experts and "
            "--record 'activations=layers.*.router'"
        )
    return selections


def _router_selections(trace: Trace) -> _Selections | None:
    """Return the expert selections that a trace contains as recorded outputs of routers.

    A router is the op that selects experts. Its output has the axes ``[1, tokens, 2, active]``:
    ids, then weights. The result is None if no outputs of routers were recorded.

    Raises:
        BadInput: An output has other axes.
    """
    kinds, layers = trace.texts("graph/ops/kind"), trace.column("graph/ops/layer")
    parts = []
    for row, (op, pass_index) in enumerate(zip(trace.column("tensors/op"), trace.column("tensors/pass"), strict=True)):
        if not (0 <= op < len(kinds) and kinds[op] == "router"):
            continue
        values = trace.tensor(row)
        if values.shape[0] != 1 or values.shape[2] != 2:
            raise BadInput(f"{trace.path}: tensors: row {row} is not the output of a router; make the trace again")
        ids = np.nan_to_num(values[0, :, 0], nan=-1).clip(-1, MAX_INDEX).astype(np.int64)
        tokens = int(pass_index) * PASS_TOKENS + np.arange(len(ids))
        parts.append((np.repeat(tokens, ids.shape[1]), np.full(ids.size, layers[op]), ids.ravel()))
    return _Selections(*map(np.concatenate, zip(*parts, strict=True))) if parts else None


def _single_token_selections(trace: Trace, active: int) -> _Selections | None:
    """Return the expert selections of all passes over a single token.

    A trace counts the tokens per expert in each pass. Only if a pass has a single token do these
    counts show which experts the token selected. The result is None if there are no such passes.

    Args:
        trace: The trace.
        active: Number of experts that each token selects.
    """
    table = {name: column.astype(np.int64) for name, column in trace.table("routed").items()}
    pairs, place = np.unique(np.stack([table["pass"], table["layer"]]), axis=1, return_inverse=True)
    passes_of_several_tokens = pairs[0, np.bincount(place.ravel(), table["tokens"], pairs.shape[1]) != active]
    rows = ~np.isin(table["pass"], passes_of_several_tokens)
    if not rows.any():
        return None
    return _Selections(table["pass"][rows] * PASS_TOKENS, table["layer"][rows], table["expert"][rows])


def _checked_choices(
    path: str, selections: _Selections, spec: ModelSpec, layers: Sequence[int], experts: Experts
) -> I32:
    """Check that selections belong to a model, and convert them to an array.

    Args:
        path: The file, for error messages.
        selections: All selections, in any order.
        spec: The model.
        layers: Indices of its layers with experts.
        experts: Its experts.

    Returns:
        Ids of the selected experts, int32 ``[layers, tokens, active]``.

    Raises:
        BadInput: Layers or experts are not those of the model, or a token selects too few or too
            many experts in a layer, or one of them twice.
    """
    file_layers = np.unique(selections.layer).tolist()
    if file_layers != list(layers):
        file_text, model_text = _layers_text(file_layers), _layers_text(layers)
        raise BadInput(f"{path}: has experts of {file_text}, but {spec.name} has experts in {model_text}; {_RECORD}")
    if (wrong_ids := selections.expert[(selections.expert < 0) | (selections.expert >= experts.count)]).size:
        raise BadInput(
            f"{path}: has expert {wrong_ids[0]}, but {spec.name} has {experts.count} per layer, from 0; {_RECORD}"
        )
    tokens, token = np.unique(selections.token, return_inverse=True)
    row = np.searchsorted(layers, selections.layer) * len(tokens) + token
    rows, counts = np.unique(row, return_counts=True)  # bincount would need memory for all rows that may be missing
    is_wrong = (rows != np.arange(len(rows))) | (counts != experts.active)
    first_wrong = int(np.append(is_wrong, True).argmax())
    if first_wrong < len(layers) * len(tokens):
        layer, number = divmod(first_wrong, len(tokens))
        count = counts[rows == first_wrong].sum()  # 0 if the row is missing
        place = f"{path}, token {int(tokens[number]) % PASS_TOKENS}, layer {layers[layer]}"
        raise BadInput(f"{place}: {count} experts, but {spec.name} selects {experts.active}; {_RECORD}")
    choices = selections.expert[np.lexsort((selections.expert, row))].reshape(len(layers), len(tokens), -1)
    if (choices[:, :, 1:] == choices[:, :, :-1]).any():
        raise BadInput(f"{path}: a token selects the same expert twice in a layer; give each expert once")
    return choices.astype(np.int32)


def _layers_text(layers: Sequence[int]) -> str:
    """Return the number of layers and their range, such as "2 layers (1 to 2)"."""
    if not layers:
        return "no layers"
    return f"{len(layers)} layers ({layers[0]} to {layers[-1]})" if len(layers) > 1 else f"1 layer ({layers[0]})"
