// The theme of a page, functions that redraw when it changes, and the mark that a page is ready to use.
const redraws = [];

function onRedraw(draw) {
  redraws.push(draw);
}

function redrawAll() {
  for (const draw of redraws) draw();
}

function theme() {
  const choice = document.getElementById("theme"),
    system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    document.documentElement.dataset.theme =
      choice.value === "auto" ? (system.matches ? "dark" : "light") : choice.value;
    redrawAll();
  };
  choice.addEventListener("change", apply);
  system.addEventListener("change", apply);
  apply();
}

function usable() {
  performance.mark("usable");
  document.documentElement.dataset.usable = performance.now().toFixed(1);
}
