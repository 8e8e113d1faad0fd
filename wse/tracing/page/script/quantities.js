// What is known of every PE: the quantities, and the values of one on a wafer or of one layer.
const QUANTITIES = {
  sram: { label: "SRAM in use", unit: "B" },
  ...Object.fromEntries(DATA.uses.slice(0, -1).map((use) => [`sram.${use}`, { label: `SRAM: ${use}`, unit: "B" }])),
  busy: { label: "busy time", unit: "cycles" },
  hops: { label: "wavelet hops", unit: "words" },
  ...Object.fromEntries(DATA.directions.map((way) => [`links.${way}`, { label: `link words ${way}`, unit: "words" }])),
};

// What is the sum of others at each PE: SRAM in use of all uses; hops of the words that leave on all sides.
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

// Where PEs are dead, links are counted on the fabric, everything else on the smaller mesh that programs see.
function ofFabric(trace, name) {
  return Boolean(trace.mesh) && (name === "hops" || name.startsWith("links."));
}

// {values, cols, most, at, total, none, low, high} of a quantity, or null where the trace has none.
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

// What the second of two planes has more than the first; where they differ most is `at`.
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
