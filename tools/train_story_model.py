"""Train the bundled story model on text sampled from a larger story model.

The teacher is a folder with a Llama checkpoint in Hugging Face layout and its llama2.c `tokenizer.bin`
(the 15M-parameter TinyStories model of karpathy/llama2.c was used). Three steps, each fixed by the seed:

1. sample stories from the teacher, hot in their opening words (many subjects), cool after them (plain prose);
2. train a byte-level BPE tokenizer on them;
3. train a Llama model of under one million parameters on them, and write it as a Hugging Face folder.

Needs torch 2.9 or later (for its Muon optimizer) and a C++ compiler (for `torch.compile`).

Example:
    python tools/train_story_model.py --teacher stories15m --stories stories.jsonl --out wse/data/story
"""

import argparse
import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from story_llama import Llama, Shape, load_llama
from story_teacher import Sampling, read_pieces, sample_stories
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

BEGIN, END = "<|begin|>", "<|end|>"
BEGIN_ID, END_ID = 0, 1
PROMPTS = ["Once upon a time", "One day, a little dog"]
IGNORED = -100  # the target that cross_entropy leaves out


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How long and how fast to train."""

    steps: int = 7500
    cosine_steps: int = 7500  # where the learning rate would reach its least; more than `steps` stops earlier
    long_steps: int = 150  # of them: the last, whose rows are as long as the model's context
    batch_tokens: int = 2560
    context: int = 320
    projection_learning_rate: float = 0.012  # of Muon
    learning_rate: float = 0.006  # of AdamW: embeddings and gains
    warmup_steps: int = 100
    weight_decay: float = 0.1


def train_tokenizer(stories: list[str], vocab_size: int) -> Tokenizer:
    """Return a byte-level BPE: all 256 bytes are in it, so no text is unknown."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[BEGIN, END],  # ids 0 and 1, in this order
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(stories, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{BEGIN} $A", special_tokens=[(BEGIN, BEGIN_ID)])
    return tokenizer


def rows_of(stories: list[list[int]], context: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Endless rows of context + 1 ids; each starts where a story does and is filled with the next ones."""
    row: list[int] = []
    while True:
        for n in torch.randperm(len(stories), generator=generator).tolist():
            row += stories[n]
            if len(row) > context:
                yield torch.tensor(row[: context + 1])
                row = []


def pace(step: int, how: Schedule) -> float:
    """Return the learning rate over its peak: linear warm-up, then a cosine to a hundredth."""
    if step < how.warmup_steps:
        return (step + 1) / how.warmup_steps
    done = (step - how.warmup_steps) / max(1, how.cosine_steps - how.warmup_steps)
    return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done))


def fresh_model(shape: Shape, seed: int) -> Llama:
    """Normal weights: 0.02 for embeddings, 1 / sqrt(inputs) for projections, less where they add to the stream."""
    model = Llama(shape)
    torch.manual_seed(seed)
    for name, weight in model.named_parameters():
        if weight.ndim == 2:
            std = 0.02 if "embed" in name else weight.shape[1] ** -0.5
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                std /= math.sqrt(2 * shape.num_hidden_layers)
            nn.init.normal_(weight, std=std)
    return model


def train(model: Llama, stories: list[list[int]], how: Schedule, seed: int) -> Iterator[tuple[int, float]]:
    """Train in place; yield (step, mean nats per token since the last) now and then."""
    projections = [w for name, w in model.named_parameters() if w.ndim == 2 and "embed" not in name]
    others = [w for name, w in model.named_parameters() if w.ndim == 1 or "embed" in name]
    muon = torch.optim.Muon(projections, weight_decay=how.weight_decay, adjust_lr_fn="match_rms_adamw")
    optimizers = {
        muon: how.projection_learning_rate,
        torch.optim.AdamW(others, betas=(0.9, 0.95), weight_decay=0.0): how.learning_rate,
    }
    generator = torch.Generator().manual_seed(seed)
    losses: list[float] = []
    for step in range(how.steps):
        is_long = step >= how.steps - how.long_steps
        context = model.shape.max_position_embeddings if is_long else how.context
        if step in (0, how.steps - how.long_steps):
            rows = rows_of(stories, context, generator)
        batch = torch.stack([next(rows) for _ in range(how.batch_tokens // context)])
        targets = batch[:, 1:].masked_fill(batch[:, 1:] == BEGIN_ID, IGNORED)
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(batch[:, :-1]).flatten(0, 1)
        loss = F.cross_entropy(logits.float(), targets.flatten(), ignore_index=IGNORED)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, peak in optimizers.items():
            optimizer.param_groups[0]["lr"] = peak * pace(step, how)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
        if (step + 1) % 100 == 0 or step + 1 == how.steps:
            yield step + 1, sum(losses) / len(losses)
            losses.clear()


def write_folder(model: Llama, tokenizer: Tokenizer, out: Path) -> None:
    """Write config.json, tokenizer.json and the weights rounded to float16."""
    out.mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **asdict(model.shape),
        "hidden_act": "silu",
        "rope_scaling": None,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "bos_token_id": BEGIN_ID,
        "eos_token_id": END_ID,
        "torch_dtype": "float16",
    }
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (out / "tokenizer.json").write_text(tokenizer.to_str() + "\n")
    weights = {f"model.{name}": w.detach().half().contiguous() for name, w in model.state_dict().items()}
    (out / "model.safetensors").write_bytes(save(weights, metadata={"format": "pt"}))


@torch.inference_mode()
def continue_greedily(model: Llama, prompt_ids: list[int], count: int) -> tuple[list[int], float]:
    """At most `count` likeliest next ids, with the end if it comes, and their smallest lead in logits."""
    cache, ids, at, lead = model.empty_cache(1), list(prompt_ids), 0, math.inf
    while len(ids) < len(prompt_ids) + count and ids[-1] != END_ID:
        values, likeliest = model(torch.tensor([ids[at:]]), cache, at)[0, -1].topk(2)
        at, lead = len(ids), min(lead, (values[0] - values[1]).item())
        ids.append(int(likeliest[0]))
    return ids[len(prompt_ids) :], lead


def golden(folder: Path, prompts: list[str], count: int) -> list[dict[str, object]]:
    """Greedy continuations of the written model, in float32 arithmetic."""
    model, tokenizer = load_llama(folder), Tokenizer.from_file(str(folder / "tokenizer.json"))
    rows: list[dict[str, object]] = []
    for prompt in prompts:
        prompt_ids = tokenizer.encode(prompt).ids
        ids, lead = continue_greedily(model, prompt_ids, count)
        row = {"prompt": prompt, "prompt_ids": prompt_ids, "ids": ids, "text": tokenizer.decode(ids)}
        rows.append(row | {"smallest_top2_gap": lead})
    return rows


def arguments() -> argparse.Namespace:
    """Return the command line: its paths, and one option for each field of `Sampling` and `Schedule`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teacher", type=Path, required=True, help="folder of the model that tells stories")
    parser.add_argument("--stories", type=Path, required=True, help="the sampled text; made if missing")
    parser.add_argument("--out", type=Path, required=True, help="folder to write the trained model to")
    parser.add_argument("--start", type=Path, help="folder whose weights to train on, not random ones")
    parser.add_argument("--golden", type=Path, help="file to write greedy continuations to")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="of torch; another number rounds differently")
    parser.add_argument("--save-every", type=int, default=500, help="steps between writings of the folder")
    for field in (*fields(Sampling), *fields(Schedule)):
        option = "--" + field.name.replace("_", "-")
        parser.add_argument(option, type=type(field.default), default=field.default)
    return parser.parse_args()


def options(kind: type, args: argparse.Namespace) -> dict[str, Any]:
    """Return those that are fields of `kind`."""
    return {field.name: getattr(args, field.name) for field in fields(kind)}


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    if not args.stories.exists():
        teacher = load_llama(args.teacher).to(torch.bfloat16)  # on a CPU half the time of float32
        pieces = read_pieces(args.teacher / "tokenizer.bin")
        texts = sample_stories(teacher, pieces, Sampling(**options(Sampling, args)), args.seed)
        args.stories.write_text("".join(json.dumps(text) + "\n" for text in texts))
    stories = [json.loads(line) for line in args.stories.read_text().splitlines()]
    model = load_llama(args.start).train() if args.start else fresh_model(Shape(), args.seed)
    model.compile(dynamic=False)
    tokenizer = train_tokenizer(stories, model.shape.vocab_size)
    encoded = [[*encoding.ids, END_ID] for encoding in tokenizer.encode_batch(stories)]
    parameters, tokens = sum(w.numel() for w in model.parameters()), sum(map(len, encoded))
    print(f"{parameters} parameters, {len(encoded)} stories of {tokens} tokens", flush=True)
    start_s = time.monotonic()
    for step, loss in train(model, encoded, Schedule(**options(Schedule, args)), args.seed):
        print(f"step {step} loss {loss:.4f} after {time.monotonic() - start_s:.0f} s", flush=True)
        if step % args.save_every == 0 or step == args.steps:
            write_folder(model, tokenizer, args.out)
            print(golden(args.out, PROMPTS[:1], 60)[0]["text"], flush=True)
    if args.golden:
        args.golden.write_text(json.dumps(golden(args.out, PROMPTS, 120), indent=1) + "\n")


if __name__ == "__main__":
    main()
