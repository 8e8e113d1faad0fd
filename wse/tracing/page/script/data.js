// Data of the page: JSON with packed arrays, which are unpacked when they are first needed.
const TRACES = DATA.traces.map((trace, at) => ({ ...trace, letter: "AB"[at] }));
const COMPARED = TRACES.length > 1;
const ARRAYS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, i4: Int32Array, f8: Float64Array };
const KEPT = 40;
const unpacked = new Map();

function unpack(packed) {
  const found = unpacked.get(packed.blob);
  if (found) {
    unpacked.delete(packed.blob);
    unpacked.set(packed.blob, found);
    return found;
  }
  const made = inflate(packed);
  unpacked.set(packed.blob, made);
  if (unpacked.size > KEPT) unpacked.delete(unpacked.keys().next().value);
  return made;
}

async function inflate(packed) {
  const letters = atob(DATA.blobs[packed.blob]);
  const bytes = new Uint8Array(letters.length);
  for (let at = 0; at < letters.length; at++) bytes[at] = letters.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const values = new ARRAYS[packed.type](await new Response(stream).arrayBuffer());
  const row = packed.shape.length > 1 ? packed.shape[1] : 1;
  if (packed.type !== "f8") for (let at = row; at < values.length; at++) values[at] += values[at - row];
  return packed.starts ? repeated(values, packed.starts, packed.shape[0], row) : values;
}

// Restore all rows from the distinct ones: row `starts[i]` and those up to the next start are equal.
function repeated(values, starts, rows, row) {
  const all = new values.constructor(rows * row);
  starts.forEach((start, at) => {
    const end = (starts[at + 1] ?? rows) * row,
      held = values.subarray(at * row, (at + 1) * row);
    for (let to = start * row; to < end; to += row) all.set(held, to);
  });
  return all;
}

async function columns(packed) {
  const names = Object.keys(packed);
  const values = await Promise.all(names.map((name) => unpack(packed[name])));
  return Object.fromEntries(names.map((name, at) => [name, values[at]]));
}

function sideName(trace) {
  return COMPARED ? `${trace.letter}: ${trace.name}` : trace.name;
}
