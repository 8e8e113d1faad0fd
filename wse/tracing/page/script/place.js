// The place on the page as part of its address: what was chosen and where one looks, so that it can be sent.
// #section?name=value&…: each picture keeps what it knows, and reads of an address only what can be.
const kept = []; // {name, read(): text, or null for what the page begins with; apply(text or null)}
let lastSection = "";
let waiting = 0;
let recalling = true; // until the page has begun where its address says
const ADDRESS_MS = 250;

function keep(name, read, apply) {
  kept.push({ name, read, apply });
}

function remember(section) {
  if (recalling) return;
  lastSection = section;
  clearTimeout(waiting);
  waiting = setTimeout(() => history.replaceState(null, "", `#${address()}`), ADDRESS_MS);
}

function address() {
  const chosen = new URLSearchParams();
  for (const { name, read } of kept) {
    const text = read();
    if (text !== null && text !== undefined) chosen.set(name, text);
  }
  const text = chosen.toString().replaceAll("%2C", ",");
  return text ? `${lastSection}?${text}` : lastSection;
}

// Goes where the address says; the page as it begins, where it says nothing.
async function recall() {
  const [section, ...rest] = location.hash.slice(1).split("?");
  const wanted = new URLSearchParams(rest.join("?"));
  recalling = true;
  for (const { name, apply } of kept) await apply(wanted.get(name));
  recalling = false;
  lastSection = document.getElementById(section)?.tagName === "SECTION" ? section : "";
  if (lastSection) document.getElementById(lastSection).scrollIntoView();
}

async function tendAddress() {
  if (location.hash) await recall();
  recalling = false;
  addEventListener("hashchange", () => recall());
  document.querySelector("nav").addEventListener("click", (event) => {
    const section = event.target.closest("a")?.getAttribute("href").slice(1);
    if (!section) return;
    event.preventDefault();
    document.getElementById(section).scrollIntoView({ behavior: "smooth" });
    remember(section);
  });
}

// Whole numbers of a text with commas between, as many as wanted; null for anything else.
function numbersOf(text, count) {
  const parts = (text ?? "").split(",");
  if (parts.length !== count || !parts.every((part) => /^\d{1,15}(\.\d{1,6})?$/.test(part))) return null;
  return parts.map(Number);
}

// A choice in a list that the page has, by what its options are called; true where it was taken.
function chooseOption(id, value) {
  const select = document.getElementById(id);
  if (!select || ![...select.options].some((option) => option.value === value)) return false;
  if (select.value !== value) {
    select.value = value;
    select.dispatchEvent(new Event("change"));
  }
  return true;
}
