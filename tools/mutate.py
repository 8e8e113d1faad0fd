"""Whether the tests notice a wrong line: each mutation is made in a copy of the tree, and its tests have to fail.

    python tools/mutate.py            all mutations, some five minutes on two cores
    python tools/mutate.py emit       those whose file or tests have this in their names

Prints one line a mutation, caught or missed. Exits 0 when all are caught, 1 when one is missed, and 2 when a mutation
cannot be made, because the text that it replaces is not there exactly once (the source has moved: write it anew) or
its tests fail without it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
COPIED: Final = ("kernels", "mappings", "tests", "traces", "wse", "pyproject.toml")
MOST_S: Final = 300  # a mutation may make a loop without end


class Mutation(NamedTuple):
    """One line made wrong in ``file``, and the arguments of pytest that have to notice."""

    file: str
    right: str
    wrong: str
    tests: str


MUTATIONS: Final = (
    Mutation(
        "kernels/wse_kernels/_chunk_product.py",
        "(builder.mul(stride, lanes) for stride in strides)",
        "(builder.mul(stride, lanes) for stride in strides[:1] * 2)",
        "tests/kernels/test_compute.py -k equals_oracle[matmul-",
    ),
    Mutation(
        "kernels/wse_kernels/_weights.py",
        "for lane_of, other in ((least_lane, 255), (largest_lane, 0))",
        "for lane_of, other in ((largest_lane, 0), (largest_lane, 0))",
        "tests/kernels/test_compute.py -k halves_in_vectors",
    ),
    Mutation(
        "kernels/wse_kernels/_vector_product.py",
        "WIDTH)), new, elements)",
        "WIDTH)), new, new)",
        "tests/kernels/test_compute.py -k with_experts_in_vectors",
    ),
    Mutation(
        "kernels/wse_kernels/transfers.py",
        "for col in range(min(start, end), max(start, end) + 1):\n                        copy_turned",
        "for col in range(min(start, end), max(start, end)):\n                        copy_turned",
        "tests/kernels/test_transfers.py -k turned",
    ),
    Mutation(
        "kernels/wse_kernels/rotary.py",
        "source = x + m * width + h * F + p",
        "source = x + h * F + p",
        "tests/kernels/test_compute.py -k equals_oracle[rope-",
    ),
    Mutation(
        "kernels/wse_kernels/vocabulary.py",
        "(logit > largest[lane])",
        "(logit >= largest[lane])",
        "tests/kernels/test_compute.py -k equals_oracle[argmax_fold-",
    ),
    Mutation(
        "wse/backends/execute/line_loads.py",
        "by_line[back, lines] += added[1]",
        "by_line[back, lines] += added[0]",
        "tests/execute/test_line_loads.py",
    ),
    Mutation(
        "mappings/wse_mappings/cuts/cache_balance.py",
        "return rows - 1 - length % rows if",
        "return rows - length % rows if",
        "tests/mappings/cuts/test_cache_balance.py",
    ),
    Mutation(
        "mappings/wse_mappings/cuts/contiguous.py",
        "np.where(sums <= largest * (1 + 1e-12), sums * sums, np.inf)",
        "sums * sums",
        "tests/mappings/cuts/test_contiguous.py",
    ),
    Mutation(
        "wse/compiler/passes/partition.py",
        "head_stage = 0 if spec.tied_embedding else",
        "head_stage = 0 if not spec.tied_embedding else",
        "tests/compiler/passes/test_partition.py",
    ),
    Mutation(
        "wse/compiler/passes/region_cuts.py",
        '"ffn": _block(spec.ffn_size, parts, cols,',
        '"ffn": _block(spec.ffn_size, parts, region.rows,',
        "tests/compiler/passes/test_shard.py",
    ),
    Mutation(
        "wse/compiler/passes/place.py",
        "rect=rect,",
        "rect=rects[0],",
        "tests/compiler/passes/test_place.py",
    ),
    Mutation(
        "wse/compiler/passes/lowering.py",
        "tokens = min(size, length - cached)",
        "tokens = size",
        "tests/compiler/passes/test_lowering.py",
    ),
    Mutation(
        "wse/compiler/passes/allocate.py",
        "[(begin - size, end) for",
        "[(begin, end) for",
        "tests/compiler/passes/test_allocate.py",
    ),
    Mutation(
        "wse/compiler/passes/allocate.py",
        "return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES",
        "return size",
        "tests/compiler/passes/test_allocate.py",
    ),
    Mutation(
        "wse/compiler/passes/emit.py",
        "state.addresses[buffer] - state.stages[buffer.stage].sram_base_byte",
        "state.addresses[buffer]",
        "tests/compiler/passes/test_emit.py",
    ),
    Mutation(
        "wse/compiler/rewrites/shared_activation.py",
        "return ceil_div(elements, per_word) * per_word",
        "return elements",
        "tests/fabric/links/test_layer_links.py -k beside",
    ),
    Mutation(
        "wse/backends/fabric/line/line_costs.py",
        "return 2 * self.ramp + 1",
        "return 2 * self.ramp",
        "tests/fabric/line/test_line_time.py",
    ),
    Mutation(
        "wse/backends/fabric/line/closed_forms.py",
        "return 2 * wafer.ramp_cycles + 1",
        "return wafer.ramp_cycles + 1",
        "tests/fabric/line/test_closed_forms.py",
    ),
    Mutation(
        "mappings/wse_mappings/link_words.py",
        "(at[down], target[down] + 1), carried[down]",
        "(at[down], target[down]), carried[down]",
        "tests/fabric/links/test_loads.py",
    ),
    Mutation(
        "wse/backends/fabric/links/link_map.py",
        "total[plane] = 0",
        "total[plane] += 0",
        "tests/fabric/links/test_link_map.py",
    ),
    Mutation(
        "wse/backends/execute/sampling.py",
        "old * penalty, old / penalty",
        "old / penalty, old / penalty",
        "tests/execute/test_sampling.py -k transformers",
    ),
    Mutation(
        "wse/backends/execute/arena.py",
        "first = row * self.blocks_per_row",
        "first = 0",
        "tests/compiler/test_pipeline.py -k held_by_exactly",
    ),
    Mutation(
        "wse/backends/execute/streams.py",
        "(sides <= columns) & (columns",
        "(sides < columns) & (columns",
        "tests/execute/test_across_wafers.py -k every_word",
    ),
    Mutation(
        "wse/backends/wavelet/lines.py",
        "part * self.words // self.parts",
        "part * (self.words // self.parts)",
        "tests/wavelet/test_patterns.py",
    ),
    Mutation(
        "wse/backends/wavelet/wiring.py",
        "link[queues] += FROM_PE",
        "link[queues] += Port.RAMP",
        "tests/wavelet/test_planes.py -k over_one_ramp",
    ),
    Mutation(
        "traces/wse_traces/validate.py",
        "(values < least) | (values >= bound)",
        "(values < least) | (values > bound)",
        "tests/traces/test_faults.py -k out_of_range",
    ),
    Mutation(
        "traces/wse_traces/executed_steps.py",
        "first - (np.cumsum(count) - count), count)",
        "first - np.cumsum(count), count)",
        "tests/traces/test_round_trip.py",
    ),
)


def main() -> None:
    chosen = [m for m in MUTATIONS if all(word in f"{m.file} {m.tests}" for word in sys.argv[1:])]
    for mutation in chosen:
        count = (ROOT / mutation.file).read_text(encoding="utf-8").count(mutation.right)
        if count != 1:
            print(f"{mutation.file}: {mutation.right!r} is there {count} times, not once; the source has moved")
            sys.exit(2)
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = copy_tree(Path(folder) / "tree")
        for mutation in chosen:
            began = time.monotonic()
            caught = notice(mutation, tree)
            missed += not caught
            verdict = "caught" if caught else "MISSED"
            print(f"{verdict} {time.monotonic() - began:4.0f} s  {mutation.file}: {mutation.wrong}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} caught")
    sys.exit(missed > 0)


def copy_tree(target: Path) -> Path:
    """Sources and tests, without what was compiled from them."""
    ignored = shutil.ignore_patterns("__pycache__", ".*")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=ignored)
        else:
            shutil.copy(source, target / name)
    return target


def notice(mutation: Mutation, tree: Path) -> bool:
    """Whether the tests of a mutation, which pass on the tree, fail once it is made; the tree is as before then."""
    if not passes(mutation.tests, tree):
        print(f"{mutation.tests}: fails without any mutation")
        sys.exit(2)
    path = tree / mutation.file
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(mutation.right, mutation.wrong), encoding="utf-8")
    try:
        return not passes(mutation.tests, tree)
    finally:
        path.write_text(text, encoding="utf-8")


def passes(tests: str, tree: Path) -> bool:
    """Whether these tests of a tree pass; what runs without end does not."""
    paths = [str(tree / name) for name in (".", "kernels", "mappings", "traces")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests.split()]
    try:
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, timeout=MOST_S, check=False)
    except subprocess.TimeoutExpired:
        return False
    if done.returncode > 1:  # neither passed nor failed: no such test, or a file that cannot be imported
        print(done.stdout.decode(errors="replace")[-2000:])
        sys.exit(2)
    return done.returncode == 0


if __name__ == "__main__":
    main()
