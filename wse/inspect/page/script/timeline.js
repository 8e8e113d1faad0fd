// One token's steps over time, of one trace or two under each other with the same axis; a strip to choose a window in.
const STRIP = 34;

class Timeline {
  constructor(section, traces) {
    this.grouping = "op";
    this.window = [0, 1];
    this.end = 1;
    this.sides = traces.map((trace) => this.side(trace));
    this.strip = el("canvas", {
      class: "strip",
      tabindex: "0",
      role: "slider",
      id: "brush",
      "aria-label": "Window of cycles",
      "aria-valuemin": "0",
    });
    this.read = el("p", { class: "say", id: "window", "aria-live": "polite" });
    const button = (label, text, action) =>
      el("button", { type: "button", "aria-label": label, onclick: action }, text);
    section.append(
      el(
        "div",
        { class: "controls" },
        pick(
          "Lanes by",
          Object.entries(GROUPINGS).map(([name, { label }]) => [name, label]),
          this.grouping,
          (value) => {
            this.grouping = value;
            this.draw();
          },
          "lanes",
        ),
        el(
          "span",
          { class: "buttons" },
          button("Zoom in", "+", () => this.zoom(0.5)),
          button("Zoom out", "−", () => this.zoom(2)),
          button("Whole pass", "whole", () => this.show(0, this.end)),
        ),
      ),
      key(DATA.causes, "cause"),
      el(
        "p",
        { class: "note" },
        "A bar is as high as its share of the time. Drag in the strip or in the lanes to look closer. Keys on the " +
          "strip: ← → move, Shift ← → narrow and widen, 0 whole. Keys on the lanes: ← → from step to step.",
      ),
      this.strip,
      this.read,
      ...this.sides.map((side) => side.figure),
    );
    this.brush(this.strip, 0, () => [0, this.end]);
    this.strip.addEventListener("keydown", (event) => this.stripKey(event));
    onRedraw(() => this.draw());
    addEventListener("resize", () => this.draw());
  }

  side(trace) {
    const side = { trace, token: defaultToken(trace), step: -1, figure: null };
    side.canvas = el("canvas", { class: "lanes", tabindex: "0", role: "application", id: `lanes-${trace.letter}` });
    side.say = el("p", { class: "say" });
    side.detail = el("p", { class: "say detail", "aria-live": "polite" });
    side.bars = el("canvas", { class: "tokens", role: "img" });
    side.number = el("input", {
      type: "number",
      min: "0",
      max: String(trace.tokens.length - 1),
      id: `token-${trace.letter}`,
      onchange: () => this.choose(side, Number(side.number.value)),
    });
    side.named = el("output", { class: "token" });
    side.figure = el(
      "figure",
      {},
      COMPARED ? el("figcaption", {}, sideName(trace)) : null,
      el(
        "div",
        { class: "controls" },
        el("label", {}, "Token ", side.number),
        side.named,
        el(
          "span",
          { class: "buttons" },
          ...[
            ["slowest", slowest(trace)],
            ["first", trace.tokens.findIndex((token) => !token.prompt)],
            ["last", trace.tokens.length - 1],
          ]
            .filter(([, at]) => at >= 0)
            .map(([text, at]) => el("button", { type: "button", onclick: () => this.choose(side, at) }, text)),
        ),
      ),
      side.bars,
      side.canvas,
      side.say,
      side.detail,
    );
    side.bars.addEventListener("click", (event) =>
      this.choose(
        side,
        Math.min(trace.tokens.length - 1, Math.floor((event.offsetX * trace.tokens.length) / side.bars.clientWidth)),
      ),
    );
    side.bars.addEventListener("pointermove", (event) => {
      const at = Math.min(
        trace.tokens.length - 1,
        Math.max(0, Math.floor((event.offsetX * trace.tokens.length) / side.bars.clientWidth)),
      );
      if (trace.tokens[at]) showTip(event, [`token ${at}`, tokenName(trace, at)]);
    });
    side.bars.addEventListener("pointerleave", hideTip);
    this.brush(
      side.canvas,
      LANE.name,
      () => this.window,
      (event) => this.hover(side, event),
    );
    side.canvas.addEventListener("keydown", (event) => this.laneKey(side, event));
    return side;
  }

  async load() {
    for (const side of this.sides) {
      side.steps = await columns(side.trace.steps);
      side.shifts = await columns(side.trace.shifts ?? {});
    }
    for (const side of this.sides) this.choose(side, side.token, false);
    this.show(0, this.end);
  }

  choose(side, wanted, show = true) {
    const at = Math.min(Math.max(Math.round(wanted) || 0, 0), side.trace.tokens.length - 1);
    side.token = at;
    side.step = -1;
    side.detail.textContent = "";
    side.number.value = String(at);
    side.named.textContent = at < 0 ? "none" : tokenName(side.trace, at);
    const token = side.trace.tokens[at];
    side.schedule = token && token.schedule >= 0 ? side.trace.schedules[token.schedule] : null;
    this.end = Math.max(1, ...this.sides.map(({ schedule }) => schedule?.cycles ?? 0));
    if (show) this.show(0, this.end);
  }

  show(from, to) {
    const span = Math.min(Math.max(to - from, Math.min(10, this.end)), this.end);
    const start = Math.min(Math.max(from, 0), this.end - span);
    this.window = [start, start + span];
    this.draw();
  }

  zoom(factor) {
    const [from, to] = this.window,
      middle = (from + to) / 2,
      half = ((to - from) * factor) / 2;
    this.show(middle - half, middle + half);
  }

  stripKey(event) {
    const [from, to] = this.window,
      step = (to - from) / 8;
    const moves = {
      ArrowLeft: [-step, -step],
      ArrowRight: [step, step],
      Home: [-from, -from],
      End: [this.end - to, this.end - to],
    };
    if (event.shiftKey && event.key === "ArrowLeft") this.show(from + step, to - step);
    else if (event.shiftKey && event.key === "ArrowRight") this.show(from - step, to + step);
    else if (moves[event.key]) this.show(from + moves[event.key][0], to + moves[event.key][1]);
    else if ("+=".includes(event.key)) this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (event.key === "0" || event.key === "Escape") this.show(0, this.end);
    else return;
    event.preventDefault();
  }

  laneKey(side, event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || !side.schedule) {
      this.stripKey(event);
      return;
    }
    event.preventDefault();
    side.step = Math.min(Math.max(side.step + step, 0), side.schedule.steps - 1);
    const at = side.schedule.first + side.step;
    const start = side.steps.start_cycle[at],
      end = start + side.steps.cycles[at],
      [from, to] = this.window;
    if (start < from || end > to) this.show(start - (to - from) / 8, start + (7 * (to - from)) / 8);
    else this.draw();
    side.detail.textContent = stepLines(side, at).join(" · ");
  }

  // Dragging on a canvas chooses a window of the cycles that it shows; without a drag, moving over it hovers.
  brush(canvas, left, shown, hover) {
    let began = null;
    const cycleAt = (x) => {
      const [from, to] = shown();
      return from + Math.min(Math.max((x - left) / (canvas.clientWidth - left), 0), 1) * (to - from);
    };
    canvas.addEventListener("pointerdown", (event) => {
      began = event.offsetX;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (began === null) {
        hover?.(event);
        return;
      }
      this.chosen = [began, event.offsetX].map(cycleAt).sort((a, b) => a - b);
      hideTip();
      this.draw();
    });
    canvas.addEventListener("pointerup", (event) => {
      const wide = began !== null && Math.abs(event.offsetX - began) > 4;
      const [from, to] = [began ?? 0, event.offsetX].map(cycleAt).sort((a, b) => a - b);
      began = null;
      this.chosen = null;
      if (wide) this.show(from, to);
    });
    canvas.addEventListener("pointercancel", () => {
      began = null;
      this.chosen = null;
      this.draw();
    });
    canvas.addEventListener("pointerleave", hideTip);
  }

  hover(side, event) {
    const at = stepAt(side, this.window, event.offsetX, event.offsetY);
    if (at < 0) hideTip();
    else showTip(event, stepLines(side, at));
  }

  draw() {
    const colours = DATA.causes.map((cause) => colourOf(`cause-${cause}`));
    for (const side of this.sides) drawSide(this, side, colours);
    this.drawStrip(colours);
    const [from, to] = this.window.map(Math.round),
      clock = this.sides[0].trace.clock_hz;
    const span = `${whole(to - from)} cycles, ${seconds((to - from) / clock)}`;
    this.read.textContent = `Cycles ${whole(from)} to ${whole(to)} of ${whole(this.end)}: ${span}.`;
    this.strip.setAttribute("aria-valuemax", String(this.end));
    this.strip.setAttribute("aria-valuenow", String(from));
    this.strip.setAttribute("aria-valuetext", this.read.textContent);
  }

  drawStrip(colours) {
    const { context, width } = sized(this.strip);
    const pixels = Math.floor(width),
      height = (STRIP - 8) / this.sides.length;
    this.sides.forEach(({ schedule, steps }, at) => {
      if (!schedule || !steps) return;
      const lanes = { names: ["all"], lane: new Int32Array(schedule.steps) };
      const amount = rasterised(steps, schedule, lanes, 0, this.end, pixels);
      drawLane(context, amount, 0, pixels, 0, 4 + at * height, height - (at ? 0 : 1), colours);
    });
    const [from, to] = (this.chosen ?? this.window).map((cycle) => (cycle * width) / this.end);
    context.fillStyle = colourOf("veil");
    context.fillRect(0, 0, from, STRIP);
    context.fillRect(to, 0, width - to, STRIP);
    context.strokeStyle = colourOf("accent");
    context.lineWidth = 2;
    context.strokeRect(from + 1, 1, Math.max(2, to - from - 2), STRIP - 2);
  }
}
