// Group rows for which `alike(row)` is equal, such as the rows of layers with the same cycles.
function folded(rows, alike) {
  const found = new Map();
  for (const row of rows) {
    const same = JSON.stringify(alike(row));
    const group = found.get(same);
    if (group) group.push(row);
    else found.set(same, [row]);
  }
  return [...found.values()];
}

function added(lists) {
  return lists[0].map((_, at) => sum(lists.map((list) => list[at])));
}
