// Format numbers with thousands separators and units.
const WHOLE = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });

function whole(number) {
  return WHOLE.format(number);
}

function significant(number, digits = 3) {
  const rounded = Number(number.toPrecision(digits));
  return Math.abs(rounded) >= 10 ** (digits - 1) ? whole(rounded) : String(rounded);
}

function short(number, digits = 3) {
  for (const [size, letter] of [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ]) {
    if (Math.abs(number) >= size) return `${significant(number / size, digits)}${letter}`;
  }
  return Number.isInteger(number) ? String(number) : significant(number, digits);
}

function sum(values) {
  let total = 0;
  for (const value of values) total += value;
  return total;
}

// Format a rounded amount: bytes as "1.2 MB", other units as "1.2M words".
function amount(number, unit) {
  const text = short(number);
  const letter = /[kMGT]$/.test(text) ? text.slice(-1) : "";
  return unit === "B" ? `${letter ? text.slice(0, -1) : text} ${letter}B` : `${text} ${unit}`;
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

function signed(number, shown = whole) {
  return `${number > 0 ? "+" : number < 0 ? "−" : ""}${shown(Math.abs(number))}`;
}
