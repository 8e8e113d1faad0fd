// The table of steps: every place of the program that steps ran in, summed over the run; of two traces, what changed.
async function stepRows(trace) {
  if (!trace.places) return [];
  const places = await columns(trace.places);
  const causes = DATA.causes.length;
  const named = (names, at) => (at < 0 ? "" : names[at]);
  return Array.from({ length: places.cycles.length }, (_, at) => ({
    phase: DATA.phases[places.phase[at]] ?? "",
    op: named(trace.op_names, places.op[at]),
    of: places.op[at] < 0 ? "" : trace.kinds[trace.op_kinds[places.op[at]]],
    name: named(trace.names, places.name[at]),
    kind: DATA.kinds[places.kind[at]] ?? "",
    layer: places.layer[at],
    stage: places.stage[at],
    wafer: places.wafer[at],
    area: `${places.rows[at]}×${places.cols[at]} at ${places.row[at]}, ${places.col[at]}`,
    times: places.times[at],
    cycles: places.cycles[at],
    words: places.words[at],
    hops: places.hops[at],
    causes: places.cycles_by.slice(at * causes, (at + 1) * causes),
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

const LAYER_COLUMN = numberColumn("layer", (row) => row.layer, orDash);
const CAUSE_COLUMN = {
  name: "by cause",
  value: (row) => DATA.causes[row.causes.indexOf(Math.max(...row.causes))],
  bar: (row) => causeBar(row.causes),
};
const NAME_COLUMNS = [
  textColumn("phase", (row) => row.phase),
  textColumn("op", (row) => row.op),
  textColumn("kernel or pattern", (row) => row.name),
];

function searched(row) {
  const place = [layerName(row.layer), `stage ${row.stage}`, `wafer ${row.wafer}`];
  return [row.phase, row.op, row.of, row.name, row.kind, ...place].join(" ");
}

async function stepTable(section) {
  const all = await Promise.all(TRACES.map(stepRows));
  if (!all.some((rows) => rows.length)) {
    section.append(el("p", { class: "note" }, "There are no steps to show."));
    return;
  }
  const holder = el("div");
  const show = (apart) => {
    const rows = apart ? all : all.map(together);
    holder.replaceChildren(tableOf(COMPARED ? aligned(rows[0], rows[1]) : rows[0], apart).node);
  };
  section.append(
    el(
      "div",
      { class: "controls" },
      pick(
        "Layers",
        [
          ["apart", "each apart"],
          ["together", "together"],
        ],
        "apart",
        (value) => show(value === "apart"),
        "rows",
      ),
    ),
    holder,
  );
  show(true);
}

// Rows of the same kernel or pattern in ops of the same kind, all layers and places in one.
function together(rows) {
  const found = new Map();
  for (const row of rows) {
    const key_ = JSON.stringify([row.phase, row.of, row.name, row.kind]);
    const held =
      found.get(key_) ??
      found
        .set(key_, {
          ...row,
          op: row.of,
          layer: -1,
          stage: -1,
          wafer: -1,
          area: "",
          times: 0,
          cycles: 0,
          words: 0,
          hops: 0,
          causes: DATA.causes.map(() => 0),
        })
        .get(key_);
    for (const name of ["times", "cycles", "words", "hops"]) held[name] += row[name];
    held.causes = held.causes.map((cycles, cause) => cycles + row.causes[cause]);
  }
  return [...found.values()];
}

// What sorts the table at first is the column of cycles, or of how much they changed.
function tableOf(rows, apart) {
  const columns_ = COMPARED ? changeColumns(apart) : sumColumns(apart);
  const caption = COMPARED
    ? "Steps of both runs, by op and kernel or pattern: cycles over the run"
    : "Steps of the program, summed over the run";
  const first = columns_.findIndex((column) => column.name === (COMPARED ? "change" : "cycles"));
  return new SortedTable(caption, columns_, rows, searched, first);
}

function sumColumns(apart) {
  const total = sum(TRACES.flatMap((trace) => Object.values(trace.phases).map((phase) => sum(phase.cycles_by))));
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
    numberColumn(
      "share",
      (row) => row.cycles,
      (cycles) => percent(cycles, total),
    ),
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

// Rows of two traces that are the same step of the same op, wherever each has it placed.
function aligned(first, second) {
  const found = new Map();
  [first, second].forEach((rows, side) => {
    for (const row of rows) {
      const key_ = JSON.stringify([row.phase, row.op, row.name, row.kind, row.layer]);
      const held =
        found.get(key_) ?? found.set(key_, { ...row, stage: -1, before: 0, after: 0, cycles: 0, hops: 0 }).get(key_);
      held[side ? "after" : "before"] += row.cycles;
      held.hops += side ? row.hops : -row.hops;
    }
  });
  return [...found.values()];
}
