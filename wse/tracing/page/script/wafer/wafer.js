// Maps of one quantity on one wafer, for all layers or one layer, with a cursor on a PE. For two traces,
// both maps or their difference are shown.
class WaferMaps {
  constructor(section) {
    const rows = Math.max(...TRACES.map((trace) => trace.rows)),
      cols = Math.max(...TRACES.map((trace) => trace.cols));
    this.camera = new Camera(rows, cols);
    this.cursor = { row: 0, col: 0 };
    this.isPlaced = false; // whether the user moved the cursor; until then it is on the PE with the largest value
    this.wafer = 0;
    this.layer = "all";
    this.scale = "linear";
    this.shows = "both";
    this.isLoading = true; // the selected data are being decoded
    this.mark = null; // the pinned step: {trace, wafer, row, col, rows, cols}
    this.names = mapNames();
    this.usual = this.names.includes("hops") ? "hops" : this.names[0];
    this.name = this.usual;
    this.sides = TRACES.map((trace) => this.side(trace, trace.letter));
    const sameMesh = COMPARED && ["rows", "cols"].every((name) => TRACES[0][name] === TRACES[1][name]);
    if (sameMesh) this.sides.push(this.side(TRACES[0], "D"));
    this.difference = sameMesh ? this.sides[2] : null;
    this.panel = el("div", { id: "pe", "aria-live": "polite" });
    section.append(
      mapControls(this),
      el(
        "div",
        { class: COMPARED ? "two" : "one" },
        el("div", {}, el("div", { class: "maps" }, ...this.sides.map((side) => side.figure)), mapHelp()),
        this.panel,
      ),
    );
    this.replay = Replay.of(this, section);
    onRedraw(() => this.draw());
    addEventListener("resize", () => this.draw());
    keepMap(this);
  }

  choose(wafer) {
    chooseOption("wafer-number", String(wafer));
  }

  // Change one of the settings above the maps.
  async set(name, value) {
    this[name] = value;
    remember("wafer");
    await this.load();
  }

  side(trace, letter) {
    const canvas = el("canvas", { class: "map", tabindex: "0", role: "application", id: `map-${letter}` });
    const side = { trace, letter, canvas, plane: null, box: mapBox(canvas), legend: mapLegend() };
    side.title = el("figcaption");
    side.say = el("p", { class: "say" });
    side.figure = el("figure", {}, side.title, side.legend.node, side.box.node, side.say);
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
    const { label, unit } = QUANTITIES[this.name];
    const told = [`PE ${row}, ${col}`];
    const at = row * trace.cols + col;
    if (side === this.difference) {
      this.sides.slice(0, 2).forEach(({ letter, plane: held }) => {
        if (held) told.push(`${letter}: ${whole(held.values[at])} ${unit}`);
      });
      return plane ? [...told, `B − A: ${signed(plane.values[at])} ${unit}`] : told;
    }
    if (plane) told.push(`${label}: ${whole(plane.values[at])} ${unit}`);
    return [...told, ...placedLines(trace, this.wafer, row, col, this.name)];
  }

  async moveTo(place, byHand = true) {
    this.cursor = place;
    if (byHand) {
      this.isPlaced = true;
      remember("wafer");
    }
    const { canvas } = this.shown()[0];
    this.camera.reveal(place, canvas.clientWidth, canvas.clientHeight);
    this.draw();
    const panels = await Promise.all(TRACES.map((trace) => this.panelOf(trace, place)));
    if (this.cursor === place) this.panel.replaceChildren(...panels.filter((panel) => panel));
  }

  // The PE with the largest value on the first map that has data.
  busiest() {
    const plane = this.shown().find((side) => side.plane)?.plane;
    return plane && { row: plane.at[0], col: plane.at[1] };
  }

  async toBusiest() {
    this.isPlaced = false;
    remember("wafer");
    await this.moveTo(this.busiest() ?? this.cursor, false);
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

  shown() {
    const isDifference = this.shows === "difference" && this.difference;
    return this.sides.filter((side) => (side === this.difference) === Boolean(isDifference));
  }

  async load() {
    const links = this.name.startsWith("links.") || this.name === "hops";
    this.layerPick.hidden = !links || this.layerPick.querySelectorAll("option").length < 2;
    const wanted = `${this.name} ${this.wafer} ${this.layer}`;
    this.wanted = wanted;
    this.isLoading = true;
    for (const side of this.sides) side.plane = null;
    const planes = await Promise.all(
      TRACES.map((trace) => planeOf(trace, this.wafer, this.name, links ? this.layer : "all")),
    );
    if (this.wanted !== wanted) return;
    this.isLoading = false;
    planes.forEach((plane, at) => {
      this.sides[at].plane = plane;
    });
    if (this.difference) this.difference.plane = differencePlane(...planes);
    const shown = this.shown();
    for (const side of this.sides) side.figure.hidden = !shown.includes(side);
    await this.moveTo((!this.isPlaced && this.busiest()) || this.cursor, false);
  }

  // Outline the PEs of a step, and show their wafer; null removes the outline.
  async show(trace, step) {
    this.mark = step && step.wafer >= 0 ? { trace, ...step } : null;
    if (this.mark && this.mark.wafer !== this.wafer) this.choose(this.mark.wafer);
    else this.draw();
  }

  zoom(factor, x, y) {
    const { scale } = this.camera;
    this.camera.zoom(factor, x, y);
    this.pan(0, 0);
    return this.camera.scale !== scale;
  }

  pan(x, y) {
    const { clientWidth: width, clientHeight: height } = this.shown()[0].canvas;
    this.camera.pan(x, y, width, height);
    this.draw();
    remember("wafer");
  }

  whole() {
    this.camera.showWhole();
    this.draw();
    remember("wafer");
  }

  draw() {
    const shown = this.shown();
    const of = (name) => shown.map((side) => side.plane?.[name] ?? 0);
    const high = Math.max(...of(this.scale === "linear" ? "high" : "most"));
    const low = Math.min(...shown.map((side) => side.plane?.low ?? Infinity));
    for (const side of shown) {
      const { canvas, trace } = side;
      sizeMap(side.box, canvas, this.camera.rows / this.camera.cols);
      this.camera.fit(canvas.clientWidth, canvas.clientHeight);
      canvas.style.touchAction = this.camera.isWhole ? "pan-y" : "none";
      const plane = {
        values: side.plane?.values ?? [],
        rows: trace.rows,
        cols: trace.cols,
        low,
        high,
        scale: this.scale,
        signed: side === this.difference,
        outlines: ofFabric(trace, this.name) ? [] : trace.stages.filter((stage) => stage.wafer === this.wafer),
        mark: this.mark && this.mark.wafer === this.wafer && this.mark.trace === trace ? this.mark : null,
        cursor: this.cursor,
      };
      const context = drawHeatmap(canvas, this.camera, plane);
      this.replay?.draw(side, context);
      drawRulers(side.box, this.camera, canvas, trace.rows, trace.cols);
      this.tell(side, plane);
    }
  }

  tell(side, shown) {
    const { plane, trace } = side;
    const { label, unit } = QUANTITIES[this.name];
    const layer = this.layerPick.hidden || this.layer === "all" ? "" : `, ${layerName(Number(this.layer))}`;
    const where = `${label}${layer}, wafer ${this.wafer}`;
    const isDifference = side === this.difference;
    side.legend.node.hidden = !plane;
    side.title.textContent = isDifference ? `B − A: ${where}` : `${COMPARED ? `${sideName(trace)}: ` : ""}${where}`;
    const place = plane ? `(PE ${plane.at.join(", ")})` : "";
    let text = `${where}: ${this.isLoading ? "being decoded" : "not in this trace"}.`;
    if (plane && isDifference)
      text =
        `${where}, B − A: most different by ${signed(plane.values[plane.at[0] * plane.cols + plane.at[1]])} ${unit} ` +
        `${place}, ${signed(plane.total, (sum_) => amount(sum_, unit))} in all, the same on ${whole(plane.none)} of ` +
        `${whole(plane.values.length)} PEs.`;
    else if (plane)
      text =
        `${where}: at most ${whole(plane.most)} ${unit} ${place}, ` +
        `${amount(plane.total, unit)} in all, none on ${whole(plane.none)} of ${whole(plane.values.length)} PEs.`;
    side.say.textContent = text;
    side.canvas.setAttribute(
      "aria-label",
      `Map of ${trace.rows} rows and ${trace.cols} columns of PEs. ${text} Arrow keys move the cursor.`,
    );
    if (plane) drawLegend(side.legend, shown, unit);
  }
}
