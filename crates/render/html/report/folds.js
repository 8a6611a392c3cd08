// Folded sections and parts: a link into one opens it, and on paper all of them are open.

const folds = [...document.querySelectorAll("details")];
function unfold() {
  // The viewer's address is a span of time.
  const name = location.hash.includes("from=") ? "lanes" : decodeURIComponent(location.hash.slice(1));
  const target = name && document.getElementById(name);
  if (!target) return;
  for (let at = target.closest("details"); at; at = at.parentElement.closest("details")) at.open = true;
  target.scrollIntoView();
}
addEventListener("hashchange", unfold);
unfold();

let closed = [];
addEventListener("beforeprint", () => {
  closed = folds.filter((fold) => !fold.open);
  for (const fold of closed) fold.open = true;
});
addEventListener("afterprint", () => {
  for (const fold of closed) fold.open = false;
});
