// The tip of a page: a few lines next to the element that has the pointer or the keyboard focus.
const tip = document.getElementById("tip");
let tipOf = null; // the element that the tip describes

function showTip(event, lines) {
  tipOf = event.currentTarget;
  tip.replaceChildren(...lines.map((line) => el("div", {}, line)));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
  const below = event.clientY + 16;
  tip.style.top = `${below + box.height > innerHeight ? Math.max(4, event.clientY - box.height - 10) : below}px`;
}

function hideTip() {
  tip.hidden = true;
  tipOf = null;
}

// Hide the tip when the pointer leaves its element, the page scrolls, or the element is drawn again.
function tendTips() {
  document.addEventListener("pointermove", (event) => {
    if (tipOf && !(tipOf.isConnected && tipOf.contains(event.target))) hideTip();
  });
  const scrolled = (event) => {
    if (event.target.contains(tipOf)) hideTip();
  };
  addEventListener("scroll", scrolled, { passive: true, capture: true });
  for (const name of ["wheel", "pointerdown", "keydown"])
    addEventListener(name, hideTip, { passive: true, capture: true });
  for (const name of ["blur", "resize"]) addEventListener(name, hideTip);
  addEventListener("pointerup", (event) => {
    if (event.pointerType === "touch") hideTip();
  });
  document.documentElement.addEventListener("pointerleave", hideTip);
}

// Give a node a tip, which appears on hover and on keyboard focus.
function withTip(node, lines) {
  const focus = () => {
    const box = node.getBoundingClientRect();
    showTip({ currentTarget: node, clientX: box.right, clientY: box.bottom }, lines);
  };
  const look = { tabindex: "0", role: "img", "aria-label": lines.join(", ") };
  const tell = { onmousemove: (event) => showTip(event, lines), onmouseleave: hideTip, onfocus: focus, onblur: hideTip };
  return fill(node, { ...look, ...tell }, []);
}
