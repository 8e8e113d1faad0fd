// The step at a place of the lanes, or -1. If several are there, it is the shortest; if none is, it is the
// nearest within three pixels.
function stepAt(side, shown, x, y) {
  const { schedule, steps, lanes, canvas } = side;
  if (!schedule || !steps || x < LANE.name) return -1;
  const [from, to] = shown;
  const each = (to - from) / (canvas.clientWidth - LANE.name);
  const cycle = from + (x - LANE.name) * each;
  const lane = Math.floor(y / (LANE.height + LANE.gap));
  let found = -1,
    nearest = 3 * each;
  for (let at = 0; at < schedule.steps; at++) {
    const step = schedule.first + at;
    const inLane = lanes.lane ? lanes.lane[at] === lane : steps.cycles_by[step * DATA.causes.length + lane] > 0;
    if (!inLane || !steps.cycles[step]) continue;
    const away = Math.max(steps.start_cycle[step] - cycle, cycle - steps.start_cycle[step] - steps.cycles[step], 0);
    if (away < nearest || (away === 0 && found >= 0 && nearest === 0 && steps.cycles[step] < steps.cycles[found])) {
      nearest = away;
      found = step;
    }
  }
  return found;
}

// Words and hops of a step in the token's pass, including the KV-cache shifts of this pass.
function sentBy(side, at) {
  const { steps, shifts, trace, token } = side;
  let words = steps.words[at],
    hops = steps.hops[at];
  const [from, to] = trace.tokens[token].shifts;
  for (let row = from; row < to; row++) {
    if (shifts.step[row] !== at) continue;
    words += shifts.words[row];
    hops += shifts.hops[row];
  }
  return { words, hops };
}

// Lines of text that describe a step, the most important first.
function stepLines(side, at) {
  const { trace, steps } = side;
  const { words, hops } = sentBy(side, at);
  const causes = DATA.causes
    .map((cause, index) => [cause, steps.cycles_by[at * DATA.causes.length + index]])
    .filter(([, cycles]) => cycles);
  const named = [
    steps.op[at] < 0 ? "no op" : trace.op_names[steps.op[at]],
    steps.name[at] < 0 ? "" : trace.names[steps.name[at]],
  ];
  const wafer = steps.wafer[at] < 0 ? "host" : `wafer ${steps.wafer[at]}`;
  const kind = DATA.kinds[steps.kind[at]] ?? "step";
  const time = seconds(steps.cycles[at] / trace.clock_hz);
  return [
    named.filter((name) => name).join(" · "),
    [kind, layerName(steps.layer[at]), stageName(trace, steps.stage[at]), wafer].join(", "),
    `${whole(steps.cycles[at])} cycles (${time}) from cycle ${whole(steps.start_cycle[at])}`,
    causes.map(([cause, cycles]) => `${cause} ${whole(cycles)}`).join(", "),
    words ? `${whole(words)} words (${amount(4 * words, "B")}), ${whole(hops)} hops` : "no words moved",
    `on ${steps.rows[at]}×${steps.cols[at]} PEs from row ${steps.row[at]}, column ${steps.col[at]}`,
  ];
}

// The columns of a step, in the form that the map and the table use.
function pinnedStep(side, at) {
  const { steps, schedule } = side;
  const held = Object.keys(steps).filter((name) => name !== "cycles_by");
  return { ...Object.fromEntries(held.map((name) => [name, steps[name][at]])), phase: schedule.phase };
}
