// Squarified treemap (Bruls, Huizing, van Wijk 2000): rows of boxes along the shorter side, which are as
// close to squares as possible.
function squarify(items, box) {
  const placed = [];
  let rest = items.filter((item) => item.value > 0).sort((a, b) => b.value - a.value);
  let { x, y, width, height } = box;
  const each = (width * height) / sum(rest.map((item) => item.value));
  while (rest.length) {
    const side = Math.min(width, height);
    let count = 1,
      area = rest[0].value * each,
      worst = aspect(area, area, area, side);
    while (count < rest.length) {
      const wider = area + rest[count].value * each;
      const next = aspect(rest[0].value * each, rest[count].value * each, wider, side);
      if (next > worst) break;
      [worst, area, count] = [next, wider, count + 1];
    }
    const depth = area / side;
    let along = 0;
    for (const item of rest.slice(0, count)) {
      const length = (item.value * each) / depth;
      placed.push({
        item,
        ...(width >= height
          ? { x, y: y + along, width: depth, height: length }
          : { x: x + along, y, width: length, height: depth }),
      });
      along += length;
    }
    if (width >= height) {
      x += depth;
      width -= depth;
    } else {
      y += depth;
      height -= depth;
    }
    rest = rest.slice(count);
  }
  return placed;
}

function aspect(largest, smallest, area, side) {
  return Math.max((side * side * largest) / (area * area), (area * area) / (side * side * smallest));
}
