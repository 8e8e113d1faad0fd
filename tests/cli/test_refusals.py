"""Every bad command: one line that names the thing, the value and the remedy; exit 2; no file written or changed.

What a file contains is tested beside its reader; here each kind of bad file has one case.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import pytest

from tests.cli.conftest import Wse
from tests.models.helpers import write_config, write_model
from tests.validation.test_measurements import GOOD, file_of
from wse.files import TOML_LIMIT_BYTES

GOLDEN = Path(__file__).parents[2] / "traces" / "golden" / "v1" / "story.h5"
Row = tuple[str, ...]
"""The arguments of a command, and parts of its refusal."""

RUN: list[Row] = [
    ("--mesh 0x3", "'0x3'", "ROWSxCOLS"),
    ("--mesh -1x4", "'-1x4'", "such as 16x16"),
    ("--mesh 1171x756", "1171x756", "wse3", "1170x755", "smaller mesh"),
    ("--mesh", "'--mesh' requires an argument", "wse run --help"),
    ("--region 9x9 --mesh 8x8", "--region 9x9", "8x8"),
    ("--region axb", "'axb'"),
    ("--wafer wse4", "'wse4'", "did you mean 'wse3'?"),
    ("--wafer none.toml", "none.toml", "does not exist"),
    ("--wafer bad.toml", "bad.toml", "'hop_cycle'", "did you mean 'hop_cycles'?"),
    ("--mapping regin", "'regin'", "did you mean 'region'?"),
    ("--mapping none.toml", "none.toml", "does not exist", "TOML file"),
    ("--mapping own.py", "--mapping: own.py", "as own.py:NAME"),
    ("--all-reduce own.py", "own.py", "as own.py:NAME"),
    ("--experts distribted", "'distribted'", "did you mean 'distributed'?"),
    ("--experts 0", "placement of experts '0'", "a number of groups, auto, dedicated, distributed, grouped"),
    ("--experts dedicated", "--experts dedicated", "has no experts; leave it out"),
    ("--schedule baseline,early-shift", "baseline cannot be combined with rewrites", "give it alone"),
    ("--set clock=x2", "unknown setting 'clock'", "did you mean 'wafer.clock_hz'?", "software.… (12)"),
    ("--software tunde", "'tunde'", "did you mean 'tuned'?"),
    ("--dtype float61", "'float61'", "did you mean 'float16'?"),
    ("--dtype q", "unknown dtype 'q'", "known: bfloat16, float16, float32, fp8, int4, int8"),
    ("--dtype int8 --activations int8", "type of activations 'int8'", "known: bfloat16, float16, float32"),
    ("--activations float16", "--activations float16", "leave it out", "--dtype int8 or fp8 or int4"),
    ("--dtype int4 --accumulate float16", "--accumulate float16", "int4 in float32", "leave it out"),
    ("--accumulate float61", "'float61'", "did you mean 'float16'?"),
    ("--accumulate float16", "--accumulate float16", "--dtype float16"),
    ("--wafers 0", "--wafers 0", "at least 1"),
    ("--wafers many", "--wafers 'many'", "auto"),
    ("--wafers 3", "--wafers 3", "at least one layer", "tiny has 2", "at most 2"),
    ("--new-tokens 0", "--new-tokens 0", "at least 1"),
    ("--new-tokens soon", "--new-tokens 'soon'", "give a whole number of tokens, such as 4096 or 128k"),
    ("--new-tokens 30", "33 is beyond the context of 32", "--new-tokens 29"),
    ("--context 3", "4 is beyond the context of 3", "shorter prompt"),
    ("--context 33", "--context 33", "32"),
    ("--context -4", "--context -4", "at least 1"),
    ("--defects none.csv", "none.csv", "does not exist", "a rate such as 1e-4"),
    ("--defects-seed -1", "--defects-seed -1", "from 0"),
    ("--defects 0.999999 --mesh 2x2", "--defects 0.999999", "no mesh of live PEs", "fewer dead PEs"),
    ("--temperature -1", "--temperature -1", "0 for greedy"),
    ("--temperature nan", "--temperature 'nan'", "give a number, such as 0.8 or 10k"),
    ("--temperature 1e999", "--temperature inf", "0 for greedy"),
    ("--temperature 1 --top-k -1", "--top-k -1", "at least 1, or 0 for no limit"),
    ("--temperature 1 --top-p 0.0", "--top-p 0.0", "above 0, at most 1"),
    ("--temperature 1 --top-p 1.01", "--top-p 1.01", "above 0, at most 1"),
    ("--temperature 1 --min-p -0.1", "--min-p -0.1", "from 0 (no limit) to 1"),
    ("--temperature 1 --min-p 1.5", "--min-p 1.5", "from 0 (no limit) to 1"),
    ("--repetition-penalty 0.0", "--repetition-penalty 0.0", "above 0 (1: no penalty)"),
    ("--repetition-penalty 10000000.0", "--repetition-penalty 10000000.0", "above 0 (1: no penalty)"),
    ("--top-k=4 --top-k some", "--top-k 'some'", "give a whole number, such as 8 or 10k"),
    ("--top-k 5", "--top-k 5", "nothing is drawn at temperature 0", "--temperature"),
    ("--top-p 0.5", "--top-p 0.5", "nothing is drawn at temperature 0", "--temperature"),
    ("--min-p 0.5", "--min-p 0.5", "nothing is drawn at temperature 0", "--temperature"),
    ("--seed -1", "--seed -1", "from 0"),
    (f"--seed {2**63}", "--seed", "from 0"),
    ("--prompt-ids 1,16", "16 is outside the vocabulary of tiny", "0 to 15"),
    ("--prompt-ids -1", "-1 is outside the vocabulary", "0 to 15"),
    ("--prompt-ids 1,,2", "'' is not a token id", "1,2,3"),
    ("--prompt-ids ''", "--prompt-ids", "empty"),
    ("--prompt once", "--prompt and --prompt-ids", "one of the two"),
    ("--prompt a --prompts p", "--prompt and --prompt-ids and --prompts: give one of the three"),
    ("--prompts p", "--prompt-ids and --prompts: give one of the two"),
    ("--trace no/folder/run.h5", "no/folder/run.h5", "no/folder is not a folder", "--trace none"),
    ("--trace tiny/config.json/run.h5", "is not a folder"),
    ("--trace .", "--trace .", "not a regular file"),
    ("--trace ''", "--trace ''", "empty"),
    (f"--trace {'n' * 300}.h5", "too long", "--trace none"),
    ("--trace-policy contine", "did you mean 'continue'?"),
    ("--wavelets --trace none", "log of wavelets", "give --trace PATH"),
    ("--record weights", "--record", "unknown recording 'weights'", "known: activations"),
    ("--record activations=layers.0.atention", "unknown op", "did you mean 'layers.0.attention'?"),
    ("--record activations=", "unknown op ''", "known: embedding, layers.*.attention_norm"),
    ("--record activations=head,layers.7.down", "unknown op 'layers.7.down'", "layers.*.down"),
    ("--record activations --trace none", "none is written: give --trace PATH"),
    ("--record-pe '0;3'", "give row and column as ROW,COL"),
    ("--mesh 4x4 --record-pe 4,0", "no such PE; wafers: 1 of 4x4 PEs"),
    ("--mesh 4x4 --record-pe 1:0,0", "no such PE"),
    ("--record-pe 0,0 --wafers 2", "there are 2 wafers; say which, such as 0:0,0"),
    ("--record-pe 0,0 --trace none", "none is written: give --trace PATH"),
    ("--record-pe 0,0 --checkpoint c", "leave out --record-pe"),
    ("--max-new-token 3", "unknown option '--max-new-token': did you mean '--new-tokens'?"),
    ("more", "unexpected extra argument", "more", "wse run --help"),
]

OTHERS: list[Row] = [
    ("rum", "unknown command 'rum'", "did you mean 'run'?", "inspect"),
    ("compile", "compile: MODEL is missing", "wse compile --help"),
    ("--verison", "unknown option '--verison'", "did you mean '--version'?"),
    ("models extra", "unexpected extra argument"),
    (
        "models --wafer wse2",
        "models: unknown option '--wafer': wse models --help lists them; it is an option of wse run",
    ),
    ("wafers wse4", "'wse4'", "did you mean"),
    ("run ./missing", "'./missing'", "no such file or folder"),
    ("run stroy", "unknown model or folder 'stroy'", "did you mean 'story'?"),
    ("run ''", "no such file or folder"),
    ("compile .", "has no config.json"),
    ("run tiny/config.json --prompt-ids 1", "has no weights"),
    ("run tiny --prompt Once", "tokenizer", "--prompt-ids 1,2,3"),
    ("run --prompt ''", "--prompt ''", "empty"),
    ("run --prompt a --prompt ''", "--prompt '': the prompt is empty"),
    ("run --prompt 'a\udcffb'", "UTF-8"),
    ("run --prompts folder.md", "is not a regular file"),
    ("run --checkpoint-every 60", "--checkpoint-every '60'", "give a unit, such as 200ms"),
    ("compile story --write-mapping a.csv", "--write-mapping a.csv", "a mapping file", "ends in .toml"),
    ("compile Llama-3.1_70B", "did you mean 'llama-3.1-70b'?"),
    ("compile Story --mesh 2X2 --wafer WSE2", "story does not fit"),
    ("estimate story --write-mapping no/a.toml", "--write-mapping no/a.toml", "no is not a folder"),
    ("estimate story --context 1.0001k", "--context '1.0001k'", "such as 4096 or 128k"),
    ("estimate story --price wafer=nan", "--price 'wafer=nan': give NAME=USD per hour, such as"),
    ("estimate story --price h20=2", "--price: unknown wafer or GPU 'h20': did you mean 'h200'?"),
    ("estimate story --what-if clock=x2 --gpu h100", "--gpu h100: --what-if changes numbers of wafers"),
    ("serve-sim story --ttft 2kg", "--ttft '2kg'", "give a number with its unit, such as 200ms"),
    ("serve-sim story --tpot 0", "--tpot '0'", "give a unit, such as 200ms"),
    ("serve-sim story --batch-wait 500", "--batch-wait '500'", "give a unit, such as 200ms"),
    ("serve-sim story --kv-latency 5", "--kv-latency '5'", "give a unit, such as 5us"),
    ("serve-sim story --rate fast", "--rate 'fast'", "give a number, such as 0.8 or 10k"),
    ("serve-sim story --prefixes 2", "--prefixes: needs --prefix-tokens"),
    ("serve-sim story --html a.h5", "--html a.h5", "a page, which ends in .html"),
    ("scenario fast-mode --png a.jpg", "--png a.jpg", "a PNG image"),
    ("scenario fast-mood", "did you mean 'fast-mode'?"),
    ("scenario --png x.png", "there is no scenario to draw"),
    ("explore p", "p: line 1 names 1 columns"),
    ("explore none.csv", "none.csv: does not exist"),
    ("explore good.csv -o no/t.html", "is not a folder"),
    ("claims 18", "give the number of a claim, 1 to 17"),
    ("claims 0", "give the number of a claim, 1 to 17"),
    ("claims two", "N 'two': give the number of a claim"),
    ("claims 8 11 --png x.png", "--png draws the plot of one claim"),
    ("claims 7 --png x.png", "there is nothing to draw"),
]

ESTIMATE: list[Row] = [
    ("--prompt-len 500 --new-tokens 13", "--prompt-len 500 --new-tokens 13", "513 tokens", "at most 512 together"),
    ("--context 513", "--context 513", "512"),
    ("--context 15", "16 tokens", "--context 15", "at most 15"),
    ("--verify-tokens 1", "--verify-tokens 1", "the prompt leaves 8 of 16 tokens", "give 2 to 8"),
    ("--verify-tokens 9", "--verify-tokens 9", "give 2 to 8"),
    ("--new-tokens 1 --verify-tokens 2", "leaves 1 of 9", "give a longer --context"),
    ("--batch 4097", "--batch 4097", "at most 4,096"),
    ("--users 1000001", "--users 1000001", "at most 1,000,000"),
    ("--users 2 --batch 4", "--users 2: a pass has --batch 4 of them", "give no fewer users"),
    ("--objective speed", "--objective: unknown objective 'speed'", "known: cost, latency, throughput"),
    ("--capacity reprot", "capacity 'reprot'", "did you mean 'report'?"),
    ("--mesh 8x9999999999", "8x9999999999", "1 to 10,000"),
    ("--wafers 5", "--wafers 5", "at least one layer", "has 4", "at most 4"),
    ("--economics none.toml", "none.toml", "does not exist"),
    ("--trace no/folder/e.h5", "no/folder/e.h5", "no/folder is not a folder", "--trace none"),
    ("--png a.png", "--png a.png: draws the result of --what-if"),
    ("--what-if clok=x2", "did you mean 'clock'?", "latency, software.… (12), sram"),
    ("--what-if clock=x2 --trace a.h5", "--trace: is of one machine"),
    ("--what-if clock=x2 --sensitivity", "--sensitivity: is of one machine"),
    ("--what-if clock=x2 --detail", "--detail: applies to one machine"),
    ("--what-if clock=x2 --new-tokens 1", "--new-tokens 1: nothing is decoded"),
    ("--what-if clock=x2 --png a.pdf", "--png a.pdf: give the name of a PNG image, which ends in .png"),
    ("--what-if clock=x1e9", "--what-if: none of 1 change is possible: clock x1e9: wafer wse3: clock_hz"),
]

ESTIMATE_GPUS: list[Row] = [
    ("--gpu h10", "unknown GPU 'h10': did you mean 'h100'?"),
    ("--stack vlm", "unknown stack 'vlm': did you mean 'vllm'?"),
    ("--wafer wse3", "--gpu h100: --wafer is of wafers; leave it out, or leave out --gpu"),
    ("--wafer wse2 --mapping bands", "--mapping, --wafer are of wafers"),
    ("--trace x.h5", "--trace is of wafers"),
    ("--write-mapping x.toml", "--write-mapping writes regions of wafers"),
    ("--gpus 0", "--gpus 0: give a number of at least 1"),
    ("--gpus 16", "8 h100 are linked"),
    ("--gpus 3", "--gpus 3: does not divide the 32 heads of llama-3-8b; give one of 1, 2, 4, 8"),
    ("--batch 0", "--batch 0: give a number of at least 1"),
    ("--users 0", "--users 0: give a number of at least 1"),
    ("--users 8 --batch 4", "--users 8 and --batch 4: GPUs decode for all users at once; leave"),
    ("--objective speed", "--objective: unknown objective 'speed'"),
    ("--dtype fp9", "unknown element type 'fp9': did you mean 'fp8'?"),
    ("--parallelism data", "has no experts"),
    ("--parallelism pipeline", "unknown parallelism"),
    ("--prompt-len 9000", "was made for 8192 tokens"),
    (
        "--gpu h200 --prompt-len 1024 --new-tokens 311 --users 4000",
        "--users 4000: with llama-3-8b as bfloat16, 1 h200 has room for KV caches of 668 users of 1,335 tokens; "
        "give --users 668, or more --gpus or --replicas",
    ),
]

COMPARE: list[Row] = [
    ("tiny --mapping region,regin", "--mapping", "'regin'", "did you mean 'region'?"),
    ("tiny --mapping region,", "--mapping 'region,'", "separated by commas"),
    ("tiny --wafers 1,auto", "--wafers '1,auto'", "auto cannot be in a list"),
    ("tiny --wafers 1,-2", "--wafers -2", "at least 1"),
    ("tiny --wafers 1,2x", "--wafers '2x'", "whole number"),
    ("tiny --wafers 1001", "--wafers 1001", "at most 1,000"),
    ("tiny --link-bandwidth 8,nan", "--link-bandwidth 'nan'", "such as 150GB/s"),
    ("tiny --link-bandwidth -8", "--link-bandwidth -8", "0.1 to 10000 GB/s"),
    ("tiny --link-latency 5us,20", "--link-latency '20'", "give a unit, such as 5us"),
    ("tiny --link-latency 5MB", "--link-latency '5MB'", "such as 5us or 500ns"),
    ("tiny --link-latency 5s", "--link-latency 5e+06", "0 to 10000 µs"),
    ("tiny --link-latency 1e300us", "--link-latency 1e+300", "0 to 10000 µs"),
    ("tiny --replicas 0", "--replicas 0", "at least 1"),
    ("tiny --new-tokens 1", "--new-tokens 1: the prompt gives the first token", "at least 2"),
    ("tiny --question one-or-many", "'one-or-many'", "did you mean 'one-wafer-or-many'?"),
    ("tiny --csv no/such/c.csv", "--csv no/such/c.csv", "is not a folder"),
    ("tiny --png .", "--png '.'", "is a folder"),
    ("tiny --png x.pdf", "--png x.pdf", "a PNG image, which ends in .png"),
    ("tiny --html ''", "--html ''", "the path is empty"),
    ("tiny --html a.h5", "--html a.h5", "a page, which ends in .html"),
    ("tiny --tpot 2", "--tpot '2'", "give a unit, such as 200ms"),
    ("tiny --tpot 1ms --html t.html", "--html: draws a whole comparison, not ranked rows; leave it out"),
    ("tiny --defects-seed 3", "--defects-seed 3: draws the dead PEs of --defects RATE"),
    ("tiny --users 8 --defects-seed 3", "--defects-seed 3: draws the dead PEs of --defects RATE"),
    ("tiny --network n.toml", "--network"),
    ("tiny --users 8 --network n.toml", "--network"),
    ("tiny --prompt-len 3 --new-tokens 3 --economics none.toml", "none.toml", "does not exist"),
    ("tiny --gpus 8", "--gpus", "--gpu NAME"),
    ("tiny --gpu h100 --gpus 16", "--gpus 16", "8 h100 are linked"),
    ("tiny --gpu h100 --question one-wafer-or-many", "--question", "leave out --question or --gpu"),
    ("tiny --gpu h100 --parallelism experts", "--parallelism experts", "no experts"),
    ("tiny --gpu h100 --plain-speed 0", "--plain-speed 0", "from 0.1 to 1,000,000"),
    ("tiny --gpu gpu.toml", "give --price gpu=USD"),
    ("./missing", "'./missing'", "no such file or folder"),
    ("none.h5 none.h5", "none.h5", "no such file"),
    ("none.h5", "none.h5: is one trace", "add a second trace"),
    ("none.h5 tiny", "is not a trace", "'none.h5' is one"),
    ("tiny none.h5", "is not a trace", "'none.h5' is one"),
    ("tiny tiny", "give one model, or two files that wse run wrote"),
    ("a.h5 b.h5 --wafers 2", "--wafers", "applies to models, not to traces"),
    ("a.h5 b.h5 --gpu h100", "--gpu: applies to models"),
    ("a.h5 b.h5 c.h5", "3 names", "one model, or two traces"),
    ("text.h5 t.h5", "text.h5"),
    ("t.h5 story.h5 --csv ./t.h5", "--csv ./t.h5: is one of the files that are read; give another name"),
    ("t.h5 story.h5 --html ./t.h5", "--html ./t.h5: is one of the files that are read; give another name"),
]

SWEEP: list[Row] = [
    ("", "nothing to sweep: give a FILE.toml, or a MODEL with --set"),
    ("none.toml", "none.toml: does not exist"),
    ("story --set batch=1 --set batch=2", "--set batch is given twice"),
    ("story -o t.txt", ".csv or .parquet"),
    ("story -o no/t.csv", "there is no folder 'no'"),
    ("story --jobs 0", "--jobs 0"),
    ("--set batch", "--set 'batch'", "--set batch=1,8"),
    ("--set batc=", "--set: unknown setting 'batc'", "did you mean 'batch'?"),
    ("--set wafer.hop_cycle=1", "unknown setting 'wafer.hop_cycle'", "did you mean 'wafer.hop_cycles'?"),
    ("--set batch=", "--set: batch has no values", "at least one"),
    ("--set batch=1,x", "batch = 'x'", "give a whole number, or default"),
    ("--set context=0.3k", "context = '0.3k'", "give a whole number, or default"),
    ("--set batch=1,2,1", "batch has 1 twice", "each value once"),
    ("--set wafers=auto,many", "wafers = 'many'", "give a whole number, or auto"),
    ("--set wafer.clock_hz=1e9,1e999", "clock_hz = inf", "from 1,000 to"),
    ("--set wafer.hop_cycles=x", "wafer.hop_cycles=x", "give a number, in cycle"),
    ("--set model=story,stori", "'stori'", "did you mean 'story'?"),
    ("--set software=none.toml", "none.toml", "does not exist"),
    ("--set mesh=5x", "'5x'", "such as 16x16"),
]

GRIDS: list[tuple[str, ...]] = [
    ("batch = [1, ", "grid.toml: not TOML", "correct that line"),
    ("batch = []", "grid.toml: batch has no values"),
    ("batch = [[1]]", "batch = [1]", "give a whole number"),
    ("model = [1]", "model = 1", "give a text"),
    (f"model = '{'x' * 5000}'", "model = 'xxx", "give a text of 1 to 4,096 characters"),
    ("[wafer]\nhop_cycles = [{value = 1}]", "wafer.hop_cycles = {'value': 1}", "give a whole number"),
    ("[wafer]\nhop_cycle = 1", "unknown setting 'wafer.hop_cycle'", "did you mean 'wafer.hop_cycles'?"),
    ("'wafer.hop_cycles' = 1\n[wafer]\nhop_cycles = 2", "wafer.hop_cycles is given twice"),
    ("[grid]\nbatch = 1", "unknown setting 'grid'"),
    ("#" * (TOML_LIMIT_BYTES + 1), "grid.toml: is over 1,048,576 bytes"),
]
"""Contents of a file for ``wse sweep``."""

VALIDATE: list[Row] = [
    ("--data none.csv", "none.csv", "does not exist"),
    ("--data .", "is this folder, or an empty path"),
    ("--data bad.csv", "bad.csv: line 3: column grid_w", "'1e9'", "1 to 4,096"),
    ("--rows some", "--rows", "'some'", "predicted"),
    ("--capacity some", "--capacity", "'some'", "report", "refuse"),
    ("--page page.html", "--page page.html", ".md"),
    ("--page folder.md", "folder.md", "is a folder"),
    ("--csv page.txt", "--csv page.txt", ".csv"),
    ("--csv no/rows.csv", "no is not a folder"),
    ("--against bookism", "--against: unknown reference 'bookism': known: wavelet"),
    ("--against wavelet --data good.csv", "compares two models, no measurements: leave out --data, --page, --csv, "),
    ("--set wafer.clock_hz=x2", "wse validate --help lists them; it is an option of wse run, compile,"),
]

INSPECT: list[Row] = [
    ("none.h5", "none.h5", "no such file"),
    (".", "not a regular file"),
    ("text.h5", "text.h5", "not an HDF5 file, so not a trace"),
    ("other.h5", "other.h5", "attribute 'format' is missing"),
    ("newer.h5 --steps", "newer.h5", "version 3"),
    ("cut.h5 --by op", "cut.h5", "truncated: it has "),
    ("lacks.h5", "lacks.h5", "steps/cycles: missing, or not a dataset of this file"),
    ("lacks.h5 --steps", "lacks.h5", "steps/cycles: missing, or not a dataset of this file"),
    ("none.h5 --check", "none.h5: no such file"),
    ("none.h5 --top -1", "--top -1", "at least 0"),
    ("none.h5 --cycles 7", "--cycles '7'", "FROM-TO", "such as 100-120"),
    ("none.h5 --cycles -3-5", "--cycles '-3-5'", "such as 100-120"),
    (f"none.h5 --cycles 1-{'9' * 30}", "--cycles '1-999", "such as 100-120"),
    ("none.h5 --cycles 7-5", "--cycles 7-5", "ends before it begins", "smaller cycle first"),
    ("t.h5 --cycles 10-20", "--cycles 10-20", "has cycles 0 to 5"),
    ("t.h5 --steps --links", "--steps and --links", "give only one of them"),
    ("t.h5 --by op --tree --check", "--by and --tree and --check", "give only one of them"),
    ("t.h5 --steps --sort size", "--sort", "unknown column 'size'", "known: compute, crossing, cycles"),
    ("t.h5 --links --sort words", "--sort words", "goes with --steps"),
    ("t.h5 --by colour", "--by", "unknown group 'colour'", "known: cause, kind, layer, op, token, wafer"),
    ("t.h5 --tokens --each-layer", "--each-layer: does not go with --tokens, but with --steps, --by, --links"),
    ("t.h5 --by kind --each-layer", "does not go with --by kind, but with --by op, --by layer"),
    ("t.h5 --steps --top many", "--top 'many'"),
    ("t.h5 --tree --top 3", "--top 3", "does not go with --tree", "--steps, --by, --links, --tokens"),
    ("t.h5 --links --top 5000", "--top 5000", "at most 1,000 links"),
    ("t.h5 --pe 3", "--pe '3'", "ROW,COL", "such as 0,3"),
    ("t.h5 --pe 0,0", "--pe 0,0", "has 2 wafers", "--pe 0:0,0"),
    ("t.h5 --pe 2:0,0", "has no wafer 2", "the wafers 0 to 1"),
    ("t.h5 --pe 0,0 --wafer-index -2", "--wafer-index -2", "at least 0"),
    ("t.h5 --pe 1:0,0 --wafer-index 0", "--pe 1:0,0 and --wafer-index 0", "two wafers", "give one"),
    ("t.h5 --wafer-index 0", "--wafer-index 0", "goes with --pe"),
    ("t.h5 --pe 0:6,0", "--pe 6,0", "the mesh of t.h5 is 6x5", "rows 0 to 5 and columns 0 to 4"),
    ("t.h5 --pe 0:0,5", "--pe 0,5", "the mesh of t.h5 is 6x5"),
    ("t.h5 --pe 0:0,1 --hex", "--hex: goes with --dump"),
    ("t.h5 --dump x", "--dump x: goes with --pe"),
    ("t.h5 --sram-png x.png", "--sram-png x.png: goes with --pe"),
    ("t.h5 --pe 0:0,1 --sram-png x.svg", "give the name of a PNG image"),
    ("story.h5 --pe 1:3,4", "has no wafer 1; it has one wafer, 0"),
    ("story.h5 --pe 3,4 --dump x", "record them: wse run --record-pe 3,4"),
    ("t.h5 --diff none.h5", "none.h5", "no such file"),
    ("t.h5 --diff other.h5", "other.h5", "'format' is missing"),
    ("t.h5 --csv x.csv", "--csv", "the summary is not a table", "--steps, --by"),
    ("t.h5 --steps --csv - --json", "--json and --csv -", "stdout"),
    ("t.h5 --steps --csv no/x.csv", "--csv no/x.csv", "no is not a folder"),
    ("t.h5 --steps --csv t.h5", "--csv t.h5: is one of the files that are read; give another name"),
    ("t.h5 --diff story.h5 --csv story.h5", "story.h5: is one of the files that are read"),
]

EXPORT: list[Row] = [
    ("--to vcd", "--to: unknown format 'vcd': known: csv, parquet, perfetto, png"),
    ("--to csv --tokens 0-3", "--tokens: applies to --to perfetto, not to csv; leave it out"),
    ("--to perfetto --what step", "--what: applies to --to csv, parquet, png, not to perfetto; leave it out"),
    ("--to csv --wafer-index 1", "--wafer-index: applies to --to simulator-log, not to csv; leave it out"),
    ("--to simulator-log", "story.h5: has no log of wavelets; make one: wse run --wavelets --trace FILE"),
    ("--to png --planes", "--planes: applies to --to csv, parquet, not to png; leave it out"),
    ("--to csv --planes --what step", "name the planes in --what instead: sram_bytes_per_pe, links_words"),
    ("--to png --what heat", "--what: unknown picture 'heat': did you mean 'east'? known: busy, east, links"),
    ("--to csv --what stepp", "--what: unknown table 'stepp': did you mean 'step'? known: attention, buffer"),
    ("--to csv --what wavelet", "--what wavelet: story.h5 has no rows of this table; leave it out"),
    ("--to perfetto --tokens 3", "--tokens '3': give the first and the last token as FROM-TO, such as 0-15"),
    ("--to perfetto --tokens 5-3", "--tokens 5-3: it ends before it begins; give the smaller token first"),
    ("--to perfetto --tokens 18-20", "--tokens 18-20: story.h5 has the tokens 0 to 17; give some of those"),
    ("--to perfetto -o ''", "-o '': the path is empty; give the name of a file"),
    ("--to csv -o ''", "-o '': the path is empty; give the name of a folder"),
    ("--to perfetto -o .", "-o '.': is a folder; give a file name"),
    ("--to perfetto -o story.h5", "-o story.h5: is one of the files that are read; give another name"),
    ("--to perfetto -o no/x.json", "-o no/x.json: no is not a folder; make it, or give another name"),
    ("--to png -o no/x", "-o no/x: no is not a folder; make it, or give another name"),
    ("--to png -o map.png", "-o map.png: png makes several files; give the name of a folder for them"),
    ("--to csv -o story.h5", "-o story.h5: is a file; give the name of a folder, for csv makes several files"),
    ("--to csv -o tiny", "-o tiny: the folder holds ", "which no export to csv made; give another name"),
]

VIEW: list[Row] = [
    ("", "view: TRACE [TRACE] is missing; wse view --help shows an example"),
    ("none.h5", "none.h5: no such file"),
    ("text.h5", "text.h5: "),
    ("folder.h5", "folder.h5: is a folder, not a regular file"),
    ("story", "'story': does not have the name of a trace; give a file that wse run wrote, which ends in .h5"),
    ("cut.h5", "cut.h5: "),
    ("t.h5 t.h5 t.h5", "3 traces: a page shows one trace, or two side by side; give one or two"),
    ("t.h5 none.h5", "none.h5: no such file"),
    ("t.h5 -o folder.h5", "--output 'folder.h5': is a folder; give a file name"),
    ("t.h5 -o no/p.html", "--output no/p.html: no is not a folder; make it, or give another name"),
    ("t.h5 -o ''", "--output '': the path is empty; give a file name"),
    ("t.h5 -o - --json", "--output -: standard output contains only the page; leave out --json"),
    ("t.h5 -o - --open", "--output -: standard output contains only the page; leave out --open"),
    ("t.h5 -o /dev/full", "--output /dev/full: cannot be written (No space left on device)"),
    ("t.h5 -o t.h5", "--output t.h5: is one of the files that are read; give another name"),
    ("t.h5 --with", "view: unknown option '--with'"),
]

COMMANDS: dict[str, list[Row]] = {
    "run tiny --prompt-ids 1,2,3": RUN,
    "": OTHERS,
    "estimate four.json --mesh 8x8 --mapping region --schedule baseline --prompt-len 8 --new-tokens 8": ESTIMATE,
    "estimate llama-3-8b --gpu h100": ESTIMATE_GPUS,
    "compare": COMPARE,
    "sweep": SWEEP,
    "validate": VALIDATE,
    "inspect": INSPECT,
    "export story.h5": EXPORT,
    "view": VIEW,
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, written: Path) -> Path:
    """A folder with what the cases name: models, traces sound and not, tables good and bad, and folders."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "tiny").mkdir()
    write_model(folder / "tiny")
    write_config(folder, max_position_embeddings=512, num_hidden_layers=4).rename(folder / "four.json")
    for name in ("folder.h5", "folder.md"):
        (folder / name).mkdir()
    shutil.copy(GOLDEN, folder / "story.h5")
    for name in ("t.h5", "newer.h5", "lacks.h5"):
        shutil.copy(written, folder / name)
    with h5py.File(folder / "newer.h5", "r+") as file:
        file.attrs.modify("version", 3)
    with h5py.File(folder / "lacks.h5", "r+") as file:
        del file["steps/cycles"]
    with h5py.File(folder / "other.h5", "w") as file:
        file["x"] = [1]
    whole = written.read_bytes()
    (folder / "cut.h5").write_bytes(whole[: len(whole) // 2])
    (folder / "text.h5").write_text("no trace at all")
    (folder / "bad.toml").write_text('base = "wse2"\nhop_cycle = 2\n')
    (folder / "gpu.toml").write_text('base = "h100"\nhbm_bytes_per_s = 4e12\n')
    (folder / "good.csv").write_text(file_of(GOOD), newline="")
    (folder / "bad.csv").write_text(file_of(GOOD, {**GOOD, "grid_w": "1e9"}), newline="")
    (folder / "p").write_text("a\n")
    return folder


@pytest.fixture
def unchanged(empty: Path, files: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stand in the folder, not in an empty one, and check afterwards that no file in it came, went or changed."""

    def contents() -> dict[Path, Any]:
        return {path: path.is_file() and (path.stat().st_size, path.stat().st_mtime_ns) for path in files.rglob("*")}

    monkeypatch.chdir(files)
    before = contents()
    yield
    assert contents() == before


@pytest.mark.parametrize(
    ("command", "says"),
    [
        pytest.param(f"{start} {row[0]}", row[1:], marks=[pytest.mark.smoke] if rows is OTHERS else [])
        for start, rows in COMMANDS.items()
        for row in rows
    ],
    ids=lambda value: value[:60].encode("ascii", "replace").decode() if isinstance(value, str) else "",
)
@pytest.mark.usefixtures("unchanged")
def test_refusal_is_one_line_that_names_the_value_and_the_remedy(wse: Wse, command: str, says: Row) -> None:
    line = wse(*shlex.split(command)).refusal()
    assert [part for part in says if part not in line] == [], line


@pytest.mark.parametrize("option", ["--wafers", "--prompt-len", "--new-tokens", "--batch", "--context"])
@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "1.5", "", "9" * 40, "1e3", "-" + "9" * 40])
@pytest.mark.usefixtures("unchanged")
def test_refusal_of_a_count_names_its_option_and_value(wse: Wse, option: str, value: str) -> None:
    line = wse("estimate", "four.json", "--mesh", "8x8", option, value).refusal()
    assert option in line
    assert value[:9] in line
    assert any(remedy in line for remedy in ("give", "choose", "--help")), line


GEOMETRY: dict[str, list[Any]] = {
    "mesh_rows": [0, -4, "nan", 100_000, 2.5],
    "sram_bytes_per_pe": [0, -1, "nan", 2**40, 3072],
    "clock_hz": [0, -8.5e8, "nan", "inf", 1e15],
    "hop_cycles": [0, -1, "nan", 1e9],
    "wafer_link_bytes_per_s": [0, -1, "nan", "inf"],
    "wafer_link_latency_s": [-1e-6, "nan", "inf"],
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in GEOMETRY.items() for value in values])
def test_refusal_of_a_wafer_names_the_file_and_the_key(wse: Wse, tiny: Path, empty: Path, key: str, value: Any) -> None:
    (empty / "mine.toml").write_text(f'base = "wse3"\n{key} = {value}\n')
    line = wse("estimate", tiny, "--wafer", "mine.toml").refusal()
    assert "mine.toml" in line
    assert key in line


@pytest.mark.parametrize(("text", "parts"), [(row[0], row[1:]) for row in GRIDS], ids=[row[0][:20] for row in GRIDS])
def test_refusal_of_a_grid_names_the_place_and_the_value(wse: Wse, empty: Path, text: str, parts: Row) -> None:
    (empty / "grid.toml").write_text(text)
    line = wse("sweep", "grid.toml").refusal()
    assert [part for part in parts if part not in line] == [], line


def test_refusal_of_too_many_settings_has_the_product(wse: Wse, empty: Path) -> None:
    many = ",".join(map(str, range(1, 2000)))
    line = wse("sweep", "--set", f"batch={many}", "--set", f"context={many}").refusal()
    assert "1,999 batch × 1,999 context are 3,996,001 settings" in line


def test_refusal_comes_before_anything_is_compiled(wse: Wse, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("wse.studies.compile.choose.compile_program", never)
    wse("run", tiny, "--prompt-ids", "1", "--trace", "none/run.h5").refusal()
    wse("run", tiny, "--prompt-ids", "99").refusal()
