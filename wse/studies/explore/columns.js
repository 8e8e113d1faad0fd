// The columns of the table, and the state of the page, which is stored in its address.
const COLUMNS = DATA.columns;
const MAX_WORDS = 40;
const FIRST_FILTERS = 6;

function text(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "number") return String(value);
  const size = Math.abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-4)) return value.toExponential(3);
  return size >= 100 ? value.toLocaleString("en", { maximumFractionDigits: 1 }) : String(Number(value.toPrecision(5)));
}

const place = (column, row) => (column.numbers ? column.numbers[row] : column.codes[row]);
const cell = (column, row) => {
  if (column.numbers) return text(column.numbers[row]);
  return column.codes[row] === null ? "" : column.words[column.codes[row]];
};

function extent(column) {
  if (!column.numbers) return [0, column.words.length - 1];
  let low = Infinity;
  let high = -Infinity;
  for (const value of column.numbers) if (value !== null) [low, high] = [Math.min(low, value), Math.max(high, value)];
  return [low, high];
}

const EXTENTS = COLUMNS.map(extent);
const isLog = (index) => Boolean(COLUMNS[index].numbers) && EXTENTS[index][0] > 0 && EXTENTS[index][1] > 30 * EXTENTS[index][0];

function firstState() {
  const words = COLUMNS.findIndex((column) => column.axis && column.words && column.words.length <= SERIES_COLOURS);
  const filters = COLUMNS.flatMap((column, index) => (column.axis && canFilter(column) ? [index] : []));
  return {
    x: DATA.x, y: DATA.y, colour: words, xlog: isLog(DATA.x), ylog: isLog(DATA.y),
    xless: COLUMNS[DATA.x].less, yless: COLUMNS[DATA.y].less,
    filters: filters.slice(0, FIRST_FILTERS), ranges: {}, hidden: {}, row: null,
  };
}

const canFilter = (column) => Boolean(column.numbers) || column.words.length <= MAX_WORDS;
const isIndex = (value) => Number.isInteger(value) && value >= 0 && value < COLUMNS.length;

// Read the state from an address. Every part of it is checked, and parts that do not fit the table are ignored.
function stateOf(hash) {
  const state = firstState();
  let given;
  try {
    given = JSON.parse(decodeURIComponent(hash.slice(1)));
  } catch {
    return state;
  }
  if (given === null || typeof given !== "object") return state;
  for (const name of ["x", "y"]) if (isIndex(given[name])) state[name] = given[name];
  if (given.colour === -1 || isIndex(given.colour)) state.colour = given.colour;
  for (const name of ["xlog", "ylog", "xless", "yless"]) if (typeof given[name] === "boolean") state[name] = given[name];
  if (Array.isArray(given.filters)) state.filters = [...new Set(given.filters)].filter((i) => isIndex(i) && canFilter(COLUMNS[i]));
  for (const [name, range] of Object.entries(given.ranges ?? {}))
    if (isIndex(Number(name)) && Array.isArray(range) && range.length === 2 && range.every(Number.isFinite)) state.ranges[name] = range;
  for (const [name, codes] of Object.entries(given.hidden ?? {}))
    if (isIndex(Number(name)) && Array.isArray(codes)) state.hidden[name] = codes.filter(Number.isInteger);
  if (Number.isInteger(given.row) && given.row >= 0 && given.row < DATA.rows) state.row = given.row;
  return state;
}
