"""What the page on validation says in words: what was calibrated on what, what is predicted, what is not captured."""

from __future__ import annotations

from typing import Final

CALIBRATED: Final = """
- Hop, ramp and stream rate are the wafer presets': 1 cycle a hop on WSE-2 and 2 on WSE-3, 2 a ramp, a word a cycle (8
  words in 9 cycles on WSE-3 silicon). The slopes that sources publish for them, among the point-to-point rows, are
  these constants themselves.
- 61 cycles of start and finish of a timed collective, on the chain reduces of the WSE-2 simulator; 98 cycles of a
  whole simulation, which those logs state.
- The gap between two vector operations of a PE, on the two-phase reduces: 52 cycles in the first version of their code,
  taken to load descriptors for each operation, and 16 in the second, which is the gap of the profile `tuned`.
- 33 cycles around a message between two PEs of WSE-3 silicon, from the fit that its source publishes, and 7 for the
  words of its short messages, which it does not state.
- 16 cycles of set-up of a vector operation and two memory reads a cycle, of 32 bits on WSE-2 and 64 on WSE-3, on
  vector operations of one PE.
""".strip()

PREDICTED: Final = """
- Reduces and broadcasts of other lengths, words, group sizes and algorithms than those above: the fast model on the
  pattern of each, with the same constants.
- Tables of the published closed forms, by those closed forms; they test a transcription and are no measurements.
- Stencils: vector operations counted from the description of the programs, with no constant of their own.
- Products of local tiles: a multiply-add for each k and output column.
""".strip()

NOT_CAPTURED: Final = """
- A turn of a path costs nothing in any model here. 20 (silicon) and 33 cycles (simulator) are published for WSE-3,
  without an explanation; nor is there one for the steeper westward paths of more than 32 hops.
- How operands lie in the memory banks: stencils of radius 2 and more are 10 to 15 % faster or slower with the width
  of a tile, and copies on silicon reach 80 % of what the memory ports would give.
- Code paths of a program for small sizes: tiles of a few cells with radius 1 on WSE-3.
- The launch of a program, host transfers and whole applications; sparse products; relays of words in software by
  tasks.
- Skew between PEs and the spread of runs on silicon.
""".strip()
