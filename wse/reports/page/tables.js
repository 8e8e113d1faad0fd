// Tables of results, created by `page_table` in Python.

// table: {title, note, columns: [{title, doc, numeric, wraps}], rows: [[{text, value, best}]]}
function sortable(table) {
  const state = { at: -1, down: true };
  const body = el("tbody");
  const heads = table.columns.map((column, at) =>
    el(
      "th",
      { scope: "col", class: column.numeric ? "number" : "name", title: column.doc || null },
      el("button", { type: "button", onclick: () => sort(at) }, column.title),
    ),
  );
  const kinds = table.columns.map((column) => (column.numeric ? "number" : `name${column.wraps ? " wraps" : ""}`));
  const draw = () => {
    const rows = [...table.rows];
    if (state.at >= 0) rows.sort((a, b) => order(a[state.at].value, b[state.at].value) * (state.down ? -1 : 1));
    heads.forEach((head, at) =>
      head.setAttribute("aria-sort", at !== state.at ? "none" : state.down ? "descending" : "ascending"),
    );
    body.replaceChildren(
      ...rows.map((row) =>
        el(
          "tr",
          {},
          ...row.map((cell, at) =>
            el("td", { class: `${kinds[at]}${cell.best ? " best" : ""}` }, cell.text),
          ),
        ),
      ),
    );
  };
  const sort = (at) => {
    state.down = state.at === at ? !state.down : Boolean(table.columns[at].numeric);
    state.at = at;
    draw();
  };
  draw();
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": table.title },
    el(
      "table",
      {},
      table.note ? el("caption", {}, table.note) : null,
      table.columns.some((column) => column.title) ? el("thead", {}, el("tr", {}, ...heads)) : null,
      body,
    ),
  );
}

function order(a, b) {
  if (a === null || b === null) return a === b ? 0 : a === null ? -1 : 1;
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
}
