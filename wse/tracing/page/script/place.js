// The state of the page (selections and visible parts) as part of its address, so that it can be shared:
// #section?name=value&…. Each picture stores its own values, and ignores invalid ones when reading.
const kept = []; // {name, read(): text, or null for the initial state; apply(text or null)}
let lastSection = "";
let waiting = 0;
let recalling = true; // until the state in the address has been restored
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

// Restore the state in the address. Whatever it does not contain is reset.
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

// Parse `count` comma-separated numbers; null if the text is anything else.
function numbersOf(text, count) {
  const parts = (text ?? "").split(",");
  if (parts.length !== count || !parts.every((part) => /^\d{1,15}(\.\d{1,6})?$/.test(part))) return null;
  return parts.map(Number);
}

// Select an option of a list by its value. Return whether the list has this option.
function chooseOption(id, value) {
  const select = document.getElementById(id);
  if (!select || ![...select.options].some((option) => option.value === value)) return false;
  if (select.value !== value) {
    select.value = value;
    select.dispatchEvent(new Event("change"));
  }
  return true;
}
