// A quantity of every PE as colours on a canvas. A pixel that covers several PEs shows the largest of them.
const PALETTE = Uint32Array.from({ length: 256 }, (_, at) => {
  const [red, green, blue] = [0, 2, 4].map((digit) => parseInt(DATA.colours.substr(6 * at + digit, 2), 16));
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
});
const LARGEST_PE = 48;

// Where the maps look: the PE at their left upper corner, and CSS pixels for each PE. Both sides share it.
class Camera {
  constructor(rows, cols) {
    Object.assign(this, { rows, cols, row: 0, col: 0, scale: 1, whole: 1 });
  }

  fit(width, height) {
    this.whole = Math.min(width / this.cols, height / this.rows);
    this.scale = this.whole;
    this.row = (this.rows - height / this.scale) / 2;
    this.col = (this.cols - width / this.scale) / 2;
  }

  zoom(factor, x, y) {
    const scale = Math.min(Math.max(this.scale * factor, this.whole), Math.max(LARGEST_PE, 4 * this.whole));
    this.col += x / this.scale - x / scale;
    this.row += y / this.scale - y / scale;
    this.scale = scale;
  }

  pan(x, y, width, height) {
    this.col = bounded(this.col - x / this.scale, this.cols, width / this.scale);
    this.row = bounded(this.row - y / this.scale, this.rows, height / this.scale);
  }

  reveal(place, width, height) {
    const across = width / this.scale,
      down = height / this.scale;
    if (place.col < this.col || place.col + 1 > this.col + across) this.col = place.col + 0.5 - across / 2;
    if (place.row < this.row || place.row + 1 > this.row + down) this.row = place.row + 0.5 - down / 2;
    this.pan(0, 0, width, height);
  }
}

function bounded(first, all, seen) {
  return seen >= all ? (all - seen) / 2 : Math.min(Math.max(first, 0), all - seen);
}

function scaleOf(low, high, log) {
  if (!(high > 0)) return () => 0;
  if (!log || high <= low) return (value) => (255 * value) / high;
  const bottom = Math.log(low),
    span = Math.log(high) - bottom;
  return (value) => 25 + (230 * (Math.log(value) - bottom)) / span;
}

// The PEs that each of `count` pixels covers, first and last, -1 outside of the mesh.
function covered(count, start, each, all) {
  const first = new Int32Array(count),
    last = new Int32Array(count);
  for (let at = 0; at < count; at++) {
    const from = Math.floor(start + at * each),
      to = Math.ceil(start + (at + 1) * each) - 1;
    const outside = to < 0 || from >= all || start + (at + 0.5) * each < 0 || start + (at + 0.5) * each >= all;
    first[at] = outside ? -1 : Math.min(Math.max(from, 0), all - 1);
    last[at] = outside ? -1 : each < 1 ? first[at] : Math.min(Math.max(to, first[at]), all - 1);
  }
  return [first, last];
}

function packedColour(text) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

// plane: {values, rows, cols, low, high, log, outlines: [{row, col, rows, cols}], cursor}
function drawHeatmap(canvas, camera, plane) {
  const { context, ratio } = sized(canvas);
  const image = context.createImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  const each = 1 / (camera.scale * ratio);
  const [left, right] = covered(canvas.width, camera.col, each, plane.cols);
  const [top, bottom] = covered(canvas.height, camera.row, each, plane.rows);
  const place = scaleOf(plane.low, plane.high, plane.log);
  const none = packedColour(colourOf("nothing"));
  for (let y = 0, at = 0; y < canvas.height; y++) {
    if (top[y] < 0) {
      at += canvas.width;
      continue;
    }
    for (let x = 0; x < canvas.width; x++, at++) {
      if (left[x] < 0) continue;
      let most = 0;
      for (let row = top[y]; row <= bottom[y]; row++) {
        const line = row * plane.cols;
        for (let col = left[x]; col <= right[x]; col++)
          if (plane.values[line + col] > most) most = plane.values[line + col];
      }
      pixels[at] = most > 0 ? PALETTE[Math.min(255, Math.max(0, place(most) | 0))] : none;
    }
  }
  context.putImageData(image, 0, 0);
  drawOver(context, camera, plane);
}

function drawOver(context, camera, plane) {
  const at = (row, col, rows, cols) => [
    (col - camera.col) * camera.scale,
    (row - camera.row) * camera.scale,
    cols * camera.scale,
    rows * camera.scale,
  ];
  if (camera.scale >= 12) {
    context.strokeStyle = colourOf("panel");
    context.lineWidth = 1;
    context.beginPath();
    const [x0, y0, width, height] = at(0, 0, plane.rows, plane.cols);
    for (let col = 0; col <= plane.cols; col++) {
      context.moveTo(x0 + col * camera.scale, y0);
      context.lineTo(x0 + col * camera.scale, y0 + height);
    }
    for (let row = 0; row <= plane.rows; row++) {
      context.moveTo(x0, y0 + row * camera.scale);
      context.lineTo(x0 + width, y0 + row * camera.scale);
    }
    context.stroke();
  }
  context.lineWidth = 1;
  context.strokeStyle = colourOf("outline");
  for (const rect of plane.outlines) context.strokeRect(...at(rect.row, rect.col, rect.rows, rect.cols));
  const { row, col } = plane.cursor;
  const [x, y, width] = at(row, col, 1, 1);
  const size = Math.max(width, 7);
  const box = [x + (width - size) / 2, y + (width - size) / 2, size, size];
  context.lineWidth = 4;
  context.strokeStyle = "#000000";
  context.strokeRect(...box);
  context.lineWidth = 2;
  context.strokeStyle = "#ffffff";
  context.strokeRect(...box);
}
