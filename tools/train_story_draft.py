"""Train the draft of the bundled story model: a model of one small layer that guesses what the story model says next.

The story model is its own source of text; no other model or data is needed. Two steps, each fixed by the seed:

1. sample stories from the story model, hot in their opening words, then half of them cool and half of them cooler,
   as runs that draw and runs that take the likeliest token continue a prompt;
2. train a Llama model with the same tokenizer on the story model's probabilities at every token of them (the cross
   entropy of Hinton, Vinyals, Dean, arXiv 1503.02531, at temperature 1), and write it as a Hugging Face folder.

Of stories that are kept for this and not trained on, it prints the share of tokens at which both models' likeliest ids
are one (what greedy runs accept), and the mean of sum(min(p, q)) (what runs that draw accept, Leviathan et al., arXiv
2211.17192, theorem 3.5).

Needs torch 2.9 or later (for its Muon optimizer) and a C++ compiler (for `torch.compile`).

Example:
    python tools/train_story_draft.py --model wse/data/story --out wse/data/story-draft
"""

import argparse
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from story_llama import Llama, Shape, load_llama
from story_teacher import Sampling, sample_batch
from tokenizers import Tokenizer
from torch import nn
from train_story_model import BEGIN_ID, END_ID, Schedule, fresh_model, pace, rows_of, write_folder

DRAFT = Shape(hidden_size=64, intermediate_size=256, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2)
SCHEDULE = Schedule(steps=5000, cosine_steps=5000, long_steps=0, context=256)
COOLER = 0.2
"""The temperature of half of the stories behind their opening; a run that takes the likeliest tokens is at 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The agreement of a draft with its model at the tokens of stories, as a share of tokens: greedy, and drawn."""

    greedy: float
    drawn: float


def sample(model: Llama, stories: int, seed: int) -> list[list[int]]:
    """Ids of different stories that end, of the model's own tokens, from the begin id on."""
    generator = torch.Generator().manual_seed(seed)
    seen: dict[tuple[int, ...], None] = {}
    how = Sampling()
    rounds = -(-stories // how.sample_rows)
    for number in range(rounds):
        how = replace(how, temperature=COOLER if number % 2 else Sampling().temperature)
        for ids in sample_batch(model, how.sample_rows, how, generator, ends=(BEGIN_ID, END_ID)):
            if ids[-1] == END_ID:
                seen[BEGIN_ID, *ids] = None
        print(f"sampled {(number + 1) * how.sample_rows} stories, kept {len(seen)}", flush=True)
    return [list(ids) for ids in seen]


def train(
    draft: Llama, model: Llama, stories: list[list[int]], how: Schedule, seed: int
) -> Iterator[tuple[int, float]]:
    """Train the draft in place; yield (step, mean nats per token since the last) now and then."""
    projections = [w for name, w in draft.named_parameters() if w.ndim == 2 and "embed" not in name]
    others = [w for name, w in draft.named_parameters() if w.ndim == 1 or "embed" in name]
    muon = torch.optim.Muon(projections, weight_decay=how.weight_decay, adjust_lr_fn="match_rms_adamw")
    optimizers = {
        muon: how.projection_learning_rate,
        torch.optim.AdamW(others, betas=(0.9, 0.95), weight_decay=0.0): how.learning_rate,
    }
    rows = rows_of(stories, how.context, torch.Generator().manual_seed(seed))
    losses: list[float] = []
    for step in range(how.steps):
        batch = torch.stack([next(rows) for _ in range(how.batch_tokens // how.context)])[:, :-1]
        with torch.autocast("cpu", torch.bfloat16):
            with torch.no_grad():
                probabilities = model(batch).float().softmax(-1)
            logits = draft(batch)
        loss = -(probabilities * logits.float().log_softmax(-1)).sum(-1).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(draft.parameters(), 1.0)
        for optimizer, peak in optimizers.items():
            optimizer.param_groups[0]["lr"] = peak * pace(step, how)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
        if (step + 1) % 250 == 0 or step + 1 == how.steps:
            yield step + 1, sum(losses) / len(losses)
            losses.clear()


@torch.inference_mode()
def agreement(draft: Llama, model: Llama, stories: list[list[int]]) -> Agreement:
    """Return the agreement at the ids of stories."""
    same, common, tokens = 0.0, 0.0, 0
    for story in stories:
        ids = torch.tensor([story[:-1]])
        p, q = (one(ids)[0].softmax(-1) for one in (model, draft))
        same += float((p.argmax(-1) == q.argmax(-1)).sum())
        common += float(torch.minimum(p, q).sum())
        tokens += len(p)
    return Agreement(greedy=same / tokens, drawn=common / tokens)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="folder of the story model")
    parser.add_argument("--out", type=Path, required=True, help="folder to write the draft to")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="of torch; another number rounds differently")
    parser.add_argument("--stories", type=int, default=4096, help="stories to sample; one in 64 is kept from training")
    parser.add_argument("--steps", type=int, default=SCHEDULE.steps)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    how = replace(SCHEDULE, steps=args.steps, cosine_steps=args.steps)
    model, tokenizer = load_llama(args.model), Tokenizer.from_file(str(args.model / "tokenizer.json"))
    stories = sample(model, args.stories, args.seed)  # before it is compiled: rows of a batch grow fewer
    kept, trained_on = stories[::64], [story for number, story in enumerate(stories) if number % 64]
    draft = fresh_model(DRAFT, args.seed)
    for one in (draft, model):
        one.compile(dynamic=False)
    parameters, tokens = sum(w.numel() for w in draft.parameters()), sum(map(len, trained_on))
    print(f"{parameters} parameters, {len(trained_on)} stories of {tokens} tokens", flush=True)
    start_s = time.monotonic()
    for step, loss in train(draft, model, trained_on, how, args.seed):
        print(f"step {step} loss {loss:.4f} after {time.monotonic() - start_s:.0f} s", flush=True)
    write_folder(draft, tokenizer, args.out)
    shutil.copyfile(args.model / "tokenizer.json", args.out / "tokenizer.json")
    print(agreement(load_llama(args.out), load_llama(args.model), kept))


if __name__ == "__main__":
    main()
