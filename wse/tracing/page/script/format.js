// Numbers for people: thousands separated, units always there.
const WHOLE = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });

function whole(number) {
  return WHOLE.format(number);
}

function significant(number, digits = 3) {
  const rounded = Number(number.toPrecision(digits));
  return Math.abs(rounded) >= 10 ** (digits - 1) ? whole(rounded) : String(rounded);
}

function short(number) {
  for (const [size, letter] of [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ]) {
    if (Math.abs(number) >= size) return `${significant(number / size)}${letter}`;
  }
  return Number.isInteger(number) ? String(number) : significant(number);
}

// A rounded amount: bytes as 1.2 MB, what is counted as 1.2M words.
function amount(number, unit) {
  const text = short(number);
  const letter = /[kMGT]$/.test(text) ? text.slice(-1) : "";
  return unit === "B" ? `${letter ? text.slice(0, -1) : text} ${letter}B` : `${text} ${unit}`;
}

// An address in SRAM, as everywhere where people read one.
function hexadecimal(address) {
  return `0x${address.toString(16).padStart(4, "0")}`;
}

// A share of cycles, as `wse inspect` has it too: of the cycles of all steps of their phase.
function cycleShare(trace, phase, cycles) {
  return percent(cycles, trace.phases[phase]?.cycles ?? 0);
}

function percent(part, all) {
  if (!all) return "0 %";
  const share = (100 * part) / all;
  return share > 0 && share < 0.1 ? "<0.1 %" : `${share.toFixed(1)} %`;
}

function seconds(time) {
  for (const [size, unit] of [
    [1, "s"],
    [1e-3, "ms"],
    [1e-6, "µs"],
  ]) {
    if (time >= size) return `${significant(time / size)} ${unit}`;
  }
  return `${significant(time / 1e-9)} ns`;
}

function change(before, after) {
  if (before === after) return "same";
  if (!before) return "new";
  if (after > 10 * before) return `×${significant(after / before)}`;
  const share = (100 * (after - before)) / before;
  return `${share > 0 ? "+" : "−"}${Math.abs(share).toFixed(1)} %`;
}

function several(number, thing) {
  return `${whole(number)} ${thing}${number === 1 ? "" : "s"}`;
}

// Shares of all cycles by cause, the largest first, as one text.
function causeShares(cycles) {
  const total = sum(cycles);
  const held = DATA.causes.map((cause, at) => [cause, cycles[at]]).filter(([, share]) => share);
  return held
    .sort((a, b) => b[1] - a[1])
    .map(([cause, share]) => `${cause} ${percent(share, total)}`)
    .join(", ");
}

function layerName(layer) {
  return layer < 0 ? "outside the layers" : `layer ${layer}`;
}

// Stretches of whole numbers without a gap, [[first, last], …], out of the numbers, and the other way round.
function stretched(numbers) {
  const found = [];
  for (const number of [...new Set(numbers)].sort((a, b) => a - b)) {
    const last = found.at(-1);
    if (last && number === last[1] + 1) last[1] = number;
    else found.push([number, number]);
  }
  return found;
}

function spelledOut(stretches) {
  return stretches.flatMap(([first, last]) => Array.from({ length: last - first + 1 }, (_, at) => first + at));
}

function stretchText(stretches) {
  return stretches.map(([first, last]) => (first === last ? String(first) : `${first}–${last}`)).join(", ");
}

function layersName(stretches, count) {
  const isOne = stretches.length === 1 && stretches[0][0] === stretches[0][1];
  return `${isOne ? "layer" : "layers"} ${stretchText(stretches)}${count > 1 ? ` ×${whole(count)}` : ""}`;
}

function signed(number, shown = whole) {
  return `${number > 0 ? "+" : number < 0 ? "−" : ""}${shown(Math.abs(number))}`;
}
