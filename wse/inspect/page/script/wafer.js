// The maps of one wafer: which quantity, which wafer, which layer; the PE that the cursor is on.
class WaferMaps {
  constructor(section) {
    const rows = Math.max(...TRACES.map((trace) => trace.rows)),
      cols = Math.max(...TRACES.map((trace) => trace.cols));
    this.camera = new Camera(rows, cols);
    this.cursor = { row: 0, col: 0 };
    this.wafer = 0;
    this.layer = "all";
    this.log = false;
    this.names = mapNames();
    this.name = this.names.includes("hops") ? "hops" : this.names[0];
    this.sides = TRACES.map((trace) => this.side(trace));
    this.panel = el("div", { id: "pe", "aria-live": "polite" });
    section.append(
      this.controls(),
      el(
        "div",
        { class: COMPARED ? "two" : "one" },
        el("div", { class: "maps" }, ...this.sides.map((side) => side.figure)),
        this.panel,
      ),
    );
    onRedraw(() => this.draw());
    addEventListener("resize", () => {
      this.camera.fitted = false;
      this.draw();
    });
  }

  choose(wafer) {
    this.wafer = wafer;
    this.waferPick.querySelector("select").value = String(wafer);
    this.load();
  }

  controls() {
    const wafers = Math.max(...TRACES.map((trace) => trace.planes.length));
    const layers = [...new Set(TRACES.flatMap((trace) => trace.layer_links.map((link) => link.layer)))].sort(
      (a, b) => a - b,
    );
    const numbers = Array.from({ length: wafers }, (_, at) => [String(at), `wafer ${at}`]);
    this.layerPick = pick(
      "Layer",
      [["all", "all"], ...layers.map((layer) => [String(layer), layerName(layer)])],
      "all",
      (value) => {
        this.layer = value;
        this.load();
      },
      "layer",
    );
    this.waferPick = pick(
      "Wafer",
      numbers,
      "0",
      (value) => {
        this.wafer = Number(value);
        this.load();
      },
      "wafer-number",
    );
    this.waferPick.hidden = wafers < 2;
    const button = (label, text, action) =>
      el("button", { type: "button", "aria-label": label, onclick: action }, text);
    const middle = (factor) => () => {
      const { clientWidth: width, clientHeight: height } = this.sides[0].canvas;
      this.camera.zoom(factor, width / 2, height / 2);
      this.camera.pan(0, 0, width, height);
      this.draw();
    };
    return el(
      "div",
      { class: "controls" },
      pick(
        "Show",
        this.names.map((name) => [name, QUANTITIES[name].label]),
        this.name,
        (value) => {
          this.name = value;
          this.load();
        },
        "quantity",
      ),
      this.waferPick,
      this.layerPick,
      pick(
        "Scale",
        [
          ["linear", "linear"],
          ["log", "logarithmic"],
        ],
        "linear",
        (value) => {
          this.log = value === "log";
          this.draw();
        },
        "scale",
      ),
      el(
        "span",
        { class: "buttons" },
        button("Zoom in", "+", middle(1.6)),
        button("Zoom out", "−", middle(1 / 1.6)),
        button("Whole wafer", "whole", () => {
          this.camera.fitted = false;
          this.draw();
        }),
      ),
    );
  }

  side(trace) {
    const canvas = el("canvas", { class: "map", tabindex: "0", role: "application", id: `map-${trace.letter}` });
    const side = {
      trace,
      canvas,
      plane: null,
      say: el("p", { class: "say" }),
      legend: el("div", { class: "legend" }),
      ramp: el("canvas", { class: "ramp", "aria-hidden": "true" }),
      low: el("span"),
      high: el("span"),
    };
    side.legend.append(side.low, side.ramp, side.high);
    side.figure = el(
      "figure",
      {},
      COMPARED ? el("figcaption", {}, sideName(trace)) : null,
      canvas,
      side.legend,
      side.say,
      el(
        "p",
        { class: "note" },
        "Wheel with Ctrl or after a click: zoom. Drag: move. " +
          "Arrow keys: move the cursor, with Shift by 10; + − zoom, 0 whole wafer.",
      ),
    );
    listenToMap(this, side);
    return side;
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
    const held = Object.keys(QUANTITIES)
      .map((name) => [name, partsOf(trace.planes[this.wafer], name)])
      .filter(([, parts]) => parts);
    const values = await Promise.all(
      held.map(async ([name, parts]) => [name, sum((await Promise.all(parts.map(unpack))).map((part) => part[at]))]),
    );
    return pePanel(trace, this.wafer, row, col, values);
  }

  async load() {
    const links = this.name.startsWith("links.") || this.name === "hops";
    this.layerPick.hidden = !links || this.layerPick.querySelectorAll("option").length < 2;
    const wanted = `${this.name} ${this.wafer} ${this.layer}`;
    this.wanted = wanted;
    const planes = await Promise.all(
      this.sides.map(({ trace }) => planeOf(trace, this.wafer, this.name, links ? this.layer : "all")),
    );
    if (this.wanted !== wanted) return;
    this.sides.forEach((side, at) => {
      side.plane = planes[at];
    });
    this.draw();
    await this.moveTo(this.cursor);
  }

  draw() {
    const high = Math.max(...this.sides.map((side) => side.plane?.high ?? 0));
    const low = Math.min(...this.sides.map((side) => side.plane?.low ?? Infinity));
    for (const side of this.sides) {
      const { canvas, trace } = side;
      const tall = Math.max((canvas.clientWidth * this.camera.rows) / this.camera.cols, 220);
      canvas.style.height = `${Math.round(Math.min(tall, Math.max(320, 0.72 * innerHeight)))}px`;
      if (!this.camera.fitted) {
        this.camera.fit(canvas.clientWidth, canvas.clientHeight);
        this.camera.fitted = true;
      }
      const values = side.plane?.values ?? [];
      const outlines = ofFabric(trace, this.name) ? [] : trace.stages.filter((stage) => stage.wafer === this.wafer);
      drawHeatmap(canvas, this.camera, {
        values,
        rows: trace.rows,
        cols: trace.cols,
        low,
        high,
        log: this.log,
        outlines,
        cursor: this.cursor,
      });
      this.tell(side, low, high);
    }
  }

  tell(side, low, high) {
    const { plane, trace } = side;
    const { label, unit } = QUANTITIES[this.name];
    side.legend.hidden = !plane;
    const layer = this.layerPick.hidden || this.layer === "all" ? "" : `, ${layerName(Number(this.layer))}`;
    const where = `${label}${layer}, wafer ${this.wafer}`;
    const text = plane
      ? `${where}: at most ${whole(plane.most)} ${unit} (PE ${plane.at.join(", ")}), ` +
        `${amount(plane.total, unit)} in all, none on ${whole(plane.none)} of ${whole(plane.values.length)} PEs.`
      : `${where}: not in this trace.`;
    side.say.textContent = text;
    side.canvas.setAttribute(
      "aria-label",
      `Map of ${trace.rows} rows and ${trace.cols} columns of PEs. ${text} Arrow keys move the cursor.`,
    );
    if (!plane) return;
    side.low.textContent = `${this.log ? whole(low) : 0} ${unit}`;
    side.high.textContent = `${whole(high)} ${unit}`;
    const { context, width, height } = sized(side.ramp);
    for (let x = 0; x < width; x++) {
      const [red, green, blue] = [0, 2, 4].map((digit) =>
        parseInt(
          DATA.colours.substr(6 * Math.floor(this.log ? 25 + (230 * x) / width : (255 * x) / width) + digit, 2),
          16,
        ),
      );
      context.fillStyle = `rgb(${red} ${green} ${blue})`;
      context.fillRect(x, 0, 1.5, height);
    }
  }
}
