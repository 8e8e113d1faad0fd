// Draw a timeline: the bars of all tokens, the lanes of one token, and a description in words.
function drawSide(timeline, side, colours) {
  drawTokens(side);
  const { trace, schedule, steps, canvas } = side;
  if (!schedule || !steps) {
    canvas.hidden = true;
    side.say.textContent = "The steps of this token are not on this page.";
    return;
  }
  canvas.hidden = false;
  side.lanes = lanesOf(trace, steps, schedule, timeline.grouping);
  const each = LANE.height + LANE.gap,
    bottom = side.lanes.names.length * each;
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
  const waited =
    token.prompt || token.cycles <= schedule.cycles
      ? ""
      : ` The token before it came ${whole(token.cycles)} cycles earlier: it waited for other passes.`;
  const what = `Token ${side.token}, ${token.prompt ? "read in" : "made by"} a ${DATA.phases[schedule.phase]} pass`;
  const took = `${whole(schedule.cycles)} cycles (${seconds(schedule.cycles / trace.clock_hz)})`;
  const shares = causeShares(DATA.causes.map((cause, index) => causeCycles(steps, schedule, index)));
  side.say.textContent = `${what} of ${took} in ${several(schedule.steps, "step")}: ${shares}.${waited}`;
  canvas.setAttribute(
    "aria-label",
    `Lanes by ${GROUPINGS[timeline.grouping].label}. ${side.say.textContent} ` +
      "Left and right arrow keys go from step to step.",
  );
}

function causeCycles(steps, schedule, cause) {
  let total = 0;
  for (let at = schedule.first; at < schedule.first + schedule.steps; at++)
    total += steps.cycles_by[at * DATA.causes.length + cause];
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
  context.strokeRect(
    start,
    0.75,
    Math.max(2, x(side.steps.start_cycle[at] + side.steps.cycles[at]) - start),
    bottom - 2,
  );
}
