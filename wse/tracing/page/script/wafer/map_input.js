// Mouse, touch and keyboard input on a map: hover, click, drag and wheel; arrows, W A S D, plus, minus, 0.
function listenToMap(maps, side) {
  const { canvas } = side;
  let held = null;
  canvas.addEventListener("pointerdown", (event) => {
    held = { x: event.offsetX, y: event.offsetY, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (held) {
      const x = event.offsetX - held.x,
        y = event.offsetY - held.y;
      if (held.moved || Math.hypot(x, y) > 3) {
        held = { x: event.offsetX, y: event.offsetY, moved: true };
        hideTip();
        maps.pan(x, y);
      }
      return;
    }
    const place = maps.peAt(side, event);
    if (place) showTip(event, maps.lines(side, place));
    else hideTip();
  });
  canvas.addEventListener("pointerup", (event) => {
    const place = held && !held.moved ? maps.peAt(side, event) : null;
    held = null;
    if (place) maps.moveTo(place);
  });
  canvas.addEventListener("pointercancel", () => {
    held = null;
  });
  canvas.addEventListener("pointerleave", hideTip);
  steer(
    canvas,
    (event, factor) => maps.zoom(factor, event.offsetX, event.offsetY),
    (event) => mapKey(maps, side, event),
  );
}

function mapKey(maps, side, event) {
  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const pans = { w: [0, 1], s: [0, -1], a: [1, 0], d: [-1, 0] };
  const { clientWidth: width, clientHeight: height } = side.canvas;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const pan = pans[event.key.toLowerCase()];
  if (moves[event.key]) {
    const [down, across] = moves[event.key].map((step) => step * (event.shiftKey ? 10 : 1));
    const within = (at, all) => Math.min(Math.max(at, 0), all - 1);
    maps.moveTo({
      row: within(maps.cursor.row + down, side.trace.rows),
      col: within(maps.cursor.col + across, side.trace.cols),
    });
  } else if (pan) maps.pan((pan[0] * width) / 8, (pan[1] * height) / 8);
  else if ("+=-".includes(event.key)) {
    const { row, col } = maps.cursor;
    maps.zoom(
      event.key === "-" ? 1 / 1.6 : 1.6,
      (col + 0.5 - maps.camera.col) * maps.camera.scale,
      (row + 0.5 - maps.camera.row) * maps.camera.scale,
    );
  } else if (event.key === "0") maps.whole();
  else return;
  event.preventDefault();
}
