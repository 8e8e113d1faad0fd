// Quantities of PEs that the maps can show, and the values of a quantity on a wafer or for one layer.
const QUANTITIES = {
  sram: { label: "SRAM in use", unit: "B" },
  ...Object.fromEntries(DATA.uses.slice(0, -1).map((use) => [`sram.${use}`, { label: `SRAM: ${use}`, unit: "B" }])),
  busy: { label: "busy time", unit: "cycles" },
  hops: { label: "wavelet hops", unit: "words" },
  ...Object.fromEntries(DATA.directions.map((way) => [`links.${way}`, { label: `link words ${way}`, unit: "words" }])),
};

// Quantities that are the sum of other quantities, with the names of these.
const PARTS = {
  sram: DATA.uses.slice(0, -1).map((use) => `sram.${use}`),
  hops: DATA.directions.map((way) => `links.${way}`),
};

function partsOf(held, name) {
  const parts = (PARTS[name] ?? [name]).map((part) => held?.[part]);
  return parts.every((part) => part) ? parts : null;
}

function mapNames() {
  return Object.keys(QUANTITIES).filter((name) =>
    TRACES.some((trace) => trace.planes.some((held) => partsOf(held, name))),
  );
}

// Whether a quantity is stored by PEs of the fabric. With dead PEs, links are; all other quantities are
// stored by PEs of the smaller mesh that programs see.
function ofFabric(trace, name) {
  return Boolean(trace.mesh) && (name === "hops" || name.startsWith("links."));
}

// Return a quantity of all PEs of a wafer, or null if the trace does not have it:
// values (row by row), cols, most (maximum), at ([row, col] of the maximum), total, none (number of zeros),
// low (smallest value above 0), high (end of the colour scale).
async function planeOf(trace, wafer, name, layer) {
  const values =
    layer === "all" ? await wholePlane(trace, wafer, name) : await layerPlane(trace, wafer, name, Number(layer));
  if (!values) return null;
  let most = 0,
    where = 0,
    total = 0,
    none = 0,
    low = Infinity;
  for (let at = 0; at < values.length; at++) {
    const value = values[at];
    if (value > most) {
      most = value;
      where = at;
    }
    if (value > 0) {
      total += value;
      if (value < low) low = value;
    } else none++;
  }
  const capacity = name === "sram" && trace.stages.length ? sum(trace.stages[0].stage_bytes) : most;
  return {
    values,
    cols: trace.cols,
    most,
    at: [Math.floor(where / trace.cols), where % trace.cols],
    total,
    none,
    low,
    high: capacity,
  };
}

async function wholePlane(trace, wafer, name) {
  const parts = partsOf(trace.planes[wafer], name);
  if (!parts) return null;
  const planes = await Promise.all(parts.map(unpack));
  if (planes.length === 1) return planes[0];
  const total = new Float64Array(trace.rows * trace.cols);
  for (const plane of planes) for (let at = 0; at < total.length; at++) total[at] += plane[at];
  return total;
}

async function layerPlane(trace, wafer, name, layer) {
  const values = new Float64Array(trace.rows * trace.cols);
  const mine = trace.layer_links.filter((link) => link.layer === layer && link.wafer === wafer);
  const ways = name === "hops" ? DATA.directions.map((_, way) => way) : [DATA.directions.indexOf(name.slice(6))];
  for (const link of mine) {
    const words = await unpack(link.words);
    for (const way of ways)
      for (let row = 0; row < link.rows; row++)
        for (let col = 0; col < link.cols; col++) {
          values[(link.row + row) * trace.cols + link.col + col] += words[(way * link.rows + row) * link.cols + col];
        }
  }
  return mine.length ? values : null;
}

// Return the second plane minus the first. `at` is the place with the largest difference.
function differencePlane(first, second) {
  if (!first || !second) return null;
  const values = Float64Array.from(first.values, (value, at) => second.values[at] - value);
  let most = 0,
    where = 0,
    none = 0;
  values.forEach((value, at) => {
    if (Math.abs(value) > most) {
      most = Math.abs(value);
      where = at;
    }
    if (!value) none++;
  });
  const at = [Math.floor(where / first.cols), where % first.cols];
  return { values, cols: first.cols, most, at, total: second.total - first.total, none, low: 0, high: most };
}
