"""Stories sampled from a larger story model, hot in their opening words, cool after them."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from story_llama import Llama
from torch import Tensor

TEACHER_BEGIN_IDS = (1, 2)  # both end a story: the teacher starts the next one, or stops


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Options of the stories that are drawn from the teacher: their number and the sampling."""

    sampled_stories: int = 9216
    sample_rows: int = 256  # stories at once
    opening_tokens: int = 24
    opening_temperature: float = 1.0
    temperature: float = 0.6  # after the opening
    top_p: float = 0.95


def read_pieces(path: Path) -> list[bytes]:
    """Return the bytes of each token of a `tokenizer.bin`: int32, then float32 score, int32 size, bytes for each."""
    data, at, pieces = path.read_bytes(), 4, []
    while at < len(data):
        (size,) = struct.unpack_from("<i", data, at + 4)
        piece = data[at + 8 : at + 8 + size]
        is_byte = len(piece) == 6 and piece.startswith(b"<0x") and piece.endswith(b">")
        pieces.append(bytes([int(piece[3:5], 16)]) if is_byte else piece)
        at += 8 + size
    return pieces


def draw(logits: Tensor, temperature: float, top_p: float, generator: torch.Generator) -> Tensor:
    """Return one token id per row, from the fewest likeliest tokens (at most 32) that hold `top_p` of the mass."""
    values, ids = logits.float().topk(32)
    p = (values / temperature).softmax(-1)
    p = p.masked_fill(p.cumsum(-1) - p > top_p, 0.0)
    return ids.gather(1, torch.multinomial(p, 1, generator=generator))


@torch.inference_mode()
def sample_batch(
    teacher: Llama,
    rows: int,
    how: Sampling,
    generator: torch.Generator,
    ends: tuple[int, ...] = TEACHER_BEGIN_IDS,
) -> list[list[int]]:
    """Token ids of `rows` stories behind the first of `ends`; one that ended has one of these as its last."""
    done: list[list[int]] = []
    ids = torch.full((rows, 1), ends[0])
    cache = teacher.empty_cache(rows)
    for at in range(teacher.shape.max_position_embeddings):
        logits = teacher(ids[:, -1:], cache, at)[:, -1]
        temperature = how.opening_temperature if at < how.opening_tokens else how.temperature
        ids = torch.cat((ids, draw(logits, temperature, how.top_p, generator)), dim=1)
        ended = torch.isin(ids[:, 1:], torch.tensor(ends)).any(1)
        if ended.float().mean() > 1 / 8:  # moving the cache costs as much as a few steps
            done += ids[ended, 1:].tolist()
            ids = ids[~ended]
            cache = [(k[~ended], v[~ended]) for k, v in cache]
        if len(ids) == 0:
            break
    return [story_ids(row, ends) for row in done + ids[:, 1:].tolist()]


def story_ids(ids: list[int], ends: tuple[int, ...] = TEACHER_BEGIN_IDS) -> list[int]:
    """Return the ids up to and with the first that ends a story, or all."""
    places = [n for n, i in enumerate(ids) if i in ends]
    return ids[: places[0] + 1] if places else ids


def sample_stories(teacher: Llama, pieces: list[bytes], how: Sampling, seed: int) -> Iterator[str]:
    """Yield different stories, batch by batch; those that do not end in the teacher's context are dropped."""
    generator = torch.Generator().manual_seed(seed)
    seen: set[str] = set()
    for first in range(0, how.sampled_stories, how.sample_rows):
        rows = min(how.sample_rows, how.sampled_stories - first)
        for ids in sample_batch(teacher, rows, how, generator):
            text = b"".join(pieces[i] for i in ids[:-1]).decode(errors="ignore").strip()
            if ids[-1] in TEACHER_BEGIN_IDS and text not in seen:
                seen.add(text)
                yield text
        print(f"sampled {first + rows} of {how.sampled_stories} stories, kept {len(seen)}", flush=True)
