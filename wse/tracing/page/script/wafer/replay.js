// Replay of the wavelets (32-bit words) of a logged pass on the map, played or cycle by cycle. Cycles
// without a move are skipped.
const SPEEDS = [
  ["2", "2 cycles/s"],
  ["10", "10 cycles/s"],
  ["40", "40 cycles/s"],
  ["200", "200 cycles/s"],
];
const TRAIL = 3; // number of cycles for which a wavelet stays visible, ever fainter
const TOWARDS = [
  [-1, 0],
  [0, 1],
  [1, 0],
  [0, -1],
]; // rows and columns to the north, east, south, west

class Replay {
  // Return the replay of the first trace with a log of wavelets, or null if none has one.
  static of(maps, section) {
    const trace = TRACES.find((each) => each.moves);
    return trace ? new Replay(maps, section, trace) : null;
  }

  constructor(maps, section, trace) {
    Object.assign(this, { maps, trace, at: -1, speed: 10, timer: 0, begins: [] });
    const button = (id, label, text, action) =>
      el("button", { type: "button", id, "aria-label": label, onclick: action }, text);
    this.play = button("replay-play", "Play the wavelets", "▶ play", () => (this.timer ? this.pause() : this.start()));
    this.range = el("input", {
      type: "range",
      min: "0",
      id: "replay-cycle",
      "aria-label": "Cycle of the replay",
      oninput: () => this.go(Number(this.range.value)),
    });
    this.read = el("output", { id: "replay-read" });
    section.querySelector(".controls").after(
      el(
        "div",
        { class: "controls replay", role: "group", "aria-label": "Replay of wavelets" },
        el("b", {}, COMPARED ? `Wavelets of ${trace.letter}` : "Wavelets"),
        el(
          "span",
          { class: "buttons" },
          this.play,
          button("replay-back", "One cycle back", "◀", () => this.step(-1)),
          button("replay-step", "One cycle on", "▶|", () => this.step(1)),
          button("replay-end", "End the replay", "■", () => this.go(-1)),
        ),
        this.range,
        pick("Speed", SPEEDS, "10", (value) => this.pace(Number(value)), "replay-speed"),
        this.read,
      ),
    );
    keep(
      "moves",
      () => (this.at < 0 ? null : this.moves.cycle[this.begins[this.at]]),
      (value) => {
        const cycle = numbersOf(value, 1)?.[0];
        this.go(cycle === undefined ? -1 : this.begins.findIndex((row) => this.moves.cycle[row] >= cycle));
      },
    );
  }

  async load() {
    this.moves = await columns(this.trace.moves.columns);
    this.steps = await columns(this.trace.moves.steps);
    const { cycle } = this.moves;
    for (let row = 0; row < cycle.length; row++) if (!row || cycle[row] !== cycle[row - 1]) this.begins.push(row);
    this.range.max = String(this.begins.length - 1);
    this.tell();
  }

  start() {
    if (this.at >= this.begins.length - 1) this.at = -1;
    this.play.textContent = "❚❚ pause";
    this.play.setAttribute("aria-label", "Pause the wavelets");
    this.timer = setInterval(() => {
      if (this.at >= this.begins.length - 1) this.pause();
      else this.show(this.at + 1);
    }, 1000 / this.speed);
    this.show(this.at + 1);
  }

  pause() {
    clearInterval(this.timer);
    this.timer = 0;
    this.play.textContent = "▶ play";
    this.play.setAttribute("aria-label", "Play the wavelets");
    remember("wafer");
  }

  pace(speed) {
    this.speed = speed;
    if (!this.timer) return;
    clearInterval(this.timer);
    this.timer = 0;
    this.start();
  }

  step(by) {
    this.go(Math.min(Math.max(this.at + by, 0), this.begins.length - 1));
  }

  go(at) {
    this.pause();
    this.show(at);
  }

  show(at) {
    this.at = at;
    const wafer = at < 0 ? this.maps.wafer : this.moves.wafer[this.begins[at]];
    if (wafer !== this.maps.wafer) this.maps.choose(wafer);
    else this.maps.draw();
    this.tell();
  }

  // First row and end row of the moves in the shown cycle, or in the cycle that is `before` cycles earlier
  // (cycles without moves are not counted).
  rows(before = 0) {
    const at = this.at - before;
    return at < 0 ? [0, 0] : [this.begins[at], this.begins[at + 1] ?? this.moves.cycle.length];
  }

  tell() {
    const { cycle } = this.moves;
    this.range.value = String(Math.max(0, this.at));
    const last = cycle.length ? cycle[cycle.length - 1] : 0;
    if (this.at < 0) {
      this.read.textContent = `${several(cycle.length, "move")} of pass ${this.trace.moves.pass}, cycles ${whole(cycle[0] ?? 0)} to ${whole(last)}`;
      return;
    }
    const [from, to] = this.rows();
    let links = 0;
    for (let row = from; row < to; row++) if (this.moves.direction[row] < TOWARDS.length) links++;
    const into = to - from - links;
    this.read.textContent =
      `cycle ${whole(cycle[from])} of ${whole(last)}: ${several(links, "word")} on links, ` +
      `${whole(into)} into PEs; ${this.stepText(this.moves.step[from])}`;
  }

  stepText(step) {
    const { op, name } = this.steps;
    const named = [this.trace.op_names[op[step]], this.trace.names[name[step]]].filter((text) => text);
    return [`step ${whole(step)}`, ...named].join(" · ");
  }

  // While wavelets are shown, go to the first move of a step.
  seek(trace, token, step) {
    const own = trace.moves?.token ?? -1;
    if (this.at < 0 || own < 0 || trace !== this.trace) return;
    if (trace.tokens[own].schedule !== trace.tokens[token].schedule) return;
    const at = this.begins.findIndex((row) => this.moves.step[row] === step);
    if (at >= 0) this.go(at);
  }

  // Draw the moves on a map of the trace: a line with a dot at its head for a word on a link, and only a dot
  // for a word that moves from a router into its PE.
  draw(side, context) {
    if (this.at < 0 || side.trace !== this.trace) return;
    const { camera, wafer } = this.maps;
    context.globalAlpha = 0.55;
    context.fillStyle = colourOf("page");
    context.fillRect(0, 0, side.canvas.clientWidth, side.canvas.clientHeight);
    context.lineCap = "round";
    const size = Math.max(2.5, Math.min(9, camera.scale / 5));
    const colour = colourOf("wavelet");
    context.strokeStyle = context.fillStyle = colour;
    context.lineWidth = size / 2;
    for (let before = TRAIL - 1; before >= 0; before--) {
      context.globalAlpha = 1 - before / TRAIL;
      const [from, to] = this.rows(before);
      for (let row = from; row < to; row++) {
        if (this.moves.wafer[row] !== wafer) continue;
        const y = (this.moves.row[row] + 0.5 - camera.row) * camera.scale,
          x = (this.moves.col[row] + 0.5 - camera.col) * camera.scale;
        const way = TOWARDS[this.moves.direction[row]];
        context.beginPath();
        if (way) {
          const far = 0.8 * Math.max(camera.scale, size);
          context.moveTo(x, y);
          context.lineTo(x + way[1] * far, y + way[0] * far);
          context.stroke();
          context.beginPath();
          context.arc(x + way[1] * far, y + way[0] * far, size, 0, 2 * Math.PI);
        } else context.arc(x, y, size, 0, 2 * Math.PI);
        context.fill();
      }
    }
    context.globalAlpha = 1;
  }
}
