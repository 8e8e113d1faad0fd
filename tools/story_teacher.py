"""Sample stories from a larger story model (the teacher), as training data for a smaller one.

The temperature is high for the first tokens of a story and low after them.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from story_llama import Llama
from torch import Tensor

TEACHER_BEGIN_IDS = (1, 2)  # begin and end token: after a story, the teacher generates either of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Settings for sampling stories.

    Attributes:
        sampled_stories: Number of stories to sample; duplicates and unfinished ones are dropped.
        sample_rows: Number of stories that are generated together as a batch.
        opening_tokens: Number of tokens at the start of a story with ``opening_temperature``.
        opening_temperature: Temperature of the opening tokens.
        temperature: Temperature of all later tokens.
        top_p: Nucleus sampling: probability mass of the tokens that can be drawn.
    """

    sampled_stories: int = 9216
    sample_rows: int = 256
    opening_tokens: int = 24
    opening_temperature: float = 1.0
    temperature: float = 0.6
    top_p: float = 0.95


def read_pieces(path: Path) -> list[bytes]:
    """Read the bytes of each token from a llama2.c `tokenizer.bin`.

    The file has an int32, followed for each token by a float32 score, an int32 size and the bytes.
    """
    data, at, pieces = path.read_bytes(), 4, []
    while at < len(data):
        (size,) = struct.unpack_from("<i", data, at + 4)
        piece = data[at + 8 : at + 8 + size]
        is_byte = len(piece) == 6 and piece.startswith(b"<0x") and piece.endswith(b">")
        pieces.append(bytes([int(piece[3:5], 16)]) if is_byte else piece)
        at += 8 + size
    return pieces


def draw(logits: Tensor, temperature: float, top_p: float, generator: torch.Generator) -> Tensor:
    """Draw one token id per row by nucleus (top-p) sampling from the 32 most likely tokens.

    Args:
        logits: [rows, vocabulary].
        temperature: Divisor of the logits.
        top_p: The most likely tokens are drawn from until their probabilities exceed this sum.
        generator: Source of randomness.

    Returns:
        Ids, [rows, 1].
    """
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
    """Generate a batch of stories.

    Args:
        teacher: The model that generates them.
        rows: Number of stories.
        how: Temperatures and top-p.
        generator: Source of randomness.
        ends: Ids that end a story. The first of them is also the token before each story.

    Returns:
        Token ids of each story, without the token before it. A finished story ends with one of
        ``ends``; others reached the context length of the model.
    """
    done: list[list[int]] = []
    ids = torch.full((rows, 1), ends[0])
    cache = teacher.empty_cache(rows)
    for at in range(teacher.shape.max_position_embeddings):
        logits = teacher(ids[:, -1:], cache, at)[:, -1]
        temperature = how.opening_temperature if at < how.opening_tokens else how.temperature
        ids = torch.cat((ids, draw(logits, temperature, how.top_p, generator)), dim=1)
        ended = torch.isin(ids[:, 1:], torch.tensor(ends)).any(1)
        # Removing finished rows from the cache costs as much as a few steps: remove many at once.
        if ended.float().mean() > 1 / 8:
            done += ids[ended, 1:].tolist()
            ids = ids[~ended]
            cache = [(k[~ended], v[~ended]) for k, v in cache]
        if len(ids) == 0:
            break
    return [story_ids(row, ends) for row in done + ids[:, 1:].tolist()]


def story_ids(ids: list[int], ends: tuple[int, ...] = TEACHER_BEGIN_IDS) -> list[int]:
    """Return the ids up to and including the first one in ``ends``, or all ids if there is none."""
    places = [n for n, i in enumerate(ids) if i in ends]
    return ids[: places[0] + 1] if places else ids


def sample_stories(teacher: Llama, pieces: list[bytes], how: Sampling, seed: int) -> Iterator[str]:
    """Yield the texts of sampled stories, without duplicates.

    Stories that do not end within the context length of the teacher are dropped.

    Args:
        teacher: The model that generates them.
        pieces: Bytes of each token of the teacher's vocabulary.
        how: Number of stories, batch size, temperatures and top-p.
        seed: Determines the stories.
    """
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
