// Where cycles of a mean pass went: kinds of op, in each the layers, equal ones as one, in each the steps; or layers
// first and then kinds. A path of names says how deep one is in.
const LEVELS = { kind: ["kind", "layer", "step"], layer: ["layer", "kind", "step"] };
const LEVEL_NAMES = { kind: "kind of op", layer: "layer", step: "step" };

function kindName(trace, kind) {
  return kind < 0 ? "no op" : trace.kinds[kind];
}

// The groups of one level: [{name, cycles by cause, value, rows}], and the level; what `path` names is looked up again.
function cycleGroups(trace, phase, by, path, steps) {
  const code = DATA.phases.indexOf(phase);
  let rows = trace.work.filter((row) => row.phase === code);
  const names = [];
  let groups = levelGroups(trace, rows, LEVELS[by][0]);
  for (const name of path) {
    const chosen = groups.find((group) => group.name === name);
    if (!chosen || names.length === 2) break;
    names.push(name);
    rows = chosen.rows;
    groups =
      names.length === 2 ? stepGroups(trace, code, rows, steps) : levelGroups(trace, rows, LEVELS[by][names.length]);
  }
  return { groups: groups.filter((group) => group.value > 0), path: names, level: LEVELS[by][names.length] };
}

function levelGroups(trace, rows, level) {
  const apart = folded(rows, (row) => row[level]);
  if (level === "kind") return apart.map((mine) => cycleGroup(kindName(trace, mine[0].kind), mine));
  const alike = (mine) => [mine[0].layer < 0, mine.map((row) => [row.kind, row.cycles])];
  return folded(apart, alike).map((layers) =>
    cycleGroup(layersName(layers.map((mine) => mine[0].layer)), layers.flat()),
  );
}

function cycleGroup(name, rows) {
  const cycles = added(rows.map((row) => row.cycles));
  return { name, rows, cycles, value: sum(cycles) };
}

// The kernels and patterns of some kinds and layers; what the table of steps has no room for is one group.
function stepGroups(trace, code, rows, steps) {
  const wanted = new Set(rows.map((row) => `${row.kind} ${row.layer}`));
  const causes = DATA.causes.length;
  const found = new Map();
  for (let at = 0; at < (steps?.cycles.length ?? 0); at++) {
    const kind = steps.op[at] < 0 ? -1 : trace.op_kinds[steps.op[at]];
    if (steps.phase[at] !== code || !wanted.has(`${kind} ${steps.layer[at]}`)) continue;
    const name = steps.name[at] < 0 ? DATA.kinds[steps.kind[at]] : trace.names[steps.name[at]];
    const cycles = [...steps.cycles_by.slice(at * causes, (at + 1) * causes)];
    found.set(name, [...(found.get(name) ?? []), { cycles }]);
  }
  const groups = [...found].map(([name, mine]) => cycleGroup(name, mine));
  const all = cycleGroup("steps that the table leaves out", rows);
  const rest = groups.length
    ? all.cycles.map((cycles, at) => cycles - sum(groups.map((group) => group.cycles[at])))
    : all.cycles;
  return sum(rest) > 0 ? [...groups, { ...all, cycles: rest, value: sum(rest) }] : groups;
}
