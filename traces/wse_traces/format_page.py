"""Generator of traces/FORMAT.md: ``python -m wse_traces.format_page > traces/FORMAT.md``."""

from __future__ import annotations

import sys

from wse_traces.field import Field
from wse_traces.header import ATTRIBUTES
from wse_traces.schema import AXIS_LABELS, CAUSES, FIELDS, FORMAT, ROWS, VERSION

PARSER = """\
import h5py
import numpy as np


def steps_of_token(path, token):
    try:
        f = h5py.File(path, "r", locking=False)
    except OSError:  # the run goes on or was killed
        f = h5py.File(path, "r", swmr=True, locking=False)
    with f:
        assert f.attrs["format"] == b"wse-trace" and f.attrs["version"] == 1
        counts = f["run/rows"]
        rows = dict(zip(counts.attrs["labels"].decode().split(","), counts[:].tolist()))
        pass_index = f["tokens/pass"][: rows["token"]][token]
        schedule, start = f["passes/schedule"][pass_index], f["passes/start_cycle"][pass_index]
        first, count = f["schedules/first_step"][schedule], f["schedules/steps"][schedule]
        steps = {name: column[first : first + count] for name, column in f["steps"].items()}
        shifts = {name: column[: rows["shift"]] for name, column in f["shifts"].items()}
        in_pass = shifts["pass"] == pass_index
        for name in ("words", "hops"):
            np.add.at(steps[name], shifts["step"][in_pass], shifts[name][in_pass])
        return {**steps, "start_cycle": steps["start_cycle"] + start}
"""

_HEAD = f"""\
# Trace format, version {VERSION}

<!-- Generated from wse_traces/schema.py by `python -m wse_traces.format_page`. Do not edit. -->

A trace is an HDF5 file that describes one emulated run of a model, or an estimate of one: what was
compiled, where it was placed, which steps were executed when, how many cycles they took for which
cause, and which words moved over which link. Any HDF5 library, such as h5py, can read it without
this project. This page uses the following terms:

- **PE**: one core of the wafer with its SRAM and its router
- **region**: rectangle of PEs that stores some layers; **stage**: the layers that a region stores
- **wavelet**: one 32-bit word in the fabric
- **schedule**: sequence of steps; **pass**: one execution of a schedule

## Rules for readers

1. **Version.** The root attributes `format` (`{FORMAT}`) and `version` MUST be checked first. A
   reader of version {VERSION} MUST refuse a higher version. Within a version, datasets, attributes
   and codes may be added, but none is removed and none changes its meaning. A reader MUST
   therefore ignore what it does not know.
2. **Datasets.** All datasets below are present. If nothing was recorded, they have no rows.
3. **Tables.** The first axis of a dataset names its table. The columns of a table have the same
   length. `run/rows` contains the number of rows of each table, in the order of its attribute
   `labels`. In an unfinished file, a dataset MAY be longer. A reader MUST ignore the additional
   rows.
4. **Unfinished files.** A run writes `NAME.h5.partial` and renames it to `NAME.h5` when it is
   complete.
   - In a partial file, the root attribute `complete` is normally false, also after a kill. It is
     true if the run ended between its last write and the renaming; then nothing is missing.
   - If plain opening fails, the file MUST be opened with `swmr=True`. In this mode, HDF5 waits
     forever for damaged parts; `wse_traces.open_trace` fails at once instead.
   - The file contains everything up to the last flush, and each pass with all of its traffic. The
     last rows of `steps` MAY belong to no schedule yet, and the last bytes of `tokens/text` to no
     token.
   - If the run ended in an error or was interrupted, the root attribute `ending` says so.
5. **Steps.** Steps are stored once for each schedule, because many tokens repeat the same steps.
   The steps of a pass are the rows of `steps` from `first_step` up to, but excluding,
   `first_step + steps`. They start at `passes/start_cycle` plus their own `start_cycle`.
   - **Cache shifts:** The number of rows of PEs that pass on a KV-cache entry differs from token
     to token, without any effect on cycles. The traffic of a cache shift in a pass is the `words`
     and `hops` of the step, plus those of the row of `shifts` with this pass and step, if there is
     one.
   - **Tokens:** `tokens/pass` is the pass that read or generated a token. Prompt tokens have the
     pass of their prompt chunk. The first generated token has the pass of the last chunk.
6. **Cycles.** `steps/cycles_by` adds up to `steps/cycles` in every row. Steps MAY overlap in time:
   the cycles of a pass are in `schedules/cycles`, and those of a token in `tokens/cycles`.
7. **Rectangles.** A rectangle is given by the `row` and `col` of its first PE and by its numbers
   of `rows` and `cols`. Rows are counted southwards, columns eastwards. `-1` means none, or the
   host if the description says so.
8. **Storage.** All data is little-endian. All datasets except `run/rows` are chunked, with the
   HDF5 filters shuffle, gzip and fletcher32. Texts are UTF-8 of fixed length, padded with NUL. All
   datasets are stored in the file itself. A reader SHOULD NOT follow external or soft links, and
   SHOULD compare declared sizes with a limit before it reads.
9. **Attributes of datasets.** Every dataset has the attributes `unit`, `doc` and `axes` (the names
   of its dimensions, separated by commas). Some also have:
   - `labels`: the names of the codes 0, 1, …
   - `refers`: the table that the values are row numbers of
   - `labels_AXIS`: the names of the positions on an axis. For example, `steps/cycles_by` has
     `labels_cause` with the value `{",".join(CAUSES)}`.
10. **Words of layers.** `links/layers` has a row for each layer and each wafer whose links the
    layer uses. The row refers to the row of `links/patterns` that contains the words. Here a
    pattern is an array of words on the links of a rectangle of PEs, not a communication pattern.
    Layers with equal words share one. In a complete file that contains both, the patterns of all
    rows, each placed at its `row` and `col`, add up to `links/words`.
11. **Dead PEs.** If PEs or links are dead (`defects` among the options), the attributes `rows` and
    `cols` and the positions in `links` are those of the physical fabric. Words that are routed
    around a dead PE are counted on the links that they used. All other rows and columns are those
    of the logical mesh that programs see. Its size is the option `mesh`. `steps/hops` counts links
    of the fabric.
12. **Estimates.** The option `command` is `run` or `estimate`. If it is missing, the trace is of a
    run. An estimate has the passes and tokens that a run would have:
    - Ids are -1, texts are empty, and the time of the emulator is 0.
    - `routed` has no rows, because how tokens choose experts is assumed (by default, as evenly as
      possible).
    - Decoded tokens with the same number of cache slots in use share a schedule. Its words and
      hops of cache shifts are those of the mean token, rounded down. `shifts` has the remainder
      for the last of these tokens, so that the sums over all tokens are exact.
    - If a verification pass (`verify`: several tokens of one user) was requested, it is the last
      pass. Its cost is that after half of the tokens are generated. No token belongs to it.
13. **Tensors.** If requested, `tensors` contains outputs of ops in a pass. They are read from the
    SRAM of the PEs when the op ends, and stored without padding in their type in SRAM (bfloat16 as
    float32, which changes no value). The first axis is the tokens of the pass; in decode, one
    token of each sequence. The other axes depend on the kind of op:
    - `hidden`: the residual stream after `embedding`, `output`, `down`, `latent_output`,
      `experts_down`, `shared_down` and `post_norm`, and the output of a `norm`. If a `post_norm`
      follows an op, the tensor of the op is the input of that `post_norm`.
    - `heads, features`: `qkv` (queries, then keys, both rotated if the layer does so, then
      values), and `attention` before the projection
    - `features`: `gate_up` and `shared_gate_up` after the activation function
    - `2, chosen`: ids and then weights of a `router`
    - `vocabulary`: the logits of the `head`, as they are compared
    - The last norm and the head have only the last token of a prompt. Partial sums inside of ops,
      and ops whose results are not stored on the PEs in a single order, are not recorded.
14. **Contents of buffers.** If requested, `contents` contains the bytes of buffers of single PEs
    as stored in SRAM, little-endian. They are read in each pass after the last step that needs the
    buffer, or at the end of the pass if the buffer is always needed. Bytes that are equal to those
    in the previous row of the same PE and buffer are not stored again: the contents in a pass are
    those of the last row up to that pass. Code has no bytes.
15. **Lives of buffers.** `lives` contains the steps between which a buffer is needed, for one
    schedule of each phase. A buffer without a row there is always needed if its `live_from` is -1.

An axis with one of these names has one element per label, in this order:
{{axes}}.
The axes `row` and `col` are as long as the mesh, and `dim` has length 4.

## A reader in 20 lines

The steps of one token, with absolute start cycles:

```python
{PARSER}```

## Attributes

| group | name | type | meaning |
|---|---|---|---|
"""


def page() -> str:
    """Return the content of FORMAT.md, the page that describes the trace format."""
    axes = "; ".join(f"`{name}`: {', '.join(labels)}" for name, labels in AXIS_LABELS.items())
    lines = [_HEAD.replace("{axes}", axes).rstrip("\n")]
    lines += [f"| `{a.path}` | `{a.name}` | {a.kind.__name__} | {a.doc} |" for a in ATTRIBUTES]
    group = ""
    for field in (ROWS, *FIELDS):
        top = field.path.split("/")[0]
        if top != group:
            group = top
            lines += [
                "",
                f"## {top}",
                "",
                "| dataset | dtype | axes | unit | meaning |",
                "|---|---|---|---|---|",
            ]
        lines.append(f"| `{field.path}` | `{field.dtype}` | {', '.join(field.axes)} | {field.unit} | {_doc(field)} |")
    return "\n".join(lines) + "\n"


def _doc(field: Field) -> str:
    """Return the description of a field, with the names of its codes and the table it refers to."""
    doc = field.doc
    if field.labels and field is not ROWS:
        doc += "; " + ", ".join(f"{i}: {label}" for i, label in enumerate(field.labels))
    return doc + (f"; row of `{field.refers}`" if field.refers else "")


if __name__ == "__main__":
    sys.stdout.write(page())
