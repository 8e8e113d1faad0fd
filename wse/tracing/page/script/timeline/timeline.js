// The steps of a token over time, for one trace or for two traces below each other with a common axis.
// In the strip above them, the user selects an interval (window) of cycles.
const STRIP = 34;

class Timeline {
  constructor(section, traces) {
    this.grouping = "op";
    this.pinned = () => {}; // callback when a step is pinned or unpinned
    this.window = [0, 1];
    this.end = 1;
    this.isLoaded = false;
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
        "A bar is as high as its share of the time. Drag to look closer; wheel or W S zoom, A D move, 0 whole. A click " +
          "pins a step and shows it on the map and in the table; ← → go from step to step, Escape lets go. On the strip " +
          "← → move, with Shift narrow and widen.",
      ),
      this.strip,
      this.read,
      ...this.sides.map((side) => side.figure),
    );
    brush(
      this,
      this.strip,
      () => 0,
      () => [0, this.end],
    );
    steer(
      this.strip,
      (event, factor) => this.wheel(this.strip, () => 0, event, factor),
      (event) => windowKey(this, event),
    );
    onRedraw(() => this.draw());
    addEventListener("resize", () => this.draw());
    this.keep();
  }

  // Store in the address of the page: token, grouping of lanes, window of cycles, and pinned step.
  keep() {
    keep(
      "lanes",
      () => (this.grouping === "op" ? null : this.grouping),
      (value) => chooseOption("lanes", value ?? "op"),
    );
    for (const side of this.sides) {
      const usual = defaultToken(side.trace);
      keep(
        `token-${side.trace.letter}`,
        () => (side.token === usual ? null : side.token),
        (value) => this.choose(side, numbersOf(value, 1)?.[0] ?? usual),
      );
    }
    keep(
      "cycles",
      () => (this.window[0] === 0 && this.window[1] === this.end ? null : this.window.map(Math.round).join(",")),
      (value) => this.show(...(numbersOf(value, 2) ?? [0, this.end])),
    );
    for (const side of this.sides)
      keep(
        `step-${side.trace.letter}`,
        () => (side.step < 0 ? null : side.step),
        (value) => this.pin(side, numbersOf(value, 1)?.[0] ?? -1, false),
      );
  }

  side(trace) {
    const side = { trace, token: defaultToken(trace), step: -1, figure: null };
    side.canvas = el("canvas", { class: "lanes", tabindex: "0", role: "application", id: `lanes-${trace.letter}` });
    side.say = el("p", { class: "say" });
    side.beside = el("p", { class: "say beside" });
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
      side.beside,
      side.canvas,
      side.detail,
      side.say,
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
    brush(
      this,
      side.canvas,
      () => LANE.name,
      () => this.window,
      (event) => this.hover(side, event),
      (event) => this.click(side, event),
    );
    steer(
      side.canvas,
      (event, factor) => this.wheel(side.canvas, () => LANE.name, event, factor),
      (event) => this.laneKey(side, event),
    );
    return side;
  }

  async load() {
    for (const side of this.sides) {
      side.steps = await columns(side.trace.steps);
      side.shifts = await columns(side.trace.shifts ?? {});
    }
    this.isLoaded = true;
    for (const side of this.sides) this.choose(side, side.token, false);
    this.show(0, this.end, false);
  }

  choose(side, wanted, show = true) {
    const at = Math.min(Math.max(Math.round(wanted) || 0, 0), side.trace.tokens.length - 1);
    side.token = at;
    this.unpin(side);
    side.number.value = String(at);
    side.named.textContent = at < 0 ? "none" : tokenName(side.trace, at);
    const token = side.trace.tokens[at];
    side.schedule = token && token.schedule >= 0 ? side.trace.schedules[token.schedule] : null;
    side.beside.textContent = besideMedian(side.trace, at, side.schedule);
    this.end = Math.max(1, ...this.sides.map(({ schedule }) => schedule?.cycles ?? 0));
    if (show) this.show(0, this.end);
  }

  show(from, to, moved = true) {
    const span = Math.min(Math.max(to - from, Math.min(10, this.end)), this.end);
    const start = Math.min(Math.max(from, 0), this.end - span);
    this.window = [start, start + span];
    this.draw();
    if (moved) remember("timeline");
  }

  // Zoom about a place in the window, given as a fraction of its width.
  zoom(factor, place = 0.5) {
    const [from, to] = this.window,
      at = from + place * (to - from);
    this.show(at - (at - from) * factor, at + (to - at) * factor);
    return this.window[0] !== from || this.window[1] !== to;
  }

  wheel(canvas, left, event, factor) {
    return this.zoom(1 / factor, Math.min(Math.max((event.offsetX - left()) / (canvas.clientWidth - left()), 0), 1));
  }

  laneKey(side, event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape" && side.step >= 0) this.pin(side, -1);
    else if (step && side.schedule) this.pin(side, Math.min(Math.max(side.step + step, 0), side.schedule.steps - 1));
    else {
      windowKey(this, event);
      return;
    }
    event.preventDefault();
  }

  unpin(side) {
    side.step = -1;
    side.detail.textContent = "";
    this.pinned(side.trace, null);
  }

  // Pin a step: frame it, describe it in words, and outline its PEs on the map. `step` is counted from the
  // first step of the token; -1 unpins.
  pin(side, step, moved = true) {
    side.step = side.schedule && step < side.schedule.steps ? step : -1;
    const at = side.step < 0 ? -1 : side.schedule.first + side.step;
    side.detail.textContent = at < 0 ? "" : stepLines(side, at).join(" · ");
    if (at >= 0) {
      const start = side.steps.start_cycle[at],
        end = start + side.steps.cycles[at],
        [from, to] = this.window;
      if (end <= from || start >= to) this.show(start - (to - from) / 8, start + (7 * (to - from)) / 8, moved);
    }
    this.draw();
    this.pinned(side.trace, at < 0 ? null : pinnedStep(side, at), side);
    if (moved) remember("timeline");
  }

  click(side, event) {
    const at = stepAt(side, this.window, event.offsetX, event.offsetY);
    const step = at < 0 ? -1 : at - side.schedule.first;
    this.pin(side, step === side.step ? -1 : step);
  }

  hover(side, event) {
    const at = stepAt(side, this.window, event.offsetX, event.offsetY);
    if (at < 0) hideTip();
    else showTip(event, stepLines(side, at));
  }

  draw() {
    if (!this.isLoaded) return;
    LANE.name = document.documentElement.clientWidth < NARROW ? 84 : 132;
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
