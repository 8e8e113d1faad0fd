// Groups of the cycles of a mean pass, in three levels: kinds of op, equal ops of several layers, steps;
// or layers, kinds, steps. A path of names leads to the current level. A row is a set of equal ops: {kind,
// op, layers as ranges, count, cycles by cause, steps}. All its layers have the same cycles.
const LEVELS = { kind: ["kind", "layer", "step"], layer: ["layer", "kind", "step"] };
const LEVEL_NAMES = { kind: "kind of op", layer: "layer", step: "step" };

function kindName(trace, kind) {
  return kind < 0 ? "no op" : trace.kinds[kind];
}

// Return the groups at the end of `path`, [{name, cycles by cause, value, rows}], and their level.
function cycleGroups(trace, phase, by, path) {
  const code = DATA.phases.indexOf(phase);
  let rows = trace.work.filter((row) => row.phase === code);
  const names = [];
  const groupsOf = () => GROUPS[by][names.length](trace, rows);
  let groups = groupsOf();
  for (const name of path) {
    const chosen = groups.find((group) => group.name === name);
    if (!chosen || names.length === 2) break;
    names.push(name);
    rows = chosen.rows;
    groups = groupsOf();
  }
  return { groups: groups.filter((group) => group.value > 0), path: names, level: LEVELS[by][names.length] };
}

const GROUPS = { kind: [kindGroups, opGroups, stepGroups], layer: [layerGroups, kindGroups, stepGroups] };

function cycleGroup(name, rows) {
  const cycles = added(rows.map((row) => row.cycles));
  return { name, rows, cycles, value: sum(cycles) };
}

function kindGroups(trace, rows) {
  return folded(rows, (row) => row.kind).map((mine) => cycleGroup(kindName(trace, mine[0].kind), mine));
}

// Groups of equal ops. Their names are included only if a kind has ops with different names.
function opGroups(trace, rows) {
  const several_ = new Set(rows.map((row) => row.op)).size > 1;
  return rows.map((row) => {
    const layers = row.layers.length ? layersName(row.layers, row.count) : "";
    return cycleGroup([several_ || !layers ? row.op || "no op" : "", layers].filter((text) => text).join(", "), [row]);
  });
}

// Combine layers that occur in the same rows into one group, with their part of the cycles of each row.
function layerGroups(trace, rows) {
  const byLayer = new Map();
  rows.forEach((row, at) => {
    for (const layer of row.layers.length ? spelledOut(row.layers) : [-1])
      byLayer.set(layer, [...(byLayer.get(layer) ?? []), at]);
  });
  return folded([...byLayer], ([, held]) => held).map((alike) => {
    const layers = alike.map(([layer]) => layer);
    const mine = alike[0][1].map((at) => share(rows[at], layers));
    return cycleGroup(layers[0] < 0 ? layerName(-1) : layersName(stretched(layers), layers.length), mine);
  });
}

function share(row, layers) {
  const part = row.layers.length ? layers.length / spelledOut(row.layers).length : 1;
  const cut = (cycles) => cycles.map((number) => number * part);
  const steps = row.steps.map((step) => ({ ...step, cycles: cut(step.cycles) }));
  return { ...row, layers: stretched(layers), count: row.count * part, cycles: cut(row.cycles), steps };
}

function stepGroups(trace, rows) {
  const steps = rows.flatMap((row) => row.steps);
  return folded(steps, (step) => step.name).map((mine) => cycleGroup(mine[0].name, mine));
}
