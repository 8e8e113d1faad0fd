"""Prose of the page on validation: the calibration, the predictions, and what the models do not capture."""

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
- The costs of released research kernels, profile `academic`, by `tools/calibrate.py`; one set for both generations
  but for a relay's. On MeshGEMM of WSE-3 silicon: 40 cycles a turn of the loop over k, and 76 a round of asynchronous
  transfers, which region shifts share. On MeshGEMV of WSE-3 silicon: 44 a step's task, 2 between operations of a
  collective, 5 a relay. On decode of 8B and 72B: 14 a relay on WSE-2, 11 an element of SiLU and exp. On all of these:
  1.5 a vector of a mapped operation. The ratio of bank conflicts, 1.94, is itself a published measurement.
- Rows left out of that fit and predicted by what it then gives: decode of 8B at most 4.3 %, of 72B 1.8 %; of both on
  420 x 420 PEs 4.0 %, on 540 x 540 2.1 %, on 660 x 660 1.3 %; MeshGEMV on 400 PEs and more 4.7 %, MeshGEMM 5.5 %;
  region shifts at the median 5.7 %. Without any decode row a relay on WSE-2 is taken for one on WSE-3, and decode
  comes out 14 % too short; without any MeshGEMM row nothing fixes its loop, and it comes out 19 % off.
- The software of services on wafers, profile `production`, by `tools/calibrate_production.py`, on two figures of August
  2024 that state wafers and no drafts: 8B on one WSE-3 at 1,800 tokens a second of a user, 70B on four at 450. Two
  constants: 93 cycles for the tasks of a step, which are two completions at what is measured for one, and 25 for exp, a
  square root or a reciprocal. Two figures cannot test two constants, and other
  pairs fit as well: this one is taken for what it says of the code. With the tasks alone, 8B fixes 160 cycles and
  predicts 70B 1.0 % slow; 70B fixes 153 and predicts 8B 1.6 % fast. The bytes of code are what the four wafers leave
  beside the weights of 70B.
- 33 cycles around a message between two PEs of WSE-3 silicon, from the fit that its source publishes, and 7 for the
  words of its short messages, which it does not state.
- 16 cycles of set-up of a vector operation and two memory reads a cycle, of 32 bits on WSE-2 and 64 on WSE-3, on
  vector operations of one PE.
""".strip()

PREDICTED: Final = """
- Reduces and broadcasts of other lengths, words, group sizes and algorithms than those above: the fast model on the
  pattern of each, with the same constants.
- Prefill of language models: one layer, compiled as the released harness ran it, with the costs above; no constant
  was fitted on prefill. What dist-GEMM-T adds is the time between the sums of one round and the next, from the
  dependences of the few PEs between two roots.
- Decode of other models and grids than those fitted on, whole requests, other tiles, grids and group counts.
- Tables of the published closed forms, by those closed forms; they test a transcription and are no measurements.
- Services on wafers, in tokens a second of a user and time to the first token: `wse estimate` with the software profile
  `production` and the mapping `bands`. Rows until September 2024 have the released schedule of a layer's steps, on
  which the two constants were fitted, later ones the fused schedule, on which nothing was; errors with the other one
  stand beside those, and each row has both in `--json`. What a row does not say is as that command takes it: the fewest
  wafers that hold the model, 1,024 tokens in and out; weights as the checkpoint has them; the context of a row is the
  cache of a user, at most what the model was made for. Rows that say that they use speculative decoding, and rows that
  do not say but are later than September 2024, are predicted with the measured acceptance of drafts, and without beside
  it. An undated row is no older than its model's weights. Drafts are of a head of one layer, which is compiled with the
  model as one more layer, of the kind of its last one (assumed, grade I; nothing is published about drafts on wafers).
  The pass that verifies n + 1 tokens is compiled, with the rewrites that pay for it. A head that has no room on the
  wafers of a row is timed all the same, where `wse estimate` refuses it.
- WaferLLM where a row gives no grid: the best of those that the source swept.
- Stencils: vector operations counted from the description of the programs, with no constant of their own.
- Products of local tiles: a multiply-add for each k and output column.
""".strip()

BOUNDED: Final = """
The most that a rate of tokens can be on the layout that was found: every token takes the bound that its hops, bytes,
multiply-adds and crossings set whatever the schedule, drafts cost nothing, and a pass that checks them takes as long as
one over one token. "Drafts free" assumes the last two alone, with the cycles of the compiled token.

Later services are far from that bound, so no fact about the machine has to give. What does is the time of drafts and of
the pass that checks them: with these free, 70B and GLM-4.7 come out where they were published, Qwen3-32B and
gpt-oss-120b above that. A token more in a pass costs three tenths of a pass for 70B and half of one for the mixtures as
compiled here, mostly for arithmetic and for words on links, of which it takes as many as the first. 8B of 2026 was sold
slower than 70B, which no model of the machine gives: it was not the machine that set that rate.
""".strip()

GPUS: Final = """
Serving stacks on GPUs, by the roofline of a pass with the constants of each stack ([how](explanation/gpus.md)). The
same constants serve every model and every number of GPUs. A row is of the version of its stack that it names, else of
its date. Rates with more users than the cache holds are those of as many as it holds. "Other benchmarks" are single
runs, on which nothing was fitted, and rates and first tokens that follow from the curves' own.
""".strip()

NOT_CAPTURED: Final = """
- Searched trees (auto-gen) of one or two words: the published search knows no gap between operations, and takes stars
  that the fast model then charges for.
- A turn of a path costs nothing in any model here. 20 (silicon) and 33 cycles (simulator) are published for WSE-3,
  without an explanation; nor is there one for the steeper westward paths of more than 32 hops.
- How operands lie in the memory banks: stencils of radius 2 and more are 10 to 15 % faster or slower with the width
  of a tile, and copies on silicon reach 80 % of what the memory ports would give.
- Code paths of a program for small sizes: tiles of a few cells with radius 1 on WSE-3.
- Steps of about 35 cycles with the length of a line in MeshGEMV on WSE-3 (between 272 and 400 PEs, and between 592 and
  656), which no publication explains: up to 3.5 % there.
- Region shifts over more columns than the region has take up to a tenth less on silicon than a round a column.
- The vendor's simulator has no bank conflicts, and MeshGEMM in it other costs than on silicon: it is predicted with
  those of silicon, 5 to 17 % off.
- What a turn of the K-tree's software costs on WSE-2 beside WSE-3: a relay is fitted on each, not explained.
- Prefill of services: a prompt of 70B goes through regions that are no squares, by thin products, in chunks of one
  token where the weights leave no room, and the first token of 70B comes in half the time that one source has.
  Prefill on regions or wafers of its own is not modelled.
- What services changed after September 2024 besides drafts: kernels were rewritten and I/O made asynchronous (Hacker
  News item 41942822). With drafts, 32B, 70B, GLM-4.7 and gpt-oss-120b come out at half to nine tenths of what is
  published; arithmetic of a pass that checks several tokens is that of one token so many times here, and acceptance
  is that of other models' heads.
- The launch of a program, host transfers and whole applications; sparse products; relays of words in software by
  tasks.
- Skew between PEs and the spread of runs on silicon.
""".strip()
