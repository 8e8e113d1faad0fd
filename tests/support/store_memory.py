"""What storing a model's weights takes: ``python store_memory.py MODEL ROWSxCOLS DTYPE`` prints it as JSON.

    sram_bytes     the emulated SRAM in use, over all PEs
    stored_bytes   by how much the peak of resident memory grew while the model was loaded, compiled and stored, with
                   a small one stored before, whose kernels are then there

A process has one peak, so each measurement takes a process of its own: `measured` starts one.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from safetensors_writer import write_safetensors

STATUS = Path("/proc/self/status")  # Linux; ru_maxrss would begin with what the parent process had


def measured(model: Path, mesh: str, dtype: str) -> dict[str, Any]:
    """The figures of one model in a process of its own."""
    command = [sys.executable, __file__, str(model), mesh, dtype]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def write_llama(folder: Path, *, hidden: int, layers: int, vocab: int, ffn: int, dtype: Any) -> Path:
    """A Llama of random weights; heads of 64 features."""
    random = np.random.default_rng(0)
    heads = hidden // 64
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocab, hidden), "model.norm.weight": (hidden,)}
    for layer in range(layers):
        at = f"model.layers.{layer}"
        shapes |= {f"{at}.self_attn.{x}_proj.weight": (hidden, hidden) for x in "qkvo"}
        shapes |= {f"{at}.mlp.{x}_proj.weight": (ffn, hidden) for x in ("gate", "up")}
        shapes |= {f"{at}.mlp.down_proj.weight": (hidden, ffn)}
        shapes |= {f"{at}.{x}_layernorm.weight": (hidden,) for x in ("input", "post_attention")}
    config = {
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": ffn,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "vocab_size": vocab,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_id": None,
        "torch_dtype": np.dtype(dtype).name,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    tensors = {name: (random.random(shape, np.float32) - 0.5).astype(dtype) / 8 for name, shape in shapes.items()}
    write_safetensors(folder / "model.safetensors", tensors)
    return folder


def _peak() -> int:
    (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def _main() -> None:
    from wse.backends.execute.engine import Engine
    from wse.backends.execute.weight_storage.random_weights import RandomWeights
    from wse.studies.compile.choose import compile_program
    from wse.studies.options.option import make_request
    from wse.studies.run.prepare import prepare
    from wse.studies.run.request import RunRequest

    model, mesh, dtype = sys.argv[1:]
    small = prepare(
        make_request(RunRequest, model="story", dtype=dtype, weights="random:0", prompt_ids=[1], new_tokens=1)
    )
    Engine(compile_program(small), small.spec, RandomWeights(small.spec, 0).rows)
    before = _peak()
    request = make_request(
        RunRequest, model=model, mesh=mesh, dtype=dtype, prompt_ids=[1, 2, 3], new_tokens=8, context=16
    )
    prepared = prepare(request)
    program = compile_program(prepared)
    Engine(program, prepared.loaded.spec, prepared.loaded.checkpoint.rows)
    found = {
        "sram_bytes": sum((s.sram_top_byte - s.sram_base_byte) * s.rect.rows * s.rect.cols for s in program.stages),
        "stored_bytes": _peak() - before,
    }
    print(json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    _main()
