"""Steps of one decoded layer: vector operations of a PE, collectives and messages, in order.

In the described kernels, a PE issues one vector operation at a time and waits for it. Each step
lists its operations, with functions of the `Shard` for their number and length, and the collective
that follows them. How many operations an exponential, the norm of a head or a rotation needs is a
constant of the software profile. Source of shards, order and collectives: working notes of the
group that measured Qwen3 on a WSE-3 at EPCC, 2026, unreviewed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from wse.studies.validate.kernel_model.described_run import Shard

Size = Callable[[Shard], int]
Work = Literal[
    "plain", "multiply-accumulate", "reduction", "conversion", "exponential", "sigmoid", "head norm", "rotation"
]
Line = Literal["column", "row", "band"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """Identical vector operations that a PE executes in a step of a layer.

    Attributes:
        purpose: What the operations compute, such as "residual".
        count: Function that returns the number of operations per sequence of the batch, given the
            sizes of the tensors on a PE. By default, there is one.
        length: Function that returns the number of elements per operation, given the sizes of the
            tensors on a PE.
        work: Type of operation. ``plain`` is any float32 vector operation, ``multiply-accumulate``
            has 16-bit operands, ``reduction`` is the sum or maximum of a float32 vector, and
            ``conversion`` is from float32 to bfloat16. Other values, such as ``exponential``, are
            functions. Each consists of several vector operations; the software profile has their
            number.
        spans_batch: Whether a single operation processes the vectors of all sequences, which are
            adjacent in memory.
    """

    purpose: str
    count: Size = lambda _: 1
    length: Size
    work: Work = "plain"
    spans_batch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """An all-reduce that follows the operations of a step.

    Attributes:
        line: PEs that participate: a ``column`` or ``row`` of the block (rectangle of PEs), or a
            ``band`` (the PEs of a row that share one KV head).
        words: Function that returns the number of 32-bit words that a PE contributes for one
            sequence, given the sizes of the tensors on the PE.
        only_in_one_block: Whether the all-reduce is needed only if a block stores whole layers.
    """

    line: Line
    words: Size
    only_in_one_block: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of a layer that is timed separately, such as "qkv".

    The operations are executed first, then the all-reduces.

    Attributes:
        name: Name of the step.
        operations: Vector operations of a PE.
        collectives: All-reduces over lines of PEs.
        messages: Number of messages to or from another block of PEs, each of which starts a task.
    """

    name: str
    operations: tuple[Operations, ...]
    collectives: tuple[Collective, ...] = ()
    messages: int = 0


def _conversion(length: Size) -> Operations:
    """Return the operation that converts a vector of each sequence from float32 to bfloat16.

    Args:
        length: Function that maps a PE's tensor sizes to the length of the vector.
    """
    return Operations(purpose="conversion", length=length, work="conversion", spans_batch=True)


_NORM: Final = (
    Operations(purpose="sum of squares", length=lambda s: s.hidden),
    Operations(purpose="scale", length=lambda s: s.hidden),
    Operations(purpose="gain", length=lambda s: s.hidden),
    _conversion(lambda s: s.hidden),
)
_SQUARES: Final = Collective(line="column", words=lambda _: 1, only_in_one_block=True)
_SEND: Final = (
    Operations(purpose="residual", length=lambda s: s.hidden, spans_batch=True),
    _conversion(lambda s: s.hidden),
    Operations(purpose="send", length=lambda s: s.hidden, spans_batch=True),
)

NORM_OPERATIONS: Final = len(_NORM)
"""Number of vector operations in a norm of the hidden vector."""

ATTENTION: Final = (
    Step(
        name="qkv",
        operations=(
            *_NORM,
            Operations(
                purpose="projections",
                count=lambda s: s.hidden,
                length=lambda s: s.queries + 2 * s.keys,
                work="multiply-accumulate",
            ),
        ),
        collectives=(_SQUARES, Collective(line="column", words=lambda s: s.queries + 2 * s.keys + 1)),
    ),
    Step(
        name="qk_norm_rope",
        operations=(
            Operations(purpose="norm", count=lambda s: s.heads + 1, length=lambda s: s.keys, work="head norm"),
            Operations(purpose="RoPE", count=lambda s: s.heads + 1, length=lambda s: s.keys // 2, work="rotation"),
        ),
        collectives=(Collective(line="band", words=lambda s: s.heads + 1),),
    ),
    Step(
        name="score",
        operations=(
            Operations(purpose="append keys and values", count=lambda _: 2, length=lambda s: s.keys),
            Operations(
                purpose="scores", count=lambda s: s.queries, length=lambda s: s.positions, work="multiply-accumulate"
            ),
        ),
        collectives=(Collective(line="band", words=lambda s: s.scores),),
    ),
    Step(
        name="softmax",
        operations=(
            Operations(purpose="maximum", count=lambda s: s.heads, length=lambda s: s.positions, work="reduction"),
            Operations(purpose="subtract and scale", count=lambda s: 2 * s.heads, length=lambda s: s.positions),
            Operations(purpose="exp", count=lambda s: s.heads, length=lambda s: s.positions, work="exponential"),
            Operations(purpose="sum", count=lambda s: s.heads, length=lambda s: s.positions, work="reduction"),
            _conversion(lambda s: s.scores),
        ),
        collectives=(
            Collective(line="column", words=lambda s: s.heads),
            Collective(line="column", words=lambda s: s.heads),
        ),
    ),
    Step(
        name="pv",
        operations=(
            Operations(
                purpose="products", count=lambda s: s.queries, length=lambda s: s.positions, work="multiply-accumulate"
            ),
            Operations(purpose="divide", count=lambda s: 2 * s.heads, length=lambda s: s.keys),
        ),
        collectives=(Collective(line="column", words=lambda s: s.queries),),
    ),
    Step(
        name="o_proj",
        operations=(
            Operations(
                purpose="projection", count=lambda s: s.queries, length=lambda s: s.hidden, work="multiply-accumulate"
            ),
        ),
        collectives=(Collective(line="row", words=lambda s: s.hidden),),
    ),
    Step(name="residual", operations=_SEND, messages=1),
)
"""Steps of the attention part of a layer, in order."""

BEFORE_CONTEXT: Final = ATTENTION[:2]
"""Steps of attention whose time does not depend on the context. The authors call them A1."""

FROM_CONTEXT: Final = ATTENTION[2:]
"""Steps of attention from the scores to the residual. The authors call them A2."""

FEED_FORWARD: Final = (
    Step(
        name="f1",
        operations=(
            *_NORM,
            Operations(
                purpose="up and gate", count=lambda s: s.hidden, length=lambda s: 2 * s.ffn, work="multiply-accumulate"
            ),
            Operations(purpose="SiLU", length=lambda s: s.ffn, work="sigmoid", spans_batch=True),
            Operations(purpose="product", length=lambda s: s.ffn, spans_batch=True),
            _conversion(lambda s: s.ffn),
        ),
        collectives=(_SQUARES, Collective(line="column", words=lambda s: 2 * s.ffn + 1)),
    ),
    Step(
        name="f2",
        operations=(
            Operations(purpose="down", count=lambda s: s.ffn, length=lambda s: s.hidden, work="multiply-accumulate"),
            *_SEND,
        ),
        collectives=(Collective(line="row", words=lambda s: s.hidden),),
        messages=1,
    ),
)
"""Steps of the feed-forward part of a layer, in order."""
