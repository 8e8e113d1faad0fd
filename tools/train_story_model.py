"""Train the bundled story model on text sampled from a larger story model.

The larger model (the teacher) is a folder with a Llama checkpoint in Hugging Face layout and its
llama2.c `tokenizer.bin`. The bundled model was trained with the 15M-parameter TinyStories model of
karpathy/llama2.c. There are three steps, each of them determined by the seed:

1. Sample stories from the teacher. The temperature is high for the first tokens, for a variety of
   subjects, and low after them, for plain prose.
2. Train a byte-level BPE tokenizer on the stories.
3. Train a Llama model with under one million parameters on the stories, and write it as a Hugging
   Face folder.

Needs torch 2.9 or later (for its Muon optimizer) and a C++ compiler (for `torch.compile`).

Example:
    python tools/train_story_model.py --teacher stories15m --stories stories.jsonl --out wse/data/story
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
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
IGNORED = -100  # target id of tokens that cross_entropy does not count


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Length of the training, batch sizes and learning rates.

    Attributes:
        steps: Number of optimizer steps.
        cosine_steps: Step at which the learning rate reaches its minimum. If this is more than
            ``steps``, the training ends before that.
        long_steps: Number of final steps whose rows have the full context length of the model.
        batch_tokens: Tokens per step.
        context: Tokens per row of a batch, except in the long steps.
        projection_learning_rate: Peak learning rate of Muon, for the projection matrices.
        learning_rate: Peak learning rate of AdamW, for embeddings and norm gains.
        warmup_steps: Steps in which the learning rates rise linearly to their peaks.
        weight_decay: Weight decay of Muon. AdamW has none.
    """

    steps: int = 7500
    cosine_steps: int = 7500
    long_steps: int = 150
    batch_tokens: int = 2560
    context: int = 320
    projection_learning_rate: float = 0.012
    learning_rate: float = 0.006
    warmup_steps: int = 100
    weight_decay: float = 0.1


def train_tokenizer(stories: list[str], vocab_size: int) -> Tokenizer:
    """Train a byte-level BPE tokenizer. All 256 bytes are tokens, so it can encode every text."""
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
    """Yield training rows without end.

    Each row starts at the beginning of a story and is filled with the stories after it. The order
    is random, and changes when all stories have been used.

    Args:
        stories: Token ids of each story.
        context: Tokens that the model reads per row. A row has one id more, the last target.
        generator: Source of the random order.

    Yields:
        Ids as an int64 tensor [context + 1].
    """
    row: list[int] = []
    while True:
        for n in torch.randperm(len(stories), generator=generator).tolist():
            row += stories[n]
            if len(row) > context:
                yield torch.tensor(row[: context + 1])
                row = []


def pace(step: int, how: Schedule) -> float:
    """Return the learning rate of a step as a fraction of its peak.

    It rises linearly during the warm-up and then falls along a cosine to 0.01.
    """
    if step < how.warmup_steps:
        return (step + 1) / how.warmup_steps
    done = (step - how.warmup_steps) / max(1, how.cosine_steps - how.warmup_steps)
    return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done))


def fresh_model(shape: Shape, seed: int) -> Llama:
    """Return a model with normally distributed random weights.

    The standard deviation is 0.02 for embeddings and 1 / sqrt(inputs) for projections. For
    projections that add to the residual stream (o_proj, down_proj), it is divided by
    sqrt(2 * layers), as in GPT-2.
    """
    model = Llama(shape)
    torch.manual_seed(seed)
    for name, weight in model.named_parameters():
        if weight.ndim == 2:
            std = 0.02 if "embed" in name else weight.shape[1] ** -0.5
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                std /= math.sqrt(2 * shape.num_hidden_layers)
            nn.init.normal_(weight, std=std)
    return model


def descend(
    model: Llama, loss_at: Callable[[int], Tensor], how: Schedule, steps_per_report: int
) -> Iterator[tuple[int, float]]:
    """Train a model in place.

    Args:
        model: Model to train.
        loss_at: Function that returns the loss of the model on the batch of a step.
        how: Length of the training and learning rates.
        steps_per_report: Number of steps between two yields.

    Yields:
        The number of steps done, and the mean loss since the previous yield. The last yield is at
        the end.
    """
    projections = [w for name, w in model.named_parameters() if w.ndim == 2 and "embed" not in name]
    others = [w for name, w in model.named_parameters() if w.ndim == 1 or "embed" in name]
    muon = torch.optim.Muon(projections, weight_decay=how.weight_decay, adjust_lr_fn="match_rms_adamw")
    optimizers = {
        muon: how.projection_learning_rate,
        torch.optim.AdamW(others, betas=(0.9, 0.95), weight_decay=0.0): how.learning_rate,
    }
    losses: list[float] = []
    for step in range(how.steps):
        loss = loss_at(step)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, peak in optimizers.items():
            optimizer.param_groups[0]["lr"] = peak * pace(step, how)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
        if (step + 1) % steps_per_report == 0 or step + 1 == how.steps:
            yield step + 1, sum(losses) / len(losses)
            losses.clear()


def train(model: Llama, stories: list[list[int]], how: Schedule, seed: int) -> Iterator[tuple[int, float]]:
    """Train the model in place.

    Args:
        model: Model to train.
        stories: Token ids of each story, each starting with ``BEGIN_ID``.
        how: Length of the training, batch sizes and learning rates.
        seed: Determines the order of the stories.

    Yields:
        Every 100 steps and at the end: the number of steps done, and the mean loss in nats per
        token since the previous yield.
    """
    generator = torch.Generator().manual_seed(seed)
    rows: Iterator[Tensor] = iter(())

    def loss_at(step: int) -> Tensor:
        nonlocal rows
        is_long = step >= how.steps - how.long_steps
        context = model.shape.max_position_embeddings if is_long else how.context
        if step in (0, how.steps - how.long_steps):
            rows = rows_of(stories, context, generator)
        batch = torch.stack([next(rows) for _ in range(how.batch_tokens // context)])
        targets = batch[:, 1:].masked_fill(batch[:, 1:] == BEGIN_ID, IGNORED)
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(batch[:, :-1]).flatten(0, 1)
        return F.cross_entropy(logits.float(), targets.flatten(), ignore_index=IGNORED)

    yield from descend(model, loss_at, how, steps_per_report=100)


def write_folder(model: Llama, tokenizer: Tokenizer, out: Path) -> None:
    """Write a Hugging Face folder: config.json, tokenizer.json and model.safetensors in float16."""
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
    """Continue a prompt, always with the most likely token.

    Args:
        model: Model that generates.
        prompt_ids: Token ids of the prompt.
        count: Maximum number of generated tokens. Generation also stops after ``END_ID``.

    Returns:
        The generated ids, and the smallest difference between the two largest logits of a step.
    """
    cache, ids, at, lead = model.empty_cache(1), list(prompt_ids), 0, math.inf
    while len(ids) < len(prompt_ids) + count and ids[-1] != END_ID:
        values, likeliest = model(torch.tensor([ids[at:]]), cache, at)[0, -1].topk(2)
        at, lead = len(ids), min(lead, (values[0] - values[1]).item())
        ids.append(int(likeliest[0]))
    return ids[len(prompt_ids) :], lead


def golden(folder: Path, prompts: list[str], count: int) -> list[dict[str, object]]:
    """Return greedy continuations of prompts by the model in a folder, computed in float32.

    Args:
        folder: Hugging Face folder of the model.
        prompts: Prompt texts.
        count: Maximum number of generated tokens per prompt.

    Returns:
        One dict per prompt: the prompt, its ids, the generated ids, their text, and
        ``smallest_top2_gap``, the smallest difference between the two largest logits of a step.
    """
    model, tokenizer = load_llama(folder), Tokenizer.from_file(str(folder / "tokenizer.json"))
    rows: list[dict[str, object]] = []
    for prompt in prompts:
        prompt_ids = tokenizer.encode(prompt).ids
        ids, lead = continue_greedily(model, prompt_ids, count)
        row = {"prompt": prompt, "prompt_ids": prompt_ids, "ids": ids, "text": tokenizer.decode(ids)}
        rows.append(row | {"smallest_top2_gap": lead})
    return rows


def arguments() -> argparse.Namespace:
    """Parse the command line. Each field of `Sampling` and `Schedule` has an option of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teacher", type=Path, required=True, help="folder of the model to sample stories from")
    parser.add_argument("--stories", type=Path, required=True, help="file of the sampled stories; created if missing")
    parser.add_argument("--out", type=Path, required=True, help="folder to write the trained model to")
    parser.add_argument("--start", type=Path, help="folder whose weights to start with instead of random ones")
    parser.add_argument("--golden", type=Path, help="file to write greedy continuations to")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="threads of torch; results depend on it by rounding")
    parser.add_argument("--save-every", type=int, default=500, help="steps between two saves of the model")
    for field in (*fields(Sampling), *fields(Schedule)):
        option = "--" + field.name.replace("_", "-")
        parser.add_argument(option, type=type(field.default), default=field.default)
    return parser.parse_args()


def options(kind: type, args: argparse.Namespace) -> dict[str, Any]:
    """Return the command-line options that are fields of the dataclass `kind`, by name."""
    return {field.name: getattr(args, field.name) for field in fields(kind)}


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    if not args.stories.exists():
        teacher = load_llama(args.teacher).to(torch.bfloat16)  # twice as fast as float32 on a CPU
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
