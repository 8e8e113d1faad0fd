// A table that is sorted by clicks on headings, and filtered by a search. A row is shown if it contains
// all words. Numbers must match completely, and "layer 3" counts as one word.
const PAGE_ROWS = 50;

// columns: {name, value(row), text(row), numeric, bar(row)}; rows: any objects; search(row): text to search
class SortedTable {
  constructor(caption, columns, rows, search, sortBy) {
    Object.assign(this, { columns, rows, search, sortBy, down: true, from: 0, words: [], marked: -1 });
    this.chosen = () => {}; // callback with the clicked row
    this.texts = rows.map((row) => search(row).toLowerCase());
    this.input = el("input", {
      type: "search",
      id: "search",
      placeholder: "attention layer 3",
      oninput: () => {
        this.find(this.input.value);
        remember("steps");
      },
    });
    this.count = el("output", { "aria-live": "polite", id: "found" });
    this.heads = columns.map((column, at) =>
      el(
        "th",
        { scope: "col", class: column.numeric ? "number" : "name" },
        el("button", { type: "button", onclick: () => this.sort(at) }, column.name),
      ),
    );
    this.body = el("tbody");
    this.more = ["previous", "next"].map((text, at) =>
      el("button", { type: "button", onclick: () => this.turn(at ? 1 : -1) }, text),
    );
    this.node = el(
      "div",
      {},
      el(
        "div",
        { class: "controls" },
        el("label", {}, "Search ", this.input),
        this.count,
        el("span", { class: "buttons" }, ...this.more),
      ),
      el(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
        el(
          "table",
          { id: "steps-table" },
          el("caption", {}, caption),
          el("thead", {}, el("tr", {}, ...this.heads)),
          this.body,
        ),
      ),
    );
    this.arrange();
  }

  find(text) {
    this.words = text.toLowerCase().match(/(?:layer|stage|wafer) \d+|\S+/g) ?? [];
    this.from = 0;
    this.arrange();
  }

  sort(at, down) {
    this.down = down ?? (at === this.sortBy ? !this.down : Boolean(this.columns[at].numeric));
    this.sortBy = at;
    this.from = 0;
    this.arrange();
  }

  turn(pages) {
    this.from += pages * PAGE_ROWS;
    this.draw();
  }

  // Mark a row and show it, clearing the search if it hides the row; -1 marks no row.
  mark(at) {
    this.marked = at;
    if (at >= 0) {
      if (!this.kept.includes(at)) {
        this.input.value = "";
        this.find("");
      }
      this.from = PAGE_ROWS * Math.floor(this.kept.indexOf(at) / PAGE_ROWS);
    }
    this.draw();
    const row = this.body.querySelector("[aria-current]"),
      box = this.node.querySelector(".scroll");
    if (row) box.scrollTop = row.offsetTop - box.clientHeight / 2;
  }

  arrange() {
    const { value } = this.columns[this.sortBy];
    const words = this.words.map((word) => new RegExp(`${literal(word)}${/\d$/.test(word) ? "(?!\\d)" : ""}`, "u"));
    const kept = this.rows.map((row, at) => at).filter((at) => words.every((word) => word.test(this.texts[at])));
    const keys = this.rows.map(value);
    const order =
      typeof keys[0] === "string"
        ? (a, b) => (keys[a] < keys[b] ? -1 : keys[a] > keys[b] ? 1 : 0)
        : (a, b) => keys[a] - keys[b];
    this.kept = kept.sort((a, b) => (this.down ? -order(a, b) : order(a, b)) || a - b);
    this.heads.forEach((head, at) =>
      head.setAttribute("aria-sort", at !== this.sortBy ? "none" : this.down ? "descending" : "ascending"),
    );
    this.draw();
  }

  draw() {
    const shown = this.kept.slice(this.from, this.from + PAGE_ROWS);
    const among = this.kept.length < this.rows.length ? ` found in ${whole(this.rows.length)}` : "";
    this.count.textContent = this.kept.length
      ? `${whole(this.from + 1)}–${whole(this.from + shown.length)} of ${whole(this.kept.length)}${among} rows`
      : "nothing found";
    this.more[0].disabled = this.from === 0;
    this.more[1].disabled = this.from + PAGE_ROWS >= this.kept.length;
    this.body.replaceChildren(
      ...shown.map((at) =>
        el(
          "tr",
          { "aria-current": at === this.marked && "true", onclick: () => this.chosen(at) },
          ...this.columns.map((column) =>
            el(
              "td",
              { class: column.numeric ? "number" : "name" },
              column.bar ? column.bar(this.rows[at]) : column.text(this.rows[at]),
            ),
          ),
        ),
      ),
    );
  }
}

function literal(text) {
  return text.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&");
}
