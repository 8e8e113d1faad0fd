// Texts for the contents of a trace: addresses, layers, percentages of cycles.
// An SRAM address in hexadecimal, as in the print-outs of wse.
function hexadecimal(address) {
  return `0x${address.toString(16).padStart(4, "0")}`;
}

// Cycles as a percentage of the cycles of all steps of their phase, as in `wse inspect`.
function cycleShare(trace, phase, cycles) {
  return percent(cycles, trace.phases[phase]?.cycles ?? 0);
}

// The percentage of each cause, largest first, as one text.
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

// Convert numbers to ranges of consecutive numbers, [[first, last], …]; spelledOut does the reverse.
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
