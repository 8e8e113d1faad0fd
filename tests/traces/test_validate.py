"""Tests of `problems`: a sound trace has none, and every contradiction between columns is reported with its place."""

import h5py
import numpy as np
import pytest

from wse_traces import TraceWriter, open_trace, problems

DAMAGE = [
    [
        ("steps/op", 2, 99, "steps/op[2]: 99, needed: an index into 3 rows of 'op' (1 such)"),
        ("steps/kind", 2, 3, "steps/kind[2]: 3, needed: a code of compute, transfer, cross"),
        ("steps/row", 2, 5, "steps/row[2]: 6 rows from 5 leave the mesh of 6"),
        ("steps/words", 2, -2, "steps/words[2]: -2, needed: at least 0"),
        ("passes/wall_s", 2, np.nan, "passes/wall_s[2]: nan, needed: a number of at least 0"),
        ("passes/schedule", 2, 70, "passes/schedule[2]: 70, needed: an index"),
        ("tokens/text_end", 2, 10**6, "tokens/text_end[3]: before the end of the row above"),
        ("crossings/src_wafer", 2, 2, "crossings/src_wafer[2]: 2, needed: an index into 2 rows of 'wafer'"),
        ("wavelets/direction", 2, 5, "wavelets/direction[2]: 5, needed: a code of north, east, south, west, ramp"),
        ("links/words", (0, 1, 2, 3), -5, "links/words[0]: a negative value, -5"),
        ("graph/ops/name", 1, b"embed", "graph/ops/name[0]: 2 ops are called 'embed', needed: one"),
        ("graph/edges/dst", 1, 1, "graph/edges/dst[1]: the op that produces"),
        ("placement/stages/wafer", 1, 0, "placement/stages/row: 2 stages hold PE 1,1 of wafer 0, needed: one"),
        ("attention/stage", 1, 0, "attention/stage[0]: 2 rows are of stage 0, needed: one"),
        ("attention/col", 0, 0, "attention/col[0]: 2 columns from 0 on, those of its stage are 4 from column 1 on"),
        ("placement/stages/last_layer", 1, 1, "placement/stages/last_layer[1]: 1, the first is 2"),
        ("sram/stage_bytes", (0, 0), 99, "sram/stage_bytes: the uses add up to 999 to 1000 B, needed: the same"),
        ("tensors/end", 0, 20, "tensors/end[0]: 20 B of 'float32' in shape (1, 1, 2, 3), needed: 24 B"),
        ("links/patterns/rows", 0, 7, "links/patterns/rows[0]: 7, needed: 0 to the 6 of the mesh"),
        ("links/layers/pattern", 1, 3, "links/layers/pattern[1]: 3, needed: an index into 3 rows of 'pattern'"),
        ("links/layers/wafer", 2, -1, "links/layers/wafer[2]: -1, needed: an index into 2 rows of 'wafer'"),
        ("experts/tokens", 0, 6, "experts/tokens: 6 to expert 0 of layer 0, its passes sent 5"),
    ],
    [
        ("steps/cycles", 2, 1, "steps/cycles_by[2]: the causes add up to 30, cycles are 1"),
        ("schedules/first_step", 2, 70, "schedules/first_step[2]: 5 steps from 70 of 18"),
        ("wavelets/row", 2, 6, "wavelets/row[2]: it leaves the mesh of 6 from 6"),
        ("wavelets/col", 2, 5, "wavelets/col[2]: it leaves the mesh of 5 from 5"),
        ("passes/start_cycle", 1, 500, "tokens/cycles[4]: "),
        ("tokens/cycles", 1, 7, "tokens/cycles[1]: 7 in a prompt, needed: 0"),
        ("tokens/position", 4, 3, "tokens/position[3]: sequence 0 has 2 tokens at 3, needed: one"),
        ("graph/ops/kind", 1, b"\xff\x1b[2J", "graph/ops/kind[1]: b'\\xff\\x1b[2J', needed: UTF-8 (1 such)"),
        ("attention/cols", 1, 0, "attention/col[1]: 0 columns from 0 on, those of its stage are 3 from column 0 on"),
        ("sram/bytes_per_pe", (1, 2, 3, 4), 1, "sram/bytes_per_pe[1]: PE 3,4: the uses add up to 1001 B, needed: 1000"),
        ("sram/buffers/address", 0, 801, "sram/buffers/address[0]: 200 B from 801 leave the SRAM of 1000 B"),
        ("tensors/dtype", 1, b"O", "tensors/end[1]: 8 B of 'O' in shape (1, 1, 1, 4), needed: a type of numbers"),
        ("links/patterns/cols", 0, 2, "links/patterns/words[0]: words beyond its 2x2 PEs, needed: 0 there"),
        ("links/layers/layer", 1, 0, "links/layers/layer[0]: layer 0 is on wafer 0 2 times, needed: once"),
        ("links/layers/row", 1, 5, "links/layers/row[1]: 2 rows from 5 leave the mesh of 6"),
        ("crossings/dst_wafer", 2, -1, "crossings/dst_wafer[2]: -1, the one that sends"),
        ("shifts/step", 1, 5, "shifts/step[1]: 5, the schedule of its pass has 5 steps"),
    ],
    [
        ("wavelets/direction", 2, 4, "wavelets/cycle[1]: 2 wavelets on one link in cycle 1"),
        ("schedules/first_step", 1, 9, "schedules/first_step[1]: 9, needed: 8, where the one above ends"),
        ("tokens/cycles", 5, 7, "tokens/cycles[5]: 7, its pass ends "),
        (
            "tensors/shape",
            (1, 0),
            2**40,
            "tensors/end[1]: 8 B of 'float16' in shape (1099511627776, 1, 1, 4), needed: ",
        ),
        ("links/layers/col", 1, 3, "links/layers/col[1]: 3 cols from 3 leave the mesh of 5"),
        ("shifts/step", 1, 0, "shifts/step[0]: step 0 of pass 2 is there 2 times, needed: once"),
    ],
    [
        ("schedules/steps", 2, 4, "schedules/steps: 17 of the 18 steps are in schedules, needed: all"),
        ("schedules/cycles", 0, 359, "schedules/cycles[0]: 359, its last step ends in cycle 360"),
        ("links/layers/row", 1, 3, "links/words[0]: not the sum of the layers' words on 24 links"),
    ],
    [
        ("steps/hops", 0, 0, "links/words: 15,615 words on all links, the steps that were executed have 15,415 hops"),
    ],
    [
        ("shifts/hops", 0, 4, "links/words: 15,615 words on all links, the steps that were executed have 15,616 hops"),
    ],
]
"""Damages of each file, of which none hides another: dataset, index, wrong value and start of the expected message."""


@pytest.mark.parametrize("damages", DAMAGE, ids=lambda damages: damages[0][0])
def test_each_kind_of_damage_is_reported_with_its_place(copy, damages):
    with h5py.File(copy, "r+") as file:
        for path, at, value, _ in damages:
            file[path][at] = value
    found = problems(copy)
    for *_, message in damages:
        assert any(line.startswith(message) for line in found), (message, found)
    assert all(line.isprintable() for line in found)


@pytest.mark.parametrize("always", [True, False])
def test_overlap_with_an_always_needed_buffer_is_reported(sample, write_sample, tmp_path, monkeypatch, always):
    with open_trace(sample) as trace:
        first = {name: column[0] for name, column in trace.table("buffer").items()}
    second = {**first, "name": b"<script>", "address": 100, "bytes": 64, "live_from": 0, "live_to": 2}
    if not always:
        first["live_from"] = 1
    original_append = TraceWriter.append

    def append(self, table, columns):
        both = {name: [first[name], second[name]] for name in columns} if table == "buffer" else columns
        texts = {name: [v.decode() for v in both[name]] for name in ("name", "dtype") if table == "buffer"}
        return original_append(self, table, {**both, **texts})

    monkeypatch.setattr(TraceWriter, "append", append)
    path = write_sample(tmp_path / "t.h5")
    overlap = ["sram/buffers/address[1]: '<script>' overlaps a buffer of its stage, and one of them is always needed"]
    assert problems(path) == (overlap if always else [])


@pytest.mark.parametrize(
    ("path", "at", "added", "message"),
    [
        ("tokens/text_end", -1, -1, "tokens/text_end: up to 35, needed: all 36 rows of 'text_byte'"),
        (
            "links/words",
            (0, 1, 3, slice(0, 2)),
            np.array([7, -7]),
            "links/words[0]: not the sum of the layers' words on 2 links",
        ),
    ],
)
def test_sums_are_checked_in_complete_traces_only(copy, path, at, added, message):
    with h5py.File(copy, "r+") as file:
        file[path][at] += added
    assert problems(copy) == [message]
    with h5py.File(copy, "r+") as file:
        file.attrs.modify("complete", np.bool_(0))
    assert problems(copy) == []


def test_bfloat16_tensors_are_read_as_numbers(copy):
    with h5py.File(copy, "r+") as file:
        file["tensors/dtype"][1] = b"bfloat16"
        halves = np.array([1, -2.5, 0, 3e38], "<f4").view("<u2")[1::2]
        file["tensors/bytes"][24:] = np.frombuffer(halves.tobytes(), "u1")
    assert problems(copy) == []
    with open_trace(copy) as trace:
        assert trace.tensor(1).ravel().tolist() == [1, -2.5, 0, pytest.approx(3e38, rel=0.01)]
