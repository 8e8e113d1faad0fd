// Charts: scales, frames and bars. Sizes are in CSS pixels. A scale has `place`, a function from a value to a
// pixel, and `ticks`, pairs of a pixel and a text.
const SERIES_COLOURS = 6;
const WIDE = 20; // an axis is logarithmic if the ratio of its largest to its smallest value exceeds this

const seriesClass = (at) => `series-${at % SERIES_COLOURS}`;

function seriesKey(names) {
  const item = (name, at) => el("li", {}, el("i", { class: seriesClass(at), "aria-hidden": "true" }), name);
  return el("ul", { class: "key" }, ...names.map(item));
}

function scale(place, values, text) {
  return { place, ticks: values.map((value) => [place(value), text(value)]) };
}

const tickText = (value) => short(value, 4);

// A linear scale with at most seven ticks, at multiples of 1, 2 or 5 times a power of ten.
function linearScale(low, high, from, to, text = tickText) {
  const power = 10 ** Math.floor(Math.log10((high - low) / 5));
  const step = power * [1, 2, 5, 10].find((factor) => (high - low) / (factor * power) <= 6);
  const first = Math.ceil(low / step),
    last = Math.floor(high / step);
  const values = Array.from({ length: last - first + 1 }, (_, at) => (first + at) * step);
  return scale((value) => from + ((to - from) * (value - low)) / (high - low), values, text);
}

// A logarithmic scale with ticks at powers of ten and, if there are only few, at multiples of them. `low`
// must be above 0.
function logScale(low, high, from, to, text = tickText) {
  const parts = high > 200 * low ? [1] : high > 8 * low ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 8];
  const first = Math.floor(Math.log10(low)),
    last = Math.ceil(Math.log10(high));
  const powers = Array.from({ length: last - first + 1 }, (_, at) => 10 ** (first + at));
  const values = powers.flatMap((power) => parts.map((part) => part * power));
  const place = (value) => from + ((to - from) * Math.log(value / low)) / Math.log(high / low);
  return scale(place, values.filter((value) => value >= low && value <= high), text);
}

// A scale for some values: linear from 0, or logarithmic if the values differ widely.
function scaleOfValues(values, from, to) {
  const least = Math.min(...values),
    most = Math.max(...values);
  const isLog = least > 0 && most > WIDE * least;
  return isLog ? logScale(least / 1.3, most * 1.3, from, to) : linearScale(0, most * 1.08 || 1, from, to);
}

// A scale with names at equal distances. At most about `most` of them are labelled.
function bandScale(names, from, to, most = Infinity) {
  const place = (at) => from + ((to - from) * (at + 0.5)) / Math.max(1, names.length);
  const every = Math.ceil(names.length / most) || 1;
  const shown = [...names.keys()].filter((at) => at % every === 0);
  return scale(place, shown, (at) => names[at]);
}

function path(points) {
  return points.map(([x, y], at) => `${at ? "L" : "M"}${x} ${y}`).join(" ");
}

// A chart with the scales `across` (labels) and `up` (labels and grid lines).
// box: {width, height, left, right, top, bottom}; the last four are margins
function chart(box, label, { across, up, title = "" }) {
  const drawing = svg("svg", { class: "chart", viewBox: `0 0 ${box.width} ${box.height}`, role: "group", "aria-label": label });
  const text = (x, y, anchor, words) => svg("text", { class: "tick", x, y, "text-anchor": anchor }, words);
  for (const [y, words] of up.ticks)
    drawing.append(
      svg("line", { class: "axis", x1: box.left, x2: box.width - box.right, y1: y, y2: y }),
      text(box.left - 6, y + 4, "end", words),
    );
  for (const [x, words] of across.ticks) drawing.append(text(x, box.height - box.bottom + 18, "middle", words));
  if (title) drawing.append(text((box.left + box.width) / 2, box.height - 6, "middle", title));
  return drawing;
}

function curve(points, look) {
  return svg("path", { class: `curve ${look}`, d: path(points) });
}

function point([cx, cy], r, look, lines) {
  return withTip(svg("circle", { class: `point ${look}`, cx, cy, r }), lines);
}

// Draw the frame of a chart on a canvas, as `chart` does, with a title for each axis. A label that would
// touch the previous one is omitted.
function paintFrame(pen, box, { across, up, titles }) {
  const bottom = box.height - box.bottom,
    right = box.width - box.right;
  pen.font = "11.5px system-ui, sans-serif";
  pen.strokeStyle = colourOf("line");
  pen.fillStyle = colourOf("quiet");
  pen.textAlign = "right";
  for (const [y, words] of up.ticks) {
    pen.beginPath();
    pen.moveTo(box.left, y);
    pen.lineTo(right, y);
    pen.stroke();
    pen.fillText(words.length > 9 ? `${words.slice(0, 8)}…` : words, box.left - 6, y + 4);
  }
  pen.textAlign = "center";
  let free = -Infinity;
  for (const [x, words] of across.ticks) {
    const half = pen.measureText(words).width / 2;
    if (x - half < free) continue;
    pen.fillText(words, x, bottom + 16);
    free = x + half + 8;
  }
  pen.fillStyle = colourOf("text");
  pen.fillText(titles.across, (box.left + right) / 2, box.height - 6, box.width - box.left);
  pen.save();
  pen.translate(12, (box.top + bottom) / 2);
  pen.rotate(-Math.PI / 2);
  pen.fillText(titles.up, 0, 0, bottom);
  pen.restore();
}

// Stacked horizontal bars, {name, parts: {part: value}}. `tell` returns the lines of the tip of a part.
function stackedBars(stacks, parts, colour, label, { tell, text }) {
  const longest = Math.max(...stacks.map((stack) => stack.name.length));
  const box = { width: 900, row: 26, left: 20 + 6 * longest, right: 90 };
  const height = box.row * stacks.length + 8;
  const totals = stacks.map((stack) => sum(Object.values(stack.parts)));
  const drawing = svg("svg", { class: "chart", viewBox: `0 0 ${box.width} ${height}`, role: "group", "aria-label": label });
  const scaled = (value) => ((box.width - box.left - box.right) * value) / Math.max(...totals);
  stacks.forEach((stack, row) => {
    const y = row * box.row + 4;
    let x = box.left;
    drawing.append(svg("text", { class: "tick", x: x - 8, y: y + 14, "text-anchor": "end" }, stack.name));
    for (const part of parts) {
      const width = scaled(stack.parts[part] ?? 0);
      if (!(width > 0)) continue;
      const bar = svg("rect", { class: "part", x, y, width, height: box.row - 8 });
      bar.style.fill = `var(--${colour}-${part})`;
      drawing.append(withTip(bar, tell(stack, part, totals[row])));
      x += width;
    }
    drawing.append(svg("text", { class: "tick", x: x + 6, y: y + 14 }, text(totals[row])));
  });
  return drawing;
}
