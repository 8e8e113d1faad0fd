// The maps of one wafer: which quantity, which wafer, which layer; the PE that the cursor is on.
const QUANTITIES = {
  "sram": { label: "SRAM in use", unit: "B" },
  ...Object.fromEntries(DATA.uses.slice(0, -1).map((use) => [`sram.${use}`, { label: `SRAM: ${use}`, unit: "B" }])),
  "busy": { label: "busy time", unit: "cycles" },
  "hops": { label: "wavelet hops", unit: "words" },
  ...Object.fromEntries(DATA.directions.map((way) => [`links.${way}`, { label: `link words ${way}`, unit: "words" }])),
};

// What is the sum of others at each PE: SRAM in use of all uses; hops of the words that leave on all sides.
const PARTS = { "sram": DATA.uses.slice(0, -1).map((use) => `sram.${use}`), "hops": DATA.directions.map((way) => `links.${way}`) };

function partsOf(held, name) {
  const parts = (PARTS[name] ?? [name]).map((part) => held?.[part]);
  return parts.every((part) => part) ? parts : null;
}

class WaferMaps {
  constructor(section) {
    const rows = Math.max(...TRACES.map((trace) => trace.rows)), cols = Math.max(...TRACES.map((trace) => trace.cols));
    this.camera = new Camera(rows, cols);
    this.cursor = { row: 0, col: 0 };
    this.wafer = 0;
    this.layer = "all";
    this.log = false;
    this.names = Object.keys(QUANTITIES).filter((name) => TRACES.some((trace) => trace.planes.some((held) => partsOf(held, name))));
    this.name = this.names.includes("hops") ? "hops" : this.names[0] ?? "";
    this.sides = TRACES.map((trace) => this.side(trace));
    this.panel = el("div", { id: "pe", "aria-live": "polite" });
    section.append(this.controls(), el("div", { class: COMPARED ? "two" : "one" }, el("div", { class: "maps" }, ...this.sides.map((side) => side.figure)), this.panel));
    onRedraw(() => this.draw());
    addEventListener("resize", () => { this.camera.fitted = false; this.draw(); });
  }

  controls() {
    const wafers = Math.max(...TRACES.map((trace) => trace.planes.length));
    const layers = [...new Set(TRACES.flatMap((trace) => trace.layer_links.map((link) => link.layer)))].sort((a, b) => a - b);
    const numbers = Array.from({ length: wafers }, (_, at) => [String(at), `wafer ${at}`]);
    this.layerPick = pick("Layer", [["all", "all"], ...layers.map((layer) => [String(layer), layerName(layer)])], "all",
      (value) => { this.layer = value; this.load(); }, "layer");
    this.waferPick = pick("Wafer", numbers, "0", (value) => { this.wafer = Number(value); this.load(); }, "wafer-number");
    this.waferPick.hidden = wafers < 2;
    const button = (label, text, action) => el("button", { type: "button", "aria-label": label, onclick: action }, text);
    const middle = (factor) => () => {
      const { clientWidth: width, clientHeight: height } = this.sides[0].canvas;
      this.camera.zoom(factor, width / 2, height / 2);
      this.camera.pan(0, 0, width, height);
      this.draw();
    };
    return el("div", { class: "controls" },
      pick("Show", this.names.map((name) => [name, QUANTITIES[name].label]), this.name, (value) => { this.name = value; this.load(); }, "quantity"),
      this.waferPick, this.layerPick,
      pick("Scale", [["linear", "linear"], ["log", "logarithmic"]], "linear", (value) => { this.log = value === "log"; this.draw(); }, "scale"),
      el("span", { class: "buttons" }, button("Zoom in", "+", middle(1.6)), button("Zoom out", "−", middle(1 / 1.6)),
        button("Whole wafer", "whole", () => { this.camera.fitted = false; this.draw(); })));
  }

  side(trace) {
    const canvas = el("canvas", { class: "map", tabindex: "0", role: "application", id: `map-${trace.letter}` });
    const side = {
      trace, canvas, plane: null, say: el("p", { class: "say" }), legend: el("div", { class: "legend" }),
      ramp: el("canvas", { class: "ramp", "aria-hidden": "true" }), low: el("span"), high: el("span"),
    };
    side.legend.append(side.low, side.ramp, side.high);
    side.figure = el("figure", {}, COMPARED ? el("figcaption", {}, sideName(trace)) : null, canvas, side.legend, side.say,
      el("p", { class: "note" }, "Wheel with Ctrl or after a click: zoom. Drag: move. Arrow keys: move the cursor, with Shift by 10; + − zoom, 0 whole wafer."));
    this.listen(side);
    return side;
  }

  listen(side) {
    const { canvas } = side;
    let held = null;
    canvas.addEventListener("pointerdown", (event) => {
      held = { x: event.offsetX, y: event.offsetY, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (held) {
        const x = event.offsetX - held.x, y = event.offsetY - held.y;
        if (held.moved || Math.hypot(x, y) > 3) {
          this.camera.pan(x, y, canvas.clientWidth, canvas.clientHeight);
          held = { x: event.offsetX, y: event.offsetY, moved: true };
          hideTip();
          this.draw();
        }
        return;
      }
      const place = this.peAt(side, event);
      if (place) showTip(event, this.lines(side, place)); else hideTip();
    });
    canvas.addEventListener("pointerup", (event) => {
      const place = held && !held.moved ? this.peAt(side, event) : null;
      held = null;
      if (place) this.moveTo(place);
    });
    canvas.addEventListener("pointercancel", () => { held = null; });
    canvas.addEventListener("pointerleave", hideTip);
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && document.activeElement !== canvas) return;
      event.preventDefault();
      this.camera.zoom(event.deltaY < 0 ? 1.25 : 0.8, event.offsetX, event.offsetY);
      this.camera.pan(0, 0, canvas.clientWidth, canvas.clientHeight);
      this.draw();
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(side, event));
  }

  key(side, event) {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const { clientWidth: width, clientHeight: height } = side.canvas;
    if (moves[event.key]) {
      const [down, across] = moves[event.key].map((step) => step * (event.shiftKey ? 10 : 1));
      const within = (at, all) => Math.min(Math.max(at, 0), all - 1);
      this.moveTo({ row: within(this.cursor.row + down, side.trace.rows), col: within(this.cursor.col + across, side.trace.cols) });
    } else if ("+=-".includes(event.key)) {
      const { row, col } = this.cursor;
      this.camera.zoom(event.key === "-" ? 1 / 1.6 : 1.6, (col + 0.5 - this.camera.col) * this.camera.scale, (row + 0.5 - this.camera.row) * this.camera.scale);
      this.camera.pan(0, 0, width, height);
      this.draw();
    } else if (event.key === "0") {
      this.camera.fitted = false;
      this.draw();
    } else return;
    event.preventDefault();
  }

  peAt(side, event) {
    const row = Math.floor(this.camera.row + event.offsetY / this.camera.scale);
    const col = Math.floor(this.camera.col + event.offsetX / this.camera.scale);
    return row >= 0 && col >= 0 && row < side.trace.rows && col < side.trace.cols ? { row, col } : null;
  }

  lines(side, { row, col }) {
    const { trace, plane } = side;
    const at = stageAt(trace, this.wafer, row, col);
    const { label, unit } = QUANTITIES[this.name];
    const told = [`PE ${row}, ${col}`];
    if (plane) told.push(`${label}: ${whole(plane.values[row * plane.cols + col])} ${unit}`);
    if (ofFabric(trace, this.name)) return [...told, "of the fabric; stages lie on the mesh without dead PEs"];
    if (at < 0) return [...told, "nothing is placed here"];
    told.push(stageName(trace, at), tileName(trace, at, row, col));
    told.push(busiestOp(trace, at, this.name === "busy" || this.name.startsWith("sram") ? "compute" : "hops"));
    const buffer = largestBuffer(trace, at, this.name.startsWith("sram.") ? this.name.slice(5) : undefined);
    if (buffer) told.push(`largest buffer: ${buffer.name}, ${whole(buffer.bytes)} B`);
    return told.filter((line) => line);
  }

  async moveTo(place) {
    this.cursor = place;
    this.camera.reveal(place, this.sides[0].canvas.clientWidth, this.sides[0].canvas.clientHeight);
    this.draw();
    const panels = await Promise.all(TRACES.map((trace) => this.panelOf(trace, place)));
    if (this.cursor === place) this.panel.replaceChildren(...panels.filter((panel) => panel));
  }

  async panelOf(trace, { row, col }) {
    if (row >= trace.rows || col >= trace.cols || this.wafer >= trace.planes.length) return null;
    const at = row * trace.cols + col;
    const held = Object.keys(QUANTITIES).map((name) => [name, partsOf(trace.planes[this.wafer], name)]).filter(([, parts]) => parts);
    const values = await Promise.all(held.map(async ([name, parts]) => [name, sum((await Promise.all(parts.map(unpack))).map((part) => part[at]))]));
    return pePanel(trace, this.wafer, row, col, values);
  }

  async load() {
    const links = this.name.startsWith("links.") || this.name === "hops";
    this.layerPick.hidden = !links || this.layerPick.querySelectorAll("option").length < 2;
    const wanted = `${this.name} ${this.wafer} ${this.layer}`;
    this.wanted = wanted;
    const planes = await Promise.all(this.sides.map(({ trace }) => planeOf(trace, this.wafer, this.name, links ? this.layer : "all")));
    if (this.wanted !== wanted) return;
    this.sides.forEach((side, at) => { side.plane = planes[at]; });
    this.draw();
    await this.moveTo(this.cursor);
  }

  draw() {
    const high = Math.max(...this.sides.map((side) => side.plane?.high ?? 0));
    const low = Math.min(...this.sides.map((side) => side.plane?.low ?? Infinity));
    for (const side of this.sides) {
      const { canvas, trace } = side;
      canvas.style.height = `${Math.round(Math.min(Math.max((canvas.clientWidth * this.camera.rows) / this.camera.cols, 220), Math.max(320, 0.72 * innerHeight)))}px`;
      if (!this.camera.fitted) {
        this.camera.fit(canvas.clientWidth, canvas.clientHeight);
        this.camera.fitted = true;
      }
      const values = side.plane?.values ?? [];
      const outlines = ofFabric(trace, this.name) ? [] : trace.stages.filter((stage) => stage.wafer === this.wafer);
      drawHeatmap(canvas, this.camera, { values, rows: trace.rows, cols: trace.cols, low, high, log: this.log, outlines, cursor: this.cursor });
      this.tell(side, low, high);
    }
  }

  tell(side, low, high) {
    const { plane, trace } = side;
    const { label, unit } = QUANTITIES[this.name] ?? { label: "nothing", unit: "" };
    side.legend.hidden = !plane;
    const where = `${label}${this.layerPick.hidden || this.layer === "all" ? "" : `, ${layerName(Number(this.layer))}`}, wafer ${this.wafer}`;
    const text = plane
      ? `${where}: at most ${whole(plane.most)} ${unit} (PE ${plane.at.join(", ")}), ${amount(plane.total, unit)} in all, none on ${whole(plane.none)} of ${whole(plane.values.length)} PEs.`
      : `${where}: not in this trace.`;
    side.say.textContent = text;
    side.canvas.setAttribute("aria-label", `Map of ${trace.rows} rows and ${trace.cols} columns of PEs. ${text} Arrow keys move the cursor.`);
    if (!plane) return;
    side.low.textContent = `${this.log ? whole(low) : 0} ${unit}`;
    side.high.textContent = `${whole(high)} ${unit}`;
    const { context, width, height } = sized(side.ramp);
    for (let x = 0; x < width; x++) {
      const [red, green, blue] = [0, 2, 4].map((digit) => parseInt(DATA.colours.substr(6 * Math.floor((this.log ? 25 + (230 * x) / width : (255 * x) / width)) + digit, 2), 16));
      context.fillStyle = `rgb(${red} ${green} ${blue})`;
      context.fillRect(x, 0, 1.5, height);
    }
  }
}

// Where PEs are dead, links are counted on the fabric, everything else on the smaller mesh that programs see.
function ofFabric(trace, name) {
  return Boolean(trace.mesh) && (name === "hops" || name.startsWith("links."));
}

// {values, cols, most, at, total, none, low, high} of a quantity, or null where the trace has none.
async function planeOf(trace, wafer, name, layer) {
  const values = layer === "all" ? await wholePlane(trace, wafer, name) : await layerPlane(trace, wafer, name, Number(layer));
  if (!values) return null;
  let most = 0, where = 0, total = 0, none = 0, low = Infinity;
  for (let at = 0; at < values.length; at++) {
    const value = values[at];
    if (value > most) { most = value; where = at; }
    if (value > 0) { total += value; if (value < low) low = value; } else none++;
  }
  const capacity = name === "sram" && trace.stages.length ? sum(trace.stages[0].stage_bytes) : most;
  return { values, cols: trace.cols, most, at: [Math.floor(where / trace.cols), where % trace.cols], total, none, low, high: capacity };
}

async function wholePlane(trace, wafer, name) {
  const parts = partsOf(trace.planes[wafer], name);
  if (!parts) return null;
  const planes = await Promise.all(parts.map(unpack));
  if (planes.length === 1) return planes[0];
  const total = new Float64Array(trace.rows * trace.cols);
  for (const plane of planes) for (let at = 0; at < total.length; at++) total[at] += plane[at];
  return total;
}

async function layerPlane(trace, wafer, name, layer) {
  const values = new Float64Array(trace.rows * trace.cols);
  const mine = trace.layer_links.filter((link) => link.layer === layer && link.wafer === wafer);
  const ways = name === "hops" ? DATA.directions.map((_, way) => way) : [DATA.directions.indexOf(name.slice(6))];
  for (const link of mine) {
    const words = await unpack(link.words);
    for (const way of ways) for (let row = 0; row < link.rows; row++) for (let col = 0; col < link.cols; col++) {
      values[(link.row + row) * trace.cols + link.col + col] += words[(way * link.rows + row) * link.cols + col];
    }
  }
  return mine.length ? values : null;
}
