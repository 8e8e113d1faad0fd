// Lanes of the steps of a pass. A pixel shows the fraction of its cycles that is due to each cause, so
// that even very short steps are visible.
const GROUPINGS = {
  op: {
    label: "kind of op",
    of: (trace, steps, at) => (steps.op[at] < 0 ? "no op" : trace.kinds[trace.op_kinds[steps.op[at]]]),
  },
  cause: { label: "cause", of: null },
  stage: { label: "stage", of: (trace, steps, at) => (steps.stage[at] < 0 ? "no stage" : `stage ${steps.stage[at]}`) },
  wafer: { label: "wafer", of: (trace, steps, at) => (steps.wafer[at] < 0 ? "host" : `wafer ${steps.wafer[at]}`) },
  layer: { label: "layer", of: (trace, steps, at) => layerName(steps.layer[at]) },
};
const MAX_LANES = 40;
const LANE = { height: 20, gap: 3, name: 132, axis: 22 };

// Names of the lanes, in the order of their first steps, and the lane of each step. All groups from
// number MAX_LANES on share the last lane.
function lanesOf(trace, steps, schedule, grouping) {
  const { of } = GROUPINGS[grouping];
  if (!of) return { names: DATA.causes, lane: null };
  const known = new Map();
  const lane = new Int32Array(schedule.steps);
  for (let at = 0; at < schedule.steps; at++) {
    const name = of(trace, steps, schedule.first + at);
    if (!known.has(name)) known.set(name, Math.min(known.size, MAX_LANES - 1));
    lane[at] = known.get(name);
  }
  const names = [...known.keys()];
  return {
    names:
      names.length > MAX_LANES ? [...names.slice(0, MAX_LANES - 1), `${names.length - MAX_LANES + 1} more`] : names,
    lane,
  };
}

// The fraction of each pixel that is due to each cause, [lane, pixel, cause], between two cycles.
function rasterised(steps, schedule, lanes, from, to, pixels) {
  const causes = DATA.causes.length;
  const amount = new Float32Array(lanes.names.length * pixels * causes);
  const each = pixels / (to - from);
  for (let at = 0; at < schedule.steps; at++) {
    const step = schedule.first + at;
    const cycles = steps.cycles[step];
    const start = (steps.start_cycle[step] - from) * each,
      end = start + cycles * each;
    if (end <= 0 || start >= pixels || !cycles) continue;
    const first = Math.max(0, Math.floor(start)),
      last = Math.min(pixels - 1, Math.ceil(end) - 1);
    for (let cause = 0; cause < causes; cause++) {
      const part = steps.cycles_by[step * causes + cause] / cycles;
      if (!part) continue;
      const line = (lanes.lane ? lanes.lane[at] : cause) * pixels;
      for (let x = first; x <= last; x++) {
        const share = Math.min(end, x + 1) - Math.max(start, x);
        amount[(line + x) * causes + cause] += share * part;
      }
    }
  }
  return amount;
}

// Draw a lane as stacked bars by cause. Neighbouring pixels with equal bars are drawn together.
function drawLane(context, amount, lane, pixels, x0, y, height, colours) {
  const causes = colours.length;
  const at = (x, cause) => Math.min(1, amount[(lane * pixels + x) * causes + cause]);
  for (let x = 0; x < pixels;) {
    let end = x + 1;
    while (end < pixels && colours.every((_, cause) => Math.abs(at(end, cause) - at(x, cause)) < 0.004)) end++;
    let top = y + height;
    for (let cause = 0; cause < causes; cause++) {
      const part = Math.min(at(x, cause) * height, top - y);
      if (part <= 0) continue;
      context.fillStyle = colours[cause];
      context.fillRect(x0 + x, top - part, end - x, part);
      top -= part;
    }
    x = end;
  }
}

// Round numbers for the axis of cycles.
function ticks(from, to, most) {
  const rough = (to - from) / most;
  const size = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
  const step = Math.max(1, [1, 2, 5, 10].map((times) => times * size).find((value) => value >= rough) ?? 10 * size);
  const marks = [];
  for (let mark = Math.ceil(from / step) * step; mark <= to; mark += step) marks.push(mark);
  return marks;
}

function drawAxis(context, from, to, x0, pixels, y, clock) {
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = colourOf("quiet");
  context.strokeStyle = colourOf("line");
  context.textBaseline = "top";
  for (const mark of ticks(from, to, Math.max(2, pixels / 130))) {
    const x = x0 + ((mark - from) * pixels) / (to - from);
    context.beginPath();
    context.moveTo(x, 0);
    context.lineTo(x, y + 4);
    context.stroke();
    context.textAlign = x < x0 + 30 ? "left" : "center";
    if (x < x0 + pixels - 45) context.fillText(`${short(mark)} (${seconds(mark / clock)})`, x, y + 6);
  }
  context.textAlign = "left";
}
