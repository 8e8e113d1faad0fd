// Create elements from plain values. Text becomes text nodes and is never parsed as HTML.
const DATA = JSON.parse(document.getElementById("data").textContent);
const NARROW = 620; // width of the screen in CSS pixels below which pictures are more compact
const SVG = "http://www.w3.org/2000/svg";

function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function el(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

function svg(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

function pick(label, options, chosen, onchange, id) {
  const select = el("select", { id, onchange: () => onchange(select.value) });
  for (const [value, text] of options) select.append(el("option", { value, selected: value === chosen }, text));
  return el("label", {}, `${label} `, select);
}

function plainTable(caption, header, rows, numeric = [], wrapping = []) {
  const look = (at) => (numeric.includes(at) ? "number" : wrapping.includes(at) ? "wraps" : "name");
  const cell = (tag, text, at) => el(tag, { class: look(at) }, ...(wrapping.includes(at) ? breakable(text) : [text]));
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el(
      "table",
      {},
      el("caption", {}, caption),
      el("thead", {}, el("tr", {}, ...header.map((text, at) => fill(cell("th", text, at), { scope: "col" }, [])))),
      el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((text, at) => cell("td", text, at))))),
    ),
  );
}

// A text that may be wrapped after dots and underscores, such as the name of an op or a tensor.
function breakable(text) {
  return text.split(/(?<=[._])/).flatMap((part, at) => (at ? [el("wbr"), part] : [part]));
}

function facts(pairs) {
  return el("dl", {}, ...pairs.map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text))));
}

function key(labels, variable) {
  return el(
    "ul",
    { class: "key" },
    ...labels.map((label) => {
      const patch = el("i", { "aria-hidden": "true" });
      patch.style.background = `var(--${variable}-${label})`;
      return el("li", {}, patch, label);
    }),
  );
}

function colourOf(variable) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${variable}`).trim();
}

function titled(id, heading, ...children) {
  return el("section", { id }, el("h2", {}, heading), ...children);
}

// Give a canvas the size of its box in device pixels. Its context uses CSS pixels.
function sized(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const width = Math.max(1, canvas.clientWidth),
    height = Math.max(1, canvas.clientHeight);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { context, width, height, ratio };
}
