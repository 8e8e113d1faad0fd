"""CompileResult: where a Program puts everything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from wse.report.result import Doc, Result
from wse.report.table import Table
from wse.studies.compile.contention import ContentionResult
from wse.studies.compile.reduces import ReduceResult
from wse.studies.results.defects import DefectsResult
from wse.studies.results.phases import DecodeResult, PrefillResult
from wse.studies.results.placement import ModelResult, SystemResult, WaferResult
from wse.studies.results.sram import BytesByUse, SramResult
from wse.studies.results.traffic import CrossingResult, FabricResult


@dataclass(frozen=True, kw_only=True)
class LifetimeResult(Result):
    """The steps of a phase in which a buffer holds something that is still needed."""

    phase: Annotated[str, Doc("prefill or decode")]
    chunk: Annotated[int, Doc("index of the phase: the chunk of a prompt, or behind all chunks decode")]
    first_step: Annotated[int, Doc("index of the first step")]
    last_step: Annotated[int, Doc("index of the last step")]


@dataclass(frozen=True, kw_only=True)
class BufferResult(Result):
    """A buffer in the SRAM of every PE of a stage."""

    address: Annotated[int, Doc("address of its first byte")]
    bytes: Annotated[int, Doc("size", "B")]
    name: Annotated[str, Doc("what it holds")]
    use: Annotated[str, Doc("code, weights, kv, activations or buffers")]
    dtype: Annotated[str, Doc("element type")]
    live: Annotated[tuple[LifetimeResult, ...], Doc("when it is needed; empty where it always is")]
    shares_with: Annotated[tuple[str, ...], Doc("buffers that take some of the same bytes at other times")]


@dataclass(frozen=True, kw_only=True)
class SramMapResult(Result):
    """The SRAM of the fullest PE by address."""

    stage: Annotated[int, Doc("index of its stage")]
    wafer: Annotated[int, Doc("index of the stage's wafer")]
    row: Annotated[int, Doc("row of the stage's first PE")]
    col: Annotated[int, Doc("column of the stage's first PE")]
    decode_steps: Annotated[int, Doc("steps of a decoded token")]
    buffers: Annotated[tuple[BufferResult, ...], Doc("buffers by address")]


@dataclass(frozen=True, kw_only=True)
class HistogramBin(Result):
    """PEs that use more than ``from_bytes`` and at most ``to_bytes`` of SRAM."""

    from_bytes: Annotated[int, Doc("lower end, not included", "B")]
    to_bytes: Annotated[int, Doc("upper end; 0 for PEs outside of all regions", "B")]
    pes: Annotated[int, Doc("PEs of all wafers")]


@dataclass(frozen=True, kw_only=True)
class CompileSram(SramResult):
    """The fullest PE, the PEs of each stage, and where every buffer is."""

    stages: Annotated[tuple[BytesByUse, ...], Doc("SRAM of a PE of each stage by use", "B")]
    histogram: Annotated[tuple[HistogramBin, ...], Doc("PEs by SRAM in use")]
    map: Annotated[SramMapResult, Doc("SRAM of the fullest PE by address")]


@dataclass(frozen=True, kw_only=True)
class ColourUse(Result):
    """The colours of a pattern in a stage."""

    stage: Annotated[int, Doc("index of the stage")]
    pattern: Annotated[str, Doc("name of the pattern")]
    along: Annotated[Literal["rows", "columns"], Doc("lines that it runs along")]
    first: Annotated[int, Doc("first colour")]
    colours: Annotated[int, Doc("colours from there on")]
    repainted: Annotated[bool, Doc("whether patterns take turns with these colours")]


@dataclass(frozen=True, kw_only=True)
class CompileFabric(FabricResult):
    """Words over links, the colours of patterns, and what patterns cost."""

    colours: Annotated[tuple[ColourUse, ...], Doc("colours by stage and pattern")]
    contention: Annotated[tuple[ContentionResult, ...], Doc("patterns whose words wait for others")]
    reduces: Annotated[tuple[ReduceResult, ...], Doc("reduces of a generated token, those with the most cycles first")]


@dataclass(frozen=True, kw_only=True)
class CompileResult(Result):
    """Where everything is, and the cycles of the prompt and of a token in the middle of what is asked for."""

    model: Annotated[ModelResult, Doc("the model")]
    wafer: Annotated[WaferResult, Doc("a wafer as programs see it")]
    batch: Annotated[int, Doc("users whose tokens are decoded together")]
    system: Annotated[SystemResult, Doc("wafers, mapping and stages")]
    sram: Annotated[CompileSram, Doc("how full PEs are, and of what")]
    fabric: Annotated[CompileFabric, Doc("words over links, colours and patterns")]
    prefill: Annotated[PrefillResult, Doc("the prompts")]
    decode: Annotated[DecodeResult, Doc("a generated token")]
    crossing: Annotated[CrossingResult, Doc("bytes between wafers for a generated token")]
    defects: Annotated[DefectsResult | None, Doc("what dead PEs and links cost; with `--defects`")] = None

    def tables(self) -> tuple[Table, ...]:
        from wse.studies.compile.tables import compile_tables  # which are made of this class

        return compile_tables(self)
