// Where cycles of a mean pass went: kinds of op, in each the equal ops of its layers, in these the steps; or layers
// first and then kinds. A path of names says how deep one is in. Rows are those of equal ops: {kind, op, layers as
// stretches, count, cycles by cause, steps}, of which a layer has an equal share each.
const LEVELS = { kind: ["kind", "layer", "step"], layer: ["layer", "kind", "step"] };
const LEVEL_NAMES = { kind: "kind of op", layer: "layer", step: "step" };

function kindName(trace, kind) {
  return kind < 0 ? "no op" : trace.kinds[kind];
}

// The groups of one level: [{name, cycles by cause, value, rows}], and the level; what `path` names is looked up again.
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

// Equal ops; their name only where a kind has ops of several.
function opGroups(trace, rows) {
  const several_ = new Set(rows.map((row) => row.op)).size > 1;
  return rows.map((row) => {
    const layers = row.layers.length ? layersName(row.layers, row.count) : "";
    return cycleGroup([several_ || !layers ? row.op || "no op" : "", layers].filter((text) => text).join(", "), [row]);
  });
}

// Layers that are in the same rows of equal ops are one group, with their share of each.
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
