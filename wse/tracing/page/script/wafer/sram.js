// Description of one PE: stage and tile, values, buffers at their addresses, and colours (each selects a route).
const BAR = { first: 26, lane: 11 };

function stageAt(trace, wafer, row, col) {
  let found = -1;
  trace.stages.forEach((stage, at) => {
    const inside = row >= stage.row && row < stage.row + stage.rows && col >= stage.col && col < stage.col + stage.cols;
    if (stage.wafer === wafer && inside) found = at;
  });
  return found;
}

// If a stage spans several wafers, it has a rectangle on each. Buffers and steps refer to the first one.
const owners = new Map();

function ownerOf(trace, at) {
  const known =
    owners.get(trace) ??
    owners
      .set(
        trace,
        trace.stages.map((stage, index) => {
          const same = (name) => (other) => other[name] === stage[name];
          const isEqual = (other) =>
            ["row", "col", "rows", "cols", "first_layer", "last_layer"].every((name) => same(name)(other));
          const hasBuffers = (index_) => trace.buffers.some((buffer) => buffer.stage === index_);
          return hasBuffers(index)
            ? index
            : trace.stages.findIndex((other, index_) => isEqual(other) && hasBuffers(index_));
        }),
      )
      .get(trace);
  return at < 0 ? -1 : known[at];
}

function stageName(trace, at) {
  if (at < 0) return "no stage";
  const { first_layer: first, last_layer: last } = trace.stages[at];
  if (first < 0) return `stage ${at}, no layers`;
  return `stage ${at}, ${first === last ? `layer ${first}` : `layers ${first}–${last}`}`;
}

function tileName(trace, at, row, col) {
  const stage = trace.stages[at];
  return `tile ${row - stage.row}, ${col - stage.col} of ${stage.rows}×${stage.cols}`;
}

// The kind of op with the most compute cycles, or with the most hops, in a stage.
function busiestOp(trace, at, by) {
  const mine = trace.stage_work.filter((work) => work.stage === ownerOf(trace, at));
  const total = sum(mine.map((work) => work[by]));
  const most = mine.reduce((best, work) => (work[by] > (best?.[by] ?? 0) ? work : best), null);
  return most && most.kind >= 0
    ? `op ${trace.kinds[most.kind]}, ${percent(most[by], total)} of its ${by === "hops" ? "hops" : "compute cycles"}`
    : "";
}

// The largest buffer of one use, or of all uses except code, which is the same in all PEs.
function largestBuffer(trace, at, use) {
  const owner = ownerOf(trace, at);
  const wanted = (buffer) => (use === undefined ? DATA.uses[buffer.use] !== "code" : DATA.uses[buffer.use] === use);
  const mine = trace.buffers.filter((buffer) => buffer.stage === owner && wanted(buffer));
  return mine.reduce((best, buffer) => (buffer.bytes > (best?.bytes ?? -1) ? buffer : best), null);
}

// Lines about a PE on a map: its stage, tile, busiest op and largest buffer.
function placedLines(trace, wafer, row, col, quantity) {
  if (ofFabric(trace, quantity)) return ["of the fabric; stages lie on the mesh without dead PEs"];
  const at = stageAt(trace, wafer, row, col);
  if (at < 0) return ["nothing is placed here"];
  const isSram = quantity.startsWith("sram");
  const buffer = largestBuffer(trace, at, quantity.startsWith("sram.") ? quantity.slice(5) : undefined);
  return [
    stageName(trace, at),
    tileName(trace, at, row, col),
    busiestOp(trace, at, quantity === "busy" || isSram ? "compute" : "hops"),
    buffer ? `largest buffer: ${buffer.name}, ${whole(buffer.bytes)} B` : "",
  ].filter((line) => line);
}

// The width of a panel in pixels, so that the text in a bar is not scaled.
function barWidth() {
  const style = getComputedStyle(document.getElementById("pe"));
  const first = parseFloat(style.gridTemplateColumns);
  return Math.max(260, Math.round(first || document.getElementById("pe").clientWidth));
}

function sramMap(trace, at) {
  const owner = ownerOf(trace, at);
  const buffers = trace.buffers.filter((buffer) => buffer.stage === owner).sort((a, b) => a.address - b.address);
  if (!buffers.length) return el("p", { class: "note" }, "No map of its SRAM was recorded.");
  const ends = buffers.map((buffer) => buffer.address + buffer.bytes);
  const size = Math.max(sum(trace.stages[at].stage_bytes), ...ends); // above the SRAM if it does not fit
  const filled = [];
  const lanes = buffers.map((buffer) => {
    let lane = filled.findIndex((end) => end <= buffer.address);
    if (lane < 0) lane = filled.push(0) - 1;
    filled[lane] = buffer.address + buffer.bytes;
    return lane;
  });
  const width = barWidth();
  const below = BAR.first + (filled.length - 1) * BAR.lane;
  const height = below + 20;
  const x = (address) => (width * address) / size;
  const bars = buffers.map((buffer, index) => {
    const bar = svg("rect", {
      x: x(buffer.address),
      y: lanes[index] ? BAR.first + (lanes[index] - 1) * BAR.lane : 0,
      width: Math.max(1, x(buffer.bytes)),
      height: (lanes[index] ? BAR.lane : BAR.first) - 2,
      class: "buffer",
      onpointermove: (event) => showTip(event, bufferLines(buffer)),
      onpointerleave: hideTip,
    });
    bar.style.fill = `var(--use-${DATA.uses[buffer.use]})`;
    return bar;
  });
  let kibibytes = 8; // distance of marks
  while (size > (width / 75) * 1024 * kibibytes) kibibytes *= 2;
  const marks = Array.from({ length: Math.floor(size / (1024 * kibibytes)) + 1 }, (_, mark) =>
    svg(
      "text",
      {
        x: x(1024 * kibibytes * mark),
        y: height - 4,
        class: "mark",
        "text-anchor": mark === 0 ? "start" : x(1024 * kibibytes * mark) > width - 20 ? "end" : "middle",
      },
      hexadecimal(1024 * kibibytes * mark),
    ),
  );
  const used = buffers.map((buffer) => [
    buffer.name,
    neededBy(buffer),
    hexadecimal(buffer.address),
    whole(buffer.bytes),
    DATA.uses[buffer.use],
    buffer.dtype,
  ]);
  const frame = svg("rect", { x: 0, y: 0, width, height: below - 2, class: "sram" });
  return el(
    "div",
    {},
    svg(
      "svg",
      {
        viewBox: `0 0 ${width} ${height}`,
        class: "bars",
        role: "img",
        "aria-label": `${buffers.length} buffers over ${whole(size)} B of SRAM; the table below lists them`,
      },
      frame,
      ...bars,
      ...marks,
    ),
    key(DATA.uses.slice(0, -1), "use"),
    filled.length > 1
      ? el("p", { class: "note" }, "Buffers under each other share addresses at different times.")
      : null,
    plainTable(
      "Buffers of this PE by address",
      ["buffer", "needed by", "address", "bytes", "use", "type"],
      used,
      [2, 3],
      [0, 1],
    ),
  );
}

// First and last op that need a buffer. The common start of both names is not repeated, as in
// "layers.0.qkv to attention".
function neededBy(buffer) {
  if (!buffer.live.length) return "always";
  const [first, last] = [buffer.live[0], buffer.live.at(-1)];
  if (first === last) return first;
  const stem = first.slice(0, first.lastIndexOf(".") + 1);
  return `${first} to ${stem && last.startsWith(stem) ? last.slice(stem.length) : last}`;
}

function bufferLines(buffer) {
  return [
    buffer.name,
    `${DATA.uses[buffer.use]}, ${whole(buffer.bytes)} B at ${hexadecimal(buffer.address)}`,
    buffer.live.length ? `needed by ${neededBy(buffer)}` : "always there",
  ];
}

function colourTable(trace, wafer, row, col) {
  const mine = trace.routes.filter(
    (route) =>
      route.wafer === wafer &&
      row >= route.row &&
      row < route.row + route.rows &&
      col >= route.col &&
      col < route.col + route.cols,
  );
  if (!mine.length) return null;
  const axis = ["along rows", "along columns", "along both"];
  const rows = mine
    .sort((a, b) => a.colour - b.colour)
    .map((route) => [String(route.colour), route.pattern, axis[route.axis] ?? ""]);
  return el(
    "details",
    {},
    el("summary", {}, `${new Set(mine.map((route) => route.colour)).size} colours that this PE sets`),
    plainTable("Colours of this PE", ["colour", "pattern", "lines"], rows, [0]),
  );
}

// values: the values of the PE, by quantity
function pePanel(trace, wafer, row, col, values) {
  const at = stageAt(trace, wafer, row, col);
  const lines = [["stage", stageName(trace, at)]];
  if (at >= 0) lines.push(["tile", tileName(trace, at, row, col).slice(5)]);
  const op = at >= 0 ? busiestOp(trace, at, "compute") : "";
  if (op) lines.push(["busiest", op]);
  if (trace.mesh) lines.push(["links", "of the fabric at this row and column, where PEs are dead"]);
  for (const [name, value] of values) lines.push([QUANTITIES[name].label, `${whole(value)} ${QUANTITIES[name].unit}`]);
  return el(
    "div",
    {},
    el("h3", {}, `${COMPARED ? `${trace.letter}: ` : ""}PE ${row}, ${col} of wafer ${wafer}`),
    facts(lines),
    at >= 0 ? sramMap(trace, at) : el("p", { class: "note" }, "Nothing is placed here."),
    colourTable(trace, wafer, row, col),
  );
}
