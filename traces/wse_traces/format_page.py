"""Generator of traces/FORMAT.md: ``python -m wse_traces.format_page > traces/FORMAT.md``."""

from __future__ import annotations

import sys

from wse_traces.header import ATTRIBUTES
from wse_traces.schema import AXIS_LABELS, CAUSES, FIELDS, FORMAT, ROWS, VERSION, Field

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
        one = f["tokens/pass"][: rows["token"]][token]
        schedule, start = f["passes/schedule"][one], f["passes/start_cycle"][one]
        first, count = f["schedules/first_step"][schedule], f["schedules/steps"][schedule]
        steps = {name: column[first : first + count] for name, column in f["steps"].items()}
        shifts = {name: column[: rows["shift"]] for name, column in f["shifts"].items()}
        own = shifts["pass"] == one
        for name in ("words", "hops"):
            np.add.at(steps[name], shifts["step"][own], shifts[name][own])
        return {**steps, "start_cycle": steps["start_cycle"] + start}
"""

_HEAD = f"""\
# Trace format, version {VERSION}

<!-- Generated from wse_traces/schema.py by `python -m wse_traces.format_page`. Do not edit. -->

A trace is an HDF5 file that describes one emulated run, or an estimate of one: what was compiled, where it was placed,
which steps were executed when, what they cost by cause, and what moved over which link. It is read
with plain h5py, without this project. The words are the project's: a *PE* is one core of the wafer
with its SRAM and router, a *stage* the layers that a region holds, a *wavelet* one 32-bit transfer.

## What a reader may rely on

1. The root attributes `format` (`{FORMAT}`) and `version` MUST be checked first. A reader of version
   {VERSION} MUST refuse a higher version. Within a version datasets, attributes and codes may be added, so a reader
   MUST ignore what it does not know; none is removed, and none changes its meaning.
2. All datasets below are present, also where nothing was recorded: they then have no rows.
3. The first axis of a dataset names its table. The columns of one table have the same length, and
   `run/rows` holds the number of rows of each table, in the order of its attribute `labels`. In an
   unfinished file a dataset MAY be longer than that: a reader MUST take no row beyond it.
4. A run writes `NAME.h5.partial` and renames it to `NAME.h5` when it is complete. The root attribute
   `complete` is false in the former, also after a kill. Such a file MUST be opened with `swmr=True`
   where plain opening fails, and holds everything up to the last flush, each pass with all that it sends. (In that mode
   HDF5 waits for ever for damaged parts; `wse_traces.open_trace` fails at once.) The last rows of
   `steps` MAY then belong to no schedule yet, and the last bytes of `tokens/text` to no token. One that says that it is
   complete was stopped in the moment before it was renamed: nothing of it is missing. Where the run ended in an error,
   or was interrupted, the root attribute `ending` says so.
5. Steps are stored once for each *schedule*, a sequence of steps that many tokens repeat. A *pass* is one
   execution of a schedule: its steps are the rows `first_step` to `first_step + steps` of `steps`, and they
   start at `passes/start_cycle` plus their own `start_cycle`. How many rows of a region pass a cache entry up differs
   from token to token, and changes no cycle: what a pass's shifts send is the words and hops of the step and, where
   there is one, those of the row of `shifts` with this pass and step. `tokens/pass` says which pass read or
   generated a token: prompt tokens have the pass of their chunk, and the first generated one that of the last chunk.
6. `steps/cycles_by` adds up to `steps/cycles` in every row. Steps MAY overlap in time: the cycles of a pass
   are in `schedules/cycles`, those of a token in `tokens/cycles`.
7. Rectangles are `row`, `col` of the first PE, then `rows`, `cols`. Rows grow southward, columns
   eastward. `-1` means none, or the host where the description says so.
8. All data is little-endian and, but for `run/rows`, chunked, with the HDF5 filters shuffle, gzip and fletcher32.
   Texts are UTF-8
   of fixed length, padded with NUL. No dataset lies outside the file: a reader SHOULD follow no external
   or soft link, and SHOULD compare declared sizes with a limit before it reads.
9. Every dataset has the attributes `unit`, `doc` and `axes`, the names of its dimensions separated by commas. Where
   they apply it also has `labels` (names of the codes 0, 1, …), `refers` (the table that the values are row numbers
   of), and `labels_AXIS` for each axis with named places: `steps/cycles_by` has `labels_cause`
   `{",".join(CAUSES)}`.
10. `links/layers` says where each layer's words on links lie: a row for each layer and wafer that it loads, with
   the row of `links/patterns` that holds the words. Layers with equal words share one. Where both are recorded in a
   complete file, the patterns of all rows, each laid at its `row` and `col`, add up to `links/words`.
11. Where PEs or links are dead (`defects` among the options), the attributes `rows` and `cols` are those of the fabric,
   and so are the places of `links`: words round a dead PE are on the links that they took. All other rows and columns
   are those of the mesh that programs see, whose size is the option `mesh`; `steps/hops` counts links of the fabric.
12. The option `command` says whether a trace is of a `run` or of an `estimate`; where it is missing it is of a run. An
   estimate has the passes and tokens that would be: ids are -1, texts are empty, no time is taken by the emulator, and
   `routed` has no rows, since tokens are taken to choose experts as evenly as they can. Decoded tokens with as many
   cache slots in use share a schedule, whose words and hops of cache shifts are those of the mean token, rounded down;
   `shifts` has what is left, with the last of them, so that the sums over all tokens are exact. Where a pass over
   several tokens of one user (`verify`) was asked for it is the last one, as it would be after half of what is
   generated; no token belongs to it.
13. `tensors` hold what ops made in a pass, where that was asked for: read from the SRAM of the PEs as the op ended and
   put together without padding, in the type that it had there (bfloat16 as float32, which changes no value). The axes
   are tokens of the pass, in decode one of each sequence, and then by kind of op: `hidden` of the residual stream after
   `embedding`, `output`, `down`, `latent_output`, `experts_down`, `shared_down` and `post_norm` (where a `post_norm`
   follows, of what goes into it), and of what a `norm` made; `heads, features` of `qkv`, queries first, then keys,
   both rotated where the layer does so, then values, and of `attention` before the projection; `features` of
   `gate_up` and `shared_gate_up` once activated; `2, chosen` of a `router`, ids and then weights; `vocabulary` of the
   `head`, logits as they are compared. The last norm and the head have the last token of a prompt alone. Sums inside of
   ops, and other kinds of ops, whose results lie on PEs in no one order, are not recorded.
14. `contents` hold the bytes of buffers of single PEs, where that was asked for: as they lie in SRAM, little-endian,
   read in each pass as the last step that needs a buffer ends, or at the end of the pass where one is always needed.
   Bytes that equal those of the row before of the same PE and buffer are not there again: what a buffer held in a pass
   is in the last row up to that pass. Code has no bytes. `lives` has the steps between which a buffer is needed, of one
   schedule of each phase; a buffer without any row there is always needed where its `live_from` is -1.

The fixed axes are, in order: {{axes}}. `row` and `col` have the lengths of the mesh, `dim` is 4.

## A reader in 20 lines

The steps of one token, with absolute start cycles:

```python
{PARSER}```

## Attributes

| of | name | type | meaning |
|---|---|---|---|
"""


def page() -> str:
    """Return the content of FORMAT.md."""
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
    """Return a field's description, the names of its codes, and the table it refers to."""
    doc = field.doc
    if field.labels and field is not ROWS:
        doc += "; " + ", ".join(f"{i}: {label}" for i, label in enumerate(field.labels))
    return doc + (f"; row of `{field.refers}`" if field.refers else "")


if __name__ == "__main__":
    sys.stdout.write(page())
