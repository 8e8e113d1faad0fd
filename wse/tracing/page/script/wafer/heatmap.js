// A heat map of a quantity of the PEs. A pixel that covers several PEs shows the largest value.
const PALETTE = Uint32Array.from({ length: 256 }, (_, at) => {
  const [red, green, blue] = [0, 2, 4].map((digit) => parseInt(DATA.colours.substr(6 * at + digit, 2), 16));
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
});
const LARGEST_PE = 48;

// Colours for differences: blue for less, a neutral colour for no difference, vermilion for more.
function differencePalette() {
  const [less, same, more] = ["cause-hops", "nothing", "cause-launch"].map((name) => channels(colourOf(name)));
  return Uint32Array.from({ length: 256 }, (_, at) => {
    const share = Math.abs(at - 127.5) / 127.5;
    return packedColour(
      same.map((level, part) => Math.round(level + share * ((at < 127.5 ? less : more)[part] - level))),
    );
  });
}

// The visible part of the maps: the PE at the upper left corner, and CSS pixels per PE. The maps of two
// traces share it.
class Camera {
  constructor(rows, cols) {
    Object.assign(this, { rows, cols, row: 0, col: 0, scale: 1, whole: 1 });
  }

  // Adapt to a new size of the maps. A view of the whole wafer stays one; a closer view keeps its place.
  fit(width, height) {
    const { isWhole } = this;
    this.whole = Math.min(width / this.cols, height / this.rows);
    if (isWhole || this.isWhole) {
      this.scale = this.whole;
      this.row = (this.rows - height / this.scale) / 2;
      this.col = (this.cols - width / this.scale) / 2;
    } else this.pan(0, 0, width, height);
  }

  showWhole() {
    this.scale = this.whole;
  }

  get isWhole() {
    return this.scale <= this.whole;
  }

  zoom(factor, x, y) {
    this.zoomTo(this.scale * factor, x, y);
  }

  // Change the number of pixels per PE such that the place at (x, y) stays there.
  zoomTo(wanted, x, y) {
    const scale = Math.min(Math.max(wanted, this.whole), Math.max(LARGEST_PE, 4 * this.whole));
    this.col += x / this.scale - x / scale;
    this.row += y / this.scale - y / scale;
    this.scale = scale;
  }

  pan(x, y, width, height) {
    if (this.isWhole) return; // the whole wafer is visible
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

// Limit the first visible row or column, so that no space outside of the mesh is shown needlessly.
function bounded(first, all, seen) {
  return Math.min(Math.max(first, Math.min(0, all - seen)), Math.max(0, all - seen));
}

// Return a function from a value to an index among 256 colours: linear from 0, linear from the minimum,
// or logarithmic.
function scaleOf({ low, high, scale, signed }) {
  if (!(high > 0)) return () => (signed ? 127.5 : 0);
  if (signed) {
    const part = scale === "log" ? (size) => Math.log1p(size) / Math.log1p(high) : (size) => size / high;
    return (value) => 127.5 + 127.5 * Math.sign(value) * part(Math.abs(value));
  }
  if (scale === "linear" || high <= low) return (value) => (255 * value) / high;
  if (scale === "range") return (value) => 12 + (243 * (value - low)) / (high - low);
  const bottom = Math.log(low),
    span = Math.log(high) - bottom;
  return (value) => 12 + (243 * (Math.log(value) - bottom)) / span;
}

// First and last PE that each of `count` pixels covers; -1 outside of the mesh.
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

function channels(text) {
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}

function packedColour([red, green, blue]) {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

// plane: {values, rows, cols, low, high, scale, signed, outlines: [{row, col, rows, cols}], mark, cursor}
function drawHeatmap(canvas, camera, plane) {
  const { context, ratio } = sized(canvas);
  const image = context.createImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  const each = 1 / (camera.scale * ratio);
  const [left, right] = covered(canvas.width, camera.col, each, plane.cols);
  const [top, bottom] = covered(canvas.height, camera.row, each, plane.rows);
  const place = scaleOf(plane),
    palette = plane.signed ? differencePalette() : PALETTE;
  const none = packedColour(channels(colourOf("nothing")));
  for (let y = 0, at = 0; y < canvas.height; y++) {
    if (top[y] < 0) {
      at += canvas.width;
      continue;
    }
    for (let x = 0; x < canvas.width; x++, at++) {
      if (left[x] < 0) continue;
      let most = 0,
        size = 0;
      for (let row = top[y]; row <= bottom[y]; row++) {
        const line = row * plane.cols;
        for (let col = left[x]; col <= right[x]; col++) {
          const value = plane.values[line + col];
          if (value > size || -value > size) {
            most = value;
            size = Math.abs(value);
          }
        }
      }
      pixels[at] = size > 0 ? palette[Math.min(255, Math.max(0, place(most) | 0))] : none;
    }
  }
  context.putImageData(image, 0, 0);
  drawOver(context, camera, plane);
  return context;
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
  if (plane.mark) {
    const { row, col, rows, cols } = plane.mark;
    twoTone(context, at(row, col, rows, cols), colourOf("mark"));
  }
  const { row, col } = plane.cursor;
  const [x, y, width] = at(row, col, 1, 1);
  const size = Math.max(width, 7);
  const box = [x + (width - size) / 2, y + (width - size) / 2, size, size];
  twoTone(context, box, "#ffffff");
}

// Draw a frame that is visible on any background: a colour on top of a wider black line.
function twoTone(context, box, colour) {
  for (const [width, stroke] of [
    [4, "#000000"],
    [2, colour],
  ]) {
    context.lineWidth = width;
    context.strokeStyle = stroke;
    context.strokeRect(...box);
  }
}
