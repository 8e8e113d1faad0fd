"""KvTierResult: the memories that ``--kv-tiers`` names, with their capacity and link."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np

from wse.errors import BadInput, BadWafer
from wse.files import read_toml
from wse.hardware.number import Grade, SourcedNumber
from wse.hardware.number_file import read_number
from wse.hardware.spec import WaferSpec
from wse.number_formats import WORD_BYTES
from wse.program.program import Program
from wse.reports.result import Doc, Result
from wse.serving.gpus.server import GpuServer
from wse.serving.simulation.kv.kv_tiers import KvTier
from wse.studies.estimate.drafts.result import DraftRegionResult
from wse.studies.options.placement import MachineOptions
from wse.studies.options.settings import WAFER as WAFER_NUMBERS
from wse.studies.options.settings import sourced_numbers
from wse.studies.serve_sim.machines.drafts import DraftsResult
from wse.studies.serve_sim.options import HOST, SRAM, WAFER, TierOptions
from wse_mappings.mesh.placement import Rect


def spare_kv_tokens(program: Program, draft: DraftRegionResult | None, kv_bytes_per_token: float) -> int:
    """Return how many tokens of KV caches fit on PEs that store no part of a model.

    The KV cache of a layer can be stored only on a wafer that computes this layer, so the wafer
    with the smallest room limits the number of tokens. The result is 0 if no wafer has KV caches.

    Args:
        program: The compiled model.
        draft: PEs that store a draft model on the same wafers, or None.
        kv_bytes_per_token: Bytes that a token adds to the KV caches of all layers.
    """
    is_used = np.zeros((program.wafers, program.wafer_rows, program.wafer_cols), bool)
    kv_bytes = np.zeros(program.wafers)
    for stage, user_bytes in zip(program.stages, program.user_bytes(), strict=True):
        for wafer in stage.wafers:
            is_used[wafer][_slices(stage.rect)] = True
            kv_bytes[wafer] += user_bytes.kv * stage.rect.rows * stage.rect.cols
    if draft is not None:
        pes = is_used[draft.wafer].T if program.is_transposed else is_used[draft.wafer]
        pes[_slices(draft)] = True
    spare_bytes = (~is_used).sum(axis=(1, 2)) * storage_bytes_per_pe(program)
    has_kv = kv_bytes > 0
    tokens = spare_bytes[has_kv] * kv_bytes.sum() / (kv_bytes_per_token * kv_bytes[has_kv])
    return math.floor(tokens.min(initial=math.inf)) if has_kv.any() else 0


def storage_bytes_per_pe(program: Program) -> int:
    """Return the SRAM of a PE that only stores KV caches, in bytes.

    Its code, stack and runtime are assumed to need as much SRAM as those of a PE with layers.
    """
    return program.sram_bytes_per_pe - min(stage.sram_base_byte for stage in program.stages)


def _slices(rect: Rect | DraftRegionResult) -> tuple[slice, slice]:
    """Return the rows and columns of a rectangle of PEs."""
    return slice(rect.row, rect.row + rect.rows), slice(rect.col, rect.col + rect.cols)


GIGA: Final = 1e9
NO_ROOM: Final = {
    SRAM: "the layout leaves no PE unused on at least one wafer with KV caches",
    WAFER: "the wafers are too small",
    HOST: "the memory is too small",
}
"""For each tier, the reason why it may have no room."""
_FILE: Final = Path(__file__).parents[3] / "data" / "kv_tiers.toml"


class KvTierResult(Result):
    """Memory that stores KV caches of prompt prefixes for reuse, and the link for loading them.

    All fields describe one replica, i.e. one of the identical machines of a service.
    """

    name: Annotated[str, Doc("`sram`, `wafer` or `host`")]
    capacity_bytes: Annotated[float, Doc("memory for KV caches", "B")]
    capacity_tokens: Annotated[int, Doc("tokens that fit")]
    capacity_source: Annotated[str, Doc("source of the capacity")]
    bytes_per_s: Annotated[float, Doc("bandwidth of loads, over the links of all wafers or GPUs", "B/s")]
    bytes_per_s_range: Annotated[tuple[float, float] | None, Doc("range of the bandwidth", "B/s")] = None
    latency_s: Annotated[float, Doc("time after which the first byte of a load arrives", "s")]
    grade: Annotated[Grade, Doc("grade of the bandwidth")]
    source: Annotated[str, Doc("source of the bandwidth")]
    bytes_per_token: Annotated[float, Doc("bytes that are loaded for a token", "B")]
    bytes_per_state: Annotated[
        int | None, Doc("bytes that are loaded for the states of a prefix; with linear attention", "B")
    ] = None

    @property
    def simulated_tier(self) -> KvTier:
        """This tier as a parameter of the serving simulation."""
        bytes_per_state = self.bytes_per_state or 0
        return KvTier(
            name=self.name,
            capacity_tokens=self.capacity_tokens,
            s_per_token=self.bytes_per_token / self.bytes_per_s,
            latency_s=self.latency_s,
            state_tokens=math.ceil(bytes_per_state * self.capacity_tokens / self.capacity_bytes),
            s_per_state=bytes_per_state / self.bytes_per_s,
        )


def wafer_tiers(
    options: TierOptions,
    program: Program,
    wafer: WaferSpec,
    machine: MachineOptions,
    drafts: DraftsResult | None,
    kv_bytes_per_token: float,
    bytes_per_state: int | None,
) -> tuple[KvTierResult, ...]:
    """Return the requested tiers of wafers, in the order in which they are filled.

    Each wafer loads the caches of its own layers, so the links of all wafers work at the same time.

    - ``sram``: the PEs of the same wafers that have neither layers nor a draft model. The bandwidth
      is one stream per PE of the shorter side of the mesh, and the latency that of a path from
      corner to corner.
    - ``wafer``: wafers without layers, each with its own link.
    - ``host``: the memory of the hosts. The latency is half a round trip.

    Args:
        options: The requested tiers.
        program: The compiled model.
        wafer: Properties of each wafer.
        machine: Options of the wafer, which determine the sources of its numbers.
        drafts: The drafts, whose model may be on the same wafers, or None.
        kv_bytes_per_token: Bytes that a token adds to the KV caches of all layers.
        bytes_per_state: Bytes of the states of all layers with linear attention; None without such
            layers. They are assumed to be divided over the wafers like KV caches.

    Raises:
        BadInput: There is no room in a tier.
    """
    if not options.tier_names:
        return ()
    numbers, storage_wafers = sourced_numbers(machine)[WAFER_NUMBERS], options.storage_wafers
    rows, cols = wafer.mesh_rows, wafer.mesh_cols
    stream = numbers["stream_words_per_cycle"]
    edge_bytes_per_word = min(rows, cols) * WORD_BYTES * wafer.clock_hz
    draft_region = drafts.region if drafts is not None and drafts.draft_tokens else None
    spare_tokens = spare_kv_tokens(program, draft_region, kv_bytes_per_token)
    storage_bytes = storage_wafers * rows * cols * storage_bytes_per_pe(program)
    tiers = (
        KvTierResult(
            name=SRAM,
            capacity_bytes=spare_tokens * kv_bytes_per_token,
            capacity_tokens=spare_tokens,
            capacity_source="PEs that the layout leaves unused",
            latency_s=(rows + cols) * wafer.hop_cycles / wafer.clock_hz,
            **_link(stream, program.wafers * edge_bytes_per_word, kv_bytes_per_token),
        ),
        KvTierResult(
            name=WAFER,
            capacity_bytes=storage_bytes,
            capacity_tokens=int(storage_bytes / kv_bytes_per_token),
            capacity_source="SRAM of the wafer, without code, stack and runtime",
            latency_s=wafer.wafer_link_latency_s,
            **_link(numbers["wafer_link_bytes_per_s"], min(storage_wafers, program.wafers), kv_bytes_per_token),
        ),
        KvTierResult(
            name=HOST,
            **_host_memory(options, "wafer_host_memory_bytes", program.wafers, kv_bytes_per_token),
            latency_s=wafer.host_round_trip_s / 2,
            **_link(numbers["host_bytes_per_s"], program.wafers, kv_bytes_per_token),
        ),
    )
    requested_tiers = tuple(tier for tier in tiers if tier.name in options.tier_names)
    _check_room(options, requested_tiers)
    return tuple(replace(tier, bytes_per_state=bytes_per_state) for tier in requested_tiers)


def _check_room(options: TierOptions, tiers: Iterable[KvTierResult]) -> None:
    """Raise BadInput if a tier has no room for the cache of even one token."""
    for tier in tiers:
        if not tier.capacity_tokens:
            remedy = "give a larger --kv-host-memory" if tier.name == HOST else f"leave out {tier.name}"
            reason = f"{tier.name} has no room for a token: {NO_ROOM[tier.name]}"
            raise BadInput(f"--kv-tiers {options.kv_tiers}: {reason}; {remedy}")


def gpu_tiers(options: TierOptions, server: GpuServer) -> tuple[KvTierResult, ...]:
    """Return the only memory tier of GPUs, ``host``; empty if no tiers are requested.

    The tier is the memory of the servers that contain the GPUs. Each GPU loads its part of a KV
    cache over its own link. A part that several GPUs need is stored once, and each of them loads
    it.

    Args:
        options: The requested tiers. The caller has already rejected tiers that GPUs lack.
        server: The model on its GPUs.
    """
    if not options.tier_names:
        return ()
    gpus = server.parallelism.gpus
    tier = KvTierResult(
        name=HOST,
        **_host_memory(options, "gpu_host_memory_bytes", gpus, server.kv_copy_bytes_per_token),
        latency_s=_number("gpu_host_latency_s").value,
        bytes_per_state=server.bytes_per_state or None,
        **_link(_number("gpu_host_bytes_per_s", server.gpu.generation), gpus, server.kv_bytes_per_token),
    )
    return (tier,)


def _host_memory(options: TierOptions, name: str, machines: int, bytes_per_token: float) -> dict[str, Any]:
    """Return the fields of `KvTierResult` that describe the capacity of host memory.

    Args:
        options: Options, in which ``kv_host_memory`` overrides the default size.
        name: Key of the default size per wafer or GPU in the file ``kv_tiers.toml``.
        machines: Number of wafers or GPUs.
        bytes_per_token: Bytes that each cached token needs.
    """
    default = _number(name)
    size = machines * default.value if options.kv_host_memory is None else options.kv_host_memory * GIGA
    source = default.source if machines == 1 else f"{machines} times {default.value / GIGA:,.0f} GB: {default.source}"
    source = source if options.kv_host_memory is None else "--kv-host-memory"
    return {"capacity_bytes": size, "capacity_tokens": int(size / bytes_per_token), "capacity_source": source}


def _link(number: SourcedNumber, factor: float, bytes_per_token: float) -> dict[str, Any]:
    """Return the fields of `KvTierResult` that describe the bandwidth of a link.

    Args:
        number: Bandwidth in bytes/s or in words per cycle, with its source.
        factor: Factor that converts this bandwidth to the total bandwidth of all links in bytes/s.
        bytes_per_token: Bytes that are loaded for each cached token.
    """
    rate = number.times(factor)
    return {
        "bytes_per_s": rate.value,
        "bytes_per_s_range": rate.range,
        "grade": number.grade,
        "source": number.source,
        "bytes_per_token": bytes_per_token,
    }


@cache
def _number(name: str, generation: str = "") -> SourcedNumber:
    """Read a number, such as a bandwidth, and its source from the bundled file ``kv_tiers.toml``.

    Args:
        name: Key of the number, such as ``gpu_host_latency_s``.
        generation: GPU generation, for a key with one number per generation. Otherwise empty.
    """
    value = read_toml(_FILE, BadWafer)[name]
    return read_number(_FILE, name, value[generation] if generation else value, float, "")
