// The pictures of a timeline: bars of all tokens, lanes of one, and what they say in words.
function drawSide(timeline, side, colours) {
  drawTokens(side);
  const { trace, schedule, steps, canvas } = side;
  if (!schedule || !steps) {
    canvas.hidden = true;
    side.say.textContent = trace.tokens.length ? "The steps of this token are not on this page." : "No tokens were recorded.";
    return;
  }
  canvas.hidden = false;
  side.lanes = lanesOf(trace, steps, schedule, timeline.grouping);
  const each = LANE.height + LANE.gap, bottom = side.lanes.names.length * each;
  canvas.style.height = `${bottom + LANE.axis}px`;
  const { context, width } = sized(canvas);
  const pixels = Math.max(1, Math.floor(width - LANE.name));
  const [from, to] = timeline.window;
  drawAxis(context, from, to, LANE.name, pixels, bottom, trace.clock_hz);
  const amount = rasterised(steps, schedule, side.lanes, from, to, pixels);
  context.textBaseline = "middle";
  side.lanes.names.forEach((name, lane) => {
    context.fillStyle = colourOf("track");
    context.fillRect(LANE.name, lane * each, pixels, LANE.height);
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = colourOf("text");
    context.fillText(clipped(name, LANE.name - 6), 0, lane * each + LANE.height / 2);
    drawLane(context, amount, lane, pixels, LANE.name, lane * each, LANE.height, colours);
  });
  markStep(timeline, side, context, pixels, bottom);
  const token = trace.tokens[side.token];
  const by = DATA.causes.map((cause, index) => [cause, causeCycles(steps, schedule, index)]).sort((a, b) => b[1] - a[1]);
  const total = sum(by.map(([, cycles]) => cycles));
  const waited = token.prompt || token.cycles <= schedule.cycles ? "" : ` The token before it came ${whole(token.cycles)} cycles earlier: it waited for other passes.`;
  side.say.textContent = `Token ${side.token}, ${token.prompt ? "read in" : "made by"} a ${DATA.phases[schedule.phase]} pass of ${whole(schedule.cycles)} cycles (${seconds(schedule.cycles / trace.clock_hz)}) in ${whole(schedule.steps)} steps: ${by.filter(([, cycles]) => cycles).map(([cause, cycles]) => `${cause} ${percent(cycles, total)}`).join(", ")}.${waited}`;
  canvas.setAttribute("aria-label", `Lanes by ${GROUPINGS[timeline.grouping].label}. ${side.say.textContent} Left and right arrow keys go from step to step.`);
}

function causeCycles(steps, schedule, cause) {
  let total = 0;
  for (let at = schedule.first; at < schedule.first + schedule.steps; at++) total += steps.cycles_by[at * DATA.causes.length + cause];
  return total;
}

function markStep(timeline, side, context, pixels, bottom) {
  if (side.step < 0) return;
  const [from, to] = timeline.window;
  const at = side.schedule.first + side.step;
  const x = (cycle) => LANE.name + ((cycle - from) * pixels) / (to - from);
  const start = x(side.steps.start_cycle[at]);
  context.strokeStyle = colourOf("text");
  context.lineWidth = 1.5;
  context.strokeRect(start, 0.75, Math.max(2, x(side.steps.start_cycle[at] + side.steps.cycles[at]) - start), bottom - 2);
}

// A bar a token, as high as its cycles: the slow ones stand out, a click chooses one. A token that waited longer than
// the longest pass that decodes, for prompts of others or its own, fills the whole height.
function drawTokens(side) {
  const { trace, bars } = side;
  const { context, width, height } = sized(bars);
  const slow = slowest(trace);
  const most = slow < 0 ? Math.max(1, ...trace.tokens.map((token) => token.cycles)) : Math.max(1, trace.tokens[slow].pass_cycles);
  const each = width / Math.max(1, trace.tokens.length);
  const [plain, chosen, faint] = ["quiet", "accent", "line"].map(colourOf);
  trace.tokens.forEach((token, at) => {
    const size = Math.min(height, Math.max(3, (token.cycles / most) * (height - 6)));
    context.fillStyle = at === side.token ? chosen : token.prompt ? faint : plain;
    context.fillRect(at * each, height - (at === side.token ? Math.max(size, 9) : size), Math.max(1, each - (each > 3 ? 1 : 0)), height);
  });
  bars.setAttribute("aria-label", slow < 0 ? "No decoded tokens." : `Cycles of ${trace.tokens.length} tokens; the slowest that was decoded is token ${slow} with ${whole(most)}.`);
}
