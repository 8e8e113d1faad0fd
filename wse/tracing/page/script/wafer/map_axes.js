// Rulers of a map with rows and columns of PEs, and its legend: quantity, limits and colours.
const RULER = 42; // width of the ruler of rows in pixels
const MAX_SCREEN_FRACTION = 0.6;
const LOWEST = 160;

function mapBox(canvas) {
  const left = el("canvas", { class: "ruler-left", "aria-hidden": "true" }),
    bottom = el("canvas", { class: "ruler-bottom", "aria-hidden": "true" });
  return { left, bottom, node: el("div", { class: "map-box" }, left, canvas, el("span"), bottom) };
}

// Make a map as wide as possible. Its height is at most a fraction of the screen, and its width follows
// from the shape of the mesh.
function sizeMap(box, canvas, tallness) {
  const room = Math.max(60, box.node.clientWidth - RULER);
  const height = Math.round(Math.min(Math.max(room * tallness, LOWEST), MAX_SCREEN_FRACTION * innerHeight));
  canvas.style.height = `${height}px`;
  canvas.style.width = `${Math.min(room, Math.round(height / tallness))}px`;
}

function drawRulers(box, camera, canvas, rows, cols) {
  box.left.style.height = canvas.style.height;
  box.bottom.style.width = canvas.style.width;
  drawRuler(box.left, camera.row, camera.scale, rows, true);
  drawRuler(box.bottom, camera.col, camera.scale, cols, false);
}

// Draw a ruler with marks at the middle of PEs with round numbers.
function drawRuler(canvas, first, scale, all, isLeft) {
  const { context, width, height } = sized(canvas);
  const length = isLeft ? height : width;
  context.clearRect(0, 0, width, height);
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = colourOf("quiet");
  context.strokeStyle = colourOf("quiet");
  context.textAlign = isLeft ? "right" : "center";
  context.textBaseline = isLeft ? "middle" : "bottom";
  const from = Math.max(0, first),
    to = Math.min(all - 1, first + length / scale);
  for (const mark of ticks(from, to, length / (isLeft ? 48 : 70))) {
    const at = (mark + 0.5 - first) * scale;
    if (at < 0 || at > length) continue;
    context.beginPath();
    context.moveTo(isLeft ? width - 4 : at, isLeft ? at : 0);
    context.lineTo(isLeft ? width : at, isLeft ? at : 4);
    context.stroke();
    const edge = Math.min(Math.max(at, isLeft ? 7 : 12), length - (isLeft ? 7 : 12));
    context.fillText(whole(mark), isLeft ? width - 7 : edge, isLeft ? edge : height);
  }
}

function mapLegend() {
  const low = el("span", { class: "low" }),
    high = el("span", { class: "high" }),
    ramp = el("canvas", { class: "ramp", "aria-hidden": "true" });
  return { low, high, ramp, node: el("div", { class: "legend" }, low, ramp, high) };
}

function drawLegend(legend, plane, unit) {
  const { low, high, scale } = plane;
  legend.low.textContent = plane.signed ? `${signed(-high)} ${unit}` : `${whole(scale === "linear" ? 0 : low)} ${unit}`;
  legend.high.textContent = plane.signed ? `${signed(high)} ${unit}` : `${whole(high)} ${unit}`;
  const { context, width, height } = sized(legend.ramp);
  const palette = plane.signed ? differencePalette() : PALETTE;
  const first = plane.signed || scale === "linear" ? 0 : 12;
  for (let x = 0; x < width; x++) {
    const colour = palette[Math.min(255, Math.floor(first + ((255 - first) * x) / width))];
    context.fillStyle = `rgb(${colour & 255} ${(colour >> 8) & 255} ${(colour >> 16) & 255})`;
    context.fillRect(x, 0, 1.5, height);
  }
}
