// The controls above the maps, and the settings that the address of the page stores.
const SCALES = [
  ["linear", "linear from 0"],
  ["range", "linear, min to max"],
  ["log", "logarithmic"],
];

function mapControls(maps) {
  const wafers = Math.max(...TRACES.map((trace) => trace.planes.length));
  const layers = [...new Set(TRACES.flatMap((trace) => trace.layer_links.map((link) => link.layer)))].sort(
    (a, b) => a - b,
  );
  const numbers = Array.from({ length: wafers }, (_, at) => [String(at), `wafer ${at}`]);
  const button = (label, text, action) => el("button", { type: "button", "aria-label": label, onclick: action }, text);
  const middle = (factor) => () => {
    const { clientWidth: width, clientHeight: height } = maps.shown()[0].canvas;
    maps.zoom(factor, width / 2, height / 2);
  };
  maps.layerPick = pick(
    "Layer",
    [["all", "all"], ...layers.map((layer) => [String(layer), layerName(layer)])],
    "all",
    (value) => maps.set("layer", value),
    "layer",
  );
  const waferPick = pick("Wafer", numbers, "0", (value) => maps.set("wafer", Number(value)), "wafer-number");
  waferPick.hidden = wafers < 2;
  const quantities = maps.names.map((name) => [name, QUANTITIES[name].label]);
  const shown = [
    ["both", "A and B"],
    ["difference", "B − A"],
  ];
  return el(
    "div",
    { class: "controls" },
    pick("Show", quantities, maps.name, (value) => maps.set("name", value), "quantity"),
    maps.difference ? pick("Of", shown, "both", (value) => maps.set("shows", value), "maps-of") : null,
    waferPick,
    maps.layerPick,
    pick("Scale", SCALES, "linear", (value) => maps.set("scale", value), "scale"),
    el(
      "span",
      { class: "buttons" },
      button("Zoom in", "+", middle(1.6)),
      button("Zoom out", "−", middle(1 / 1.6)),
      button("Whole wafer", "whole", () => maps.whole()),
      button("To the PE with most", "busiest", () => maps.toBusiest()),
    ),
  );
}

function mapHelp() {
  return el(
    "p",
    { class: "note" },
    "Wheel: zoom. Drag or W A S D: move. Click or arrow keys: the cursor, with Shift by 10; + − zoom, 0 whole wafer.",
  );
}

function keepMap(maps) {
  const choice = (name, id, read, usual) =>
    keep(
      name,
      () => (read() === usual ? null : read()),
      (value) => chooseOption(id, value ?? usual),
    );
  choice("map", "quantity", () => maps.name, maps.usual);
  choice("of", "maps-of", () => maps.shows, "both");
  choice("wafer", "wafer-number", () => String(maps.wafer), "0");
  choice("layer", "layer", () => maps.layer, "all");
  choice("scale", "scale", () => maps.scale, "linear");
  keep(
    "pe",
    () => (maps.isPlaced ? `${maps.cursor.row},${maps.cursor.col}` : null),
    async (value) => {
      const [row, col] = numbersOf(value, 2)?.map(Math.floor) ?? [-1, -1];
      if (row >= 0 && row < maps.camera.rows && col < maps.camera.cols) await maps.moveTo({ row, col });
      else await maps.toBusiest();
    },
  );
  keep(
    "view", // row and column in the middle, and number of visible columns
    () => {
      if (maps.camera.isWhole) return null;
      const { clientWidth: width, clientHeight: height } = maps.shown()[0].canvas;
      const { row, col, scale } = maps.camera;
      const place = [row + height / scale / 2, col + width / scale / 2, width / scale];
      return place.map((number) => Math.max(0, number).toFixed(1)).join(",");
    },
    (value) => {
      const [row, col, seen] = numbersOf(value, 3) ?? [0, 0, 0];
      if (!(seen > 0)) {
        maps.whole();
        return;
      }
      const { clientWidth: width, clientHeight: height } = maps.shown()[0].canvas;
      maps.camera.zoomTo(width / seen, 0, 0);
      maps.camera.col = col - width / maps.camera.scale / 2;
      maps.camera.row = row - height / maps.camera.scale / 2;
      maps.pan(0, 0);
    },
  );
}
