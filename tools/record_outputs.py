"""Record the JSON output of many wse commands, or compare their output with an earlier recording.

Use it to check that moving or simplifying code changes no result: record before the change, and
compare after every step. Values that differ from run to run (`UNSTEADY`) are not recorded.

Example:
    python tools/record_outputs.py /tmp/before              # record
    python tools/record_outputs.py /tmp/before --compare    # exit code 1 if any answer differs
    python tools/record_outputs.py /tmp/before --compare --only run
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from wse.models.catalogue import CONFIGURATIONS

ROOT: Final = Path(__file__).parents[1]
UNSTEADY: Final = {"emulation", "trace", "wall_s", "settings_per_s"}
"""JSON keys whose values differ from run to run: times on this computer, and file paths."""
MAPPINGS: Final = ("auto", "bands", "pipeline", "region", "tensor")
SMALL: Final = "story --mesh 24x24 --prompt-len 16 --new-tokens 16"
LONG: Final = "--prompt-len 4000 --new-tokens 300"


def commands() -> Iterator[str]:
    """Yield the commands to record, without the leading ``wse`` and without ``--json``."""
    for name in sorted(CONFIGURATIONS):
        yield f"estimate {name}"
    for dtype in ("float16", "fp8", "int4"):
        for name in ("llama-3-8b", "gpt-oss-120b", "deepseek-v3"):
            yield f"estimate {name} --dtype {dtype}"
    yield "estimate llama-3.1-70b --schedule baseline"
    yield "estimate llama-3.1-70b --wafers 4 --draft typical"
    yield f"estimate llama-3.1-70b --wafers 8 --users 4 {LONG}"
    yield "estimate llama-3-8b --objective throughput"
    yield "estimate llama-3-8b --what-if default"
    yield "estimate llama-3-8b --sensitivity"
    yield f"estimate llama-3.1-70b --gpu h200 --gpus 8 --users 32 {LONG}"
    yield "estimate llama-3.1-70b --gpu h200 --gpus 8 --draft typical"
    for mapping in MAPPINGS:
        wafers = "--wafers 2" if mapping == "tensor" else "--wafers 1"
        for schedule in ("optimized", "baseline"):
            yield f"run story --mesh 24x24 --new-tokens 4 --mapping {mapping} {wafers} --schedule {schedule}"
    yield "run story"
    yield "run story --mesh 16x16 --wafers 2 --new-tokens 4"
    yield "run story --mesh 24x24 --new-tokens 4 --defects 1e-3"
    yield "run story --mesh 24x24 --new-tokens 4 --dtype float32"
    yield "run story --draft story-draft --draft-tokens 2 --mesh 96x96 --new-tokens 8"
    yield f"compile {SMALL}"
    yield "compile llama-3.1-70b"
    yield f"compile {SMALL} --users 8 --objective throughput"
    yield "compare story --mesh 24x24 --prompt-len 16 --new-tokens 16"
    yield "compare llama-3-8b --wafers 1,2"
    yield f"compare llama-3.1-70b --users 100 --tpot 20ms {LONG} --wafers 4,8 --gpu h200 --gpus 8"
    yield "compare llama-3-8b --wafers 1 --gpu h100 --gpus 1"
    for question in ("one-wafer-or-many", "pipeline-or-tensor", "sram-or-streaming"):
        yield f"compare {SMALL} --question {question}"
    yield "sweep story --set mesh=16x16,20x20 --set wafers=1,2 --set prompt_len=16 --set new_tokens=16"
    yield f"serve-sim {SMALL} --requests 200"
    yield f"serve-sim {SMALL} --requests 200 --users 4 --arrivals constant"
    yield f"serve-sim {SMALL} --requests 200 --replicas 2 --length-cv 0.5"
    yield "serve-sim llama-3-8b --gpu h100 --requests 200 --rate 2"
    yield "pattern chain_multicast,k_tree_all_reduce,ring_all_reduce --pes 32 --wavelet"
    yield from ("models", "wafers", "mappings", "gpus", "validate")


def answer(command: str) -> dict[str, Any]:
    """Run a wse command in an empty folder.

    Returns:
        A dict with the command, its exit code (``code``), the lines of its error output that start
        with ``wse:`` (``messages``), and its JSON output without unsteady values (``answer``).
    """
    roots = os.pathsep.join(str(ROOT / name) for name in ("", "kernels", "mappings", "traces"))
    environment = {**os.environ, "PYTHONPATH": roots, "NO_COLOR": "1", "WSE_CACHE": "none"}
    line = [sys.executable, "-m", "wse", *shlex.split(command), "--json"]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    messages = [line for line in done.stderr.splitlines() if line.startswith("wse: ")]
    try:
        found: Any = json.loads(done.stdout)
    except json.JSONDecodeError:
        found = done.stdout
    return {"command": command, "code": done.returncode, "messages": messages, "answer": steady(found)}


def steady(value: Any) -> Any:
    """Return a JSON value without the keys of `UNSTEADY`, at any depth."""
    if isinstance(value, dict):
        return {key: steady(one) for key, one in value.items() if key not in UNSTEADY}
    return [steady(one) for one in value] if isinstance(value, list) else value


def differences(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """Yield a line of text for each difference between two JSON values.

    Args:
        before: Recorded value.
        after: New value.
        where: Path of both values inside the whole output, such as ``.decode.rows[3]``.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            yield from differences(before.get(key), after.get(key), f"{where}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, pair in enumerate(zip(before, after, strict=True)):
            yield from differences(*pair, f"{where}[{number}]")
    elif before != after:
        yield f"{where.lstrip('.')}: {str(before)[:60]} before, {str(after)[:60]} now"


def file_of(folder: Path, command: str) -> Path:
    """Return the path of the JSON file in which a command's output is recorded."""
    return folder / f"{re.sub(r'[^a-zA-Z0-9.]+', '-', command)}.json"


def main() -> int:
    """Record or compare outputs. Return 1 if any output differs from the recording, else 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder of the recorded outputs")
    parser.add_argument("--compare", action="store_true", help="compare with the recorded outputs")
    parser.add_argument("--only", default="", help="only commands that contain this text")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="number of commands that run in parallel")
    arguments = parser.parse_args()
    asked = [command for command in commands() if arguments.only in command]
    arguments.folder.mkdir(parents=True, exist_ok=True)
    differing = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for done, found in enumerate(pool.map(answer, asked), start=1):
            file = file_of(arguments.folder, found["command"])
            print(f"{done} of {len(asked)}: {found['command']}: exit code {found['code']}", file=sys.stderr)
            if not arguments.compare:
                file.write_text(json.dumps(found, indent=1), encoding="utf-8")
                continue
            places = [*differences(json.loads(file.read_text(encoding="utf-8")), found)]
            differing += bool(places)
            print(*(f"{found['command']}: {place}" for place in places[:5]), sep="\n", end="\n" if places else "")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
