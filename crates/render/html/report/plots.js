// Plots the operations: time or bandwidth by size, and how the times of one operation are spread.
//
// Both draw from the report that the page carries; the spread also from the histograms beside it. The second
// plot and the figures under it show one operation. A row of the table picks it, and so do a mark of the
// first plot and the list above the second.

import { element } from "../shapes.js";
import { three } from "../spelling.js";
import { BySize } from "./by_size.js";
import { histograms, report } from "./data.js";
import { label } from "./operation_words.js";
import { SPREADS, Spread } from "./spread.js";

const { operations } = report;

const STATISTICS = ["n", "sum", "mean", "min", "p50", "p95", "p99", "max"];

const table_rows = new Map();
for (const row of document.querySelectorAll('table[data-rows="operations"] tbody tr'))
  table_rows.set(Number(row.dataset.i), row);

let picked = operations.findIndex((_, i) => histograms[i] && SPREADS.some((s) => histograms[i][s.key]));
const places = { size: document.getElementById("by-size"), spread: document.getElementById("spread") };
const detail = document.getElementById("detail");

function pick(i) {
  table_rows.get(picked)?.classList.remove("picked");
  picked = i;
  table_rows.get(i)?.classList.add("picked");
  by_size.picked(i);
  spread.draw();
  describe();
}

// Everything that the report knows of an operation and has no room for in the table.
function describe() {
  const operation = operations[picked];
  if (!operation) return;
  const head = element(
    "tr",
    {},
    element("th", { class: "t", scope: "col" }, "µs"),
    ...STATISTICS.map((s) => element("th", { scope: "col" }, s)),
  );
  const body = element("tbody");
  for (const { field, title } of SPREADS) {
    const times = operation[field];
    const cells = STATISTICS.map((s) => {
      const value = times?.[s] ?? null;
      return element("td", {}, s === "n" ? String(value ?? 0) : three(value));
    });
    body.append(element("tr", {}, element("td", { class: "t" }, title), ...cells));
  }
  const facts = [];
  const count = (n, one, many) => `${n} ${n === 1 ? one : many}`;
  const over = operation.nranks === null ? "" : ` over ${count(operation.nranks, "rank", "ranks")}`;
  const source = operation.time_source ? ` (from ${operation.time_source})` : "";
  // Which call of another tool's file is a first one is not known.
  const first = operation.warmup === null ? "" : `, ${count(operation.warmup, "warm-up", "warm-ups")}`;
  facts.push(
    `${count(operation.calls, "call", "calls")}${over}, ${operation.timed} with a GPU time${source}` +
      `${first}; ${count(operation.matched, "operation", "operations")} with a GPU time on every rank.`,
  );
  if (operation.captured || operation.replays)
    facts.push(
      `${operation.captured} captured into CUDA graphs; ${operation.replays} of the calls are replays.`,
    );
  for (const [cause, n] of Object.entries(operation.untimed)) {
    const remedy = report.completeness.remedies[cause];
    facts.push(`${n} without a GPU time, ${cause}${remedy ? `: ${remedy}` : ""}`);
  }
  if (operation.bandwidth_refused) facts.push(`Bandwidth refused: ${operation.bandwidth_refused}`);
  if (operation.percentile_error > 0)
    facts.push(`Percentiles are from a histogram, within ${100 * operation.percentile_error} %.`);
  const table = element("table", { class: "detail" }, element("thead", {}, head), body);
  const list = element("ul", { class: "lines" }, ...facts.map((fact) => element("li", {}, fact)));
  detail.replaceChildren(
    element("h3", {}, label(operation)),
    element("div", { class: "frame", tabindex: "0", role: "region", "aria-label": "Its figures" }, table),
    list,
  );
}

const picks = { now: () => picked, pick };
let by_size;
let spread;
if (places.size && operations.length) {
  document.getElementById("plots").hidden = false;
  document.getElementById("without").hidden = true;
  by_size = new BySize(places.size, picks);
  spread = new Spread(places.spread, picks);
  for (const [i, row] of table_rows) {
    // The name becomes a button, so that the keyboard can pick too.
    const cell = row.cells[0];
    const button = element("button", { type: "button", title: "Show how its times are spread" });
    button.append(...cell.childNodes);
    cell.append(button);
    row.addEventListener("click", () => {
      pick(i);
      places.spread.scrollIntoView({ block: "nearest", behavior: "instant" });
    });
  }
  document.addEventListener("ncclscope-span", ({ detail }) => {
    by_size.in_span = detail && new Set(detail);
    by_size.draw();
  });
  by_size.draw();
  pick(Math.max(picked, 0));
}
