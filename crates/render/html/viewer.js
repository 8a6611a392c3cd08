// The viewer: lanes of ranks over time, from the whole run down to one operation.
//
// It is the script of the page that `ncclscope view` serves, and of the lanes in a report. The build puts it
// and what it imports into one script (`build/bundle.rs`).

import { draw } from "./viewer/drawing.js";
import { show_types, toggle } from "./viewer/hands.js";
import { paint_heat } from "./viewer/heat.js";
import { draw_soon, load_soon } from "./viewer/loading.js";
import { picked_is } from "./viewer/operation.js";
import { by, canvas, group, search } from "./viewer/page.js";
import { lay_rows, read_address } from "./viewer/rows.js";
import { data, kept, source } from "./viewer/sources.js";
import { now, state } from "./viewer/state.js";

if (!kept) {
  document.getElementById("capture").textContent = `NCCL calls of ${data.capture}`;
  document.getElementById("verdict").textContent = data.verdict;
  document.title = `${data.capture} - ncclscope view`;
}

function start() {
  read_address();
  toggle("sort", state.sort);
  toggle("kernels", state.kernels);
  toggle("events", state.events);
  show_types();
  search.value = state.words;
  by.select.value = state.by;
  group.select.value = state.group;
  lay_rows();
  if (state.call !== null) source.call(state.call).then((call) => picked_is(call) && draw_soon());
  draw();
  load_soon();
}
addEventListener("hashchange", () => {
  if (!kept || location.hash.includes("from=")) start();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  if (now.loaded) paint_heat();
  draw_soon();
});
let wide = 0;
new ResizeObserver(() => {
  if (canvas.clientWidth === wide) return;
  wide = canvas.clientWidth;
  now.loaded = null;
  draw();
  load_soon();
}).observe(canvas.parentElement);
start();
