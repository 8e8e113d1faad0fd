// The table of steps, summed over the run. For two traces, it shows the differences.
function stepRows(trace, places, side) {
  if (!places) return [];
  const causes = DATA.causes.length;
  const named = (names, at) => (at < 0 ? "" : names[at]);
  return Array.from({ length: places.cycles.length }, (_, at) => ({
    phase: DATA.phases[places.phase[at]] ?? "",
    op: named(trace.op_names, places.op[at]),
    of: places.op[at] < 0 ? "" : trace.kinds[trace.op_kinds[places.op[at]]],
    name: named(trace.names, places.name[at]),
    kind: DATA.kinds[places.kind[at]] ?? "",
    layer: places.layer[at],
    layers: [places.layer[at]],
    steps: [[side, at]],
    stage: places.stage[at],
    wafer: places.wafer[at],
    area: `${places.rows[at]}×${places.cols[at]} at ${places.row[at]}, ${places.col[at]}`,
    times: places.times[at],
    cycles: places.cycles[at],
    words: places.words[at],
    hops: places.hops[at],
    causes: [...places.cycles_by.slice(at * causes, (at + 1) * causes)],
  }));
}

function causeBar(causes) {
  const total = sum(causes) || 1;
  const named = DATA.causes.map((cause, at) => [cause, causes[at]]).filter(([, cycles]) => cycles);
  const text = named.map(([cause, cycles]) => `${cause} ${percent(cycles, total)}`).join(", ");
  const bar = el("span", { class: "split", role: "img", "aria-label": text, title: text });
  for (const [cause, cycles] of named) {
    const part = el("i");
    part.style.width = `${(100 * cycles) / total}%`;
    part.style.background = `var(--cause-${cause})`;
    bar.append(part);
  }
  return bar;
}

function textColumn(name, of) {
  return { name, value: of, text: of };
}

function numberColumn(name, of, shown = whole) {
  return { name, value: of, text: (row) => shown(of(row)), numeric: true };
}

function orDash(number) {
  return number < 0 ? "–" : String(number);
}

const LAYER_COLUMN = {
  name: "layer",
  value: (row) => row.layer,
  text: (row) =>
    row.layer < 0
      ? "–"
      : row.layers.length > 1
        ? `${stretchText(stretched(row.layers))} ×${row.layers.length}`
        : row.layer,
  numeric: true,
};
const CAUSE_COLUMN = {
  name: "by cause",
  value: (row) => DATA.causes[row.causes.indexOf(Math.max(...row.causes))],
  bar: (row) => causeBar(row.causes),
};
const SHARE_COLUMN = {
  name: "share",
  value: (row) => row.cycles / (TRACES[0].phases[row.phase]?.cycles || 1),
  text: (row) => cycleShare(TRACES[0], row.phase, row.cycles),
  numeric: true,
};
const NAME_COLUMNS = [
  textColumn("phase", (row) => row.phase),
  textColumn("op", (row) => row.op),
  textColumn("kernel or pattern", (row) => row.name),
];

function searched(row) {
  const place = [...row.layers.map(layerName), `stage ${row.stage}`, `wafer ${row.wafer}`];
  return [row.phase, row.op, row.of, row.name, row.kind, ...place].join(" ");
}

const PLACE = ["phase", "op", "name", "kind", "layer", "stage", "wafer", "row", "col", "rows", "cols"]; // identify a step
const SUMS = COMPARED ? ["before", "after", "hops"] : ["times", "cycles", "words", "hops"];
const LAYERS = [
  ["folded", "equal ones as one"],
  ["apart", "each apart"],
  ["together", "together"],
];
const SHAPES = { folded: foldedRows, apart: (rows) => rows, together };

class StepTable {
  constructor(section) {
    this.section = section;
    this.shape = "folded";
    this.holder = el("div");
    this.pinned = () => {}; // callback with the step of a clicked row
  }

  async load() {
    this.places = await Promise.all(TRACES.map((trace) => trace.places && columns(trace.places)));
    const all = TRACES.map((trace, side) => stepRows(trace, this.places[side], side));
    this.all = COMPARED ? aligned(...all) : all[0];
    if (!this.all.length) {
      this.section.append(el("p", { class: "note" }, "There are no steps to show."));
      return;
    }
    const shape = pick(
      "Layers",
      LAYERS,
      this.shape,
      (value) => {
        this.shape = value;
        this.draw();
        remember("steps");
      },
      "rows",
    );
    this.section.append(el("div", { class: "controls" }, shape), this.holder);
    this.draw();
    keep(
      "layers",
      () => (this.shape === "folded" ? null : this.shape),
      (value) => chooseOption("rows", value ?? "folded"),
    );
    keep(
      "find",
      () => this.table.input.value || null,
      (value) => {
        if ((value ?? "") === this.table.input.value) return;
        this.table.input.value = value ?? "";
        this.table.find(value ?? "");
      },
    );
  }

  draw() {
    this.rows = SHAPES[this.shape](this.all);
    this.table = tableOf(this.rows, this.shape);
    this.table.chosen = (at) => this.choose(at);
    this.holder.replaceChildren(this.table.node);
  }

  choose(at) {
    const isOff = at === this.table.marked;
    this.table.mark(isOff ? -1 : at);
    const [side, place] = this.rows[at].steps[0];
    this.pinned(
      TRACES[side],
      isOff ? null : Object.fromEntries(PLACE.map((name) => [name, this.places[side][name][place]])),
    );
  }

  // Mark the row that contains a step of a trace, or no row for null.
  show(trace, step) {
    const side = TRACES.indexOf(trace),
      places = this.places[side];
    if (!this.table || !places) return;
    const at = step ? places.cycles.findIndex((_, row) => PLACE.every((name) => places[name][row] === step[name])) : -1;
    const isIt = ([of, row]) => of === side && row === at;
    this.table.mark(at < 0 ? -1 : this.rows.findIndex((row) => row.steps.some(isIt)));
  }
}

// Combine equal steps of several layers into one row. Steps are equal if they have the same op within the
// layer, kernel or pattern, number of executions, and cycles of each cause. Words and hops may differ,
// because they depend on the rows of PEs that store the KV cache.
function foldedRows(rows) {
  const cycles = COMPARED ? ["before", "after"] : ["times"];
  const alike = (row) => [
    opInLayer(row),
    row.of,
    row.phase,
    row.name,
    row.kind,
    row.causes,
    cycles.map((name) => row[name]),
  ];
  return folded(rows, alike).map((mine) => (mine.length === 1 ? mine[0] : oneRow(mine, opInLayer(mine[0]))));
}

// The name of an op without the prefix of its layer.
function opInLayer(row) {
  const layer = `layers.${row.layer}.`;
  return row.op.startsWith(layer) ? row.op.slice(layer.length) : row.op;
}

// Combine rows with the same kernel or pattern and the same kind of op, over all layers and places.
function together(rows) {
  return folded(rows, (row) => [row.phase, row.of, row.name, row.kind]).map((mine) => oneRow(mine, mine[0].of));
}

function oneRow(rows, op) {
  const same = (name, none) => (rows.every((row) => row[name] === rows[0][name]) ? rows[0][name] : none);
  const layers = [...new Set(rows.flatMap((row) => row.layers))];
  return {
    ...rows[0],
    op,
    layers,
    layer: Math.min(...layers),
    stage: same("stage", -1),
    wafer: same("wafer", -1),
    area: same("area", ""),
    causes: added(rows.map((row) => row.causes)),
    steps: rows.flatMap((row) => row.steps),
    ...Object.fromEntries(SUMS.map((name) => [name, sum(rows.map((row) => row[name]))])),
  };
}

// The table is first sorted by cycles or, for two traces, by the change of the cycles.
function tableOf(rows, shape) {
  const apart = shape !== "together";
  const columns_ = COMPARED ? changeColumns(apart) : sumColumns(apart);
  const caption = COMPARED
    ? "Steps of both runs, by op and kernel or pattern: cycles over the run"
    : "Steps of the program, summed over the run; share: of the cycles of their phase";
  const first = columns_.findIndex((column) => column.name === (COMPARED ? "change" : "cycles"));
  return new SortedTable(caption, columns_, rows, searched, first);
}

function sumColumns(apart) {
  const places = [
    LAYER_COLUMN,
    numberColumn("stage", (row) => row.stage, orDash),
    numberColumn("wafer", (row) => row.wafer, orDash),
  ];
  return [
    ...NAME_COLUMNS,
    ...(apart ? places : []),
    numberColumn("times", (row) => row.times),
    numberColumn("cycles", (row) => row.cycles),
    SHARE_COLUMN,
    CAUSE_COLUMN,
    numberColumn("words", (row) => row.words),
    numberColumn("hops", (row) => row.hops),
    ...(apart ? [textColumn("PEs", (row) => row.area)] : []),
  ];
}

function changeColumns(apart) {
  const amountChanged = (row) => Math.abs(row.after - row.before);
  return [
    ...NAME_COLUMNS,
    ...(apart ? [LAYER_COLUMN] : []),
    numberColumn("cycles in A", (row) => row.before),
    numberColumn("cycles in B", (row) => row.after),
    numberColumn("B − A", (row) => row.after - row.before),
    { name: "change", value: amountChanged, text: (row) => change(row.before, row.after), numeric: true },
    numberColumn("hops, B − A", (row) => row.hops),
  ];
}

// Pair the rows of two traces that are the same step of the same op, even if they are placed differently.
function aligned(first, second) {
  const found = new Map();
  [first, second].forEach((rows, side) => {
    for (const row of rows) {
      const key_ = JSON.stringify([row.phase, row.op, row.name, row.kind, row.layers]);
      const held =
        found.get(key_) ??
        found.set(key_, { ...row, stage: -1, before: 0, after: 0, cycles: 0, hops: 0, steps: [] }).get(key_);
      held.steps.push(...row.steps);
      held[side ? "after" : "before"] += row.cycles;
      held.hops += side ? row.hops : -row.hops;
    }
  });
  return [...found.values()];
}
